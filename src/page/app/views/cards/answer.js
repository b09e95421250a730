// The card of an answer that is not shown with its call.
import { html } from '../../lib/ui.js';
import { shown } from '../../ui/text.js';
import { Card } from './card.js';
import { Result } from './result.js';

export function Answer({ entry, context }) {
  const { event } = entry;
  return html`
    <${Card} kind="call" label=${shown(event.tool_name ?? 'Tool')} entry=${entry} context=${context}
      subject=${event.action_id && html`<button class="small plain" onClick=${() => context.goToEvent(event.action_id)}>an answer to an earlier call</button>`}>
      <${Result} action=${null} answer=${entry} context=${context} />
    <//>`;
}
