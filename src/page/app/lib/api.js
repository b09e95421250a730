// Sends requests to the server. Every failure is an ApiError, which holds what happened and what to do.
import { key, keyWanted } from './key.js';

const ADVICE = {
  0: 'Check whether the server still runs, then try again.',
  401: 'Give the session key that the server was started with.',
  403: 'Ask the operator for a key with another role, or open the page under the address that the server prints.',
  404: 'It may have been deleted.',
  409: 'Another request was first. Look at the current state and try again.',
  413: 'Make it smaller.',
  422: 'Correct the named values and try again.',
  429: 'The server has too many requests. Wait a moment and try again.',
  500: 'The server failed. Its output has details.',
  501: 'This server does not offer it.',
};

/** A failed request: `status` (0 if there was no answer), `message` (what happened), and `advice` (what to do). */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.advice = ADVICE[status] ?? (status >= 500 ? ADVICE[500] : 'Change the request and try again.');
  }
}

export const isAbort = (error) => error?.name === 'AbortError';

function url(path, query) {
  const address = new URL(path.replace(/^\//, ''), document.baseURI);
  address.hash = '';
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of [].concat(value ?? [])) if (one !== '') address.searchParams.append(name, String(one));
  }
  return address;
}

/** Returns the text of an error answer. Its `detail` is a text, or a list of invalid places with messages. */
async function errorText(response) {
  const text = await response.text();
  try {
    const { detail } = JSON.parse(text);
    if (Array.isArray(detail)) return detail.map((one) => `${one.loc?.slice(1).join('.')}: ${one.msg}`).join('; ');
    if (detail) return String(detail);
  } catch { /* The text is not JSON. */ }
  return text.slice(0, 300) || `${response.status} ${response.statusText}`;
}

/** Sends a request and returns its answer, of any type. Throws if it fails. `body` is sent as JSON. */
export async function request(method, path, { query, body, signal, accept = 'application/json' } = {}) {
  const headers = { Accept: accept };
  const sent = key.peek();
  if (sent) headers['X-Session-API-Key'] = sent;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(url(path, query), {
      method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store',
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, 'The server does not answer.');
  }
  if (response.ok) return response;
  if (response.status === 401 && sent === key.peek()) keyWanted.value = true;
  throw new ApiError(response.status, await errorText(response));
}

/** Sends a request and returns the JSON of its answer; null if it has no content. */
export async function json(method, path, options) {
  const response = await request(method, path, options);
  return response.status === 204 ? null : response.json();
}

export const get = (path, query, signal) => json('GET', path, { query, signal });
export const post = (path, body = {}, signal) => json('POST', path, { body, signal });
export const patch = (path, body) => json('PATCH', path, { body });
export const remove = (path) => json('DELETE', path);

/** Returns a path with its values encoded: encodedPath`/api/conversations/${id}/events`. */
export const encodedPath = (texts, ...values) => String.raw({ raw: texts }, ...values.map(encodeURIComponent));

/** Returns the address of a WebSocket. */
export function socketUrl(path, query) {
  const address = url(path, query);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  return address;
}
