// What a tool printed: the first and the last lines, the rest where somebody wants it.
import { html, useMemo, useState } from '../../lib/ui.js';
import { count, plural } from '../../lib/format.js';
import { ansi, stripped } from '../../ui/ansi.js';
import { complain } from '../../lib/notes.js';
import { at, get } from '../../lib/api.js';

const LINES = 14;
const LAST = 4;
/** Characters that are shown at once even where somebody wants all: more is to be had as raw JSON. */
const SHOWN_MAX = 400000;

/** A text of an event that the server cut, whole. */
export async function whole(context, sequence, pointer) {
  const page = await get(at`/api/annals/conversations/${context.id}/events`, { from: sequence, to: sequence, limit: 1 });
  let value = page.events[0].event;
  for (const step of pointer.split('/').slice(1)) value = value[step.replaceAll('~1', '/').replaceAll('~0', '~')];
  return value;
}

const shorten = (lines) => (lines.length <= LINES + LAST + 2 ? null : [lines.slice(0, LINES), lines.slice(-LAST)]);

/** `cut` is how many characters the text has where it was cut, `pointer` where it stands in the event. */
export function Output({ text, entry, context, pointer, label = 'Output' }) {
  const cut = entry?.cut?.[pointer];
  const [all, setAll] = useState(null);
  const [isOpen, setOpen] = useState(false);
  const shownText = (all ?? text ?? '').replace(/\n+$/, '');
  const parts = useMemo(() => {
    const lines = shownText.split('\n');
    const ends = shorten(lines);
    if (!ends || isOpen) return { content: ansi(shownText.slice(0, SHOWN_MAX)), more: 0 };
    return { content: [ansi(ends[0].join('\n')), '\n'], more: lines.length - LINES - LAST, last: ansi(ends[1].join('\n')) };
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
      <pre tabindex="0" aria-label=${label} dir="auto">${parts.content}</pre>
      ${parts.more > 0 && html`
        <button class="small more" onClick=${() => setOpen(true)}>${plural(parts.more, 'more line')}</button>
        <pre tabindex="0" aria-label=${`The end of ${label}`} dir="auto">${parts.last}</pre>`}
      ${cut && all === null && html`
        <button class="small more" onClick=${load}>${count(cut - text.length)} more characters: load all</button>`}
      ${shownText.length > SHOWN_MAX && isOpen && html`<p class="soft">The rest is too long for here; the raw JSON has it.</p>`}
      ${isOpen && html`<button class="small more" onClick=${() => setOpen(false)}>Less</button>`}
    </div>`;
}
