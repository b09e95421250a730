// A list of tasks.
import { html } from '../../lib/ui.js';
import { shown } from '../../ui/text.js';
import { words } from '../../lib/format.js';

const MARKS = { done: '✓', in_progress: '◐', todo: '○' };

export const Tasks = ({ list }) => (Array.isArray(list) && !list.length ? html`<p class="soft">The list is empty.</p>` : html`
  <ul class="tasks">${(Array.isArray(list) ? list : []).map((task) => html`
    <li class=${`task-${task.status}`}>
      <i role="img" aria-label=${words(task.status)} title=${words(task.status)}>${MARKS[task.status] ?? '○'}</i>
      <span>${shown(task.title)}${task.notes && html`<small class="soft">${shown(task.notes)}</small>`}</span></li>`)}</ul>`);
