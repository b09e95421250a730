// Small pieces that many views are made of.
import { html, cx, useEffect, useState } from '../lib/ui.js';
import { words, ago, moment } from '../lib/format.js';
import { Icon } from './icon.js';

/** What stands in the place of something that is on its way; it keeps quiet for a moment, so that nothing flickers. */
export function Waiting({ what = 'Loading …' }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return html`<p class="waiting" role="status">${isShown ? what : ''}</p>`;
}

/** What went wrong, what to do, and a way to try again. */
export const Problem = ({ error, again }) => html`
  <div class="problem" role="alert">
    <p><${Icon} name="warn" /> <strong>${error.message}</strong></p>
    ${error.advice && html`<p>${error.advice}</p>`}
    ${again && html`<button onClick=${again}>Try again</button>`}
  </div>`;

/** How a conversation goes, as a coloured word. */
export const Status = ({ status }) => html`
  <span class=${cx('status', `status-${status}`)}><i aria-hidden="true"></i>${words(status)}</span>`;

/** A time as people say it; the exact one is told when one points at it. */
export const Ago = ({ time }) => html`<time datetime=${time} title=${moment(time)}>${ago(time)}</time>`;

export const Tag = ({ name, value, onClick }) => {
  const text = value ? `${name}: ${value}` : name;
  return onClick
    ? html`<button class="tag" onClick=${onClick} title=${`Only with ${text}`}>${text}</button>`
    : html`<span class="tag">${text}</span>`;
};

/** A word and its value, as one of a row of figures. */
export const Figure = ({ label, title, children }) => html`
  <div class="figure" title=${title}><dt>${label}</dt><dd>${children}</dd></div>`;

/** A button that copies a text and says so. */
export function Copy({ text, label = 'Copy' }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'function' ? text() : text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch { /* the browser does not let it: the text can be marked by hand */ }
  };
  return html`<button class="small plain" onClick=${copy}>${isDone ? 'Copied' : label}</button>`;
}
