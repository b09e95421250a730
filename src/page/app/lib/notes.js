// Short notes at the edge of the page. Screen readers read them aloud.
import { signal } from './ui.js';

let count = 0;

/** `[{ id, text, advice, isError }]` */
export const notes = signal([]);

export const dismiss = (id) => { notes.value = notes.peek().filter((note) => note.id !== id); };

export function showNote(text, { advice = '', isError = false } = {}) {
  const id = count++;
  notes.value = [...notes.peek().slice(-3), { id, text, advice, isError }];
  if (!isError) setTimeout(() => dismiss(id), 5000);
}

/** Shows an error and what to do about it. */
export const showError = (error) => showNote(error.message ?? String(error), { advice: error.advice ?? '', isError: true });

/** Runs `work` and shows its error if it fails. Returns whether it succeeded. */
export async function runOrShowError(work) {
  try {
    await work();
    return true;
  } catch (error) {
    showError(error);
    return false;
  }
}
