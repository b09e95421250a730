// The output of a tool: its first and last lines. The user can show the rest.
import { html, useMemo, useState } from '../../lib/ui.js';
import { count, plural } from '../../lib/format.js';
import { ansi, stripped } from '../../ui/ansi.js';
import { showError } from '../../lib/notes.js';
import { encodedPath, get } from '../../lib/api.js';

const LINES = 14;
const LAST = 4;
/** The maximum number of characters of the beginning and of the end. */
const FIRST_CHARACTERS = 3000;
const LAST_CHARACTERS = 800;
/** The maximum number of characters shown when the output is open. The raw JSON has the rest. */
const SHOWN_MAX = 400000;

/** Loads the whole text that the server cut in an event. */
export async function whole(context, sequence, pointer) {
  const page = await get(encodedPath`/api/annals/conversations/${context.id}/events`, { from: sequence, to: sequence, limit: 1 });
  let value = page.events[0].event;
  for (const step of pointer.split('/').slice(1)) value = value[step.replaceAll('~1', '/').replaceAll('~0', '~')];
  return value;
}

/** Returns the beginning and the end of a long text, and the length between them in words; null if it is short. */
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

/** `pointer` is the text's place in the event. `entry.cut[pointer]` is its whole length if the server cut it. */
export function Output({ text, entry, context, pointer, label = 'Output' }) {
  const cut = entry?.cut?.[pointer];
  const [all, setAll] = useState(null);
  const [isOpen, setOpen] = useState(false);
  const fullText = all ?? text ?? '';
  const shownText = (typeof fullText === 'string' ? fullText : JSON.stringify(fullText, null, 1)).replace(/\n+$/, '');
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
      showError(error);
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
      ${shownText.length > SHOWN_MAX && isOpen && html`<p class="soft">The rest is too long to show here. The raw JSON has it.</p>`}
      ${isOpen && html`<button class="small more" onClick=${() => setOpen(false)}>Less</button>`}
    </div>`;
}
