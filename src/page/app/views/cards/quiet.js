// Technical events, such as state updates and logs of model calls, in one line.
import { html } from '../../lib/ui.js';
import { count, cost, plural, words } from '../../lib/format.js';
import { shown } from '../../ui/text.js';
import { kindOf } from '../conversation/group.js';
import { Corner, Fold } from './card.js';

const value = (text) => (typeof text === 'string' ? text : JSON.stringify(text));

/** Returns a few words about an event. */
function brief({ event }) {
  const kind = kindOf(event);
  if (kind === 'ConversationStateUpdateEvent') {
    if (event.key === 'execution_status') return `now ${words(event.value)}`;
    if (event.key === 'stats') {
      const all = Object.values(event.value?.usage_to_metrics ?? {});
      const sum = all.reduce((total, one) => total + (one?.accumulated_cost ?? 0), 0);
      return `costs so far ${cost(sum)}`;
    }
    const text = value(event.value) ?? '';
    return typeof event.value === 'object' && event.value ? `${words(event.key)} changed` : `${words(event.key)} = ${text.slice(0, 60)}`;
  }
  if (kind === 'LLMCompletionLogEvent') return `log of a model call${event.model_name ? ` (${event.model_name})` : ''}`;
  if (kind === 'SecurityAnalysisEvent') {
    return `risk ${Object.values(event.risks ?? {}).join(', ').toLowerCase()} by ${event.analyzer}`;
  }
  return kind;
}

export function Quiet({ item, context }) {
  const texts = [...new Set(item.entries.map(brief))];
  if (item.entries.length === 1) {
    return html`<div class="line quiet"><span>${shown(texts[0])}</span><${Corner} entry=${item.entries[0]} context=${context} /></div>`;
  }
  return html`
    <div class="quiet">
      <${Fold} summary=${html`${plural(item.entries.length, 'notice')}: ${shown(texts.slice(0, 4).join(' · '))}${texts.length > 4 ? ` and ${count(texts.length - 4)} more` : ''}`}>
        ${item.entries.map((entry) => html`
          <div class="line quiet" key=${entry.sequence}><span>${shown(brief(entry))}</span><${Corner} entry=${entry} context=${context} /></div>`)}
      <//>
    </div>`;
}
