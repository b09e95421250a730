// The answer of a query or a report as a table. Only the rows in view are in the document. A row can be opened to
// read it whole.
import { html, cx, useState, useRef, useMemo } from '../lib/ui.js';
import { count, plural } from '../lib/format.js';
import { href } from '../lib/router.js';
import { plain, shown as marked } from './text.js';
import { Dialog } from './dialog.js';
import { Copy } from './pieces.js';

/** The height of a row in pixels. style/answer.css has the same height. */
const ROW = 30;
/** The number of rows drawn above and below those in view, so that scrolling shows no gaps. */
const EXTRA = 12;
/** The maximum number of characters of a value in a cell, and in the dialog of a row. */
const CELL = 240;
const WHOLE = 200_000;

/** Returns the number of rows in words. A truncated answer has more rows than it holds. */
export const rowCountText = ({ rows, truncated }) => {
  if (!truncated || rows.length === 0) return plural(rows.length, 'row');
  return rows.length === 1 ? 'The first row' : `The first ${plural(rows.length, 'row')}`;
};

const isBytes = (value) => typeof value === 'object' && value !== null && typeof value.hex === 'string';

/** Returns a value as text. NULL becomes the empty text. */
export function text(value) {
  if (value === null || value === undefined) return '';
  return isBytes(value) ? `x'${value.hex}'` : String(value);
}

const cut = (value, most) => (value.length > most ? `${value.slice(0, most)}…` : value);

/** Returns each column's width in characters and whether it holds numbers, according to the first rows. */
function shape({ columns, rows }) {
  const first = rows.slice(0, 200);
  return columns.map((name, index) => {
    const lengths = first.map((row) => Math.min(text(row[index]).length, 48));
    const isNumber = first.some((row) => row[index] !== null)
      && first.every((row) => row[index] === null || typeof row[index] === 'number');
    return { width: Math.max(name.length + 2, 6, ...lengths) + 3, isNumber };
  });
}

/** Returns the address of the conversation or the event that a cell names; null if it names neither. */
function place(columns, row, index) {
  const id = row[columns.indexOf('conversation_id')];
  if (typeof id !== 'string') return null;
  if (columns[index] === 'conversation_id') return href(['c', id]);
  const value = row[index];
  return /(^|_)sequence$/.test(columns[index]) && Number.isInteger(value) ? href(['c', id], { event: value }) : null;
}

function Value({ columns, row, index }) {
  const value = row[index];
  if (value === null) return html`<span class="null">NULL</span>`;
  const address = place(columns, row, index);
  const shown = plain(cut(text(value), CELL));
  return address ? html`<a href=${address}>${shown}</a>` : shown;
}

function Row({ answer, index, open }) {
  return html`
    <dl class="whole-row">
      ${answer.columns.map((name, column) => {
        const value = answer.rows[index][column];
        return html`<div key=${column}>
          <dt>${name} ${value !== null && html`<${Copy} text=${() => text(value)} />`}</dt>
          <dd>${value === null ? html`<span class="null">NULL</span>` : html`<pre>${marked(cut(text(value), WHOLE))}</pre>`}</dd>
        </div>`;
      })}
    </dl>
    <footer>
      <button disabled=${index === 0} onClick=${() => open(index - 1)}>The row before</button>
      <button disabled=${index === answer.rows.length - 1} onClick=${() => open(index + 1)}>The next row</button>
    </footer>`;
}

/** `answer` is `{columns, rows, truncated}`. `units`, if given, is a word under each heading. */
export function AnswerTable({ answer, units = [], label }) {
  const [top, setTop] = useState(0);
  const [opened, setOpened] = useState(null);
  const box = useRef(null);
  const columns = useMemo(() => shape(answer), [answer]);
  const { rows } = answer;
  const seen = Math.ceil((box.current?.clientHeight ?? 900) / ROW);
  const first = Math.max(0, Math.min(Math.floor(top / ROW) - EXTRA, rows.length - 1));
  const shown = rows.slice(first, first + seen + 2 * EXTRA);
  const below = rows.length - first - shown.length;
  const onScroll = (event) => {
    // The position moves in steps of four rows, so that the table is drawn again less often.
    const next = Math.floor(event.currentTarget.scrollTop / (ROW * 4)) * ROW * 4;
    if (next !== top) setTop(next);
  };
  const width = `calc(${columns.reduce((sum, one) => sum + one.width, 0)}ch + 3.5rem)`;
  const number = String(rows.length).length + 3;
  return html`
    <div class="answer" ref=${box} onScroll=${onScroll} tabindex="0" role="region" aria-label=${label}>
      <table style=${{ minWidth: width }} aria-rowcount=${rows.length + 1}>
        <caption class="hidden-text">${label}</caption>
        <colgroup><col style=${{ width: `${number}ch` }} />
          ${columns.map((one, index) => html`<col key=${index} style=${{ width: `${one.width}ch` }} />`)}</colgroup>
        <thead><tr aria-rowindex="1"><th scope="col"><span class="hidden-text">Row</span></th>
          ${answer.columns.map((name, index) => html`
            <th key=${index} scope="col" class=${cx(columns[index].isNumber && 'number')} title=${units[index] || undefined}>
              ${name}${units[index] && html`<small>${units[index]}</small>`}</th>`)}</tr></thead>
        <tbody>
          ${first > 0 && html`<tr class="room" aria-hidden="true"><td colspan=${columns.length + 1} style=${{ height: `${first * ROW}px` }}></td></tr>`}
          ${shown.map((row, offset) => html`
            <tr key=${first + offset} aria-rowindex=${first + offset + 2}>
              <td class="opens"><button class="plain small" onClick=${() => setOpened(first + offset)}
                aria-label=${`Read row ${first + offset + 1}`} title="Read this row">${count(first + offset + 1)}</button></td>
              ${row.map((_, index) => html`<td key=${index} class=${cx(columns[index].isNumber && 'number')}>
                <${Value} columns=${answer.columns} row=${row} index=${index} /></td>`)}
            </tr>`)}
          ${below > 0 && html`<tr class="room" aria-hidden="true"><td colspan=${columns.length + 1} style=${{ height: `${below * ROW}px` }}></td></tr>`}
        </tbody>
      </table>
    </div>
    <${Dialog} isOpen=${opened !== null} close=${() => setOpened(null)} wide title=${`Row ${count((opened ?? 0) + 1)}`}>
      ${opened !== null && rows[opened] && html`<${Row} answer=${answer} index=${opened} open=${setOpened} />`}
    <//>`;
}
