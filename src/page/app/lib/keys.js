// Keyboard shortcuts. A view registers its shortcuts while it is mounted. The help lists the registered ones.
import { signal, useEffect } from './ui.js';

/** The registered shortcuts: `[{ keys: 'j', what: 'The next one', run }]`. Those of the innermost view are last. */
export const shortcuts = signal([]);

/** Registers shortcuts while the component is mounted. `keys` is one key, or two keys in sequence: `'g c'`. */
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
  // Enter and the space bar act on the focused element.
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
