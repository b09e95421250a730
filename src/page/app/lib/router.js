// The address holds the state: `#/c/ID?at=17&event=e1`. A view reads `route` and writes with `go` and `setQuery`.
import { signal } from './ui.js';

/** `{ path: ['c', 'ID'], query: { at: '17' } }`; a parameter that occurs several times is an array. */
export const route = signal({ path: [], query: {} });

const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

export function parse(hash) {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const query = {};
  for (const [name, value] of new URLSearchParams(search)) {
    if (query[name] === undefined) query[name] = value;
    else query[name] = [].concat(query[name], value);
  }
  return { path: path.split('/').filter(Boolean).map(decode), query };
}

/** The address of a place: `href(['c', id], { at: 17 })`. Empty parameters are left out. */
export function href(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [].concat(value ?? [])) if (one !== '') search.append(name, String(one));
  }
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text && `?${text}`}`;
}

/** Goes to a place. With `replace` the back button does not return to the previous place. */
export function go(path, query = {}, { replace = false } = {}) {
  const address = href(path, query);
  if (address === location.hash) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  route.value = parse(address);
}

/** Changes some parameters of the current place. */
export function setQuery(changes, { replace = true } = {}) {
  const { path, query } = route.peek();
  go(path, { ...query, ...changes }, { replace });
}

/** Returns the values of a parameter that may occur several times, as a list. */
export const all = (value) => [].concat(value ?? []);

export function startRouter() {
  const read = () => { route.value = parse(location.hash); };
  addEventListener('hashchange', read);
  addEventListener('popstate', read);
  read();
}
