// One guarded SELECT over the documented views: `#/sql?q=STATEMENT&p=NAME=VALUE`. The answer is that of the address.
import { html, useState, useRef, useEffect } from '../../lib/ui.js';
import { get, post } from '../../lib/api.js';
import { duration } from '../../lib/format.js';
import { all, go } from '../../lib/router.js';
import { useLoad } from '../../lib/load.js';
import { runOrShowError } from '../../lib/notes.js';
import { download } from '../../lib/download.js';
import { useShortcuts } from '../../lib/keys.js';
import { Problem, Waiting } from '../../ui/pieces.js';
import { AnswerTable, rowCountText } from '../../ui/answer.js';
import { Schema } from './schema.js';
import { fromAddress, parametersOf, toAddress, valueOf } from './statement.js';

/** The maximum size of an answer in the page. The server's own limit of rows is the same. */
const LIMITS = { rows: 10_000, bytes: 16 << 20 };

const EXAMPLES = [
  ['Failed commands', "SELECT conversation_id, sequence, command, exit_code, duration_ms\nFROM tool_calls\nWHERE tool = 'terminal' AND exit_code > 0\nORDER BY started_at DESC"],
  ['What each model took', 'SELECT model, count(DISTINCT conversation_id) AS conversations, sum(prompt_tokens) AS tokens_in,\n       sum(completion_tokens) AS tokens_out, round(sum(cost), 4) AS cost\nFROM usage\nGROUP BY model\nORDER BY cost DESC'],
  ['Who touched a file', 'SELECT conversation_id, sequence, tool, command, outcome\nFROM tool_calls\nWHERE path LIKE :path\nORDER BY started_at', ['path=%.py']],
  ['Conversations by status', 'SELECT status, count(*) AS conversations, sum(event_count) AS events\nFROM conversations\nGROUP BY status\nORDER BY conversations DESC'],
];

async function runQuery(query, signal) {
  if (!query.sql) return null;
  const began = performance.now();
  const answer = await post('/api/annals/query', { ...query, limits: LIMITS }, signal);
  return { ...answer, took: performance.now() - began };
}

const CUT = {
  rows: 'The answer was cut at its rows: narrow it with WHERE or LIMIT. annals query --rows N gives more.',
  bytes: 'The answer was cut at its size: name fewer columns, or cut long ones with substr(). annals query --memory MIB gives more.',
};

function Result({ asking, query }) {
  const { value, error, isLoading, reload } = asking;
  if (error) return html`<${Problem} error=${error} reload=${error.status === 422 ? undefined : reload} />`;
  if (!value) return isLoading && query.sql ? html`<${Waiting} what="Asking …" />` : null;
  const csv = () => runOrShowError(() => download('answer.csv', 'POST', '/api/annals/query', { query: { format: 'csv' }, body: query, accept: 'text/csv' }));
  return html`
    <section class="column" aria-label="Answer" aria-busy=${isLoading}>
      <div class="row">
        <p role="status">${rowCountText(value)} in ${duration(value.took)}${isLoading && ' … asking again'}</p>
        <span class="grow"></span>
        <button class="small" onClick=${csv} title="Runs the statement again. A spreadsheet may take texts that begin with = for formulas.">Save as CSV</button>
      </div>
      ${value.truncated && html`<p class="cut" role="status">${CUT[value.truncated]}</p>`}
      ${value.rows.length > 0 ? html`<${AnswerTable} answer=${value} label="Answer" />`
        : html`<p class="empty">${!value.truncated && 'No row fits. '}The columns are ${value.columns.join(', ')}.</p>`}
    </section>`;
}

function Editor({ draft, setDraft, values, setValues, run, field }) {
  const names = parametersOf(draft);
  const onKeyDown = (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  };
  const submit = (event) => {
    event.preventDefault();
    run();
  };
  return html`
    <form class="editor column" onSubmit=${submit} onKeyDown=${onKeyDown}>
      <label>Statement
        <textarea ref=${field} class="mono" rows=${Math.min(20, Math.max(6, draft.split('\n').length + 1))} spellcheck=${false}
          autocomplete="off" autocapitalize="off" value=${draft} onInput=${(event) => setDraft(event.target.value)}
          placeholder="SELECT … FROM …" aria-describedby="sql-what"></textarea></label>
      ${names.length > 0 && html`<div class="row parameters">${names.map((name) => html`
        <label key=${name}>:${name}
          <input class="mono" value=${values[name] ?? ''} placeholder="NULL" autocomplete="off" spellcheck=${false}
            onInput=${(event) => setValues({ ...values, [name]: event.target.value })} /></label>`)}</div>`}
      <div class="row"><button class="main" disabled=${!draft.trim()}>Run</button>
        <p id="sql-what" class="soft small grow"><kbd>Ctrl</kbd> <kbd>Enter</kbd> runs it. One SELECT that can read the views and
          nothing else, and change nothing; numbers are bound as numbers, <code>'5'</code> as the text 5.</p></div>
    </form>`;
}

export function View({ query }) {
  const parameters = fromAddress(all(query.p));
  const wanted = { sql: query.q ?? '', parameters: Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, valueOf(value ?? '')])) };
  const identity = JSON.stringify(wanted);
  const [draft, setDraft] = useState(wanted.sql);
  const [values, setValues] = useState(parameters);
  const field = useRef(null);
  const views = useLoad((signal) => get('/api/annals/query', {}, signal), []);
  const asking = useLoad((signal) => runQuery(wanted, signal), [identity]);
  // The back button restores the earlier statement.
  useEffect(() => {
    setDraft(wanted.sql);
    setValues(parameters);
  }, [identity]);
  useShortcuts([{ keys: 'e', what: 'Edit the statement', run: () => field.current.focus() }]);
  const ask = (sql, given) => {
    const before = location.hash;
    go(['sql'], { q: sql, p: toAddress(given, parametersOf(sql)) });
    if (location.hash === before) asking.reload();
  };
  const insert = (name) => {
    const { selectionStart: from, selectionEnd: to } = field.current;
    const gap = from > 0 && !/[\s(,.]$/.test(draft.slice(0, from)) ? ' ' : '';
    setDraft(`${draft.slice(0, from)}${gap}${name}${draft.slice(to)}`);
    field.current.focus();
    requestAnimationFrame(() => field.current?.setSelectionRange(from + gap.length + name.length, from + gap.length + name.length));
  };
  return html`
    <div class="sql">
      <div class="column">
        <h1>SQL</h1>
        <${Editor} draft=${draft} setDraft=${setDraft} values=${values} setValues=${setValues} field=${field} run=${() => ask(draft, values)} />
        ${!wanted.sql && html`<p class="row examples"><span class="soft">For example:</span>
          ${EXAMPLES.map(([label, sql, given = []]) => html`<button key=${label} class="small" onClick=${() => ask(sql, fromAddress(given))}>${label}</button>`)}</p>`}
        <${Result} asking=${asking} query=${wanted} />
      </div>
      <${Schema} views=${views.value?.views} error=${views.error} reload=${views.reload} insert=${insert} />
    </div>`;
}
