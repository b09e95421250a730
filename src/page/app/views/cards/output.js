// What a tool printed: the first and the last lines, the rest where somebody wants it.
import { html, useMemo, useState } from '../../lib/ui.js';
import { count, plural } from '../../lib/format.js';
import { ansi, stripped } from '../../ui/ansi.js';
import { complain } from '../../lib/notes.js';
import { at, get } from '../../lib/api.js';

const LINES = 14;
const LAST = 4;
/** Characters of the beginning and the end, however few lines they have. */
const FIRST_CHARACTERS = 3000;
const LAST_CHARACTERS = 800;
/** Characters that are shown at once even where somebody wants all: more is to be had as raw JSON. */
const SHOWN_MAX = 400000;

/** A text of an event that the server cut, whole. */
export async function whole(context, sequence, pointer) {
  const page = await get(at`/api/annals/conversations/${context.id}/events`, { from: sequence, to: sequence, limit: 1 });
  let value = page.events[0].event;
  for (const step of pointer.split('/').slice(1)) value = value[step.replaceAll('~1', '/').replaceAll('~0', '~')];
  return value;
}

/** The beginning and the end of a long text, and what is between them in words; null where it is short. */
function shorten(text) {
  const lines = text.split('\n');
  if (lines.length > LINES + LAST + 2) {
    const first = lines.slice(0, LINES).join('\n').slice(0, FIRST_CHARACTERS);
    return { first, last: lines.slice(-LAST).join('\n').slice(-LAST_CHARACTERS), between: plural(lines.length - LINES - LAST, 'more line') };
  }
  if (text.length <= FIRST_CHARACTERS + LAST_CHARACTERS) return null;
  const between = plural(text.length - FIRST_CHARACTERS - LAST_CHARACTERS, 'more character');
  return { first: text.slice(0, FIRST_CHARACTERS), last: text.slice(-LAST_CHARACTERS), between };
}

/** `cut` is how many characters the text has where it was cut, `pointer` where it stands in the event. */
export function Output({ text, entry, context, pointer, label = 'Output' }) {
  const cut = entry?.cut?.[pointer];
  const [all, setAll] = useState(null);
  const [isOpen, setOpen] = useState(false);
  const whatText = all ?? text ?? '';
  const shownText = (typeof whatText === 'string' ? whatText : JSON.stringify(whatText, null, 1)).replace(/\n+$/, '');
  const parts = useMemo(() => {
    const ends = isOpen ? null : shorten(shownText);
    if (!ends) return { first: ansi(shownText.slice(0, SHOWN_MAX)) };
    return { first: ansi(ends.first), last: ansi(ends.last), between: ends.between };
  }, [shownText, isOpen]);
  if (!stripped(shownText).trim()) return html`<p class="soft output-none">No output.</p>`;
  const load = async () => {
    try {
      setAll(await whole(context, entry.sequence, pointer));
      setOpen(true);
    } catch (error) {
      complain(error);
    }
  };
  return html`
    <div class="output">
      <pre tabindex="0" aria-label=${label} dir="auto">${parts.first}</pre>
      ${parts.between && html`
        <button class="small more" onClick=${() => setOpen(true)}>${parts.between}</button>
        <pre tabindex="0" aria-label=${`The end of ${label}`} dir="auto">${parts.last}</pre>`}
      ${cut && all === null && html`
        <button class="small more" onClick=${load}>${count(cut - shownText.length)} more characters: load all</button>`}
      ${shownText.length > SHOWN_MAX && isOpen && html`<p class="soft">The rest is too long for here; the raw JSON has it.</p>`}
      ${isOpen && html`<button class="small more" onClick=${() => setOpen(false)}>Less</button>`}
    </div>`;
}
