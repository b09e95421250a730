// Saves what the server sends as a file. The key goes in a header, so a plain link would not do.
import { ask } from './api.js';

/** Asks, and has the browser save the answer as `name`. */
export async function download(name, method, path, { query, body, accept } = {}) {
  const response = await ask(method, path, { query, body, accept });
  save(name, await response.blob());
}

/** Has the browser save a blob as `name`. */
export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  // The browser has taken it over by then.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
