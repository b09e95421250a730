// The dialog for a new conversation: a folder to work in, a model, the first message.
import { html, useState } from '../../lib/ui.js';
import { go } from '../../lib/router.js';
import { encodedPath, get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { runOrShowError } from '../../lib/notes.js';
import { NewProfile } from './profile.js';
import { Dialog } from '../../ui/dialog.js';
import { Problem, Waiting } from '../../ui/pieces.js';

/** The tools of a new agent. Those that the server does not have are left out. */
const TOOLS = ['terminal', 'file_editor', 'task_tracker'];

const POLICIES = [
  ['never', 'Never ask me', { kind: 'NeverConfirm' }],
  ['risky', 'Ask me if it may be risky', { kind: 'ConfirmRisky' }],
  ['always', 'Always ask me', { kind: 'AlwaysConfirm' }],
];

async function offers(signal) {
  const [profiles, tools, home] = await Promise.all([
    get('/api/profiles', {}, signal), get('/api/tools', {}, signal), get('/api/file/home', {}, signal).catch(() => null),
  ]);
  return { profiles: profiles.profiles, active: profiles.active_profile, tools, home: home?.home ?? home?.path ?? '' };
}

/** Creates the conversation. The model's key stays on the server, because the request names only the profile. */
async function begin(form, { profiles, tools }) {
  const profile = profiles.find((one) => one.name === form.profile);
  const names = tools.map((tool) => tool.name ?? tool).filter((name) => TOOLS.includes(name));
  const made = await post('/api/conversations', {
    agent: { kind: 'Agent', llm: { model: profile.model, usage_id: 'agent' }, tools: names.map((name) => ({ name, params: {} })) },
    workspace: { kind: 'LocalWorkspace', working_dir: form.folder },
    confirmation_policy: POLICIES.find(([name]) => name === form.policy)[2],
    ...(form.policy === 'risky' ? { security_analyzer: { kind: 'LLMSecurityAnalyzer' } } : {}),
  });
  go(['c', made.id]);
  await post(encodedPath`/api/conversations/${made.id}/switch_profile`, { profile_name: form.profile });
  const message = { role: 'user', content: [{ type: 'text', text: form.message }], run: true };
  await post(encodedPath`/api/conversations/${made.id}/events`, message);
}

function Form({ close, value, newProfile }) {
  const [form, setForm] = useState({
    folder: value.home, profile: value.active ?? value.profiles[0]?.name ?? '', policy: 'never', message: '',
  });
  const [isBusy, setBusy] = useState(false);
  const set = (name) => (event) => setForm({ ...form, [name]: event.currentTarget.value });
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    if (await runOrShowError(() => begin(form, value))) close();
    setBusy(false);
  };
  return html`
    <form class="column" onSubmit=${submit}>
      <label>What is to be done<textarea rows="4" required value=${form.message} onInput=${set('message')} dir="auto"></textarea></label>
      <label>Folder to work in<input class="mono" required value=${form.folder} onInput=${set('folder')} spellcheck=${false} /></label>
      <label>Model<select value=${form.profile} onChange=${set('profile')}>
        ${value.profiles.map((one) => html`<option key=${one.name} value=${one.name}>${one.name} · ${one.model}${one.api_key_set ? '' : ' (no key)'}</option>`)}</select></label>
      <label>Consent<select value=${form.policy} onChange=${set('policy')}>
        ${POLICIES.map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select></label>
      <footer class="row"><button type="button" class="plain" onClick=${newProfile}>Another model …</button><span class="grow"></span><button type="button" onClick=${close}>Cancel</button>
        <button class="main" disabled=${isBusy}>Begin</button></footer>
    </form>`;
}

function Offers({ close }) {
  const [isNew, setNew] = useState(false);
  const { value, error, reload } = useLoad(offers, []);
  if (error) return html`<${Problem} error=${error} reload=${reload} />`;
  if (!value) return html`<${Waiting} />`;
  if (value.profiles.length === 0 || isNew) return html`<${NewProfile} done=${() => { setNew(false); reload(); }} />`;
  return html`<${Form} close=${close} value=${value} newProfile=${() => setNew(true)} />`;
}

export const NewConversation = ({ isOpen, close }) => html`
  <${Dialog} isOpen=${isOpen} close=${close} title="New conversation"><${Offers} close=${close} /><//>`;
