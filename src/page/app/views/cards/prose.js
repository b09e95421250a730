// Prose that may be long: its beginning, the rest where somebody wants it.
import { html, useMemo, useState } from '../../lib/ui.js';
import { count } from '../../lib/format.js';
import { Markdown } from '../../ui/markdown.js';
import { cut } from '../../ui/text.js';

const CHARACTERS = 5000;

export function Prose({ text }) {
  text = String(text ?? '');
  const [isOpen, setOpen] = useState(false);
  const shownText = isOpen ? text : cut(text, CHARACTERS);
  // Elements are made once for a text, however often what is around it is drawn.
  const prose = useMemo(() => html`<${Markdown} text=${shownText} />`, [shownText]);
  if (text.length <= CHARACTERS) return prose;
  return html`${prose}<button class="small more" onClick=${() => setOpen(!isOpen)}>
    ${isOpen ? 'Less' : `${count(text.length - shownText.length)} more characters`}</button>`;
}
