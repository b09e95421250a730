// Numbers, times and sizes as people read them.
const whole = new Intl.NumberFormat('en-GB');
const fine = new Intl.NumberFormat('en-GB', { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const money = new Intl.NumberFormat('en-GB', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat('en-GB', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (n) => (n == null ? '–' : whole.format(n));

/** 1.2M. The letters are those of units: M is a million, never m. */
export const short = (n) => (n == null ? '–' : n < 10000 ? whole.format(n) : compact.format(n).replace('m', 'M').replace('bn', 'G').replace('tn', 'T'));

/** Returns the tokens of a conversation. Without any, and without a cost, the log does not say them. */
export const tokens = (one) => {
  const sum = one.prompt_tokens + one.completion_tokens;
  return sum === 0 && one.cost == null && one.estimated_cost == null ? 'unknown' : short(sum);
};

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** Formats an amount in US dollars, the currency of the price table. Small amounts have more digits. */
export function cost(n) {
  if (n == null) return 'unknown';
  if (n === 0) return '$0';
  if (n < 0.01) return `$${n.toPrecision(2)}`;
  return `$${(n < 10 ? fine : money).format(n)}`;
}

/**
 * Formats what is known of a cost: `$1.23`, `≈ $0.10 (estimate)`, both, or `unknown`. A known cost and an estimate are
 * never added.
 */
export function bill({ cost: known, estimated_cost: estimated, tokens_without_cost: rest }) {
  const parts = [known == null ? null : cost(known), estimated == null ? null : `≈ ${cost(estimated)} (estimate)`].filter(Boolean);
  if (!parts.length) return 'unknown';
  return parts.join(' + ') + (rest > 0 ? ' + unknown' : '');
}

/** Explains a cost. */
export const billTitle = ({ cost: known, estimated_cost: estimated, tokens_without_cost: rest }) => [
  known == null ? 'The log does not say a cost' : 'The cost is what the log says',
  estimated == null ? null : 'the estimate is from the built-in price table, for calls whose cost the log does not say',
  rest > 0 ? `${count(rest)} tokens have no known cost` : null,
].filter(Boolean).join('; ');

export function bytes(n) {
  if (n == null) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return `${unit && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

/** 340 ms · 4.2 s · 3 min 10 s · 2 h 5 min */
export function duration(ms) {
  if (ms == null || Number.isNaN(ms)) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min ${Math.round(s % 60)} s`;
  const h = Math.floor(min / 60);
  return h < 48 ? `${h} h ${min % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

/** Returns the milliseconds since 1970. A time without a zone, such as those of events, is local time. */
export const millis = (text) => (text ? Date.parse(String(text).replace(/(\.\d{3})\d+/, '$1')) : NaN);

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const full = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const date = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });

const shown = (format, text) => {
  const ms = millis(text);
  return Number.isNaN(ms) ? String(text ?? '–') : format.format(ms);
};

export const time = (text) => shown(clock, text);
export const moment = (text) => shown(full, text);

/** How long ago: `12 s ago`, `3 h ago`, `5 May`, `5 May 2024`. */
export function ago(text, now = Date.now()) {
  const ms = millis(text);
  if (Number.isNaN(ms)) return String(text ?? '–');
  const s = (now - ms) / 1000;
  if (s < -60) return full.format(ms);
  if (s < 5) return 'now';
  if (s < 60) return `${Math.round(s)} s ago`;
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  if (s < 86400) return `${Math.round(s / 3600)} h ago`;
  if (s < 86400 * 7) return `${Math.round(s / 86400)} d ago`;
  return new Date(ms).getFullYear() === new Date(now).getFullYear() ? day.format(ms) : date.format(ms);
}

const BRIEF = 12;

/** Returns a short form of an id: its beginning if it is random from there on, otherwise its beginning and its end. */
export function brief(id) {
  const text = String(id ?? '');
  if (/^[0-9a-f]{8}-?[0-9a-f]{4}/i.test(text)) return text.slice(0, 8);
  return text.length <= BRIEF ? text : `${text.slice(0, 5)}…${text.slice(-6)}`;
}

/** Returns the words of a status or kind: waiting_for_confirmation -> waiting for confirmation. */
export const words = (text) => String(text ?? '').replaceAll('_', ' ');

/** Returns the next day. Questions end before their `until`, but the `until` of a form is included. */
export const dayAfter = (day) => new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);
