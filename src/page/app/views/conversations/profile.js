// The form for a model that the server stores under a name.
import { html, useState } from '../../lib/ui.js';
import { encodedPath, post } from '../../lib/api.js';
import { runOrShowError } from '../../lib/notes.js';

export function NewProfile({ done }) {
  const [form, setForm] = useState({ name: '', model: '', key: '', base: '' });
  const set = (name) => (event) => setForm({ ...form, [name]: event.currentTarget.value });
  const submit = async (event) => {
    event.preventDefault();
    const llm = { model: form.model.trim(), usage_id: 'agent' };
    if (form.key) llm.api_key = form.key;
    if (form.base.trim()) llm.base_url = form.base.trim();
    if (await runOrShowError(() => post(encodedPath`/api/profiles/${form.name.trim()}`, { llm }))) done();
  };
  return html`
    <form class="column" onSubmit=${submit}>
      <p>A conversation needs a model. The server keeps it under a name, and its key with it.</p>
      <label>Name<input required value=${form.name} onInput=${set('name')} placeholder="work" spellcheck=${false} pattern="[A-Za-z0-9._\\-]+" /></label>
      <label>Model<input class="mono" required value=${form.model} onInput=${set('model')} placeholder="provider/model" spellcheck=${false} /></label>
      <label>Key<input type="password" value=${form.key} onInput=${set('key')} autocomplete="off" /></label>
      <label>Address, if it is not the provider’s<input class="mono" type="url" value=${form.base} onInput=${set('base')} spellcheck=${false} /></label>
      <footer class="row"><span class="grow"></span><button class="main">Save the model</button></footer>
    </form>`;
}
