// The list of conversations. Its filters are kept in the address, and its rows are updated continually.
import { html, useEffect, useMemo, useRef, useState } from '../../lib/ui.js';
import { go, setQuery, all } from '../../lib/router.js';
import { may } from '../../lib/access.js';
import { count } from '../../lib/format.js';
import { useShortcuts } from '../../lib/keys.js';
import { VirtualList } from '../../ui/virtual.js';
import { Icon } from '../../ui/icon.js';
import { Problem, Waiting } from '../../ui/pieces.js';
import { Paging } from './paging.js';
import { FACTS, Filters } from './filters.js';
import { NewConversation } from './new.js';
import { ListHead, Row, rowHeight } from './row.js';

function usePaging(query) {
  const { status, tag, title, order, workspace, source, model } = query;
  const name = JSON.stringify([status, tag, title, order, workspace, source, model]);
  const paging = useMemo(() => new Paging({ status: all(status), tag: all(tag), title, order, workspace, source, model }), [name]);
  useEffect(() => () => paging.end(), [paging]);
  return paging;
}

/** Returns the height of a row. Rows are taller on a narrow page. */
function useRowHeight() {
  const [height, setHeight] = useState(rowHeight());
  useEffect(() => {
    const measure = () => setHeight(rowHeight());
    addEventListener('resize', measure);
    return () => removeEventListener('resize', measure);
  }, []);
  return height;
}

export function View({ query }) {
  const paging = usePaging(query);
  const field = useRef(null);
  const [selected, setSelected] = useState(-1);
  const [isNew, setNew] = useState(false);
  const height = useRowHeight();
  const rows = paging.rows.value;
  const total = paging.total.value;
  const move = (by) => setSelected((old) => Math.max(0, Math.min((total ?? 1) - 1, old + by)));
  const open = () => rows[selected] && go(['c', rows[selected].id]);
  useEffect(() => setSelected(-1), [paging]);
  useShortcuts([
    { keys: 'j', what: 'The next conversation', run: () => move(1) },
    { keys: 'k', what: 'The previous one', run: () => move(-1) },
    { keys: 'Enter', what: 'Open it', run: open },
    { keys: 'n', what: 'A new conversation', run: () => may('write') && setNew(true) },
    { keys: '/', what: 'Search', run: () => field.current?.focus() },
  ], [rows, selected, total]);
  const withTag = (tag) => setQuery({ tag: [...new Set([...all(query.tag), tag])] });
  return html`
    <div class="heading">
      <h1>Conversations <span class="soft number">${total === null ? '' : count(total)}</span></h1>
      <span class="grow"></span>
      ${may('write') && html`<button onClick=${() => setNew(true)}><${Icon} name="plus" />New</button>`}
    </div>
    <${NewConversation} isOpen=${isNew} close=${() => setNew(false)} />
    <${Filters} query=${query} field=${field} />
    ${paging.error.value && html`<${Problem} error=${paging.error.value} reload=${() => paging.load()} />`}
    ${total === null && !paging.error.value && html`<${Waiting} />`}
    ${total === 0 && html`<p class="empty">No conversation fits. ${query.title || query.status || query.tag || FACTS.some((fact) => query[fact])
      ? html`<a href="#/conversations">Show all of them</a>` : 'Conversations that are run or imported appear here.'}</p>`}
    ${total > 0 && html`<${ListHead} /><${VirtualList} label="Conversations" total=${total} height=${height} selected=${selected}
      onRange=${(_, end) => paging.want(end)}
      row=${(index) => html`<${Row} one=${rows[index]} isSelected=${index === selected} withTag=${withTag} />`} />`}`;
}
