// Events of a page as what is shown: answers go to their calls, parallel calls stand together, what only tells of the
// machinery is gathered in one line.
import { isAnswer } from './log.js';

const QUIET = new Set(['ConversationStateUpdateEvent', 'LLMCompletionLogEvent', 'SecurityAnalysisEvent', 'StreamingDeltaEvent', 'TokenEvent']);

/** Events that stand beside the branch: what follows has the same parent as they. */
export const BESIDE = new Set(['ConversationStateUpdateEvent', 'HookExecutionEvent']);

const quiet = (kind) => QUIET.has(kind) || /^(codex|claude-code|langgraph|openai-agents):/.test(kind);

/** The kind of an event; those of OpenHands V0 have none, but an action or an observation. */
export const kindOf = (event) => event?.kind
  ?? (event?.action ? `action:${event.action}` : event?.observation ? `observation:${event.observation}` : 'unknown');

/** `[{ type: 'calls' | 'quiet' | 'event', sequence, ... }]` of the page, with its neighbours where they are held. */
export function group(page, before, after) {
  const items = [];
  const shownAnswers = new Set();
  let previous = lastNode(before);
  const push = (item, entry) => items.push({ ...item, from: branchesFrom(entry, previous) });
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
      // It stands with its call.
    } else if (quiet(kind)) {
      const last = items.at(-1);
      if (last?.type === 'quiet') last.entries.push(entry);
      else push({ type: 'quiet', sequence, entries: [entry] }, entry);
    } else {
      push({ type: 'event', sequence, entry, kind }, entry);
    }
    if (!BESIDE.has(kind)) previous = event.id;
  }
  return items;
}

/** All sequences that an item shows. */
export function sequences(item) {
  if (item.type === 'calls') return item.calls.flatMap((call) => [call.entry.sequence, ...(call.answer ? [call.answer.sequence] : [])]);
  if (item.type === 'quiet') return item.entries.map((entry) => entry.sequence);
  return [item.sequence];
}

/** The id of the last event of a page that others follow. */
const lastNode = (page) => page?.entries.findLast((one) => !BESIDE.has(one.event.kind))?.event.id ?? null;

/** The earlier event that one goes back to, rather than following what came right before it. */
function branchesFrom({ event }, previous) {
  if (!event.parent_id || !previous || BESIDE.has(event.kind)) return null;
  return event.parent_id === previous ? null : event.parent_id;
}
