// A conversation's log as the browser keeps it: the pages of events around the visible ones. Other pages are dropped.
import { signal } from '../../lib/ui.js';
import { encodedPath, get, isAbort } from '../../lib/api.js';

/** The number of events of a page. */
export const PAGE = 25;
/** The maximum number of pages that are kept. */
const HELD = 48;
/** How long the view has to stay in place after a jump before its pages are loaded. */
const STAY_MS = 110;
/** Texts of events are cut to this many characters; the rest is loaded on request. */
export const TEXTS = 20000;
const AGAIN_MS = [400, 1500, 4000];

export const pageOf = (sequence) => Math.floor(sequence / PAGE);

export class Log {
  /** `first` are the first events, if they are already known. */
  constructor(id, total, first = []) {
    this.id = id;
    this.total = signal(total);
    /** The number of changes so far: loaded pages and appended events. */
    this.version = signal(0);
    this.error = signal(null);
    this.pages = new Map();
    this.loading = new Map();
    /** Events that were received for pages that are still loading. */
    this.late = new Map();
    this.wanted = null;
    for (let from = 0; from < first.length; from += PAGE) {
      const entries = first.slice(from, from + PAGE);
      if (entries.length === PAGE || from + entries.length >= total) this.pages.set(from / PAGE, new Page(entries));
    }
  }

  end() {
    clearTimeout(this.timer);
    for (const abort of this.loading.values()) abort.abort();
    this.loading.clear();
  }

  /** Sets which pages are visible. These and their neighbours are loaded, distant ones are dropped. */
  want(first, last) {
    const from = Math.max(0, first - 1);
    const to = Math.min(Math.ceil(this.total.peek() / PAGE) - 1, last + 1);
    const isFar = this.wanted && (from > this.wanted[1] + 2 || to < this.wanted[0] - 2);
    this.wanted = [from, to];
    clearTimeout(this.timer);
    // While the user scrolls quickly through a long log, the passed pages are not loaded.
    if (isFar) this.timer = setTimeout(() => this.#loadWanted(), STAY_MS);
    else this.#loadWanted();
  }

  #loadWanted() {
    const [from, to] = this.wanted;
    for (const [page, abort] of this.loading) {
      if (page < from || page > to) {
        abort.abort();
        this.loading.delete(page);
        this.late.delete(page);
      }
    }
    for (let page = from; page <= to; page += 1) if (!this.pages.has(page) && !this.loading.has(page)) this.#load(page, 0);
    if (this.pages.size > HELD) {
      const middle = (from + to) / 2;
      const far = [...this.pages.keys()].sort((a, b) => Math.abs(b - middle) - Math.abs(a - middle));
      for (const page of far.slice(0, this.pages.size - HELD)) this.pages.delete(page);
    }
  }

  async #load(page, tries) {
    const abort = new AbortController();
    this.loading.set(page, abort);
    const query = { from: page * PAGE, to: (page + 1) * PAGE - 1, limit: PAGE, texts: TEXTS };
    try {
      const entries = [];
      let next = query.from;
      // A page of very large events may arrive in parts.
      while (next !== null && next < query.from + PAGE) {
        const answer = await get(encodedPath`/api/annals/conversations/${this.id}/events`, { ...query, from: next }, abort.signal);
        entries.push(...answer.events);
        next = answer.next;
      }
      if (this.loading.get(page) !== abort) return;
      this.loading.delete(page);
      // Events that were received meanwhile may follow those that were read.
      const last = entries.at(-1)?.sequence ?? -1;
      const received = (this.late.get(page) ?? []).filter((one) => one.sequence > last);
      this.late.delete(page);
      this.pages.set(page, new Page([...entries, ...received]));
      this.error.value = null;
      this.version.value += 1;
    } catch (error) {
      if (isAbort(error) || this.loading.get(page) !== abort) return;
      this.error.value = error;
      const wait = AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)];
      setTimeout(() => { if (this.loading.get(page) === abort) this.#load(page, tries + 1); }, wait);
    }
  }

  /** Adds a received event. If the socket skipped events, their pages are loaded again instead. */
  append(sequence, event) {
    const expected = this.total.peek();
    const page = pageOf(sequence);
    const entry = { sequence, recorded_at: null, event };
    if (sequence > expected) {
      for (let skipped = pageOf(expected); skipped <= page; skipped += 1) this.#forget(skipped);
    } else if (this.loading.has(page)) {
      this.late.set(page, [...(this.late.get(page) ?? []), entry]);
    } else if (this.pages.has(page)) {
      this.pages.set(page, this.pages.get(page).with(entry));
    } else if (sequence === expected && sequence % PAGE === 0) {
      this.pages.set(page, new Page([entry]));
    }
    this.total.value = Math.max(expected, sequence + 1);
    this.version.value += 1;
  }

  #forget(page) {
    this.pages.delete(page);
    this.late.delete(page);
    this.loading.get(page)?.abort();
    this.loading.delete(page);
  }

  entry(sequence) {
    return this.pages.get(pageOf(sequence))?.entries.find((one) => one.sequence === sequence);
  }

  /** Returns the sequence of the loaded event with an id. `null` if it is not loaded. */
  place(id) {
    for (const page of this.pages.values()) {
      const found = page.entries.find((one) => one.event.id === id);
      if (found) return found.sequence;
    }
    return null;
  }
}

const ANSWERS = new Set(['ObservationEvent', 'UserRejectObservation', 'AgentErrorEvent']);
export const isAnswer = (event) => ANSWERS.has(event.kind);

/** Some events, and the answers to their calls. */
export class Page {
  constructor(entries) {
    this.entries = entries;
    this.actions = new Set();
    this.calls = new Map();
    this.answers = new Map();
    this.verdicts = new Map();
    for (const entry of entries) {
      const { event } = entry;
      if (event?.kind === 'ActionEvent') {
        this.actions.add(event.id);
        if (event.tool_call_id) this.calls.set(event.tool_call_id, event.id);
      } else if (event && isAnswer(event)) {
        const name = event.action_id ?? `call:${event.tool_call_id}`;
        if (!this.answers.has(name)) this.answers.set(name, entry);
      } else if (event?.kind === 'SecurityAnalysisEvent') {
        for (const [action, risk] of Object.entries(event.risks ?? {})) this.verdicts.set(action, { ...event, risk });
      }
    }
  }

  with(entry) {
    if (this.entries.some((one) => one.sequence === entry.sequence)) return this;
    return new Page([...this.entries, entry]);
  }

  answerTo(action) {
    return this.answers.get(action.id) ?? this.answers.get(`call:${action.tool_call_id}`);
  }

  /** Returns whether the page has the action that an answer belongs to. */
  has(answer) {
    return answer.action_id ? this.actions.has(answer.action_id) : this.calls.has(answer.tool_call_id);
  }
}
