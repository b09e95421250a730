// What the model was told before anything else.
import { html } from '../../lib/ui.js';
import { plural } from '../../lib/format.js';
import { Markdown } from '../../ui/markdown.js';
import { shown } from '../../ui/text.js';
import { Card, Fold } from './card.js';

export function System({ entry, context }) {
  const { event } = entry;
  const tools = event.tools ?? [];
  const text = event.system_prompt?.text ?? '';
  return html`
    <${Card} kind="system" label="System prompt" entry=${entry} context=${context}>
      <${Fold} summary=${`The prompt, ${plural(text.length, 'character')}${entry.cut?.['/system_prompt/text'] ? ' of more' : ''}`}><${Markdown} text=${text} /><//>
      ${event.dynamic_context?.text && html`<${Fold} summary="What was added for this conversation"><${Markdown} text=${event.dynamic_context.text} /><//>`}
      ${tools.length > 0 && html`
        <${Fold} summary=${`${plural(tools.length, 'tool')}: ${tools.map((tool) => tool.title ?? tool.name).join(', ')}`}>
          <dl class="tools">${tools.map((tool) => html`
            <dt><code>${shown(tool.title ?? tool.name)}</code></dt><dd><${Markdown} text=${tool.description ?? ''} /></dd>`)}</dl><//>`}
    <//>`;
}
