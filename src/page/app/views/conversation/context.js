// The state and the actions that the cards of a conversation share.
import { signal } from '../../lib/ui.js';
import { go, setQuery } from '../../lib/router.js';
import { may } from '../../lib/access.js';
import { encodedPath, get, isAbort, post } from '../../lib/api.js';
import { showError, showNote } from '../../lib/notes.js';
import { Log } from './log.js';

/** Returns the number in a parameter. `null` if it is not a number. */
export const numbered = (text) => (/^\d+$/.test(text ?? '') ? Number(text) : null);

export class Context {
  constructor(head, events) {
    this.id = head.id;
    this.copyOf = head.copy_of;
    this.head = signal(head);
    this.log = new Log(head.id, head.event_count, events);
    /** The selected sequence, and the sequence at which the state is shown (null for the end). */
    this.selected = signal(null);
    this.at = signal(null);
    /** Sequences of the live branch, as ranges. null until they are known, and if every event is live. */
    this.live = signal(null);
    this.raw = signal(null);
    this.control = { current: null };
    this.abort = new AbortController();
  }

  /** Whether the conversation may be changed here: it can be run, and the key allows it. */
  mayWrite() {
    return !this.copyOf && !this.head.value.cannot_run && may('write');
  }

  isLive(sequence) {
    const ranges = this.live.value;
    if (!ranges) return true;
    const last = ranges.at(-1)?.[1] ?? -1;
    // Events that arrived after the request for the ranges continue from HEAD.
    return sequence > this.liveUntil || ranges.some(([from, to]) => sequence >= from && sequence <= to) || last < 0;
  }

  /** Loads the branches and updates which events are live. Returns null if this fails. */
  async lookForBranches() {
    try {
      const until = this.log.total.peek() - 1;
      const found = await get(encodedPath`/api/annals/conversations/${this.id}/branches`, {}, this.abort.signal);
      this.liveUntil = until;
      const [first] = found.live ?? [];
      const isAll = found.live?.length === 1 && first[0] === 0 && first[1] >= until;
      this.live.value = isAll ? null : found.live;
      return found;
    } catch (error) {
      if (!isAbort(error)) showError(error);
      return null;
    }
  }

  /** Ends all requests, because the conversation is no longer shown. */
  end() {
    this.abort.abort();
    this.log.end();
  }

  async refresh() {
    try {
      this.head.value = await get(encodedPath`/api/annals/conversations/${this.id}`, {}, this.abort.signal);
    } catch { /* the next event refreshes it again */ }
  }

  select(sequence) {
    this.selected.value = sequence;
    setQuery({ event: sequence, find: '' });
  }

  goTo(sequence) {
    this.selected.value = sequence;
    setQuery({ event: sequence, tab: '', find: '' });
    this.control.current?.goTo(sequence);
  }

  /** Goes to an event by its id, wherever it is in the log. */
  async goToEvent(id) {
    try {
      const place = this.log.place(id) ?? await this.sequenceOf(id);
      if (place === null) showNote('This event is not in the log.', { isError: true, advice: 'It may stand for a summary.' });
      else this.goTo(place);
    } catch (error) {
      showError(error);
    }
  }

  async sequenceOf(id) {
    const sql = 'SELECT sequence FROM events WHERE conversation_id = :conversation AND event_id = :event';
    const found = await post('/api/annals/query', { sql, parameters: { conversation: this.id, event: id.replace(/-summary$/, '') } });
    return found.rows[0]?.[0] ?? null;
  }

  setAt(sequence) {
    const last = this.log.total.peek() - 1;
    this.at.value = sequence === null || sequence >= last ? null : Math.max(0, sequence);
    setQuery({ at: this.at.value });
  }

  openRaw(sequence) { this.raw.value = sequence; }

  /** Opens the messages that the model received for an event's reply: those before the reply's first event. */
  async openMessages(sequence) {
    const first = await this.#beginning(sequence);
    setQuery({ tab: 'messages', reply: first }, { replace: false });
  }

  async #beginning(sequence) {
    const event = this.log.entry(sequence)?.event;
    if (!event?.llm_response_id) return sequence;
    let first = sequence;
    while (this.log.entry(first - 1)?.event.llm_response_id === event.llm_response_id) first -= 1;
    return first;
  }

  compare(sequence) {
    go(['compare'], { left: `${this.id}@${sequence}`, right: this.id });
  }

  async fork(event) {
    try {
      const made = await post(encodedPath`/api/conversations/${this.id}/fork`, { from_event_id: event, reset_metrics: false });
      showNote('The fork is made.', { advice: 'It begins with all events up to that point.' });
      go(['c', made.id]);
    } catch (error) {
      showError(error);
    }
  }

  async navigate(event) {
    try {
      await post(encodedPath`/api/conversations/${this.id}/navigate`, { event_id: event });
      await Promise.all([this.lookForBranches(), this.refresh()]);
      showNote('HEAD is moved.', { advice: 'New events continue from there. No event is lost.' });
    } catch (error) {
      showError(error);
    }
  }
}

/** Copies the parameters of the address into the context. */
export function follow(context, query) {
  context.at.value = numbered(query.at);
  const event = numbered(query.event);
  if (event === null && query.event) {
    // An address may name an event by its id.
    context.goToEvent(query.event);
  } else if (event !== null && event !== context.selected.peek()) {
    context.selected.value = event;
    context.control.current?.goTo(event);
  }
}
