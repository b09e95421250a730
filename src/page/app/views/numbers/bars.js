// A table that draws a figure of each row as a bar: chart and table in one.
import { html, cx } from '../../lib/ui.js';

/** A bar in parts: `parts` are `{className, value}`. The sum of their values is at most `most`. */
function Bar({ parts, most }) {
  let x = 0;
  return html`
    <svg class="strip" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">
      ${parts.map(({ className, value }) => {
        const width = most > 0 ? (value / most) * 100 : 0;
        const from = x;
        x += width;
        return width > 0 && html`<rect key=${className} class=${className} x=${from} y="0" width=${Math.max(width, .4)} height="10" />`;
      })}
    </svg>`;
}

/**
 * `rows` are `{key, label, href?, parts, figures}`. `columns` are `{label, isWide?}`, and `figures` have their order.
 * Columns with `isWide` are hidden on a narrow screen.
 */
export function Bars({ title, what, rows, columns, legend, note }) {
  const most = Math.max(0, ...rows.map((row) => row.parts.reduce((sum, part) => sum + part.value, 0)));
  return html`
    <section class="bars">
      <h2>${title}</h2>
      ${legend && html`<ul class="legend">${legend.map(({ className, label }) => html`
        <li key=${className}><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class=${className} width="10" height="10" rx="2" /></svg>${label}</li>`)}</ul>`}
      <div class="scrolls" tabindex="0" role="region" aria-label=${title}><table>
        <thead><tr><th scope="col">${what}</th><td class="drawn"></td>
          ${columns.map((one) => html`<th key=${one.label} scope="col" class=${cx('number', one.isWide && 'wide')}>${one.label}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`
          <tr key=${row.key}>
            <th scope="row" title=${row.label}>${row.href ? html`<a href=${row.href}>${row.label}</a>` : row.label}</th>
            <td class="drawn"><${Bar} parts=${row.parts} most=${most} /></td>
            ${row.figures.map((figure, index) => html`<td key=${index} class=${cx('number', columns[index].isWide && 'wide')}>${figure}</td>`)}
          </tr>`)}</tbody>
      </table></div>
      ${note && html`<p class="soft small">${note}</p>`}
    </section>`;
}
