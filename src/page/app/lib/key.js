// The session key. It comes from the address or from a prompt, and is kept while the tab is open.
import { signal } from './ui.js';

const PLACE = 'annals-session-key';

const stored = () => {
  try {
    return sessionStorage.getItem(PLACE) ?? '';
  } catch {
    return ''; // Storage may be forbidden. Then the key is kept only until the page is left.
  }
};

/** The key; empty if there is no key. */
export const key = signal(stored());

/** Whether the server rejected the current key, or requires a key and there is none. */
export const keyWanted = signal(false);

export function setKey(value) {
  try {
    sessionStorage.setItem(PLACE, value);
  } catch { /* as above */ }
  key.value = value;
  keyWanted.value = false;
}

/** Takes the key from `#key=KEY` or `#key=KEY&/conversations` and removes it from the address and the history. */
export function takeKeyFromAddress() {
  const found = /^#key=([^&]*)&?(.*)$/.exec(location.hash);
  if (!found) return;
  let value = found[1];
  try {
    value = decodeURIComponent(value);
  } catch { /* The key is used undecoded. */ }
  setKey(value);
  history.replaceState(null, '', `${location.pathname}${location.search}#${found[2] || '/'}`);
}
