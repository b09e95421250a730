// Text of others, for the places where it is looked at.
import { UNSEEN } from '../lib/unseen.js';

/** A text on one line, for titles: what cannot be seen is left out. */
export const plain = (text) => String(text ?? '').replace(UNSEEN, '').replace(/\s+/g, ' ').trim();

/** Anything as a text. What cannot be seen in it is marked where it comes to stand, as in all texts (`lib/ui.js`). */
export const shown = (text) => String(text ?? '');

/** The beginning of a long text, cut at a line where one is near. */
export function cut(text, characters) {
  if (text.length <= characters) return text;
  const line = text.lastIndexOf('\n', characters);
  return text.slice(0, line > characters * 0.6 ? line : characters);
}
