// What the views are written with: elements from templates, hooks, signals. One place names the vendored modules.
import { h, render, Component, Fragment, createContext } from '../vendor/preact.mjs';
import htm from '../vendor/htm.mjs';
import { hasUnseen, parts, written } from './unseen.js';

export { h, render, Component, Fragment, createContext };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useContext, useId }
  from '../vendor/hooks.mjs';
export { signal, computed, effect, batch, useSignal, useComputed, useSignalEffect, untracked }
  from '../vendor/signals.mjs';

/** Elements that hold text alone. */
const TEXT_ONLY = new Set(['option', 'textarea', 'title']);
/** What is read of an element besides its content. */
const READ = ['title', 'aria-label', 'alt', 'placeholder', 'aria-description'];

/** A text with what cannot be seen shown as small marks. */
function marked(text) {
  return parts(text).map((part) => (part.names
    ? h('span', { class: 'unseen', title: 'Characters that cannot be seen' }, part.names.join('')) : part));
}

/** What stands in an element: a text of others cannot hide anything, nor turn what stands around it. */
function safe(child, type) {
  if (Array.isArray(child)) return child.map((one) => safe(one, type));
  if (typeof child !== 'string' || !hasUnseen(child)) return child;
  return TEXT_ONLY.has(type) ? written(child) : marked(child);
}

function element(type, props, ...children) {
  // What is given to a component stands in an element of it.
  if (typeof type !== 'string') return h(type, props, ...children);
  for (const name of READ) {
    if (typeof props?.[name] === 'string' && hasUnseen(props[name])) props = { ...props, [name]: written(props[name]) };
  }
  return h(type, props, ...children.map((child) => safe(child, type)));
}

/**
 * Elements from a template: html`<p class=${name}>${text}</p>`. Text stays text: nothing is ever parsed as HTML, and whatever
 * it is, its control characters and marks of direction are shown instead of obeyed.
 */
export const html = htm.bind(element);

/** Class names, those that are not falsy: cx('row', isOpen && 'open'). */
export const cx = (...names) => names.filter(Boolean).join(' ');
