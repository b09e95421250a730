// Asks the server. Everything that goes wrong is an ApiError that says what happened and what to do.
import { key, keyWanted } from './key.js';

const ADVICE = {
  0: 'See whether the server still runs; the page tries again when you do.',
  401: 'Give the session key that the server was started with.',
  403: 'The server takes requests from its own pages only; open it under the address it prints.',
  404: 'It may have been deleted. Go back to the list.',
  409: 'Somebody else was first. Look at what is there now and try again.',
  413: 'Make it smaller.',
  422: 'Mend what is named and try again.',
  429: 'Too much is going on at once. Wait a moment and try again.',
  500: 'The server could not do it; its output has more.',
  501: 'This server does not offer it.',
};

/** What went wrong: `status` (0 where no answer came), `message` what happened, `advice` what to do. */
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

/** A refusal's text: `detail` is a text, or a list of what is wrong where. */
async function told(response) {
  const text = await response.text();
  try {
    const { detail } = JSON.parse(text);
    if (Array.isArray(detail)) return detail.map((one) => `${one.loc?.slice(1).join('.')}: ${one.msg}`).join('; ');
    if (detail) return String(detail);
  } catch { /* it is no JSON */ }
  return text.slice(0, 300) || `${response.status} ${response.statusText}`;
}

/** The answer to a request, of any type; what is no success is thrown. `body` is sent as JSON. */
export async function ask(method, path, { query, body, signal, accept = 'application/json' } = {}) {
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
  throw new ApiError(response.status, await told(response));
}

/** The JSON of an answer. */
export async function json(method, path, options) {
  const response = await ask(method, path, options);
  return response.status === 204 ? null : response.json();
}

export const get = (path, query, signal) => json('GET', path, { query, signal });
export const post = (path, body = {}, signal) => json('POST', path, { body, signal });
export const patch = (path, body) => json('PATCH', path, { body });
export const remove = (path) => json('DELETE', path);

/** A path with what is put in encoded: at`/api/conversations/${id}/events`. */
export const at = (texts, ...values) => String.raw({ raw: texts }, ...values.map(encodeURIComponent));

/** The address of a socket. */
export function socketUrl(path, query) {
  const address = url(path, query);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  return address;
}
