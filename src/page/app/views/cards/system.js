// The system prompt.
import { html } from '../../lib/ui.js';
import { plural } from '../../lib/format.js';
import { shown } from '../../ui/text.js';
import { Card, Fold } from './card.js';
import { list } from './content.js';
import { Prose } from './prose.js';

/** Returns the name of a tool, as OpenHands of any age writes it. */
const nameOf = (tool) => tool.title ?? tool.name ?? tool.function?.name ?? tool.kind ?? 'without a name';
const descriptionOf = (tool) => tool.description ?? tool.function?.description ?? '';

export function System({ entry, context }) {
  const { event } = entry;
  const tools = list(event.tools).filter(Boolean);
  const text = String(event.system_prompt?.text ?? event.system_prompt ?? '');
  return html`
    <${Card} kind="system" label="System prompt" entry=${entry} context=${context}>
      <${Fold} summary=${`The prompt, ${plural(text.length, 'character')}${entry.cut?.['/system_prompt/text'] ? ', cut' : ''}`}><${Prose} text=${text} /><//>
      ${event.dynamic_context?.text && html`<${Fold} summary="What was added for this conversation"><${Prose} text=${event.dynamic_context.text} /><//>`}
      ${tools.length > 0 && html`
        <${Fold} summary=${`${plural(tools.length, 'tool')}: ${tools.map((tool) => shown(nameOf(tool))).join(', ')}`}>
          <dl class="tools">${tools.map((tool) => html`
            <dt><code>${shown(nameOf(tool))}</code></dt><dd><${Prose} text=${descriptionOf(tool)} /></dd>`)}</dl><//>`}
    <//>`;
}
