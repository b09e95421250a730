// The list's pages: loaded from the first one to where the user has scrolled. The first page is reloaded regularly.
import { signal } from '../../lib/ui.js';
import { get, isAbort } from '../../lib/api.js';

const PAGE = 100;
const AGAIN_MS = 3000;

/** The conversations that match `query`. `rows` and `total` are signals. */
export class Paging {
  constructor(query) {
    this.query = query;
    this.rows = signal([]);
    this.total = signal(null);
    this.error = signal(null);
    this.next = null;
    this.wanted = PAGE;
    this.abort = new AbortController();
    this.isLoading = false;
    this.timer = setInterval(() => this.#refresh(), AGAIN_MS);
    this.load();
  }

  end() {
    clearInterval(this.timer);
    this.abort.abort();
  }

  /** Sets the end of the visible rows, and loads rows up to there. */
  want(end) {
    this.wanted = Math.max(this.wanted, end + PAGE / 2);
    this.load();
  }

  async load() {
    if (this.isLoading || this.abort.signal.aborted) return;
    this.isLoading = true;
    try {
      while (this.total.peek() === null || (this.next && this.rows.peek().length < this.wanted)) {
        const page = await this.#ask(this.next);
        if (page.total !== null) this.total.value = page.total;
        this.rows.value = [...this.rows.peek(), ...page.conversations];
        this.next = page.next;
        if (!this.next) this.total.value = this.rows.peek().length;
      }
      this.error.value = null;
    } catch (error) {
      if (!isAbort(error)) this.error.value = error;
    } finally {
      this.isLoading = false;
    }
  }

  #ask(after) {
    // After a jump far ahead the pages are larger.
    const limit = after && this.wanted - this.rows.peek().length > PAGE * 2 ? PAGE * 2 : PAGE;
    return get('/api/annals/conversations', { ...this.query, limit, after }, this.abort.signal);
  }

  /** Loads the first page again: active conversations have moved to it. Those further down keep their places. */
  async #refresh() {
    if (document.hidden || this.isLoading || this.total.peek() === null || this.error.peek()) return;
    this.isLoading = true;
    try {
      const page = await this.#ask(null);
      const fresh = new Set(page.conversations.map((one) => one.id));
      const rest = page.next ? this.rows.peek().filter((one, place) => !fresh.has(one.id) && place >= fresh.size) : [];
      const moved = page.next ? this.rows.peek().slice(0, fresh.size).filter((one) => !fresh.has(one.id)) : [];
      this.rows.value = [...page.conversations, ...moved, ...rest];
      this.total.value = Math.max(page.total, this.next ? 0 : this.rows.peek().length);
      if (this.rows.peek().length <= page.conversations.length) this.next = page.next;
    } catch { /* the next refresh tries again */ } finally {
      this.isLoading = false;
    }
  }
}
