// The cards of the agent's calls: one call or several parallel calls, each with its result.
import { html, cx, useState } from '../../lib/ui.js';
import { duration, millis, plural } from '../../lib/format.js';
import { shown } from '../../ui/text.js';
import { Card, Badge } from './card.js';
import { Reasoning } from './message.js';
import { Result } from './result.js';
import { Request, subject } from './request.js';
import { texts } from './content.js';
import { Prose } from './prose.js';

const RISKS = { HIGH: 'red', MEDIUM: 'amber', LOW: 'green' };

/** Returns how a call ended: `ok`, `failed`, `rejected` or `open`. */
function outcome(answer) {
  if (!answer) return 'open';
  const { event } = answer;
  if (event.kind === 'UserRejectObservation') return 'rejected';
  if (event.kind === 'AgentErrorEvent' || event.observation?.is_error) return 'failed';
  const code = event.observation?.exit_code ?? event.observation?.metadata?.exit_code;
  return code != null && code !== 0 ? 'failed' : 'ok';
}

const TONES = { ok: null, failed: 'red', rejected: 'amber', open: 'blue' };

function Badges({ call }) {
  const { entry, answer, verdict } = call;
  const observation = answer?.event.observation;
  const code = observation?.exit_code ?? observation?.metadata?.exit_code;
  const ms = answer ? millis(answer.event.timestamp) - millis(entry.event.timestamp) : NaN;
  const risk = verdict?.risk ?? entry.event.security_risk;
  const how = outcome(answer);
  return [
    code != null && html`<${Badge} key="code" tone=${code === 0 ? 'green' : code === -1 ? 'amber' : 'red'} title=${code === -1 ? 'The command was still running' : 'The exit code'}>${code === -1 ? 'still running' : `exit ${code}`}<//>`,
    observation?.timeout && html`<${Badge} key="timeout" tone="amber">timed out<//>`,
    how === 'rejected' && html`<${Badge} key="rejected" tone="amber">rejected<//>`,
    how === 'failed' && code == null && html`<${Badge} key="failed" tone="red">failed<//>`,
    how === 'open' && html`<${Badge} key="open" tone="blue">no answer yet<//>`,
    RISKS[risk] && html`<${Badge} key="risk" tone=${RISKS[risk]} title=${verdict ? `${verdict.analyzer}, ${verdict.policy}` : 'The risk that the model stated'}>${risk.toLowerCase()} risk<//>`,
    ms >= 0 && html`<span key="ms" class="soft took" title="From the call to its answer">${duration(ms)}</span>`,
  ];
}

/** Returns whether the model gave a summary of the call. If it gave none, the SDK puts the arguments there. */
export const hasSummary = ({ summary, tool_name: tool }) => summary && !summary.startsWith(`${tool}: {`);

function Call({ call, context }) {
  const { entry, answer } = call;
  const { event } = entry;
  return html`
    <${Card} kind="call" label=${shown(event.tool_name)} subject=${subject(event)} entry=${entry} context=${context}
      tone=${TONES[outcome(answer)]} badges=${html`<${Badges} call=${call} />`}>
      ${hasSummary(event) && html`<p class="soft summary">${shown(event.summary)}</p>`}
      <${Request} entry=${entry} answer=${answer} context=${context} />
      ${answer && html`<${Result} action=${event.action} answer=${answer} context=${context} />`}
    <//>`;
}

/** The number of parallel calls that are shown at first. */
const SHOWN = 12;

export function Calls({ item, context }) {
  const [isAll, setAll] = useState(false);
  const first = item.calls[0].entry.event;
  const thought = texts(first.thought).join('\n\n');
  const calls = isAll ? item.calls : item.calls.slice(0, SHOWN);
  return html`
    <${Reasoning} event=${first} />
    ${thought && html`<div class="thought"><${Prose} text=${thought} /></div>`}
    <div class=${cx(item.calls.length > 1 && 'parallel')}>
      ${item.calls.length > 1 && html`<p class="soft parallel-label">${plural(item.calls.length, 'call')} at once</p>`}
      ${calls.map((call) => html`<${Call} key=${call.entry.sequence} call=${call} context=${context} />`)}
      ${calls.length < item.calls.length && html`<button class="small" onClick=${() => setAll(true)}>${item.calls.length - SHOWN} more</button>`}
    </div>`;
}
