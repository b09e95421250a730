// What the views are written with: elements from templates, hooks, signals. One place names the vendored modules.
import { h, render, Component, Fragment, createContext } from '../vendor/preact.mjs';
import htm from '../vendor/htm.mjs';

export { h, render, Component, Fragment, createContext };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useContext, useId }
  from '../vendor/hooks.mjs';
export { signal, computed, effect, batch, useSignal, useComputed, useSignalEffect, untracked }
  from '../vendor/signals.mjs';

/** Elements from a template: html`<p class=${name}>${text}</p>`. Text stays text: nothing is ever parsed as HTML. */
export const html = htm.bind(h);

/** Class names, those that are not falsy: cx('row', isOpen && 'open'). */
export const cx = (...names) => names.filter(Boolean).join(' ');
