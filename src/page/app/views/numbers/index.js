// The costs of conversations, and the results of the agents' tool calls. `#/numbers?since=&until=&conversation=&by=`
import { html, useState } from '../../lib/ui.js';
import { bill, billTitle, count, short, cost, duration, brief, plural } from '../../lib/format.js';
import { href, setQuery } from '../../lib/router.js';
import { useLoad } from '../../lib/load.js';
import { plain } from '../../ui/text.js';
import { Figure, Problem, Waiting } from '../../ui/pieces.js';
import { extent, figures, spans, CONVERSATIONS_MAX } from './figures.js';
import { Columns } from './columns.js';
import { Bars } from './bars.js';

const SHOWN = 12;
const MEASURES = { cost: { label: 'Cost', show: cost }, tokens: { label: 'Tokens', show: short } };

const daysAgo = (n) => new Date(Date.now() - n * 86_400_000).toISOString().slice(0, 10);

function Filters({ query, measure }) {
  const preset = (label, since) => html`
    <button class="small" aria-pressed=${(query.since ?? '') === since && !query.until}
      onClick=${() => setQuery({ since, until: '' })}>${label}</button>`;
  return html`
    <form class="filters row" aria-label="What is counted" onSubmit=${(event) => event.preventDefault()}>
      <label class="inline">From <input type="date" value=${query.since ?? ''} onChange=${(event) => setQuery({ since: event.target.value })} /></label>
      <label class="inline">to <input type="date" value=${query.until ?? ''} onChange=${(event) => setQuery({ until: event.target.value })} /></label>
      <span class="row">${preset('All', '')}${preset('7 days', daysAgo(6))}${preset('30 days', daysAgo(29))}</span>
      ${query.conversation && html`<button class="small" onClick=${() => setQuery({ conversation: '' })}>
        Only conversation ${brief(query.conversation)}: show all</button>`}
      <span class="grow"></span>
      <span class="row" role="group" aria-label="Draw">
        ${Object.entries(MEASURES).map(([name, one]) => html`
          <button key=${name} type="button" class="small" aria-pressed=${measure === name}
            onClick=${() => setQuery({ by: name === 'cost' ? '' : name })}>${one.label}</button>`)}
      </span>
    </form>`;
}

