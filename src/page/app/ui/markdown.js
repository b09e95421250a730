// Shows Markdown as elements, made from the lexer's tokens. HTML in the text stays text. Pictures are named and not
// fetched. Links lead only to web and mail addresses.
import { html } from '../lib/ui.js';
import { lexer } from '../vendor/marked.mjs';
import { shown } from './text.js';

/** Longer texts are shown unformatted, because the lexer may take long. */
const CHARACTERS_MAX = 60000;
/** The maximum nesting depth of lists and quotations. */
const DEPTH_MAX = 12;

const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };
const unescaped = (text) => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ENTITIES[name]);

function Link({ token, depth }) {
  let target = null;
  try {
    const url = new URL(token.href);
    if (['http:', 'https:', 'mailto:'].includes(url.protocol)) target = url.href;
  } catch { /* not an absolute address, for example a file of a repository */ }
  const text = inline(token.tokens ?? [], depth);
  if (!target) return html`<span class="dead-link" title=${token.href}>${text}</span>`;
  return html`<a href=${target} title=${target} target="_blank" rel="noopener noreferrer nofollow">${text}</a>`;
}

function inline(tokens, depth) {
  if (depth > DEPTH_MAX) return tokens.map((token) => shown(token.raw));
  return tokens.map((token) => {
    const within = () => inline(token.tokens ?? [], depth + 1);
    switch (token.type) {
      case 'strong': return html`<strong>${within()}</strong>`;
      case 'em': return html`<em>${within()}</em>`;
      case 'del': return html`<del>${within()}</del>`;
      case 'codespan': return html`<code>${shown(token.text)}</code>`;
      case 'br': return html`<br />`;
      case 'link': return html`<${Link} token=${token} depth=${depth + 1} />`;
      case 'image': return html`<span class="dead-link" title=${token.href}>[picture: ${shown(token.text || token.href)}]</span>`;
      case 'checkbox': return html`<input type="checkbox" checked=${token.checked} disabled aria-label=${token.checked ? 'done' : 'to do'} />`;
      case 'escape': return shown(token.text);
      case 'text': return token.tokens ? within() : shown(unescaped(token.text));
      default: return shown(token.raw);
    }
  });
}

const cell = (name, one, align, depth) => (name === 'th'
  ? html`<th scope="col" class=${align ?? ''}>${inline(one.tokens, depth)}</th>`
  : html`<td class=${align ?? ''}>${inline(one.tokens, depth)}</td>`);

function block(token, depth) {
  switch (token.type) {
    case 'space': case 'def': return null;
    // A heading of a message is not a heading of the page: its level is below the card's.
    case 'heading': return html`<p class=${`h h${token.depth}`} role="heading" aria-level=${Math.min(6, token.depth + 3)}>${inline(token.tokens, depth)}</p>`;
    case 'paragraph': return html`<p>${inline(token.tokens, depth)}</p>`;
    case 'text': return token.tokens ? html`<span>${inline(token.tokens, depth)}</span>` : shown(unescaped(token.text));
    case 'code': return html`<pre class="code" tabindex="0">${shown(token.text)}</pre>`;
    case 'hr': return html`<hr />`;
    case 'blockquote': return html`<blockquote>${blocks(token.tokens, depth + 1)}</blockquote>`;
    case 'list': {
      const items = token.items.map((item) => html`<li>${blocks(item.tokens, depth + 1)}</li>`);
      return token.ordered ? html`<ol start=${token.start || 1}>${items}</ol>` : html`<ul>${items}</ul>`;
    }
    case 'table': return html`<div class="scroll" tabindex="0"><table><thead><tr>${token.header.map((one, i) => cell('th', one, token.align[i], depth))}</tr></thead>
      <tbody>${token.rows.map((row) => html`<tr>${row.map((one, i) => cell('td', one, token.align[i], depth))}</tr>`)}</tbody></table></div>`;
    case 'checkbox': return inline([token], depth)[0];
    default: return html`<p>${shown(token.raw)}</p>`;
  }
}

const blocks = (tokens, depth) => (depth > DEPTH_MAX ? tokens.map((token) => html`<p>${shown(token.raw)}</p>`)
  : tokens.map((token) => block(token, depth)));

/** Shows an untrusted text as prose. */
export function Markdown({ text }) {
  text = String(text ?? '');
  if (text.length > CHARACTERS_MAX) return html`<pre class="prose" dir="auto">${shown(text)}</pre>`;
  let tokens;
  try {
    tokens = lexer(text, { gfm: true, breaks: true });
  } catch {
    return html`<pre class="prose" dir="auto">${shown(text)}</pre>`;
  }
  return html`<div class="prose" dir="auto">${blocks(tokens, 0)}</div>`;
}
