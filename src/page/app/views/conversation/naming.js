// The title and the tags of a conversation.
import { html, useState } from '../../lib/ui.js';
import { encodedPath, patch } from '../../lib/api.js';
import { runOrShowError } from '../../lib/notes.js';
import { Dialog } from '../../ui/dialog.js';

/** Returns the tags as text, one tag per line: `name: value`. */
const written = (tags) => Object.entries(tags).map(([name, value]) => (value ? `${name}: ${value}` : name)).join('\n');

function read(text) {
  const tags = {};
  for (const line of text.split('\n').map((one) => one.trim()).filter(Boolean)) {
    const [name, ...rest] = line.split(':');
    tags[name.trim().toLowerCase()] = rest.join(':').trim();
  }
  return tags;
}

function Form({ context, close }) {
  const head = context.head.peek();
  const [title, setTitle] = useState(head.is_titled ? head.title : '');
  const [tags, setTags] = useState(written(head.tags));
  const save = async (event) => {
    event.preventDefault();
    const body = { tags: read(tags) };
    if (title.trim()) body.title = title.trim();
    if (await runOrShowError(() => patch(encodedPath`/api/conversations/${context.id}`, body))) {
      context.refresh();
      close();
    }
  };
  return html`
    <form class="column" onSubmit=${save}>
      <label>Title<input value=${title} maxlength="200" placeholder=${head.title ?? ''} onInput=${(event) => setTitle(event.currentTarget.value)} /></label>
      <label>Tags, one per line
        <textarea value=${tags} rows="4" placeholder="team: core" onInput=${(event) => setTags(event.currentTarget.value)}></textarea></label>
      <p class="soft small">Names are lower-case letters and digits.</p>
      <footer class="row"><span class="grow"></span><button type="button" onClick=${close}>Cancel</button><button class="main">Save</button></footer>
    </form>`;
}

export const Naming = ({ context, isOpen, close }) => html`
  <${Dialog} isOpen=${isOpen} close=${close} title="Name and tags"><${Form} context=${context} close=${close} /><//>`;
