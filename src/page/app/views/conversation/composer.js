// The field for messages to the agent.
import { html, useRef, useState } from '../../lib/ui.js';
import { may } from '../../lib/access.js';
import { encodedPath, post } from '../../lib/api.js';
import { runOrShowError } from '../../lib/notes.js';
import { Consent } from './consent.js';

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
