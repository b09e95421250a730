// The dialog with the keys that work in the current view.
import { html } from '../lib/ui.js';
import { shortcuts } from '../lib/keys.js';
import { Dialog } from './dialog.js';

const NAMES = { ArrowLeft: '←', ArrowRight: '→', ArrowUp: '↑', ArrowDown: '↓', Escape: 'Esc', ' ': 'Space' };

export const Help = ({ isOpen, close }) => html`
  <${Dialog} isOpen=${isOpen} close=${close} title="Keys">
    <table class="keys"><tbody>
      ${shortcuts.value.toReversed().map((one) => html`
        <tr key=${one.keys}><th scope="row">${one.keys.split(/(?<=.) /).map((k) => html`<kbd>${NAMES[k] ?? k}</kbd> `)}</th>
        <td>${one.what}</td></tr>`)}
    </tbody></table>
  <//>`;
