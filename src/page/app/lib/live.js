// Follows a conversation through the cursor socket. Every event after a sequence arrives once and in order, also if the
// connection breaks and is made again.
import { key } from './key.js';
import { encodedPath, get, socketUrl } from './api.js';

const WAIT_MS = [500, 1000, 2000, 5000, 10000];
const POLL_MS = 2000;
const POLL_EVENTS = 200;
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;
/** Close codes after which reconnecting does not help: a wrong key, no such conversation. */
const FINAL = [4001, 4004];

/**
 * Calls `handlers.event(sequence, event)` for each event of the log, `handlers.state(event)` for each snapshot,
 * `handlers.piece(frame)` for each part of an unfinished reply, and `handlers.link(state)` with 'connecting', 'live',
 * 'broken' or 'polling'.
 */
export class Live {
  constructor(id, next, handlers) {
    this.id = id;
    this.next = next;
    this.handlers = handlers;
    this.tries = 0;
    this.isEnded = false;
    this.abort = new AbortController();
    // The socket accepts only UUIDs. Other ids are those of copies of logs, which are polled.
    if (UUID.test(id)) this.#connect();
    else this.#poll();
  }

  end() {
    this.isEnded = true;
    clearTimeout(this.timer);
    this.abort.abort();
    this.socket?.close();
  }

  #connect() {
    this.handlers.link('connecting');
    const socket = new WebSocket(socketUrl(encodedPath`/sockets/session/${this.id}`, { after_seq: this.next - 1 }));
    this.socket = socket;
    socket.onopen = () => {
      if (key.peek()) socket.send(JSON.stringify({ type: 'auth', session_api_key: key.peek() }));
    };
    socket.onmessage = (message) => this.#receive(JSON.parse(message.data));
    socket.onclose = (close) => {
      if (this.isEnded) return;
      this.handlers.link('broken');
      if (FINAL.includes(close.code)) return;
      // The socket cannot send an event of this size: the log is polled instead.
      if (close.reason === 'frame_too_large') {
        this.#poll();
        return;
      }
      this.timer = setTimeout(() => this.#connect(), WAIT_MS[Math.min(this.tries, WAIT_MS.length - 1)]);
      this.tries += 1;
    };
  }

  #receive(frame) {
    if (frame.type === 'sync') {
      this.tries = 0;
      this.handlers.link('live');
    } else if (frame.type === 'durable') {
      // An event below `next` was already received before a break. Events that the socket cannot show are skipped.
      if (frame.seq < this.next) return;
      this.next = frame.seq + 1;
      this.handlers.event(frame.seq, frame.event);
    } else if (frame.type === 'transient') {
      this.handlers.state(frame.event);
    } else {
      this.handlers.piece(frame);
    }
  }

  async #poll() {
    this.handlers.link('polling');
    try {
      const page = await get(encodedPath`/api/annals/conversations/${this.id}/events`, { from: this.next, limit: POLL_EVENTS, texts: 20000 }, this.abort.signal);
      for (const one of page.events) {
        if (this.isEnded) return;
        this.next = one.sequence + 1;
        this.handlers.event(one.sequence, one.event);
      }
    } catch { /* the next poll tries again */ }
    if (!this.isEnded) this.timer = setTimeout(() => this.#poll(), POLL_MS);
  }
}
