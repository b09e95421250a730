// The named reports: `#/reports` lists them, `#/reports/NAME?PARAMETER=VALUE` runs one.
import { html, useState, useEffect } from '../../lib/ui.js';
import { encodedPath, get } from '../../lib/api.js';
import { words } from '../../lib/format.js';
import { go, href } from '../../lib/router.js';
import { useLoad } from '../../lib/load.js';
import { runOrShowError } from '../../lib/notes.js';
import { download } from '../../lib/download.js';
import { Problem, Waiting } from '../../ui/pieces.js';
import { AnswerTable, rowCountText } from '../../ui/answer.js';

const KINDS = {
  id: 'an id', time: '7d or 2026-01-31', text: '', pattern: '*.py', number: '',
};

/** The note on an incomplete answer, by the limit that cut it. */
const CUT = {
  rows: 'There are more rows: narrow the question with a parameter. annals report --rows N prints more, with --param limit=N if the report has a limit.',
  bytes: 'Rows are missing, because the answer is too large: narrow the question with a parameter. annals report --memory MIB prints more.',
  limit: 'There are more rows: raise the parameter limit to see them.',
};

function Field({ parameter, value, onChange }) {
  const { name, value: kind, what } = parameter;
  const change = (event) => onChange(event.target.value);
  const field = kind === 'yes or no'
    ? html`<select value=${value} onChange=${change}><option value="">either</option><option>yes</option><option>no</option></select>`
    : html`<input type=${kind === 'number' ? 'number' : 'text'} min=${kind === 'number' ? 0 : undefined} value=${value} onInput=${change}
        placeholder=${parameter.default ?? KINDS[kind] ?? ''} autocomplete="off" spellcheck=${false} />`;
  return html`<label>${words(name)}${field}<small>${what}</small></label>`;
}

/** Returns a link to the report's SQL with its parameters. As on the server, lines with missing ones are left out. */
function asSql(report, given) {
  const missing = report.parameters.filter(({ name, default: usual }) => !given[name] && usual === null).map(({ name }) => name);
  const names = (line, name) => new RegExp(`:${name}(?!\\w)`).test(line);
  const sql = report.sql.split('\n').filter((line) => !missing.some((name) => names(line, name))).join('\n').trim();
  const typed = ({ name, value, default: usual }) => {
    const text = given[name] || usual;
    if (value === 'yes or no') return text === 'yes' ? '1' : '0';
    return value === 'number' ? text : `'${text.replaceAll("'", "''")}'`;
  };
  const p = report.parameters.filter(({ name }) => !missing.includes(name)).map((one) => `${one.name}=${typed(one)}`);
  return href(['sql'], { q: sql, p });
}

function Answer({ report, query }) {
  const path = encodedPath`/api/annals/reports/${report.name}`;
  const { value, error, isLoading, reload } = useLoad((signal) => get(path, query, signal), [report.name, JSON.stringify(query)]);
  const csv = () => runOrShowError(() => download(`${report.name}.csv`, 'GET', path, { query: { ...query, format: 'csv' }, accept: 'text/csv' }));
  if (error) return html`<${Problem} error=${error} reload=${error.status === 422 ? undefined : reload} />`;
  if (!value || value.report !== report.name) return html`<${Waiting} what="Asking …" />`;
  return html`
    <section class="column" aria-label="Answer" aria-busy=${isLoading}>
      <div class="row"><p role="status">${rowCountText(value)}</p><span class="grow"></span>
        <a class="small" href=${asSql(report, query)}>Open as SQL</a>
        <button class="small" onClick=${csv}>Save as CSV</button></div>
      ${value.truncated && html`<p class="cut" role="status">${CUT[value.truncated]}</p>`}
      ${value.rows.length > 0 ? html`<${AnswerTable} answer=${value} units=${value.units} label=${report.question} />`
        : !value.truncated && html`<p class="empty">Nothing fits: no row answers this question.</p>`}
    </section>`;
}

function Report({ report, query }) {
  const [draft, setDraft] = useState(query);
  useEffect(() => setDraft(query), [JSON.stringify(query)]);
  const known = Object.fromEntries(report.parameters.map(({ name }) => [name, query[name]]).filter(([, value]) => value));
  const submit = (event) => {
    event.preventDefault();
    go(['reports', report.name], draft);
  };
  const explained = report.columns.filter((column) => column.what);
  return html`
    <div class="report column">
      <p><a href=${href(['reports'])}>All reports</a></p>
      <h1>${report.question}</h1>
      ${report.note && html`<p class="soft">${report.note}</p>`}
      ${report.parameters.length > 0 && html`
        <form class="row fields" aria-label="Parameters" onSubmit=${submit}>
          ${report.parameters.map((parameter) => html`
            <${Field} key=${parameter.name} parameter=${parameter} value=${draft[parameter.name] ?? ''}
              onChange=${(value) => setDraft({ ...draft, [parameter.name]: value })} />`)}
          <div class="row"><button class="main">Ask</button></div>
        </form>`}
      <${Answer} report=${report} query=${known} />
      ${explained.length > 0 && html`<details><summary>What the columns are</summary>
        <dl>${explained.map((column) => html`<div key=${column.name}><dt><code>${column.name}</code></dt><dd class="soft">${column.what}</dd></div>`)}</dl>
      </details>`}
    </div>`;
}

function List({ reports }) {
  const page = () => runOrShowError(() => download('report.html', 'GET', '/api/annals/reports', { query: { format: 'html' }, accept: 'text/html' }));
  return html`
    <div class="column">
      <div class="row"><h1>Reports</h1><span class="grow"></span>
        <button onClick=${page} title="The most important reports in one HTML file">Save a page to share</button></div>
      <ul class="report-list">${reports.map((report) => html`
        <li key=${report.name}><a href=${href(['reports', report.name])}><strong>${report.question}</strong>
          <span class="soft small"><code>${report.name}</code>${report.note && ` · ${report.note}`}</span></a></li>`)}</ul>
    </div>`;
}

export function View({ path, query }) {
  const { value, error, reload } = useLoad((signal) => get('/api/annals/reports', {}, signal), []);
  if (error) return html`<${Problem} error=${error} reload=${reload} />`;
  if (!value) return html`<${Waiting} />`;
  if (!path.length) return html`<${List} reports=${value.reports} />`;
  const report = value.reports.find((one) => one.name === path[0]);
  if (!report) {
    return html`<div class="middle"><h1>There is no report ${path[0]}</h1><p><a href=${href(['reports'])}>See all reports</a></p></div>`;
  }
  return html`<${Report} key=${report.name} report=${report} query=${query} />`;
}
