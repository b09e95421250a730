// Cards of short events (a pause, a hook, an error of the run) and of kinds that this page does not know.
import { html, cx } from '../../lib/ui.js';
import { words } from '../../lib/format.js';
import { shown } from '../../ui/text.js';
import { Card, Corner, Fold, Badge } from './card.js';
import { Output } from './output.js';
import { texts } from './content.js';
import { Prose } from './prose.js';

const LABELS = { PauseEvent: 'Paused', InterruptEvent: 'Interrupted', CondensationRequest: 'Condensation requested' };

function Hook({ entry, context }) {
  const { event } = entry;
  const tone = event.blocked ? 'red' : event.success === false ? 'amber' : null;
  const text = [event.stdout, event.stderr].filter(Boolean).join('\n');
  return html`
    <${Card} kind="hook" label=${`Hook ${event.hook_event_type ?? ''}`} entry=${entry} context=${context} tone=${tone}
      subject=${html`<code>${shown(event.hook_command)}</code>`}
      badges=${[
        event.blocked && html`<${Badge} tone="red">blocked<//>`,
        event.exit_code != null && event.exit_code !== 0 && html`<${Badge} tone="amber">exit ${event.exit_code}<//>`,
        event.tool_name && html`<${Badge}>${shown(event.tool_name)}<//>`,
      ]}>
      ${event.reason && html`<p>${shown(event.reason)}</p>`}
      ${event.error && html`<p class="wrong">${shown(event.error)}</p>`}
      ${text && html`<${Fold} summary="What it printed" isOpen=${tone !== null}><${Output} text=${text} entry=${entry} context=${context} /><//>`}
    <//>`;
}

export function Line({ entry, kind, context }) {
  const { event } = entry;
  if (kind === 'HookExecutionEvent') return html`<${Hook} entry=${entry} context=${context} />`;
  if (kind === 'ConversationErrorEvent') {
    return html`<${Card} kind="error" tone="red" label="The run failed" subject=${html`<code>${shown(event.code)}</code>`} entry=${entry} context=${context}>
      <${Output} text=${event.detail ?? ''} entry=${entry} context=${context} pointer="/detail" label="What went wrong" /><//>`;
  }
  if (kind === 'CondensationSummaryEvent') {
    return html`<${Card} kind="condensed" label="Summary" entry=${entry} context=${context}><${Prose} text=${event.summary} /><//>`;
  }
  return html`
    <div class=${cx('line', kind === 'InterruptEvent' && 'wrong')}>
      <span>${LABELS[kind]}</span>${event.reason && html`<span class="soft">${shown(event.reason)}</span>`}
      <${Corner} entry=${entry} context=${context} /></div>`;
}

/** Returns the text of an event of an unknown kind; empty if it has none. */
function textOf(event) {
  for (const value of [event.message, event.content, event.text, event.error, event.args?.content, event.args?.thought]) {
    if (typeof value === 'string' && value.trim()) return value;
    const parts = Array.isArray(value) ? texts(value) : [];
    if (parts.length > 0) return parts.join('\n\n');
  }
  return '';
}

export function Other({ entry, kind, context }) {
  const { event } = entry;
  const text = textOf(event);
  const command = event.args?.command ?? event.extras?.command;
  return html`
    <${Card} kind="other" label=${words(kind)} entry=${entry} context=${context} badges=${entry.redacted && html`<${Badge}>redacted<//>`}>
      ${command && html`<pre class="command"><b aria-hidden="true">$ </b>${shown(command)}</pre>`}
      ${text && html`<${Output} text=${text} entry=${entry} context=${context} />`}
      <${Fold} summary="Its fields"><pre class="json" tabindex="0">${shown(JSON.stringify(event, null, 1).slice(0, 20000))}</pre><//>
    <//>`;
}
