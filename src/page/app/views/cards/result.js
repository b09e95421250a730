// The result of a call.
import { html } from '../../lib/ui.js';
import { Diff } from '../../ui/diff.js';
import { shown } from '../../ui/text.js';
import { Output } from './output.js';
import { Tasks } from './tasks.js';
import { Pictures, texts } from './content.js';
import { Fold } from './card.js';

/** Results that contain nothing that their call does not show. */
const REDUNDANT = new Set(['ThinkObservation', 'FinishObservation']);

function Edit({ observation, answer, context }) {
  const isCut = Object.keys(answer.cut ?? {}).some((pointer) => /content$/.test(pointer));
  if (isCut) return html`<p class="soft">The file is too long to compare here. <button class="small" onClick=${() => context.openRaw(answer.sequence)}>Raw JSON</button></p>`;
  return html`<${Diff} before=${observation.old_content ?? ''} after=${observation.new_content ?? ''} label=${`Changes of ${observation.path}`} />`;
}

/**
 * Returns the texts of an observation, each with its JSON pointer. Other programs write `stdout` and `stderr`; what has no
 * text that is known is shown as it is.
 */
function outputs(observation) {
  const { content } = observation;
  if (Array.isArray(content)) {
    return content.map((part, index) => ({ text: texts([part])[0], pointer: `/observation/content/${index}/text` })).filter(({ text }) => text !== undefined);
  }
  const named = ['output', 'content', 'error', 'stdout', 'stderr'].filter((name) => observation[name] != null);
  const [first] = named;
  // Of the first three, one has all of it.
  const shownNames = ['output', 'content', 'error'].includes(first) ? [first] : named.filter((name) => observation[name] !== '');
  if (shownNames.length > 0) return shownNames.map((name) => ({ text: observation[name], pointer: `/observation/${name}` }));
  const isEmpty = named.length > 0 || Object.keys(observation).every((name) => name === 'kind');
  return [{ text: isEmpty ? '' : observation, pointer: '/observation' }];
}

export function Result({ action, answer, context }) {
  const { event } = answer;
  if (event.kind === 'UserRejectObservation') {
    return html`<p class="rejection"><strong>${event.rejection_source === 'hook' ? 'A hook rejected it' : 'Rejected'}</strong>: ${shown(event.rejection_reason ?? '')}</p>`;
  }
  if (event.kind === 'AgentErrorEvent') {
    return html`<div class="failure"><strong>The call failed without a result:</strong>
      <${Output} text=${event.error ?? ''} entry=${answer} context=${context} pointer="/error" label="The error" /></div>`;
  }
  const observation = event.observation ?? {};
  if (REDUNDANT.has(observation.kind) && !observation.is_error) return null;
  if (observation.task_list && !observation.is_error) return action?.task_list ? null : html`<${Tasks} list=${observation.task_list} />`;
  const isEdit = observation.new_content != null && !observation.is_error && observation.command !== 'view';
  const printed = html`
    ${outputs(observation).map(({ text, pointer }) => html`<${Output} key=${pointer} text=${text} entry=${answer} context=${context} pointer=${pointer} />`)}
    ${Array.isArray(observation.content) && html`<${Pictures} content=${observation.content} pointer="/observation/content" entry=${answer} context=${context} />`}`;
  if (isEdit) {
    return html`<${Edit} observation=${observation} answer=${answer} context=${context} />
      <${Fold} summary="What the agent received">${printed}<//>`;
  }
  return printed;
}
