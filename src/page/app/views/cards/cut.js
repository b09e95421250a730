// The note that a text of an event is cut, with a button that shows all of it.
import { html } from '../../lib/ui.js';
import { count } from '../../lib/format.js';

export function Cut({ entry, context }) {
  const texts = Object.entries(entry.cut ?? {}).filter(([pointer]) => !pointer.includes('/image_urls/'));
  if (texts.length === 0) return null;
  return html`<p class="soft">Cut here; it has ${texts.map(([, length]) => count(length)).join(' and ')} characters.${' '}
    <button class="small" onClick=${() => context.openRaw(entry.sequence)}>Show all</button></p>`;
}
