// Groups the events of a page into items: answers are shown with their calls, parallel calls together, and technical
// events in one line.
import { isBlankReply } from './blank.js';
import { isAnswer } from './log.js';

const QUIET = new Set(['ConversationStateUpdateEvent', 'LLMCompletionLogEvent', 'SecurityAnalysisEvent', 'StreamingDeltaEvent', 'TokenEvent']);

/** The parent id of an event that follows no other event. */
export const ROOT = '__root__';

/** Kinds of events beside the branch: the next event has the same parent as they have. */
export const BESIDE = new Set(['ConversationStateUpdateEvent', 'HookExecutionEvent']);

const quiet = (event) => QUIET.has(kindOf(event)) || /^(codex|claude-code|langgraph|openai-agents):/.test(kindOf(event)) || isBlankReply(event);

/** Returns whether an event reports which files, plugins and servers could not be used. It has a card of its own. */
export const isReport = (event) => event?.kind === 'ConversationStateUpdateEvent' && event.key === 'left_out';

/** Returns the kind of an event. Events of OpenHands V0 have no kind, but an action or an observation. */
export const kindOf = (event) => event?.kind
  ?? (event?.action ? `action:${event.action}` : event?.observation ? `observation:${event.observation}` : 'unknown');

/** Returns `[{ type: 'calls' | 'quiet' | 'event', sequence, ... }]` of a page. Its neighbours are given if loaded. */
export function group(page, before, after) {
  const items = [];
  const shownAnswers = new Set();
  let previous = lastNode(before);
  // Only notices before an event do not make it a new beginning.
  let isBegun = Boolean(before?.entries.some(({ event }) => !quiet(event)));
  const push = (item, entry) => {
    const from = branchesFrom(entry, previous);
    items.push({ ...item, from: from === ROOT && !isBegun ? null : from });
    if (item.type !== 'quiet') isBegun = true;
  };
  for (const entry of page.entries) {
    const { event, sequence } = entry;
    const kind = kindOf(event);
    if (kind === 'ActionEvent') {
      const answer = page.answerTo(event) ?? after?.answerTo(event) ?? null;
      if (answer) shownAnswers.add(answer.sequence);
      const verdict = page.verdicts.get(event.id) ?? after?.verdicts.get(event.id) ?? null;
      const call = { entry, answer, verdict };
      const last = items.at(-1);
      if (last?.type === 'calls' && event.llm_response_id && last.response === event.llm_response_id) last.calls.push(call);
      else push({ type: 'calls', sequence, response: event.llm_response_id, calls: [call] }, entry);
    } else if (isAnswer(event) && (shownAnswers.has(sequence) || (before?.has(event) && !page.has(event)))) {
      // It is shown with its call.
    } else if (quiet(event)) {
      const last = items.at(-1);
      const joins = last?.type === 'quiet' && !isReport(event) && !isReport(last.entries[0].event);
      if (joins) last.entries.push(entry);
      else push({ type: 'quiet', sequence, entries: [entry] }, entry);
    } else {
      push({ type: 'event', sequence, entry, kind }, entry);
    }
    if (!BESIDE.has(kind)) previous = event.id;
  }
  return items;
}

/** Returns all sequences that an item shows. */
export function sequences(item) {
  if (item.type === 'calls') return item.calls.flatMap((call) => [call.entry.sequence, ...(call.answer ? [call.answer.sequence] : [])]);
  if (item.type === 'quiet') return item.entries.map((entry) => entry.sequence);
  return [item.sequence];
}

/** Returns the id of the last event of a page that is not beside the branch. */
const lastNode = (page) => page?.entries.findLast((one) => !BESIDE.has(one.event.kind))?.event.id ?? null;

/** Returns the id of an event's parent if this is not the event right before it. */
function branchesFrom({ event }, previous) {
  if (!event.parent_id || !previous || BESIDE.has(event.kind)) return null;
  return event.parent_id === previous ? null : event.parent_id;
}
