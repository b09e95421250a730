// The calls that wait for consent, each shown whole, and the buttons to approve or reject them.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../../lib/ui.js';
import { encodedPath, get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { runOrShowError } from '../../lib/notes.js';
import { plural } from '../../lib/format.js';
import { shown } from '../../ui/text.js';
import { Icon } from '../../ui/icon.js';
import { Badge } from '../cards/card.js';
import { hasSummary } from '../cards/calls.js';

/** The longest text of a call that the page shows, in characters. A longer call cannot be approved here. */
const WHOLE = 200_000;
/** Within this distance of the end, all of the calls were seen, in pixels. */
const NEAR_END = 4;
const TONES = { HIGH: 'red', MEDIUM: 'amber' };

/** Loads the calls that wait, in the order of the log. */
async function waitingCalls(id, signal) {
  const state = await get(encodedPath`/api/annals/conversations/${id}/state`, { brief: true }, signal);
  const ids = state.unmatched_action_ids ?? [];
  return Promise.all(ids.map((event) => get(encodedPath`/api/conversations/${id}/events/${event}`, {}, signal)));
}

/** Returns everything that a call would do, as text: its command, or all of its arguments. */
export function request({ action, tool_call: call }) {
  const given = action ?? {};
  const { kind, ...rest } = given;
  const names = Object.keys(rest).filter((name) => rest[name] != null && rest[name] !== false && rest[name] !== '');
  if (typeof given.command === 'string' && names.every((name) => name === 'command' || name === 'security_risk')) return `$ ${given.command}`;
  if (names.length) {
    return names.map((name) => `${name}: ${typeof rest[name] === 'string' ? rest[name] : JSON.stringify(rest[name], null, 2)}`).join('\n');
  }
  return call?.arguments ?? '';
}

function Call({ event, context }) {
  const risk = event.security_risk;
  return html`
    <li>
      <p><strong>${shown(event.tool_name)}</strong>
        ${TONES[risk] && html` <${Badge} tone=${TONES[risk]}>${risk.toLowerCase()} risk<//>`}
        ${hasSummary(event) && html` <span class="soft">${shown(event.summary)}</span>`}
        <button class="small plain" onClick=${() => context.goToEvent(event.id)}>Show in the log</button></p>
      <pre>${shown(request(event).slice(0, WHOLE))}</pre>
    </li>`;
}

export function Consent({ context }) {
  const [reason, setReason] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [isSeen, setSeen] = useState(false);
  const list = useRef(null);
  const total = context.log.total.value;
  const { value: calls, error } = useLoad((signal) => waitingCalls(context.id, signal), [total]);
  const names = calls?.map((event) => event.id).join(' ');
  const look = () => {
    if (!list.current) return;
    const { scrollTop, clientHeight, scrollHeight } = list.current;
    if (scrollTop + clientHeight >= scrollHeight - NEAR_END) setSeen(true);
  };
  // Other calls have to be read, too.
  useLayoutEffect(() => {
    setSeen(false);
    if (calls?.length) look();
  }, [names]);
  useEffect(() => {
    if (!list.current) return undefined;
    const size = new ResizeObserver(look);
    size.observe(list.current);
    return () => size.disconnect();
  }, [names]);
  const answer = async (accept) => {
    setBusy(true);
    const body = accept ? { accept } : { accept, reason: reason.trim() || 'The user rejected the action.' };
    await runOrShowError(() => post(encodedPath`/api/conversations/${context.id}/events/respond_to_confirmation`, body));
    setBusy(false);
    context.refresh();
  };
  const isTooLong = calls?.some((event) => request(event).length > WHOLE);
  const hint = error ? 'The calls could not be loaded, so they cannot be approved here.'
    : isTooLong ? 'A call is too long to be shown here, so it cannot be approved here. `annals approve` can.'
      : calls && !isSeen ? 'Scroll to the end of the calls to approve them.' : '';
  return html`
    <div class="consent" role="group" aria-label="Consent">
      <p><${Icon} name="warn" /> <strong>${calls ? plural(calls.length, 'call') : 'A call'} ${(calls?.length ?? 1) === 1 ? 'waits' : 'wait'} for your consent.</strong></p>
      ${calls?.length > 0 && html`
        <ol ref=${list} class="asked" tabindex="0" role="list" aria-label="The calls that wait" onScroll=${look}>
          ${calls.map((event) => html`<${Call} key=${event.id} event=${event} context=${context} />`)}</ol>`}
      <div class="row answers">
        <button class="main" disabled=${isBusy || !isSeen || isTooLong} aria-describedby="consent-hint" onClick=${() => answer(true)}><${Icon} name="check" />Approve</button>
        <input value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} placeholder="A reason for the agent" aria-label="The reason of a rejection" />
        <button class="danger" disabled=${isBusy} onClick=${() => answer(false)}><${Icon} name="close" />Reject</button>
        <span id="consent-hint" class="soft small" role="status">${hint}</span>
      </div>
    </div>`;
}
