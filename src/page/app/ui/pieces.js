// Small components that many views use.
import { html, cx, useEffect, useState } from '../lib/ui.js';
import { words, ago, moment } from '../lib/format.js';
import { Icon } from './icon.js';

/** A placeholder for content that is still loading. It is empty for a moment, so that nothing flickers. */
export function Waiting({ what = 'Loading …' }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return html`<p class="waiting" role="status">${isShown ? what : ''}</p>`;
}

/** Statuses that another try does not change. */
const FINAL = new Set([400, 403, 404, 405, 410, 422, 501]);

/** Shows an error and advice, and a button to try again if that can help. */
export const Problem = ({ error, reload }) => html`
  <div class="problem" role="alert">
    <p><${Icon} name="warn" /> <strong>${error.message}</strong></p>
    ${error.advice && html`<p>${error.advice}</p>`}
    ${error.status === 404 && html`<p><a href="#/conversations">Go to the conversations</a></p>`}
    ${reload && !FINAL.has(error.status) && html`<button onClick=${reload}>Try again</button>`}
  </div>`;

/** A status, as a coloured word. With `since`, it is only the last one that is known, and as old as that. */
export const Status = ({ status, since }) => (since
  ? html`<span class="status" title=${`It was imported, and nothing runs it here. Its last event is of ${moment(since)}`}><i aria-hidden="true"></i>was ${words(status)}, ${ago(since)}</span>`
  : html`<span class=${cx('status', `status-${status}`)}><i aria-hidden="true"></i>${words(status)}</span>`);

/** A sentence of the server, whose commands stand between backquotes. */
export const WithCode = ({ text }) => text.split('`').map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));

/** A relative time such as `3 h ago`. Its tooltip shows the exact time. */
export const Ago = ({ time }) => html`<time datetime=${time} title=${moment(time)}>${ago(time)}</time>`;

export const Tag = ({ name, value, onClick }) => {
  const text = value ? `${name}: ${value}` : name;
  return onClick
    ? html`<button class="tag" onClick=${onClick} title=${`Only with ${text}`}>${text}</button>`
    : html`<span class="tag">${text}</span>`;
};

/** A label and its value, one of a row of figures. */
export const Figure = ({ label, title, children }) => html`
  <div class="figure" title=${title}><dt>${label}</dt><dd>${children}</dd></div>`;

/** A button that copies a text and confirms it. */
export function Copy({ text, label = 'Copy' }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'function' ? text() : text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch { /* the browser does not allow it: the user can select the text by hand */ }
  };
  return html`<button class="small plain" onClick=${copy}>${isDone ? 'Copied' : label}</button>`;
}
