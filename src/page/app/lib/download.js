// Saves an answer of the server as a file. A plain link would not work, because the key is sent in a header.
import { request } from './api.js';

/** Sends a request and lets the browser save the answer as `name`. */
export async function download(name, method, path, { query, body, accept } = {}) {
  const response = await request(method, path, { query, body, accept });
  save(name, await response.blob());
}

/** Lets the browser save a blob as `name`. */
export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  // The browser has read the blob by then.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
