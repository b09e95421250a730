// The card of a condensation: the forgotten events, and the summary that replaces them.
import { html } from '../../lib/ui.js';
import { plural } from '../../lib/format.js';
import { Card, Fold } from './card.js';
import { list } from './content.js';
import { Prose } from './prose.js';

export function Condensed({ entry, context }) {
  const { event } = entry;
  const forgotten = list(event.forgotten_event_ids);
  return html`
    <${Card} kind="condensed" label="Condensed" subject=${`${plural(forgotten.length, 'event')} left the model's view`} entry=${entry} context=${context}>
      ${event.summary && html`<${Prose} text=${event.summary} />`}
      ${forgotten.length > 0 && html`
        <${Fold} summary="Which ones"><ul class="ids">${forgotten.slice(0, 300).map((id) => html`
          <li><button class="small plain mono" onClick=${() => context.goToEvent(id)}>${id}</button></li>`)}
          ${forgotten.length > 300 && html`<li class="soft">and ${forgotten.length - 300} more</li>`}</ul><//>`}
    <//>`;
}
