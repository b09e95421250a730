// Invisible characters, and characters that change the reading direction: which they are, and how they are shown.
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** Matches each of these characters. */
export const UNSEEN = new RegExp(`${CONTROL.source}|${DIRECTION.source}|[\\u200b\\u2060\\ufeff\\ufff9-\\ufffb]`, 'g');

const code = (character) => character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');

/** Returns the visible form of one of these characters. */
function name(character) {
  const point = character.codePointAt(0);
  if (point < 0x20) return String.fromCodePoint(0x2400 + point);
  if (point === 0x7f) return '\u2421';
  return `U+${code(character)}`;
}

/** Returns whether a text has such characters. */
export const hasUnseen = (text) => text.search(UNSEEN) >= 0;

/** Returns the text with each of them in its visible form, for places that cannot hold elements. */
export const written = (text) => text.replace(UNSEEN, name);

/** Splits the text into texts without such characters and `{ names }` of adjacent such characters. */
export function parts(text) {
  const found = [];
  let from = 0;
  for (const one of text.matchAll(UNSEEN)) {
    if (one.index > from) found.push(text.slice(from, one.index));
    const last = found.at(-1);
    if (last?.names && one.index === from) last.names.push(name(one[0]));
    else found.push({ names: [name(one[0])] });
    from = one.index + one[0].length;
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
}
