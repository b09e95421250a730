// Short notes at the edge of the page, read out to whoever listens rather than looks.
import { signal } from './ui.js';

let count = 0;

/** `[{ id, text, advice, isError }]` */
export const notes = signal([]);

export const dismiss = (id) => { notes.value = notes.peek().filter((note) => note.id !== id); };

export function say(text, { advice = '', isError = false } = {}) {
  const id = count++;
  notes.value = [...notes.peek().slice(-3), { id, text, advice, isError }];
  if (!isError) setTimeout(() => dismiss(id), 5000);
}

/** Says what went wrong and what to do. */
export const complain = (error) => say(error.message ?? String(error), { advice: error.advice ?? '', isError: true });

/** Does something, and complains where it fails; tells whether it was done. */
export async function attempt(work) {
  try {
    await work();
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}
