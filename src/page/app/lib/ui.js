// The building blocks of the views: templates, hooks and signals. Views import the vendored modules of these from here.
import { h, render, Component, Fragment, createContext } from '../vendor/preact.mjs';
import htm from '../vendor/htm.mjs';
import { hasUnseen, parts, written } from './unseen.js';

export { h, render, Component, Fragment, createContext };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useContext, useId }
  from '../vendor/hooks.mjs';
export { signal, computed, effect, batch, useSignal, useComputed, useSignalEffect, untracked }
  from '../vendor/signals.mjs';

/** Elements that can contain only text. */
const TEXT_ONLY = new Set(['option', 'textarea', 'title']);
/** Attributes with texts that are shown or read aloud. */
const TEXT_ATTRIBUTES = ['title', 'aria-label', 'alt', 'placeholder', 'aria-description'];

/** Returns a text with its invisible characters shown as small marks. */
function marked(text) {
  return parts(text).map((part) => (part.names
    ? h('span', { class: 'unseen', title: 'Characters that cannot be seen' }, part.names.join('')) : part));
}

/** Returns a child whose text can neither hide anything nor change the direction of the text around it. */
function safe(child, type) {
  if (Array.isArray(child)) return child.map((one) => safe(one, type));
  if (typeof child !== 'string' || !hasUnseen(child)) return child;
  return TEXT_ONLY.has(type) ? written(child) : marked(child);
}

function element(type, props, ...children) {
  // A component passes its texts on to elements, and they are marked there.
  if (typeof type !== 'string') return h(type, props, ...children);
  for (const name of TEXT_ATTRIBUTES) {
    if (typeof props?.[name] === 'string' && hasUnseen(props[name])) props = { ...props, [name]: written(props[name]) };
  }
  return h(type, props, ...children.map((child) => safe(child, type)));
}

/**
 * Makes elements from a template: html`<p class=${name}>${text}</p>`. Text stays text and is never parsed as HTML. Its
 * control characters and direction marks are shown and have no effect.
 */
export const html = htm.bind(element);

/** Joins the class names that are not falsy: cx('row', isOpen && 'open'). */
export const cx = (...names) => names.filter(Boolean).join(' ');
