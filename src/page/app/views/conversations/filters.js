// The filters of the list. Each is a parameter of the address.
import { html, useEffect, useState } from '../../lib/ui.js';
import { setQuery, go, all } from '../../lib/router.js';
import { useDebounced } from '../../lib/load.js';
import { words } from '../../lib/format.js';
import { Icon } from '../../ui/icon.js';
import { plain } from '../../ui/text.js';

const STATUSES = ['running', 'waiting_for_confirmation', 'finished', 'paused', 'idle', 'error', 'stuck'];
const ORDERS = [['updated', 'Last activity'], ['created', 'Newest'], ['updated_oldest', 'Longest idle'], ['created_oldest', 'Oldest']];

/** What a conversation is about. A row sets these filters. */
export const FACTS = ['workspace', 'source', 'model'];

export function Filters({ query, field }) {
  const [title, setTitle] = useState(query.title ?? '');
  const calm = useDebounced(title, 200);
  useEffect(() => { if (calm !== (query.title ?? '')) setQuery({ title: calm }); }, [calm]);
  useEffect(() => { setTitle(query.title ?? ''); }, [query.title]);
  const statuses = all(query.status);
  const toggle = (status) => setQuery({
    status: statuses.includes(status) ? statuses.filter((one) => one !== status) : [...statuses, status],
  });
  const search = (event) => {
    event.preventDefault();
    if (title.trim()) go(['search'], { q: title.trim() });
  };
  return html`
    <form class="filters" role="search" onSubmit=${search}>
      <div class="find"><${Icon} name="search" />
        <input ref=${field} type="search" value=${title} onInput=${(event) => setTitle(event.currentTarget.value)}
          placeholder="Filter titles; Enter searches all transcripts" aria-label="Filter titles, or search all transcripts with Enter" /></div>
      <div class="row" role="group" aria-label="Status">
        ${STATUSES.map((status) => html`
          <button key=${status} type="button" class="small" aria-pressed=${statuses.includes(status)}
            onClick=${() => toggle(status)}>${words(status)}</button>`)}
      </div>
      ${all(query.tag).map((tag) => html`
        <button key=${tag} type="button" class="small" aria-pressed="true" aria-label=${`Remove the filter ${tag}`}
          onClick=${() => setQuery({ tag: all(query.tag).filter((one) => one !== tag) })}>${tag} <${Icon} name="close" /></button>`)}
      ${FACTS.filter((fact) => query[fact]).map((fact) => html`
        <button key=${fact} type="button" class="small" aria-pressed="true" aria-label=${`Remove the filter ${fact} ${query[fact]}`}
          onClick=${() => setQuery({ [fact]: undefined })}>${plain(query[fact])} <${Icon} name="close" /></button>`)}
      <span class="grow"></span>
      <select class="small" aria-label="Order" value=${query.order ?? 'updated'}
        onChange=${(event) => setQuery({ order: event.currentTarget.value })}>
        ${ORDERS.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}
      </select>
    </form>`;
}
