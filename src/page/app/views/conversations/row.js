// One conversation in the list.
import { html, cx } from '../../lib/ui.js';
import { href, setQuery } from '../../lib/router.js';
import { bill, billTitle, brief, count, short, tokens } from '../../lib/format.js';
import { Status, Ago, Tag } from '../../ui/pieces.js';
import { plain } from '../../ui/text.js';

export const rowHeight = () => (innerWidth <= 640 ? 96 : 62);

const TAGS_SHOWN = 4;

/** The names of the columns. Each row has them too, for screen readers. */
export const ListHead = () => html`
  <div class="list-head" aria-hidden="true"><span>Status</span><span>Conversation</span>
    <span class="figures"><span>Events</span><span>Tokens</span><span>Cost</span></span><span>Last activity</span></div>`;

/** Returns the last part of a path. */
const lastPart = (path) => path.replace(/[/\\]+$/, '').split(/[/\\]/).pop() || path;

export function Row({ one, isSelected, withTag }) {
  if (!one) return html`<div class="conversation loading" aria-busy="true"><i></i><i></i></div>`;
  const tags = Object.entries(one.tags);
  return html`
    <article class=${cx('conversation', isSelected && 'selected')} aria-current=${isSelected ? 'true' : undefined}>
      <${Status} status=${one.status} since=${one.is_last_known && one.updated_at} />
      <div class="what">
        <a class="title" href=${href(['c', one.id])}>${plain(one.title) || 'Without a title'}</a>
        <div class="under">
          <code title=${one.id}>${brief(one.id)}</code>
          ${one.model && html`<button type="button" class="tag" title=${`Only ${one.model}`}
            onClick=${() => setQuery({ model: one.model })}>${plain(one.model)}</button>`}
          ${!one.model && one.models.length > 0 && html`<span class="model" title=${one.models.join(', ')}>${one.models.join(', ')}</span>`}
          ${one.workspace && html`<button type="button" class="tag" title=${`Only ${one.workspace}`}
            onClick=${() => setQuery({ workspace: one.workspace })}>${plain(lastPart(one.workspace))}</button>`}
          ${one.copy_of && html`<span class="tag">${one.copy_of}</span>`}
          ${one.parent && html`<a class="tag" href=${href(['c', one.parent])}>sub-agent</a>`}
          ${one.forked_from && html`<a class="tag" href=${href(['c', one.forked_from])}>fork</a>`}
          ${tags.slice(0, TAGS_SHOWN).map(([name, value]) => html`
            <${Tag} key=${name} name=${name} value=${value} onClick=${() => withTag(value ? `${name}=${value}` : name)} />`)}
          ${tags.length > TAGS_SHOWN && html`<span class="soft">+${tags.length - TAGS_SHOWN}</span>`}
        </div>
      </div>
      <dl>
        <div><dt class="hidden-text">Events</dt><dd>${short(one.event_count)}</dd></div>
        <div title=${`${count(one.prompt_tokens)} in, ${count(one.completion_tokens)} out`}>
          <dt class="hidden-text">Tokens</dt><dd>${tokens(one)}</dd></div>
        <div title=${billTitle(one)}><dt class="hidden-text">Cost</dt><dd>${bill(one)}</dd></div>
      </dl>
      <${Ago} time=${one.updated_at} />
    </article>`;
}
