// The view of one conversation. It loads the conversation and then shows it.
import { html, useEffect, useState } from '../../lib/ui.js';
import { go } from '../../lib/router.js';
import { useLoad } from '../../lib/load.js';
import { encodedPath, get, remove } from '../../lib/api.js';
import { runOrShowError, showNote } from '../../lib/notes.js';
import { Problem, Waiting } from '../../ui/pieces.js';
import { PAGE, TEXTS } from './log.js';
import { Conversation } from './conversation.js';

/** Loads the conversation and, at the same time, its first events if the view begins with them. */
async function load(id, query, signal) {
  const isBeginning = !query.event && !query.at && !query.tab;
  const first = { from: 0, to: PAGE * 2 - 1, limit: PAGE * 2, texts: TEXTS };
  const [head, page] = await Promise.all([
    get(encodedPath`/api/annals/conversations/${id}`, {}, signal),
    isBeginning ? get(encodedPath`/api/annals/conversations/${id}/events`, first, signal) : null,
  ]);
  // A page of very large events may arrive in parts. Then the log loads its events itself.
  const isWhole = page && (page.next === null || page.events.length === PAGE * 2);
  return { head, events: isWhole ? page.events : [] };
}

/** Deletes the conversation. Its view ended before, because an open view would ask for what is gone. */
function Deleting({ id, ended }) {
  useEffect(() => {
    runOrShowError(async () => {
      await remove(encodedPath`/api/conversations/${id}`);
      showNote('The conversation is deleted.', { advice: 'A receipt stays in the administrative log.' });
    }).then(ended);
  }, []);
  return html`<${Waiting} what="Deleting …" />`;
}

export function View({ path, query }) {
  const [id] = path;
  const [isDeleting, setDeleting] = useState(false);
  const { value, error, reload } = useLoad((signal) => load(id ?? '', query, signal), [id]);
  useEffect(() => setDeleting(false), [id]);
  const ended = (isDone) => {
    if (isDone) go(['conversations']);
    else {
      reload();
      setDeleting(false);
    }
  };
  if (isDeleting) return html`<${Deleting} id=${value.head.id} ended=${ended} />`;
  if (error && !value) return html`<div class="middle"><h1>The conversation cannot be shown</h1><${Problem} error=${error} reload=${reload} /></div>`;
  if (!value || !value.head.id.startsWith(id)) return html`<${Waiting} />`;
  return html`<${Conversation} key=${value.head.id} head=${value.head} events=${value.events} query=${query} remove=${() => setDeleting(true)} />`;
}
