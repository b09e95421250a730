// Shows the changes between two texts line by line, with a few lines around each change.
import { html } from '../lib/ui.js';
import { shown } from './text.js';

const AROUND = 3;
/** Beyond this number of lines (of two equally long sides together) the middle is shown as removed and added. */
const LINES_MAX = 2000;

/** Returns `[{ sign: ' ' | '+' | '-', text, left, right }]`. Line numbers begin at 1. */
export function lines(before, after) {
  // A line break at the end of the text does not begin another line.
  const [a, b] = [before, after].map((text) => (text === '' ? [] : (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n')));
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const out = [];
  for (let i = 0; i < start; i += 1) out.push({ sign: ' ', text: a[i], left: i + 1, right: i + 1 });
  out.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end), start));
  for (let i = end; i > 0; i -= 1) {
    out.push({ sign: ' ', text: a[a.length - i], left: a.length - i + 1, right: b.length - i + 1 });
  }
  return out;
}

/** Compares the lines between the common beginning and end: their longest common subsequence by dynamic programming. */
function middle(a, b, at) {
  const removed = (i) => ({ sign: '-', text: a[i], left: at + i + 1, right: null });
  const added = (j) => ({ sign: '+', text: b[j], left: null, right: at + j + 1 });
  if (a.length * b.length > LINES_MAX * LINES_MAX / 4) return [...a.map((_, i) => removed(i)), ...b.map((_, j) => added(j))];
  const width = b.length + 1;
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ sign: ' ', text: a[i], left: at + i + 1, right: at + j + 1 });
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      out.push(removed(i));
      i += 1;
    } else {
      out.push(added(j));
      j += 1;
    }
  }
  return out;
}

/** Returns the lines near a change. `null` stands for the lines that are left out between them. */
function near(all) {
  const keep = new Uint8Array(all.length);
  all.forEach((line, i) => {
    if (line.sign !== ' ') keep.fill(1, Math.max(0, i - AROUND), i + AROUND + 1);
  });
  const out = [];
  all.forEach((line, i) => {
    if (keep[i]) out.push(line);
    else if (out.at(-1) !== null) out.push(null);
  });
  return out;
}

const WORDS = { '+': 'added', '-': 'removed', ' ': '' };

export function Diff({ before = '', after = '', label }) {
  const all = lines(before, after);
  if (all.every((line) => line.sign === ' ')) return html`<p class="soft">Nothing changed.</p>`;
  return html`
    <div class="diff scroll" tabindex="0" role="group" aria-label=${label ?? 'Changes'}>
      ${near(all).map((line) => (line === null ? html`<div class="gap" aria-hidden="true">⋯</div>` : html`
        <div class=${line.sign === '+' ? 'added' : line.sign === '-' ? 'removed' : ''}>
          <i aria-hidden="true">${line.left ?? ''}</i><i aria-hidden="true">${line.right ?? ''}</i><b aria-label=${WORDS[line.sign]}>${line.sign}</b><span>${shown(line.text) || ' '}</span></div>`))}
    </div>`;
}

/** The numbers of added and removed lines: `+3 −1`. */
export function Tally({ before = '', after = '' }) {
  let [added, removed] = [0, 0];
  for (const { sign } of lines(before, after)) {
    if (sign === '+') added += 1;
    if (sign === '-') removed += 1;
  }
  return html`<span class="tally"><span class="added">+${added}</span> <span class="removed">−${removed}</span></span>`;
}
