// The actions on a whole conversation: run, pause, interrupt, rename, delete.
import { html, useState } from '../../lib/ui.js';
import { may } from '../../lib/access.js';
import { encodedPath, post } from '../../lib/api.js';
import { runOrShowError } from '../../lib/notes.js';
import { plural } from '../../lib/format.js';
import { Dialog } from '../../ui/dialog.js';
import { Icon } from '../../ui/icon.js';

const UUID = /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;

/** Asks the user to confirm the deletion. */
function Deletion({ context, isOpen, close, remove }) {
  const head = context.head.value;
  return html`
    <${Dialog} isOpen=${isOpen} close=${close} title="Delete this conversation?">
      <p><strong>${head.title ?? 'Without a title'}</strong>, ${plural(head.event_count, 'event')}. It is deleted for good, with its
        files. Forks and sub-agents stay.</p>
      <footer><button onClick=${close}>Keep it</button>
        <button class="danger" onClick=${remove}>Delete it</button></footer>
    <//>`;
}

export function Actions({ context, rename, remove }) {
  const { status, cannot_run: cannotRun, is_last_known: isLastKnown } = context.head.value;
  const [isDeleting, setDeleting] = useState(false);
  if (context.copyOf) return null;
  const command = (name) => runOrShowError(async () => {
    await post(encodedPath`/api/conversations/${context.id}/${name}`);
    context.refresh();
  });
  // The server changes and deletes conversations by ids of this form only.
  const isNamed = UUID.test(context.id);
  const isRunning = status === 'running' && !isLastKnown;
  return html`
    ${isRunning ? may('approve') && html`
      <button onClick=${() => command('pause')} title="After the step under way"><${Icon} name="pause" />Pause</button>
      <button onClick=${() => command('interrupt')} title="At once"><${Icon} name="stop" />Interrupt</button>`
    : status !== 'waiting_for_confirmation' && !cannotRun && may('write') && html`<button onClick=${() => command('run')} title="Let the agent go on"><${Icon} name="play" />Run</button>`}
    ${isNamed && !cannotRun && may('write') && html`<button class="plain" onClick=${rename}>Name and tags</button>`}
    ${isNamed && may('admin') && html`<button class="plain wrong" onClick=${() => setDeleting(true)}>Delete</button>`}
    <${Deletion} context=${context} isOpen=${isDeleting} close=${() => setDeleting(false)} remove=${remove} />`;
}
