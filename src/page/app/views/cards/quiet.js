// Technical events, such as state updates and logs of model calls, in one line.
import { html } from '../../lib/ui.js';
import { count, cost, plural, words } from '../../lib/format.js';
import { shown } from '../../ui/text.js';
import { isBlankReply } from '../conversation/blank.js';
import { isReport, kindOf } from '../conversation/group.js';
import { Corner, Fold } from './card.js';

/** How many of the parts that are left out are shown at once, and at all. */
const FIRST = 5;
const PARTS_MAX = 100;

const value = (text) => (typeof text === 'string' ? text : JSON.stringify(text));

/** Returns what a report says: the parts that are left out, each with the reason, and how many there are. */
function leftOut({ event }) {
  const { problems, more } = event.value ?? {};
  const parts = Array.isArray(problems) ? problems : [];
  const total = parts.length + (Number.isSafeInteger(more) && more > 0 ? more : 0);
  return { parts: parts.slice(0, PARTS_MAX).map(value), total };
}

/** Returns a few words about an event. */
function brief({ event }) {
  const kind = kindOf(event);
  if (kind === 'ConversationStateUpdateEvent') {
    if (isReport(event)) {
      const { total } = leftOut({ event });
      return total === 0 ? 'nothing is left out any more' : `${plural(total, 'part')} left out`;
    }
    if (event.key === 'execution_status') return `now ${words(event.value)}`;
    if (event.key === 'stats') {
      const all = Object.values(event.value?.usage_to_metrics ?? {});
      const sum = all.reduce((total, one) => total + (one?.accumulated_cost ?? 0), 0);
      const tokens = all.some((one) => one?.accumulated_token_usage?.prompt_tokens > 0);
      // The SDK writes 0 where it has no price.
      return `costs so far ${cost(sum === 0 && tokens ? null : sum)}`;
    }
    // The first versions name the changed field by a member of its own.
    if (event.key == null) return event.agent_status ? `now ${words(event.agent_status).toLowerCase()}` : 'the state changed';
    const text = value(event.value) ?? '';
    return typeof event.value === 'object' && event.value ? `${words(event.key)} changed` : `${words(event.key)} = ${text.slice(0, 60)}`;
  }
  if (kind === 'LLMCompletionLogEvent') return `log of a model call${event.model_name ? ` (${event.model_name})` : ''}`;
  if (kind === 'SecurityAnalysisEvent') {
    return `risk ${Object.values(event.risks ?? {}).join(', ').toLowerCase()} by ${event.analyzer}`;
  }
  return isBlankReply(event) ? 'a reply without text' : kind;
}

const Parts = ({ parts }) => html`
  <ul class="left-out">${parts.map((part, place) => html`<li key=${place}>${shown(part)}</li>`)}</ul>`;

/** What could not be used: files, plugins and servers. */
function Report({ entry, context }) {
  const { parts, total } = leftOut(entry);
  const [first, rest] = [parts.slice(0, FIRST), parts.slice(FIRST)];
  return html`
    <div class="quiet" role="note" aria-label="Left out">
      <div class="line quiet"><span>${shown(brief(entry))}</span><${Corner} entry=${entry} context=${context} /></div>
      ${first.length > 0 && html`<${Parts} parts=${first} />`}
      ${rest.length > 0 && html`<${Fold} summary=${`${count(rest.length)} more`}><${Parts} parts=${rest} /><//>`}
      ${total > parts.length && html`<p class="left-out">${count(total - parts.length)} of them are not named</p>`}
    </div>`;
}

export function Quiet({ item, context }) {
  if (isReport(item.entries[0].event)) return html`<${Report} entry=${item.entries[0]} context=${context} />`;
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
