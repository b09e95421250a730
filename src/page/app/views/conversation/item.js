// One item of the timeline: its card, and whether it is selected, after the chosen point, or not on the live branch.
import { html, cx } from '../../lib/ui.js';
import { BESIDE, ROOT, sequences } from './group.js';
import { Guard } from '../../ui/guard.js';
import { Message } from '../cards/message.js';
import { Calls } from '../cards/calls.js';
import { Quiet } from '../cards/quiet.js';
import { System } from '../cards/system.js';
import { Condensed } from '../cards/condensed.js';
import { Line, Other } from '../cards/lines.js';
import { Answer } from '../cards/answer.js';

function Content({ item, context }) {
  if (item.type === 'calls') return html`<${Calls} item=${item} context=${context} />`;
  if (item.type === 'quiet') return html`<${Quiet} item=${item} context=${context} />`;
  switch (item.kind) {
    case 'MessageEvent': return html`<${Message} entry=${item.entry} context=${context} />`;
    case 'SystemPromptEvent': return html`<${System} entry=${item.entry} context=${context} />`;
    case 'Condensation': return html`<${Condensed} entry=${item.entry} context=${context} />`;
    case 'ObservationEvent': case 'UserRejectObservation': case 'AgentErrorEvent':
      return html`<${Answer} entry=${item.entry} context=${context} />`;
    case 'PauseEvent': case 'InterruptEvent': case 'CondensationRequest': case 'HookExecutionEvent':
    case 'ConversationErrorEvent': case 'CondensationSummaryEvent':
      return html`<${Line} entry=${item.entry} kind=${item.kind} context=${context} />`;
    default: return html`<${Other} entry=${item.entry} kind=${item.kind} context=${context} />`;
  }
}

export function Item({ item, context }) {
  const all = sequences(item);
  const selected = context.selected.value;
  const until = context.at.value;
  const isSelected = selected !== null && all.includes(selected);
  const isLater = until !== null && item.sequence > until;
  const isAside = !context.isLive(item.sequence) && !BESIDE.has(item.kind);
  return html`
    <div class=${cx('item', isSelected && 'selected', isLater && 'later', isAside && 'aside')} data-seqs=${all.join(' ')}
      onClick=${() => context.select(item.sequence)}>
      ${item.from && html`<${BranchesFrom} id=${item.from} context=${context} />`}
      <${Guard} instead=${(error) => html`<${Undrawn} item=${item} error=${error} context=${context} />`}><${Content} item=${item} context=${context} /><//>
    </div>`;
}

/** Replaces the card of an event that cannot be drawn. */
const Undrawn = ({ item, error, context }) => html`
  <div class="card card-other"><p><strong>Event #${item.sequence} cannot be shown</strong>
    <span class="soft"> ${error.message}</span> <button class="small" onClick=${() => context.openRaw(item.sequence)}>Raw JSON</button></p></div>`;

/** The note that an event continues an earlier event, or has no parent. */
const BranchesFrom = ({ id, context }) => (id === ROOT ? html`<p class="branches-from">A new beginning</p>` : html`
  <p class="branches-from">Another branch:
    <button class="small plain" onClick=${(event) => { event.stopPropagation(); context.goToEvent(id); }}>
      goes on from an earlier event</button></p>`);
