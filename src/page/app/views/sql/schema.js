// The views that a statement may name, and their columns. A click inserts the name into the statement.
import { html, useState } from '../../lib/ui.js';
import { Problem, Waiting } from '../../ui/pieces.js';

export function Schema({ views, error, reload, insert }) {
  const [wanted, setWanted] = useState('');
  const text = wanted.trim().toLowerCase();
  const fits = (name) => name.toLowerCase().includes(text);
  const shown = (views ?? [])
    .map((view) => ({ ...view, columns: fits(view.name) ? view.columns : view.columns.filter(fits) }))
    .filter((view) => fits(view.name) || view.columns.length);
  return html`
    <aside class="schema" aria-label="Views and columns">
      <h2>Views</h2>
      <input type="search" placeholder="Find a view or column" aria-label="Find a view or column" value=${wanted}
        onInput=${(event) => setWanted(event.target.value)} />
      ${error && html`<${Problem} error=${error} reload=${reload} />`}
      ${!views && !error && html`<${Waiting} />`}
      ${views && !shown.length && html`<p class="soft">No view or column has this name.</p>`}
      <ul>${shown.map((view) => html`
        <li key=${view.name}>
          <details open=${text !== ''}>
            <summary><code>${view.name}</code> <span class="soft small">${view.row}</span></summary>
            <p class="names">
              <button class="small" onClick=${() => insert(view.name)} title=${`Put ${view.name} into the statement`}>${view.name}</button>
              ${view.columns.map((name) => html`<button key=${name} class="small plain mono" onClick=${() => insert(name)}
                title=${`Put ${name} into the statement`}>${name}</button>`)}</p>
          </details></li>`)}</ul>
    </aside>`;
}
