// Asks for the session key once. The tab keeps the key until it is closed.
import { html, useRef, useEffect } from '../lib/ui.js';
import { key, setKey } from '../lib/key.js';

export function KeyPrompt() {
  const field = useRef(null);
  const wasGiven = key.peek() !== '';
  useEffect(() => field.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    const value = field.current.value.trim();
    if (value) setKey(value);
  };
  return html`
    <form class="middle narrow" onSubmit=${submit}>
      <h1>This server requires a key</h1>
      <p>It is the session key that <code>annals serve</code> was started with (<code>--api-key</code>, or${' '}
        <code>OH_SESSION_API_KEYS_0</code>). It stays in this tab until the tab is closed.</p>
      <label>Session key
        <input ref=${field} type="password" name="key" autocomplete="off" spellcheck=${false} required
          aria-invalid=${wasGiven} aria-describedby=${wasGiven ? 'key-problem' : undefined} /></label>
      ${wasGiven && html`<p id="key-problem" class="wrong" role="alert">The server does not know this key.</p>`}
      <button class="main">Go on</button>
    </form>`;
}
