// The request of a call: a command, an edit, a list of tasks, or the call's arguments.
import { html } from '../../lib/ui.js';
import { Diff, Tally } from '../../ui/diff.js';
import { shown } from '../../ui/text.js';
import { Fold } from './card.js';
import { Cut } from './cut.js';
import { Output } from './output.js';
import { Tasks } from './tasks.js';
import { Prose } from './prose.js';

/** Returns the action of a call. A call that the SDK could not parse has only its arguments, as text. */
function actionOf(event) {
  if (event.action) return event.action;
  try {
    const value = JSON.parse(event.tool_call?.arguments ?? '{}');
    return value && typeof value === 'object' ? value : {};
  } catch {
    return { arguments: event.tool_call?.arguments };
  }
}

const path = (action) => action.path ?? action.file_path;

/** Returns the command line of an action of any program; null if it has none. */
function command(action) {
  if (path(action) !== undefined) return null;
  const given = action.command ?? action.cmd;
  if (Array.isArray(given)) return given.join(' ');
  return typeof given === 'string' && !action.task_list ? given : null;
}

/** Returns the change as [before, after]; null if the action does not have it. */
function change(action) {
  const before = action.old_str ?? action.old_string;
  const after = action.new_str ?? action.new_string;
  if (before != null || after != null) return [before ?? '', after ?? ''];
  return null;
}

/** Returns the text in the head of the card: the file, if there is one, and its change. */
export function subject(event) {
  const action = actionOf(event);
  const name = path(action);
  if (name === undefined) return null;
  const changes = change(action);
  return html`<span class="soft">${shown(action.command ?? '')}</span> <code>${shown(name)}</code>
    ${changes && action.command !== 'view' && html` <${Tally} before=${changes[0]} after=${changes[1]} />`}`;
}

const HIDDEN = new Set(['kind', 'command', 'path', 'file_path', 'cmd', 'security_risk', 'summary']);
const empty = (value) => value === null || value === undefined || value === '' || value === false;

/** The other arguments, if there are any. */
function Rest({ action, but = [] }) {
  const rest = Object.entries(action).filter(([name, value]) => !HIDDEN.has(name) && !but.includes(name) && !empty(value));
  if (rest.length === 0) return null;
  return html`<dl class="arguments">${rest.map(([name, value]) => html`
    <div key=${name}><dt>${shown(name)}</dt><dd><pre>${shown(typeof value === 'string' ? value : JSON.stringify(value, null, 1))}</pre></dd></div>`)}</dl>`;
}

export function Request({ entry, answer, context }) {
  const { event } = entry;
  const action = actionOf(event);
  const commandLine = command(action);
  const isCut = html`<${Cut} entry=${entry} context=${context} />`;
  if (commandLine !== null) {
    return html`<pre class="command" tabindex="0" aria-label="Command"><b aria-hidden="true">${action.is_input ? '> ' : '$ '}</b>${shown(commandLine) || ' '}</pre>${isCut}
      <${Rest} action=${action} but=${['is_input', 'timeout', 'reset']} />`;
  }
  if (action.task_list) return html`<${Tasks} list=${action.task_list} />`;
  const text = action.thought ?? action.message;
  if (typeof text === 'string') return html`<${Prose} text=${text} />${isCut}<${Rest} action=${action} but=${['thought', 'message']} />`;
  const changes = change(action);
  if (changes) {
    // A successful answer shows the change within its file. Otherwise the requested change is shown.
    const isShown = answer?.event.observation?.new_content != null && !answer.event.observation.is_error;
    return isShown ? isCut : html`<${Diff} before=${changes[0]} after=${changes[1]} label="The requested change" />${isCut}`;
  }
  const content = action.file_text ?? action.content;
  if (typeof content === 'string') {
    const isShown = answer?.event.observation?.new_content != null && answer.event.observation.old_content == null;
    return isShown ? isCut : html`<${Fold} summary="The text"><${Output} text=${content} entry=${entry} context=${context} label="The text" /><//>${isCut}`;
  }
  return html`<${Rest} action=${action} />${isCut}`;
}
