// The events that only one side has, each with the beginning of its text.
import { html } from '../../lib/ui.js';
import { href } from '../../lib/router.js';
import { encodedPath, get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { count } from '../../lib/format.js';
import { stripped } from '../../ui/ansi.js';
import { plain } from '../../ui/text.js';

const SHOWN = 200;

export const conversation = (side) => side.split('@')[0];

const SQL = `SELECT sequence, coalesce(tool, role) AS who, substr(text, 1, 160) AS text FROM transcript
  WHERE conversation_id = :conversation AND sequence IN (SELECT value FROM json_each(:sequences))`;

/** Loads the lines of the transcript for some events. Returns a map by sequence. */
async function transcriptLines(side, marks, signal) {
  if (marks.length === 0) return new Map();
  const { id } = await get(encodedPath`/api/annals/conversations/${conversation(side)}`, {}, signal);
  const sequences = JSON.stringify(marks.slice(0, SHOWN).map((mark) => mark.sequence));
  const { rows } = await post('/api/annals/query', { sql: SQL, parameters: { conversation: id, sequences } }, signal);
  return new Map(rows.map(([sequence, who, text]) => [sequence, { who, text }]));
}

function Mark({ mark, side, line }) {
  const text = line && plain(stripped(line.text));
  return html`
    <li><a class="place" href=${href(['c', conversation(side)], { event: mark.sequence })}>#${count(mark.sequence)}</a>
      <span class="soft">${line?.who ?? mark.kind.replace(/Event$/, '')}</span> <span dir="auto">${text}</span></li>`;
}

export function Marks({ title, marks, side, tone }) {
  // An event without a line of the transcript is shown by its kind.
  const { value: lines } = useLoad((signal) => transcriptLines(side, marks, signal), [side, marks]);
  return html`
    <section class=${`marks ${tone}`} tabindex="0" aria-label=${title}><h2>${title} <span class="soft">${count(marks.length)}</span></h2>
      <ol>${marks.slice(0, SHOWN).map((mark) => html`<${Mark} key=${mark.id} mark=${mark} side=${side} line=${lines?.get(mark.sequence)} />`)}
        ${marks.length > SHOWN && html`<li class="soft">and ${count(marks.length - SHOWN)} more</li>`}</ol></section>`;
}
