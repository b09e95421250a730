// The exact messages that the model received before a reply, or would receive at a point, and the condensed events.
import { html, useState } from '../../lib/ui.js';
import { encodedPath, get } from '../../lib/api.js';
import { setQuery } from '../../lib/router.js';
import { useLoad } from '../../lib/load.js';
import { count, plural } from '../../lib/format.js';
import { Problem, Waiting, Copy } from '../../ui/pieces.js';
import { Markdown } from '../../ui/markdown.js';
import { shown } from '../../ui/text.js';
import { Fold } from '../cards/card.js';
import { Output } from '../cards/output.js';
import { Pictures, texts } from '../cards/content.js';

/** The number of messages that are shown at first. */
const SHOWN = 60;

const WIRES = [['plain', 'As the SDK has them'], ['chat', 'As a chat request'], ['responses', 'As a responses request']];

async function load(context, point, wire, signal) {
  const path = (what) => encodedPath`/api/annals/conversations/${context.id}/`.concat(what);
  const [messages, events] = await Promise.all([
    get(path('messages'), { at: point, wire, live: true }, signal),
    get(path('events'), { kind: 'Condensation', to: point, limit: 1000, texts: 4000 }, signal),
  ]);
  return { messages: Array.isArray(messages) ? messages : messages.input, instructions: messages.instructions, condensations: events.events };
}

function Calls({ message }) {
  return (message.tool_calls ?? []).map((call) => html`
    <div class="sent-call"><code>${shown(call.name ?? call.function?.name)}</code>
      <pre>${shown(call.arguments ?? call.function?.arguments)}</pre></div>`);
}

/** One message, in the form in which it is sent. */
function Sent({ message, number, context }) {
  const role = message.role ?? message.type ?? 'item';
  const content = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
  const contentTexts = texts((content ?? []).map((part) => (/text$/.test(part?.type) ? { type: 'text', text: part.text } : part)));
  const text = contentTexts.join('\n\n');
  const entry = { event: message, sequence: -1 };
  const isLong = role === 'system' || text.length > 3000;
  const body = role === 'tool' ? html`<${Output} text=${text} entry=${entry} context=${context} />` : html`<${Markdown} text=${text} />`;
  return html`
    <article class=${`card sent sent-${role}`} aria-label=${`Message ${number}, ${role}`}>
      <header><span class="who">${role}</span>${message.name && html`<code>${shown(message.name)}</code>`}<span class="grow"></span>
        <span class="soft">${plural(text.length, 'character')} · ${number}</span></header>
      ${message.reasoning_content && html`<${Fold} summary="Reasoning"><${Markdown} text=${message.reasoning_content} /><//>`}
      ${text && (isLong ? html`<${Fold} summary=${html`${shown(text.slice(0, 140))} …`}>${body}<//>` : body)}
      <${Pictures} content=${content} pointer="" entry=${entry} context=${context} />
      <${Calls} message=${message} />
      ${!text && !message.tool_calls && html`<pre class="json">${shown(JSON.stringify(message, null, 1).slice(0, 4000))}</pre>`}
    </article>`;
}

const Away = ({ condensations, context }) => {
  const events = condensations.reduce((sum, one) => sum + (one.event.forgotten_event_ids?.length ?? 0), 0);
  return html`
    <details class="fold away"><summary>${plural(events, 'event')} condensed away before, in ${plural(condensations.length, 'condensation')}</summary>
      <ol>${condensations.map((one) => html`
        <li key=${one.sequence}><button class="small plain" onClick=${() => context.goTo(one.sequence)}>#${count(one.sequence)}</button>
          ${plural(one.event.forgotten_event_ids?.length ?? 0, 'event')}${one.event.summary && html`: <span class="soft">${shown(one.event.summary.slice(0, 300))}</span>`}</li>`)}</ol>
    </details>`;
};

export function Messages({ context, reply }) {
  const [wire, setWire] = useState('plain');
  const [isAll, setAll] = useState(false);
  const last = context.log.total.value - 1;
  // The model saw only the events before its reply.
  const point = reply !== null ? reply - 1 : context.at.value ?? last;
  const { value, error, isLoading, reload } = useLoad(
    (signal) => (point < 0 ? Promise.resolve({ messages: [], condensations: [] }) : load(context, point, wire, signal)), [point, wire]);
  if (error) return html`<div class="pane"><${Problem} error=${error} reload=${reload} /></div>`;
  if (!value) return html`<div class="pane"><${Waiting} /></div>`;
  const all = value.messages;
  const skipped = isAll || all.length <= SHOWN ? 0 : all.length - SHOWN;
  return html`
    <section class="pane messages" tabindex="0" aria-label="Messages" aria-busy=${isLoading}>
      <div class="row">
        <h2>${reply !== null ? html`What the model saw for its reply ${html`<button class="small plain" onClick=${() => context.goTo(reply)}>#${count(reply)}</button>`}`
          : `What the model would be sent at #${count(point)}`}</h2>
        <span class="grow"></span>
        ${reply !== null && html`<button class="small" onClick=${() => setQuery({ reply: '' })}>At the point of the slider</button>`}
        <select class="small" aria-label="Form of the messages" value=${wire} onChange=${(event) => setWire(event.currentTarget.value)}>
          ${WIRES.map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select>
        <${Copy} text=${() => JSON.stringify(all, null, 2)} label="Copy as JSON" />
      </div>
      <p class="soft">${plural(all.length, 'message')}.</p>
      ${value.condensations.length > 0 && html`<${Away} condensations=${value.condensations} context=${context} />`}
      ${value.instructions && html`<${Sent} message=${{ role: 'instructions', content: value.instructions }} number=${0} context=${context} />`}
      ${all.slice(0, skipped ? 2 : 0).map((message, index) => html`<${Sent} key=${index} message=${message} number=${index + 1} context=${context} />`)}
      ${skipped > 0 && html`<button onClick=${() => setAll(true)}>${plural(skipped - 2, 'message')} between: show all</button>`}
      ${all.slice(skipped).map((message, index) => html`
        <${Sent} key=${skipped + index} message=${message} number=${skipped + index + 1} context=${context} />`)}
    </section>`;
}
