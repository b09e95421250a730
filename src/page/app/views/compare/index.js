// Shows the differences between two points, branches or conversations.
import { html, useEffect, useState } from '../../lib/ui.js';
import { setQuery } from '../../lib/router.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { cost, count, plural, words } from '../../lib/format.js';
import { Figure, Problem, Waiting } from '../../ui/pieces.js';
import { shown } from '../../ui/text.js';
import { Marks } from './marks.js';

const signed = (n, format = count) => (n > 0 ? `+${format(n)}` : n < 0 ? `−${format(-n)}` : '0');

const text = (value) => (value === null || value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value, null, 1));

const signedCost = (n) => `${n < 0 ? '−' : '+'}${cost(Math.abs(n))}`;

/** Returns the difference of the known costs and of the estimates. */
function difference({ cost: known, estimated_cost: estimated }) {
  const parts = [known == null ? null : signedCost(known), estimated == null ? null : `≈ ${signedCost(estimated)} (estimate)`];
  return parts.filter(Boolean).join(', ') || 'unknown';
}

function Difference({ value, left, right }) {
  const same = value.lost.length === 0 && value.added.length === 0;
  const isKnown = value.prompt_tokens !== 0 || value.completion_tokens !== 0 || value.cost != null || value.estimated_cost != null;
  const tokens = (n) => (isKnown ? signed(n) : 'unknown');
  // The figures above already show the tokens and the cost.
  const fields = (value.fields ?? []).filter((field) => field.field !== 'stats');
  return html`
    <dl class="figures">
      <${Figure} label="Events in common">${count(value.common_events)}<//>
      <${Figure} label="Only left">${count(value.lost.length)}<//>
      <${Figure} label="Only right">${count(value.added.length)}<//>
      <${Figure} label="Tokens in">${tokens(value.prompt_tokens)}<//>
      <${Figure} label="Tokens out">${tokens(value.completion_tokens)}<//>
      <${Figure} label="Cost">${difference(value)}<//>
    </dl>
    ${same ? html`<p class="empty">Both have the same events.</p>` : html`
      <div class="sides"><${Marks} title="Only on the left" marks=${value.lost} side=${left} tone="removed" />
        <${Marks} title="Only on the right" marks=${value.added} side=${right} tone="added" /></div>`}
    ${fields.length > 0 && html`
      <h2>Differences in the state</h2>
      <div class="scroll" tabindex="0"><table class="fields"><thead><tr><th scope="col">Field</th><th scope="col">Left</th><th scope="col">Right</th></tr></thead>
        <tbody>${fields.map((field) => html`<tr key=${field.field}><th scope="row">${words(field.field)}</th>
          <td><pre tabindex="0">${shown(text(field.left).slice(0, 2000))}</pre></td><td><pre tabindex="0">${shown(text(field.right).slice(0, 2000))}</pre></td></tr>`)}</tbody></table></div>`}`;
}

export function View({ query }) {
  const [left, setLeft] = useState(query.left ?? '');
  const [right, setRight] = useState(query.right ?? '');
  useEffect(() => {
    setLeft(query.left ?? '');
    setRight(query.right ?? '');
  }, [query.left, query.right]);
  const isReady = Boolean(query.left && query.right);
  const { value, error, isLoading, reload } = useLoad(
    (signal) => (isReady ? get('/api/annals/diff', { left: query.left, right: query.right }, signal) : Promise.resolve(null)),
    [query.left, query.right]);
  const submit = (event) => {
    event.preventDefault();
    setQuery({ left: left.trim(), right: right.trim() }, { replace: false });
  };
  return html`
    <h1>Compare</h1>
    <form class="compare-form" onSubmit=${submit}>
      <label>Left<input class="mono" value=${left} required onInput=${(event) => setLeft(event.currentTarget.value)} placeholder="ID or ID@POINT" spellcheck=${false} /></label>
      <button type="button" title="Change sides" aria-label="Change sides" onClick=${() => setQuery({ left: query.right ?? '', right: query.left ?? '' })}>⇄</button>
      <label>Right<input class="mono" value=${right} required onInput=${(event) => setRight(event.currentTarget.value)} placeholder="ID or ID@POINT" spellcheck=${false} /></label>
      <button class="main">Compare</button>
    </form>
    <p class="soft small">A conversation’s id or the beginning of its id. After an @, a point: a sequence, an event’s id, or a time.</p>
    ${error && html`<${Problem} error=${error} reload=${reload} />`}
    ${isLoading && isReady && !value && html`<${Waiting} />`}
    ${value && html`<${Difference} value=${value} left=${query.left} right=${query.right} />`}`;
}
