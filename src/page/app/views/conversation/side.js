// The side panel: the state of the conversation at the chosen point.
import { html, useEffect, useState } from '../../lib/ui.js';
import { encodedPath, get } from '../../lib/api.js';
import { useLatest, useThrottled } from '../../lib/load.js';
import { bill, billTitle, count, short, words } from '../../lib/format.js';
import { Figure, Problem, Status, Waiting } from '../../ui/pieces.js';
import { Icon } from '../../ui/icon.js';
import { Tasks } from '../cards/tasks.js';

const CALM_MS = 180;
const LONG = 5000;
const LONG_MS = 3000;
/** The delay of the first request, so that the first cards are loaded before it. */
const LATER_MS = 200;

const Ids = ({ ids, context }) => html`<ul class="ids">${ids.slice(0, 12).map((id) => html`
  <li key=${id}><button class="small plain mono" onClick=${() => context.goToEvent(id)}>${id.slice(0, 18)}</button></li>`)}
  ${ids.length > 12 && html`<li class="soft">and ${ids.length - 12} more</li>`}</ul>`;

export function Side({ context, close }) {
  const point = context.at.value;
  const end = point === null ? context.log.total.value : null;
  // A state costs the server more the longer the log is, so the first request waits for the first cards.
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setDue(true), LATER_MS);
    return () => clearTimeout(timer);
  }, []);
  const place = useThrottled(JSON.stringify([point, end]), end > LONG ? LONG_MS : CALM_MS);
  const { value: state, error, isLoading, reload } = useLatest((wanted, signal) => {
    if (wanted === null) return undefined;
    const [sequence] = JSON.parse(wanted);
    return get(encodedPath`/api/annals/conversations/${context.id}/state`, { brief: true, at: sequence }, signal);
  }, isDue ? place : null);
  return html`
    <aside class="side" aria-busy=${isLoading} aria-label=${point === null ? 'State now' : `State at event ${point}`}>
      <header class="row"><h2>${point === null ? 'State now' : `State at #${count(point)}`}</h2>${isLoading && html`<span class="soft small">…</span>`}<span class="grow"></span>
        <button class="plain" onClick=${close} aria-label="Hide the state"><${Icon} name="close" /></button></header>
      ${error && html`<${Problem} error=${error} reload=${reload} />`}
      ${!state && !error && html`<${Waiting} />`}
      ${state && html`<${Facts} state=${state} context=${context} />`}
    </aside>`;
}

function Facts({ state, context }) {
  const combined = state.stats?.combined ?? {};
  const tokens = combined.accumulated_token_usage ?? {};
  const kinds = Object.entries(state.kind_counts ?? {}).sort((a, b) => b[1] - a[1]);
  const open = state.unmatched_action_ids ?? [];
  // Without any tokens and without a cost, the log does not say them.
  const isKnown = tokens.prompt_tokens > 0 || tokens.completion_tokens > 0 || state.cost != null || state.estimated_cost != null;
  const sum = (n) => (isKnown ? short(n ?? 0) : 'unknown');
  return html`
    <${Status} status=${state.execution_status} since=${context.at.value === null && context.head.value.is_last_known && context.head.value.updated_at} />
    ${state.is_stuck && html`<p class="wrong">It goes in circles: ${words(state.stuck_pattern)}.</p>`}
    <dl class="figures">
      <${Figure} label="Steps">${count(state.iteration)}<//>
      <${Figure} label="Events">${count(state.event_count)}<//>
      <${Figure} label="Cost" title=${billTitle(state)}>${bill(state)}<//>
      <${Figure} label="Tokens in" title=${count(tokens.prompt_tokens)}>${sum(tokens.prompt_tokens)}<//>
      <${Figure} label="Tokens out" title=${count(tokens.completion_tokens)}>${sum(tokens.completion_tokens)}<//>
      <${Figure} label="From cache" title=${count(tokens.cache_read_tokens)}>${sum(tokens.cache_read_tokens)}<//>
    </dl>
    ${state.task_list?.length > 0 && html`<h3>Tasks</h3><${Tasks} list=${state.task_list} />`}
    ${open.length > 0 && html`<h3>Calls without an answer</h3><${Ids} ids=${open} context=${context} />`}
    ${state.activated_skills?.length > 0 && html`<h3>Skills</h3><p>${state.activated_skills.join(', ')}</p>`}
    ${state.resolved_active_leaf && html`<h3>HEAD</h3><${Ids} ids=${[state.resolved_active_leaf]} context=${context} />`}
    <h3>Kinds of events</h3>
    <table class="kinds"><tbody>${kinds.map(([kind, n]) => html`
      <tr key=${kind}><th scope="row">${kind}</th><td class="number">${count(n)}</td></tr>`)}</tbody></table>`;
}
