// Prose that may be long: its beginning, and the rest on request.
import { html, useMemo, useState } from '../../lib/ui.js';
import { count } from '../../lib/format.js';
import { Markdown } from '../../ui/markdown.js';
import { cut } from '../../ui/text.js';

const CHARACTERS = 5000;

export function Prose({ text }) {
  text = String(text ?? '');
  const [isOpen, setOpen] = useState(false);
  const shownText = isOpen ? text : cut(text, CHARACTERS);
  // The elements of a text are made once, even if the card is drawn again.
  const prose = useMemo(() => html`<${Markdown} text=${shownText} />`, [shownText]);
  if (text.length <= CHARACTERS) return prose;
  return html`${prose}<button class="small more" onClick=${() => setOpen(!isOpen)}>
    ${isOpen ? 'Less' : `${count(text.length - shownText.length)} more characters`}</button>`;
}
