// Follows a conversation through the cursor socket: every event behind a sequence, once and in order, also across breaks.
import { key } from './key.js';
import { at, get, socketUrl } from './api.js';

const WAIT_MS = [500, 1000, 2000, 5000, 10000];
const POLL_MS = 2000;
const POLL_EVENTS = 200;
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;
/** Close codes that coming back does not help against: a wrong key, no such conversation. */
const FINAL = [4001, 4004];

/**
 * `heard.event(sequence, event)` for each event of the log; `heard.state(event)` for snapshots; `heard.piece(frame)` for
 * replies on their way; `heard.link(state)` with 'connecting', 'live', 'broken' or 'polling'.
 */
export class Live {
  constructor(id, next, heard) {
    this.id = id;
    this.next = next;
    this.heard = heard;
    this.tries = 0;
    this.isEnded = false;
    // The socket knows UUIDs only; other ids are copies of logs, and looked at now and then.
    if (UUID.test(id)) this.#connect();
    else this.#poll();
  }

  end() {
    this.isEnded = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  #connect() {
    this.heard.link('connecting');
    const socket = new WebSocket(socketUrl(at`/sockets/session/${this.id}`, { after_seq: this.next - 1 }));
    this.socket = socket;
    socket.onopen = () => {
      if (key.peek()) socket.send(JSON.stringify({ type: 'auth', session_api_key: key.peek() }));
    };
    socket.onmessage = (message) => this.#hear(JSON.parse(message.data));
    socket.onclose = (close) => {
      if (this.isEnded) return;
      this.heard.link('broken');
      if (FINAL.includes(close.code)) return;
      // A socket that takes nothing of this size is of no use here: the log is read instead.
      if (close.reason === 'frame_too_large') {
        this.#poll();
        return;
      }
      this.timer = setTimeout(() => this.#connect(), WAIT_MS[Math.min(this.tries, WAIT_MS.length - 1)]);
      this.tries += 1;
    };
  }

  #hear(frame) {
    if (frame.type === 'sync') {
      this.tries = 0;
      this.heard.link('live');
    } else if (frame.type === 'durable') {
      // What the socket cannot show it passes over; what came already comes from the time before a break.
      if (frame.seq < this.next) return;
      this.next = frame.seq + 1;
      this.heard.event(frame.seq, frame.event);
    } else if (frame.type === 'transient') {
      this.heard.state(frame.event);
    } else {
      this.heard.piece(frame);
    }
  }

  async #poll() {
    this.heard.link('polling');
    try {
      const page = await get(at`/api/annals/conversations/${this.id}/events`, { from: this.next, limit: POLL_EVENTS, texts: 20000 });
      for (const one of page.events) {
        if (this.isEnded) return;
        this.next = one.sequence + 1;
        this.heard.event(one.sequence, one.event);
      }
    } catch { /* the next time says more */ }
    if (!this.isEnded) this.timer = setTimeout(() => this.#poll(), POLL_MS);
  }
}
