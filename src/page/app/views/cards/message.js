// The card of a message.
import { html } from '../../lib/ui.js';
import { shown } from '../../ui/text.js';
import { Card, Badge, Fold } from './card.js';
import { isBlank, reasoningOf } from '../conversation/blank.js';
import { Pictures, list, texts } from './content.js';
import { Cut } from './cut.js';
import { Prose } from './prose.js';

const LABELS = { user: 'User', assistant: 'Agent', system: 'System', tool: 'Tool' };

export function Reasoning({ event }) {
  const text = reasoningOf(event);
  return text && html`<${Fold} summary="Reasoning"><${Prose} text=${text} /><//>`;
}

export function Message({ entry, context }) {
  const { event } = entry;
  const message = event.llm_message ?? {};
  const source = event.source === 'environment' ? 'Environment' : LABELS[message.role] ?? message.role;
  const body = texts(message.content).join('\n\n');
  const added = texts(event.extended_content);
  const badges = [
    event.sender && html`<${Badge}>${shown(event.sender)}<//>`,
    ...list(event.activated_skills).map((skill) => html`<${Badge} key=${skill} title="A skill that this message activated">${shown(skill)}<//>`),
  ];
  return html`
    <${Card} kind=${event.source === 'user' ? 'user' : event.source === 'agent' ? 'agent' : 'other'} label=${source} entry=${entry} context=${context} badges=${badges}>
      <${Reasoning} event=${event} />
      ${body.trim() && html`<${Prose} text=${body} />`}
      ${isBlank(event) && html`<p class="soft">No text.</p>`}
      <${Cut} entry=${entry} context=${context} />
      <${Pictures} content=${message.content} pointer="/llm_message/content" entry=${entry} context=${context} />
      ${added.length > 0 && html`<${Fold} summary="Added to the message for the model"><${Prose} text=${added.join('\n\n')} /><//>`}
    <//>`;
}
