// Short notes at the edge of the page.
import { html, cx } from '../lib/ui.js';
import { notes, dismiss } from '../lib/notes.js';
import { Icon } from './icon.js';

export const Notes = () => html`
  <div class="notes" role="status" aria-live="polite">
    ${notes.value.map((note) => html`
      <div key=${note.id} class=${cx('note', note.isError && 'wrong')}>
        <p><strong>${note.text}</strong>${note.advice && html`<br />${note.advice}`}</p>
        <button class="plain" onClick=${() => dismiss(note.id)} aria-label="Dismiss"><${Icon} name="close" /></button>
      </div>`)}
  </div>`;
