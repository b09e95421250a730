// A column chart by day, week or month, drawn without a library. The line above the chart has the figures of the column
// at the pointer or chosen with the arrow keys. A table below has all figures.
import { html, cx, useState, useRef, useLayoutEffect, useId } from '../../lib/ui.js';
import { count } from '../../lib/format.js';

const HEIGHT = 180;
const LEFT = 56;
const BOTTOM = 22;
const TOP = 8;

const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });
const month = new Intl.DateTimeFormat('en-GB', { month: 'short', year: 'numeric', timeZone: 'UTC' });
const brief = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

export const spanName = (from, unit) =>
  unit === 'month' ? month.format(Date.parse(from)) : `${unit === 'week' ? 'week of ' : ''}${day.format(Date.parse(from))}`;

/** Returns four or five round numbers from 0 to at least `most`; only 0 if `most` is 0. */
export function ticks(most) {
  if (!(most > 0)) return [0];
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let at = 0; at < most + step; at += step) found.push(Number(at.toPrecision(6)));
  return found;
}

function useWidth() {
  const element = useRef(null);
  const [width, setWidth] = useState(640);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.floor(entry.contentRect.width))));
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
  return [element, width];
}

function Axis({ marks, y, width, show }) {
  return marks.map((mark) => html`
    <g key=${mark}>
      <line class=${cx('grid', mark === 0 && 'base')} x1=${LEFT} x2=${width} y1=${y(mark)} y2=${y(mark)} />
      <text class="mark" x=${LEFT - 8} y=${y(mark)} dy=".32em" text-anchor="end">${show(mark).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '')}</text>
    </g>`);
}

/** A column with a round top. */
function path(x, y, width, base) {
  const r = Math.min(3, width / 2, base - y);
  return `M${x} ${base}V${y + r}Q${x} ${y} ${x + r} ${y}H${x + width - r}Q${x + width} ${y} ${x + width} ${y + r}V${base}Z`;
}

/**
 * `spans` are those of `figures.js`. `measure` names the drawn figure, and `show` formats it. `describe` returns the
 * figures of a span as text, and `all` is the text for the whole time. `estimate` names a figure that is drawn above the
 * measure, paler.
 */
export function Columns({ title, spans, unit, measure, estimate, show, describe, all, columns }) {
  const [element, width] = useWidth();
  const [at, setAt] = useState(null);
  const id = useId();
  const height = (span) => (span[measure] ?? 0) + (estimate ? span[estimate] ?? 0 : 0);
  const marks = ticks(Math.max(...spans.map(height)));
  const base = HEIGHT - BOTTOM;
  const y = (value) => base - (value / marks.at(-1) || 0) * (base - TOP);
  const step = (width - LEFT) / spans.length;
  const bar = Math.max(1, Math.min(step - (step > 4 ? 2 : 0), 40));
  // About one label per 80 pixels, with a year more. The last span has one, and those without room before it have none.
  const isOneYear = spans[0].from.slice(0, 4) === spans.at(-1).from.slice(0, 4);
  const every = Math.max(1, Math.ceil((isOneYear ? 80 : 110) / step));
  const last = spans.length - 1;
  const named = (index) => index === last || (index % every === 0 && last - index >= every);
  const label = (from) => (unit === 'month' ? month : isOneYear ? brief : day).format(Date.parse(from));
  // The outermost labels stay within the drawing.
  const anchor = (index) => (index === last && index > 0 ? 'end' : 'middle');
  const place = (index) => (index === last && index > 0 ? width : LEFT + (index + .5) * step);
  const pointed = at !== null && at < spans.length ? spans[at] : null;
  const move = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === 'Escape') setAt(null);
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    setAt(Math.max(0, Math.min(spans.length - 1, (at ?? (step > 0 ? -1 : spans.length)) + step)));
  };
  return html`
    <figure class="columns" aria-labelledby=${id}>
      <figcaption><h2 id=${id}>${title} by ${unit}</h2>
        <p class="soft" aria-live="polite">${pointed ? html`<strong>${spanName(pointed.from, unit)}</strong>: ${describe(pointed)}` : all}</p>
      </figcaption>
      <div ref=${element} class="drawing">
        <svg width=${width} height=${HEIGHT} role="application" tabindex="0" onKeyDown=${move} onBlur=${() => setAt(null)}
          onPointerLeave=${() => setAt(null)}
          aria-roledescription="column chart" aria-label=${`${title} by ${unit}: left and right go from one to the next`}>
          <${Axis} marks=${marks} y=${y} width=${width} show=${show} />
          ${spans.map((span, index) => html`
            <g key=${span.from} class=${cx('span', at === index && 'at')} onPointerEnter=${() => setAt(index)}>
              <rect class="hit" x=${LEFT + index * step} y="0" width=${step} height=${base} />
              ${estimate && span[estimate] > 0 && html`<path class="column-estimate" d=${path(LEFT + index * step + (step - bar) / 2, Math.min(y(height(span)), base - 1), bar, base)} />`}
              ${span[measure] > 0 && html`<path class="column-bar" d=${path(LEFT + index * step + (step - bar) / 2, Math.min(y(span[measure]), base - 1), bar, base)} />`}
              ${named(index) && html`<text class="mark" x=${place(index)} y=${HEIGHT - 5} text-anchor=${anchor(index)}>${label(span.from)}</text>`}
            </g>`)}
        </svg>
      </div>
      <details><summary>As a table</summary>
        <div class="scrolls" tabindex="0" role="region" aria-label=${`${title} by ${unit}, as a table`}><table>
          <thead><tr><th scope="col">${unit[0].toUpperCase() + unit.slice(1)}</th>
            ${columns.map((one) => html`<th key=${one.name} scope="col" class="number">${one.label}</th>`)}</tr></thead>
          <tbody>${spans.filter((span) => columns.some((one) => span[one.name])).map((span) => html`
            <tr key=${span.from}><th scope="row">${spanName(span.from, unit)}</th>
              ${columns.map((one) => html`<td key=${one.name} class="number">${(one.show ?? count)(span[one.name])}</td>`)}</tr>`)}
          </tbody></table></div></details>
    </figure>`;
}
