// Text of others, made harmless to look at: control characters become visible, and marks that turn the direction of
// reading are shown instead of obeyed.
import { html } from '../lib/ui.js';

const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const BOTH = new RegExp(`${CONTROL.source}|${DIRECTION.source}|[\\u200b\\u2060\\ufeff\\ufff9-\\ufffb]`, 'g');

const code = (character) => character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');

/** How a character that cannot be seen is written. */
function name(character) {
  const point = character.codePointAt(0);
  if (point < 0x20) return String.fromCodePoint(0x2400 + point);
  if (point === 0x7f) return '\u2421';
  return `U+${code(character)}`;
}

/** A text on one line, for titles: what cannot be seen is left out. */
export const plain = (text) => String(text ?? '').replace(BOTH, '').replace(/\s+/g, ' ').trim();

/** A text with what cannot be seen shown as small marks: a list of texts and elements. */
export function shown(text) {
  text = String(text ?? '');
  if (text.search(BOTH) < 0) return text;
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(BOTH)) {
    if (found.index > from) parts.push(text.slice(from, found.index));
    const last = parts.at(-1);
    if (last?.names && found.index === from) last.names.push(name(found[0]));
    else parts.push({ names: [name(found[0])] });
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts.map((part) => (part.names ? html`<span class="unseen" title="Characters that cannot be seen">${part.names.join('')}</span>` : part));
}

/** The beginning of a long text, cut at a line where one is near. */
export function cut(text, characters) {
  if (text.length <= characters) return text;
  const line = text.lastIndexOf('\n', characters);
  return text.slice(0, line > characters * 0.6 ? line : characters);
}
