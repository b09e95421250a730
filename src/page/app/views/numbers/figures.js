// The figures of the view. All of them come from named reports.
import { encodedPath, get } from '../../lib/api.js';
import { dayAfter } from '../../lib/format.js';

const DAY = 86_400_000;
/** The maximum number of conversations that are requested. */
export const CONVERSATIONS_MAX = 1000;

/** Returns the rows of an answer as objects. */
export const objects = ({ columns, rows }) =>
  rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]])));

const NOTHING = { columns: [], rows: [], truncated: null };

/** Returns the sum of what is known, or null if no row knows it. */
const known = (rows, name) => rows.reduce((total, row) => (row[name] == null ? total : (total ?? 0) + row[name]), null);

const sum = (rows, name) => rows.reduce((total, row) => total + (row[name] ?? 0), 0);

/** Loads everything that the view shows. `since` and `until` are days, `conversation` is an id. */
export async function figures({ since, until, conversation }, signal) {
  const range = { since, until: until ? dayAfter(until) : undefined };
  const answer = (name, more) => get(encodedPath`/api/annals/reports/${name}`, { ...range, ...more }, signal);
  const report = async (name, more) => objects(await answer(name, more));
  const one = { conversation };
  const [days, events, models, spent, tools, slow, calls] = await Promise.all([
    report('cost-by-day', one), report('activity', one), report('cost-by-model', one),
    conversation ? NOTHING : answer('cost-by-conversation', { limit: CONVERSATIONS_MAX }),
    report('tools', one), report('slow-tools', one), report('slow-calls', { ...one, limit: 10 }),
  ]);
  const withTokens = (rows) => rows.map((row) => ({ ...row, tokens: row.prompt_tokens + row.completion_tokens }));
  return {
    days: withTokens(days), events, models: withTokens(models), tools, slow, calls,
    conversations: withTokens(objects(spent)), hasAll: !spent.truncated,
    total: {
      cost: known(models, 'cost'), estimated_cost: known(models, 'estimated_cost'),
      tokens_without_cost: sum(models, 'tokens_without_cost'), prompt: sum(models, 'prompt_tokens'), completion: sum(models, 'completion_tokens'),
      cached: sum(models, 'cache_read_tokens'), requests: sum(models, 'calls'), calls: sum(tools, 'calls'),
      errors: sum(tools, 'errors'), failed: sum(tools, 'failed'), rejected: sum(tools, 'rejected'), events: sum(events, 'events'),
    },
  };
}

/** Figures that are unknown until a row has them. */
const UNKNOWN = new Set(['cost', 'estimated_cost']);

const parse = (day) => Date.parse(`${day}T00:00:00Z`);
const written = (ms) => new Date(ms).toISOString().slice(0, 10);

const UNITS = {
  day: { start: (ms) => ms, next: (ms) => ms + DAY },
  // Weeks begin on Mondays; 5 January 1970 was one.
  week: { start: (ms) => ms - ((((ms / DAY - 4) % 7) + 7) % 7) * DAY, next: (ms) => ms + 7 * DAY },
  month: {
    start: (ms) => parse(`${written(ms).slice(0, 7)}-01`),
    next: (ms) => Date.UTC(new Date(ms).getUTCFullYear(), new Date(ms).getUTCMonth() + 1, 1),
  },
};

/** Returns the first and the last day of all rows, so that several charts have the same axis. null if no row has a day. */
export function extent(...series) {
  const days = series.flat().map((row) => row.day).filter((day) => !Number.isNaN(parse(day))).toSorted();
  return days.length ? [days[0], days.at(-1)] : null;
}

/**
 * Groups rows by day, without gaps, from the first to the last day of `range`. If there are too many days, the rows are
 * summed up to weeks or months.
 * @returns {{unit: 'day' | 'week' | 'month', spans: object[], unknown: object | null}} a span has `from` and the sums
 */
export function spans(rows, names, range = extent(rows), most = 92) {
  const known = rows.filter((row) => !Number.isNaN(parse(row.day))).toSorted((a, b) => (a.day < b.day ? -1 : 1));
  const unknown = rows.find((row) => Number.isNaN(parse(row.day))) ?? null;
  if (!known.length) return { unit: 'day', spans: [], unknown };
  const [first, last] = range.map(parse);
  const days = (last - first) / DAY + 1;
  const unit = days <= most ? 'day' : days <= most * 7 ? 'week' : 'month';
  const { start, next } = UNITS[unit];
  const found = [];
  // If a clock was wrong once, there would be thousands of months. Then only spans with rows are kept.
  if (days / 28 < 600) for (let ms = start(first); ms <= last; ms = next(ms)) found.push(ms);
  else found.push(...new Set(known.map((row) => start(parse(row.day)))));
  const spanned = new Map(found.map((ms) => [ms, { from: written(ms), ...Object.fromEntries(names.map((name) => [name, UNKNOWN.has(name) ? null : 0])) }]));
  for (const row of known) {
    const span = spanned.get(start(parse(row.day)));
    for (const name of names) if (row[name] != null) span[name] = (span[name] ?? 0) + row[name];
  }
  return { unit, spans: [...spanned.values()], unknown };
}
