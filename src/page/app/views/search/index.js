// Full-text search over all transcripts. Each hit has its words marked and links to its event.
import { html, useEffect, useRef, useState } from '../../lib/ui.js';
import { go, href, setQuery } from '../../lib/router.js';
import { get, isAbort, post } from '../../lib/api.js';
import { useDebounced, useLoad } from '../../lib/load.js';
import { useShortcuts } from '../../lib/keys.js';
import { brief, count, dayAfter } from '../../lib/format.js';
import { Ago, Problem, Waiting } from '../../ui/pieces.js';
import { Icon } from '../../ui/icon.js';
import { plain, shown } from '../../ui/text.js';
import { marked } from './marked.js';

const LIMIT = 40;
const KINDS = [['', 'Everything'], ['MessageEvent', 'Messages'], ['ActionEvent', 'Calls'], ['ObservationEvent', 'Results'], ['AgentErrorEvent', 'Errors']];

/** Loads the hits of a query page by page. */
function useHits(question) {
  const [state, setState] = useState({ hits: [], next: null, error: null, isLoading: false });
  const round = useRef(null);
  const load = async (before) => {
    round.current?.abort();
    const abort = new AbortController();
    round.current = abort;
    setState((old) => ({ ...old, isLoading: true, error: null }));
    try {
      const page = await get('/api/annals/search', { ...question, limit: LIMIT, before }, abort.signal);
      setState((old) => ({ hits: before ? [...old.hits, ...page.hits] : page.hits, next: page.next, error: null, isLoading: false }));
    } catch (error) {
      if (!isAbort(error)) setState({ hits: [], next: null, error, isLoading: false });
    }
  };
  useEffect(() => {
    if (question.q) load();
    else setState({ hits: [], next: null, error: null, isLoading: false });
    return () => round.current?.abort();
  }, [JSON.stringify(question)]);
  return { ...state, more: () => load(state.next) };
}

const TITLES = 'SELECT conversation_id, title FROM conversations WHERE conversation_id IN (SELECT value FROM json_each(:ids))';

/** Returns the titles of the hits' conversations, by id. */
function useTitles(hits) {
  const ids = JSON.stringify([...new Set(hits.map((hit) => hit.conversation))]);
  const { value } = useLoad(async (signal) => {
    const { rows } = await post('/api/annals/query', { sql: TITLES, parameters: { ids } }, signal);
    return new Map(rows);
  }, [ids]);
  return value ?? new Map();
}

/** Returns the hits of each conversation, in the order of the conversations' first hits. */
function grouped(hits) {
  const groups = new Map();
  for (const hit of hits) groups.set(hit.conversation, [...(groups.get(hit.conversation) ?? []), hit]);
  return [...groups.values()];
}

function Hit({ hit, isSelected, q }) {
  return html`
    <li class=${`hit ${isSelected ? 'selected' : ''}`} aria-current=${isSelected ? 'true' : undefined}>
      <a href=${href(['c', hit.conversation], { event: hit.sequence, find: q })}>
        <span class="row soft">#${count(hit.sequence)} · ${hit.kind.replace(/Event$/, '')}
          ${hit.timestamp && html` · <${Ago} time=${hit.timestamp} />`}</span>
        <span class="snippet" dir="auto">${marked(hit.snippet, hit.marks).map((part) => (part.isMark ? html`<mark>${shown(part.text)}</mark>` : shown(part.text)))}</span>
      </a></li>`;
}

export function View({ query }) {
  const [text, setText] = useState(query.q ?? '');
  const [selected, setSelected] = useState(-1);
  const field = useRef(null);
  const calm = useDebounced(text, 250);
  useEffect(() => { if (calm !== (query.q ?? '')) setQuery({ q: calm }); }, [calm]);
  useEffect(() => { setText(query.q ?? ''); }, [query.q]);
  useEffect(() => { if (!query.q) field.current?.focus(); }, []);
  const found = useHits({
    q: query.q, kind: query.kind, conversation: query.conversation, since: query.since, until: query.until ? dayAfter(query.until) : undefined,
  });
  const { next, error, isLoading, more } = found;
  const groups = grouped(found.hits);
  // The keys go through the hits as they are shown.
  const hits = groups.flat();
  const titles = useTitles(hits);
  useEffect(() => setSelected(-1), [query.q, query.kind, query.since, query.until]);
  const move = (by) => setSelected((old) => Math.max(0, Math.min(hits.length - 1, old + by)));
  useEffect(() => { document.querySelector('.hit.selected')?.scrollIntoView({ block: 'nearest' }); }, [selected]);
  useShortcuts([
    { keys: 'j', what: 'The next hit', run: () => move(1) },
    { keys: 'k', what: 'The previous hit', run: () => move(-1) },
    { keys: 'Enter', what: 'Go to its event', run: () => hits[selected] && go(['c', hits[selected].conversation], { event: hits[selected].sequence, find: query.q }) },
    { keys: '/', what: 'The search field', run: () => field.current?.focus() },
  ], [hits, selected]);
  return html`
    <h1>Search</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <div class="find"><${Icon} name="search" />
        <input ref=${field} type="search" value=${text} onInput=${(event) => setText(event.currentTarget.value)} spellcheck=${false}
          placeholder='Words, "a phrase", -without, begin*' aria-label="Search all transcripts" /></div>
      <select class="small" aria-label="Where" value=${query.kind ?? ''} onChange=${(event) => setQuery({ kind: event.currentTarget.value })}>
        ${KINDS.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select>
      <label class="inline">From <input type="date" value=${query.since ?? ''} onChange=${(event) => setQuery({ since: event.currentTarget.value })} /></label>
      <label class="inline">to <input type="date" value=${query.until ?? ''} onChange=${(event) => setQuery({ until: event.currentTarget.value })} /></label>
      ${query.conversation && html`<button type="button" class="small" aria-pressed="true" onClick=${() => setQuery({ conversation: '' })}>in ${brief(query.conversation)} <${Icon} name="close" /></button>`}
    </form>
    ${error && html`<${Problem} error=${error} />`}
    ${query.q && !isLoading && !error && hits.length === 0 && html`<p class="empty">No event contains this.</p>`}
    ${!query.q && html`<p class="empty">Finds messages, calls, output and changes in ${query.conversation ? 'this conversation' : 'all conversations'}.</p>`}
    <div class="found">${groups.map((group) => {
      const { conversation } = group[0];
      const name = plain(titles.get(conversation)) || brief(conversation);
      return html`
        <section key=${conversation} aria-label=${name}>
          <h2><a href=${href(['c', conversation])}>${name}</a> <code>${brief(conversation)}</code>
            ${!query.conversation && html`<button type="button" class="small plain" onClick=${() => setQuery({ conversation })} aria-label=${`Only in ${name}`}>only here</button>`}</h2>
          <ol class="hits" aria-label="Hits">${group.map((hit) => html`
            <${Hit} key=${hit.position} hit=${hit} isSelected=${hit === hits[selected]} q=${query.q} />`)}</ol>
        </section>`;
    })}</div>
    ${isLoading && html`<${Waiting} what="Searching …" />`}
    ${next !== null && !isLoading && html`<button onClick=${more}>More hits</button>`}`;
}
