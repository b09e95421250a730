// The dialog that shows an event as it is stored.
import { html } from '../../lib/ui.js';
import { encodedPath, request } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { bytes, count, moment } from '../../lib/format.js';
import { Dialog } from '../../ui/dialog.js';
import { Copy, Problem, Waiting } from '../../ui/pieces.js';
import { shown } from '../../ui/text.js';

const SHOWN_MAX = 400000;

function Body({ context, sequence }) {
  const { value, error, reload } = useLoad(async (signal) => {
    const query = { from: sequence, to: sequence, limit: 1 };
    const text = await (await request('GET', encodedPath`/api/annals/conversations/${context.id}/events`, { query, signal })).text();
    const [stored] = JSON.parse(text).events;
    return { stored, pretty: JSON.stringify(stored?.event, null, 2) ?? '' };
  }, [sequence]);
  if (error) return html`<${Problem} error=${error} reload=${reload} />`;
  if (!value) return html`<${Waiting} />`;
  const { stored, pretty } = value;
  return html`
    <p class="soft row">position ${count(stored.position)} · recorded ${moment(stored.recorded_at)} · ${bytes(pretty.length)}
      ${stored.redacted && ' · redacted'}<span class="grow"></span><${Copy} text=${pretty} label="Copy" /></p>
    <pre class="json" tabindex="0">${shown(pretty.slice(0, SHOWN_MAX))}</pre>
    ${pretty.length > SHOWN_MAX && html`<p class="soft">${count(pretty.length - SHOWN_MAX)} more characters; Copy takes all of it.</p>`}`;
}

export function Raw({ context }) {
  const sequence = context.raw.value;
  return html`
    <${Dialog} isOpen=${sequence !== null} close=${() => { context.raw.value = null; }} title=${`Event ${sequence}`} wide>
      ${sequence !== null && html`<${Body} context=${context} sequence=${sequence} />`}
    <//>`;
}