function Total({ total, conversations, hasAll }) {
  const share = (part, whole) => (whole > 0 ? ` (${((part / whole) * 100).toFixed(1)}%)` : '');
  return html`
    <dl class="figures totals">
      <${Figure} label="Cost" title=${`In US dollars as a rule. ${billTitle(total)}`}>${bill(total)}<//>
      <${Figure} label="Tokens in" title="Sent to models, including those read from a cache">${short(total.prompt)}<//>
      <${Figure} label="From cache">${short(total.cached)}${share(total.cached, total.prompt)}<//>
      <${Figure} label="Tokens out">${short(total.completion)}<//>
      <${Figure} label="Model calls">${count(total.requests)}<//>
      ${conversations > 0 && html`<${Figure} label="Conversations with model calls">${count(conversations)}${hasAll ? '' : '+'}<//>`}
      <${Figure} label="Events">${count(total.events)}<//>
      <${Figure} label="Tool calls">${count(total.calls)}<//>
      <${Figure} label="Calls with an error" title="The tool itself failed">${count(total.errors)}${share(total.errors, total.calls)}<//>
      <${Figure} label="Commands that failed" title="They ended with another exit code than 0">${count(total.failed)}${share(total.failed, total.calls)}<//>
      <${Figure} label="Rejected">${count(total.rejected)}<//>
    </dl>`;
}

const COST_COLUMNS = [
  { name: 'cost', label: 'Cost', show: cost }, { name: 'estimated_cost', label: 'Estimate', show: (n) => (n == null ? '–' : `≈ ${cost(n)}`) },
  { name: 'prompt_tokens', label: 'Tokens in' },
  { name: 'completion_tokens', label: 'Tokens out' }, { name: 'cache_read_tokens', label: 'From cache' },
];
const EVENT_COLUMNS = [
  { name: 'events', label: 'Events' }, { name: 'actions', label: 'Tool calls' }, { name: 'user_messages', label: 'User messages' },
];

function Days({ value, measure }) {
  const { label, show } = MEASURES[measure];
  const range = extent(value.days, value.events);
  const spent = spans(value.days, [...COST_COLUMNS.map((one) => one.name), 'tokens', 'tokens_without_cost'], range);
  const done = spans(value.events, EVENT_COLUMNS.map((one) => one.name), range);
  const unknown = spent.unknown && `${measure === 'cost' ? bill(spent.unknown) : show(spent.unknown[measure])} more at unknown times`;
  return html`<div class="days">
    ${spent.spans.length > 0 && html`<${Columns} title=${label} ...${spent} measure=${measure} estimate=${measure === 'cost' ? 'estimated_cost' : undefined} show=${show} columns=${COST_COLUMNS}
      all=${[`${measure === 'cost' ? bill(value.total) : show(value.total.prompt + value.total.completion)} in all`, unknown].filter(Boolean).join('; ')}
      describe=${(span) => `${bill(span)}, ${short(span.prompt_tokens)} tokens in, ${short(span.completion_tokens)} out`} />`}
    ${done.spans.length > 0 && html`<${Columns} title="Events" ...${done} measure="events" show=${short} columns=${EVENT_COLUMNS}
      all=${[`${plural(value.total.events, 'event')} in all`, done.unknown && `${short(done.unknown.events)} at unknown times`].filter(Boolean).join('; ')}
      describe=${(span) => `${plural(span.events, 'event')}, ${plural(span.actions, 'tool call')}, ${plural(span.user_messages, 'user message')}`} />`}
  </div>`;
}

const TAKEN = [{ label: 'Cost' }, { label: 'Tokens in', isWide: true }, { label: 'Tokens out', isWide: true }, { label: 'From cache', isWide: true }];
const taken = (row) => [bill(row), short(row.prompt_tokens), short(row.completion_tokens), short(row.cache_read_tokens)];

/** The parts of a bar. An estimate is a part of its own. */
const parts = (row, measure) => (measure === 'cost'
  ? [{ className: 'part-taken', value: row.cost ?? 0 }, { className: 'part-estimated', value: row.estimated_cost ?? 0 }]
  : [{ className: 'part-taken', value: row[measure] }]);

const legend = (measure) => (measure === 'cost'
  ? [{ className: 'part-taken', label: 'as the log says' }, { className: 'part-estimated', label: 'estimate' }] : undefined);

function Models({ rows, measure }) {
  return html`<${Bars} title=${`${MEASURES[measure].label} by model`} what="Model" legend=${legend(measure)}
    columns=${[...TAKEN, { label: 'Calls', isWide: true }, { label: 'Mean wait', isWide: true }]}
    rows=${rows.map((row) => ({
      key: row.model, label: plain(row.model) || 'unknown', parts: parts(row, measure),
      figures: [...taken(row), count(row.calls), duration(row.latency_ms)],
    }))} />`;
}

function Conversations({ rows, measure }) {
  const [isLong, setLong] = useState(false);
  const size = (row) => parts(row, measure).reduce((total, part) => total + part.value, 0);
  const sorted = rows.toSorted((a, b) => size(b) - size(a));
  const left = sorted.length - SHOWN;
  return html`
    <${Bars} title=${`${MEASURES[measure].label} by conversation`} what="Conversation" legend=${legend(measure)} columns=${TAKEN}
      rows=${(isLong ? sorted.slice(0, 100) : sorted.slice(0, SHOWN)).map((row) => ({
        key: row.conversation_id, label: plain(row.title) || brief(row.conversation_id), href: href(['c', row.conversation_id]),
        parts: parts(row, measure), figures: taken(row),
      }))} />
    ${left > 0 && html`<p><button class="small" onClick=${() => setLong(!isLong)}>
      ${isLong ? 'Fewer' : `${count(Math.min(left, 100 - SHOWN))} more`}</button>
      ${left > 100 - SHOWN && html` <a href=${href(['reports', 'cost-by-conversation'], { limit: CONVERSATIONS_MAX })}>All as a report</a>`}</p>`}`;
}

const OUTCOMES = [
  { className: 'part-ok', name: 'ok', label: 'ok' }, { className: 'part-errors', name: 'errors', label: 'error' },
  { className: 'part-failed', name: 'failed', label: 'command failed' },
  { className: 'part-rejected', name: 'rejected', label: 'rejected' }, { className: 'part-pending', name: 'pending', label: 'unanswered' },
];

function Tools({ tools, slow, calls }) {
  return html`
    <${Bars} title="Tool calls and how they ended" what="Tool" legend=${OUTCOMES}
      columns=${[{ label: 'Calls' }, { label: 'Ok', isWide: true }, { label: 'Errors' }, { label: 'Failed' }, { label: 'Rejected', isWide: true }, { label: 'Unanswered', isWide: true }]}
      rows=${tools.map((row) => ({
        key: row.tool, label: plain(row.tool), parts: OUTCOMES.map(({ className, name }) => ({ className, value: row[name] })),
        figures: [row.calls, ...OUTCOMES.map(({ name }) => row[name])].map(count),
      }))} />
    ${slow.length > 0 && html`<${Bars} title="Where the tools' time went" what="Tool"
      columns=${[{ label: 'Total' }, { label: 'Median' }, { label: '95 of 100 within', isWide: true }, { label: 'Longest' }, { label: 'Calls', isWide: true }]}
      rows=${slow.map((row) => ({
        key: row.tool, label: plain(row.tool), parts: [{ className: 'part-taken', value: row.total_ms }],
        figures: [duration(row.total_ms), duration(row.median_ms), duration(row.p95_ms), duration(row.max_ms), count(row.calls)],
      }))} note="From a call to its result, including any wait for a person's consent." />`}
    ${calls.length > 0 && html`<${Bars} title="Slowest calls" what="Call" columns=${[{ label: 'Took' }, { label: 'Tool' }, { label: 'Ended', isWide: true }]}
      rows=${calls.map((row) => ({
        key: `${row.conversation_id} ${row.sequence}`, label: plain(row.what || row.tool).slice(0, 120),
        href: href(['c', row.conversation_id], { event: row.sequence }),
        parts: [{ className: { error: 'part-errors', failed: 'part-failed' }[row.outcome] || 'part-taken', value: row.duration_ms }],
        figures: [duration(row.duration_ms), plain(row.tool), row.exit_code > 0 ? `exit ${row.exit_code}` : row.outcome],
      }))} />`}`;
}

export function View({ query }) {
  const measure = query.by in MEASURES ? query.by : 'cost';
  const { since, until, conversation } = query;
  const { value, error, isLoading, reload } = useLoad((signal) => figures({ since, until, conversation }, signal), [since, until, conversation]);
  const isEmpty = value && !value.total.events && !value.total.requests;
  return html`
    <div class="numbers column" aria-busy=${isLoading}>
      <h1>Numbers</h1>
      <${Filters} query=${query} measure=${measure} />
      ${error && html`<${Problem} error=${error} reload=${reload} />`}
      ${!value && !error && html`<${Waiting} what="Counting …" />`}
      ${isEmpty && html`<p class="empty">Nothing happened in that time. Choose another, or all of it.</p>`}
      ${value && !isEmpty && html`
        <${Total} total=${value.total} conversations=${value.conversations.length} hasAll=${value.hasAll} />
        <${Days} value=${value} measure=${measure} />
        ${value.models.length > 0 && html`<${Models} rows=${value.models} measure=${measure} />`}
        ${value.conversations.length > 0 && html`<${Conversations} rows=${value.conversations} measure=${measure} />`}
        ${value.tools.length > 0 && html`<${Tools} ...${value} />`}`}
    </div>`;
}
