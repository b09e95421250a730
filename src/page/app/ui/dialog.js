// A dialog over the page. It takes the focus. Escape closes it, and the focus returns to its previous place.
import { html, useEffect, useRef, useId, cx } from '../lib/ui.js';
import { Icon } from './icon.js';

export function Dialog({ isOpen, close, title, wide = false, children }) {
  const element = useRef(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    if (isOpen && !dialog.open) dialog.showModal();
    if (!isOpen && dialog.open) dialog.close();
  }, [isOpen]);
  const outside = (event) => { if (event.target === element.current) close(); };
  return html`
    <dialog ref=${element} class=${cx(wide && 'wide')} aria-labelledby=${id} onClose=${close} onClick=${outside}>
      ${isOpen && html`<div class="dialog">
        <header><h2 id=${id}>${title}</h2>
          <button class="plain" onClick=${close} aria-label="Close"><${Icon} name="close" /></button></header>
        ${children}
      </div>`}
    </dialog>`;
}
