// The session key: handed over in the address once, or asked for once; kept for as long as the tab is open.
import { signal } from './ui.js';

const PLACE = 'annals-session-key';

const stored = () => {
  try {
    return sessionStorage.getItem(PLACE) ?? '';
  } catch {
    return ''; // Storage may be forbidden; the key then lives as long as the page.
  }
};

/** The key; empty where there is none. */
export const key = signal(stored());

/** Whether the server asked for another key than the one there is. */
export const keyWanted = signal(false);

export function setKey(value) {
  try {
    sessionStorage.setItem(PLACE, value);
  } catch { /* as above */ }
  key.value = value;
  keyWanted.value = false;
}

/** `#key=KEY` or `#key=KEY&/conversations`: the key is taken, and gone from the address and the history at once. */
export function takeKeyFromAddress() {
  const found = /^#key=([^&]*)&?(.*)$/.exec(location.hash);
  if (!found) return;
  let value = found[1];
  try {
    value = decodeURIComponent(value);
  } catch { /* it is taken as it stands */ }
  setKey(value);
  history.replaceState(null, '', `${location.pathname}${location.search}#${found[2] || '/'}`);
}
