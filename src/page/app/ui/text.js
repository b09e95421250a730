// Prepares untrusted text for display.
import { UNSEEN } from '../lib/unseen.js';

/** Returns a text on one line and without invisible characters, for titles. */
export const plain = (text) => String(text ?? '').replace(UNSEEN, '').replace(/\s+/g, ' ').trim();

/** Returns any value as a text. `lib/ui.js` marks its invisible characters, as in all texts. */
export const shown = (text) => String(text ?? '');

/** Returns the beginning of a long text, cut at the end of a line if one is near. */
export function cut(text, characters) {
  if (text.length <= characters) return text;
  const line = text.lastIndexOf('\n', characters);
  return text.slice(0, line > characters * 0.6 ? line : characters);
}
