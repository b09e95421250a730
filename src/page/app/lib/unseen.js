// Characters that cannot be seen, and those that turn the direction of reading: which they are, and what stands for one.
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** All of them. */
export const UNSEEN = new RegExp(`${CONTROL.source}|${DIRECTION.source}|[\\u200b\\u2060\\ufeff\\ufff9-\\ufffb]`, 'g');

const code = (character) => character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');

/** How one of them is written. */
function name(character) {
  const point = character.codePointAt(0);
  if (point < 0x20) return String.fromCodePoint(0x2400 + point);
  if (point === 0x7f) return '\u2421';
  return `U+${code(character)}`;
}

/** Whether a text has any. */
export const hasUnseen = (text) => text.search(UNSEEN) >= 0;

/** The text with each of them written out, where there can be no elements. */
export const written = (text) => text.replace(UNSEEN, name);

/** The text in parts: texts without any, and `{ names }` of those that follow one another. */
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
