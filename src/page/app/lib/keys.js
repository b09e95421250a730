// Keys: a view says which it has for as long as it is there; the help shows those that work now.
import { signal, useEffect } from './ui.js';

/** What works now: `[{ keys: 'j', what: 'The next one', run }]`, the innermost view's last. */
export const shortcuts = signal([]);

/** Keys for as long as the component is there. `keys` is one key or two after each other: `'g c'`. */
export function useShortcuts(list, inputs = []) {
  useEffect(() => {
    shortcuts.value = [...shortcuts.peek(), ...list];
    return () => { shortcuts.value = shortcuts.peek().filter((one) => !list.includes(one)); };
  }, inputs);
}

const FIELDS = 'input, textarea, select, [contenteditable=true]';
let before = '';
let forget;

function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector('dialog[open]')) return;
  const target = event.target instanceof Element ? event.target : null;
  if (event.key === 'Escape' && target?.matches(FIELDS)) return target.blur();
  if (target?.closest(FIELDS)) return;
  // Enter and the space bar belong to what has the focus.
  if ((event.key === 'Enter' || event.key === ' ') && target?.closest('a, button, summary')) return;
  const both = before ? `${before} ${event.key}` : event.key;
  const known = shortcuts.peek();
  const found = known.findLast((one) => one.keys === both) ?? known.findLast((one) => one.keys === event.key);
  clearTimeout(forget);
  before = '';
  if (found) {
    event.preventDefault();
    found.run(event);
  } else if (known.some((one) => one.keys.startsWith(`${event.key} `))) {
    before = event.key;
    forget = setTimeout(() => { before = ''; }, 1500);
  }
}

addEventListener('keydown', pressed);
