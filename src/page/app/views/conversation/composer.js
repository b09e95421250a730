// The field for messages to the agent, and the buttons for calls that wait for consent.
import { html, useRef, useState } from '../../lib/ui.js';
import { may } from '../../lib/access.js';
import { encodedPath, get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { runOrShowError } from '../../lib/notes.js';
import { plural } from '../../lib/format.js';
import { Icon } from '../../ui/icon.js';

/** Approves or rejects the waiting calls. */
function Consent({ context }) {
  const [reason, setReason] = useState('');
  const [isBusy, setBusy] = useState(false);
  const total = context.log.total.value;
  const { value } = useLoad((signal) => get(encodedPath`/api/annals/conversations/${context.id}/state`, { brief: true }, signal), [total]);
  const waiting = value?.unmatched_action_ids ?? [];
  const answer = async (accept) => {
    setBusy(true);
    const body = accept ? { accept } : { accept, reason: reason.trim() || 'The user rejected the action.' };
    await runOrShowError(() => post(encodedPath`/api/conversations/${context.id}/events/respond_to_confirmation`, body));
    setBusy(false);
    context.refresh();
  };
  return html`
    <div class="consent" role="group" aria-label="Consent">
      <p><${Icon} name="warn" /> <strong>${plural(waiting.length, 'call')} ${waiting.length === 1 ? 'waits' : 'wait'} for your consent.</strong>
        ${waiting.length > 0 && html` <button class="small plain" onClick=${() => context.goToEvent(waiting[0])}>Show</button>`}</p>
      <button class="main" disabled=${isBusy} onClick=${() => answer(true)}><${Icon} name="check" />Approve</button>
      <input value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} placeholder="A reason for the agent" aria-label="The reason of a rejection" />
      <button class="danger" disabled=${isBusy} onClick=${() => answer(false)}><${Icon} name="close" />Reject</button>
    </div>`;
}

export function Composer({ context }) {
  const [text, setText] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [runs, setRuns] = useState(true);
  const field = useRef(null);
  const { status } = context.head.value;
  const send = async () => {
    if (!text.trim() || isBusy) return;
    setBusy(true);
    const body = { role: 'user', content: [{ type: 'text', text }], run: runs };
    const isDone = await runOrShowError(() => post(encodedPath`/api/conversations/${context.id}/events`, body));
    setBusy(false);
    if (isDone) {
      setText('');
      context.setAt(null);
      context.control.current?.goToEnd();
    }
    field.current?.focus();
  };
  const keys = (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      send();
    }
  };
  return html`
    ${status === 'waiting_for_confirmation' && may('approve') && html`<${Consent} context=${context} />`}
    ${may('write') && html`<div class="composer">
      <textarea id="say" ref=${field} rows="1" dir="auto" value=${text} onInput=${(event) => setText(event.currentTarget.value)} onKeyDown=${keys}
        placeholder="Write to the agent; Ctrl+Enter sends" aria-label="A message to the agent"></textarea>
      <label class="inline" title="Let the agent go on with it"><input type="checkbox" checked=${runs} onChange=${(event) => setRuns(event.currentTarget.checked)} />run</label>
      <button class="main" disabled=${isBusy || !text.trim()} onClick=${send}>Send</button>
    </div>`}`;
}
