// Shows terminal output as elements. Colours and font styles become classes. All other control sequences are left out.
// A line that was overwritten (`\r`) shows its last text.
import { html } from '../lib/ui.js';
import { shown } from './text.js';

// Control sequences: colours, cursor movement, queries, window titles, and an incomplete sequence at the end.
const CONTROL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|[PX^_][^\u001b]*(?:\u001b\\|$)|[ -/]*[0-~]|$)/g;
const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];

const START = { fore: '', back: '', bold: false, dim: false, italic: false, underline: false, inverse: false };

/** Returns the class of one of 256 colours. The first 16 have their own classes, the others get a similar one. */
function indexed(number) {
  if (number < 8) return NAMES[number];
  if (number < 16) return `bright-${NAMES[number - 8]}`;
  if (number >= 232) return number < 244 ? 'bright-black' : 'white';
  const cube = number - 16;
  return nearest(Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51);
}

/** Returns the class nearest to a 24-bit colour. The page's own colours are readable on its background. */
function nearest(red, green, blue) {
  const most = Math.max(red, green, blue);
  if (most < 64) return 'bright-black';
  const bits = [red, green, blue].map((part) => (part > most / 2 ? 1 : 0));
  return NAMES[bits[0] + bits[1] * 2 + bits[2] * 4];
}

function styled(style, codes) {
  const next = { ...style };
  for (let place = 0; place < codes.length; place += 1) {
    const code = codes[place];
    if (code === 0) Object.assign(next, START);
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 7) next.inverse = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code === 27) next.inverse = false;
    else if (code >= 30 && code <= 37) next.fore = NAMES[code - 30];
    else if (code === 39) next.fore = '';
    else if (code >= 40 && code <= 47) next.back = NAMES[code - 40];
    else if (code === 49) next.back = '';
    else if (code >= 90 && code <= 97) next.fore = `bright-${NAMES[code - 90]}`;
    else if (code >= 100 && code <= 107) next.back = `bright-${NAMES[code - 100]}`;
    else if (code === 38 || code === 48) {
      const side = code === 38 ? 'fore' : 'back';
      if (codes[place + 1] === 5) {
        next[side] = indexed(codes[place + 2] ?? 0);
        place += 2;
      } else if (codes[place + 1] === 2) {
        next[side] = nearest(codes[place + 2] ?? 0, codes[place + 3] ?? 0, codes[place + 4] ?? 0);
        place += 4;
      }
    }
  }
  return next;
}

function classes({ fore, back, bold, dim, italic, underline, inverse }) {
  const list = [];
  if (fore) list.push(`fg-${fore}`);
  if (back) list.push(`bg-${back}`);
  if (bold) list.push('bold');
  if (dim) list.push('dim');
  if (italic) list.push('italic');
  if (underline) list.push('underline');
  if (inverse) list.push('inverse');
  return list.join(' ');
}

/** Applies carriage returns: `a\rb` becomes `b`. Carriage returns at the end of a line are ignored. */
const settled = (text) => (text.includes('\r')
  ? text.replace(/\r+\n/g, '\n').replace(/\r+$/, '').split('\n').map((line) => line.slice(line.lastIndexOf('\r') + 1)).join('\n')
  : text);

/** Returns the text without control sequences. */
export const stripped = (text) => settled(text).replace(CONTROL, '');

/** Returns a terminal's text as elements. */
export function ansi(text) {
  text = settled(String(text));
  if (!text.includes('\u001b')) return shown(text);
  const parts = [];
  let style = START;
  let from = 0;
  const put = (to) => {
    if (to === from) return;
    const piece = shown(text.slice(from, to));
    const names = classes(style);
    parts.push(names ? html`<span class=${names}>${piece}</span>` : piece);
  };
  for (const found of text.matchAll(CONTROL)) {
    put(found.index);
    from = found.index + found[0].length;
    const colour = /^\u001b\[([\d;:]*)m$/.exec(found[0]);
    if (colour) style = styled(style, colour[1].split(/[;:]/).map(Number));
  }
  put(text.length);
  return parts;
}
