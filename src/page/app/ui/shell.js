// The frame around every view: navigation, theme, key, help, notes.
import { html, useEffect, useState, cx } from '../lib/ui.js';
import { VIEWS, HOME } from '../views.js';
import { route, go, href } from '../lib/router.js';
import { theme, nextTheme } from '../lib/theme.js';
import { keyWanted, key } from '../lib/key.js';
import { useShortcuts } from '../lib/keys.js';
import { Help } from './help.js';
import { KeyPrompt } from './keyprompt.js';
import { Guard } from './guard.js';
import { Notes } from './notes.js';
import { Problem, Waiting } from './pieces.js';
import { Icon } from './icon.js';
import { plain } from './text.js';

const NAVIGATION = VIEWS.filter((view) => view.label);

function Header({ current, onHelp }) {
  return html`
    <header class="bar">
      <a class="brand" href=${href([HOME])}><${Icon} name="log" />Annals</a>
      <nav aria-label="Views">
        ${NAVIGATION.map((view) => html`
          <a key=${view.path} href=${href([view.path])} aria-current=${current.under(view) ? 'page' : undefined}>
            ${view.label}</a>`)}
      </nav>
      <span class="grow"></span>
      <button class="plain" onClick=${nextTheme} title="Light or dark" aria-label=${`Colours: ${theme.value}`}>
        <${Icon} name=${theme.value === 'system' ? 'half' : theme.value === 'dark' ? 'moon' : 'sun'} /></button>
      <button class="plain" onClick=${onHelp} title="Keys (?)" aria-label="Help: keys"><${Icon} name="help" /></button>
    </header>`;
}

/** Returns the component of a view once its module is loaded. */
function useView(view) {
  const [loaded, setLoaded] = useState({ path: '', View: null, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    view?.load().then(
      (module) => isCurrent && setLoaded({ path: view.path, View: module.View, error: null }),
      (error) => isCurrent && setLoaded({ path: view.path, View: null, error }),
    );
    return () => { isCurrent = false; };
  }, [view, round]);
  return { ...loaded, reload: () => setRound((old) => old + 1) };
}

function Content({ view }) {
  const { path, View, error, reload } = useView(view);
  if (!view) {
    return html`<div class="middle"><h1>There is no such page</h1>
      <p><a href=${href([HOME])}>Go to the conversations</a></p></div>`;
  }
  if (path !== view.path) return html`<${Waiting} />`;
  if (error) return html`<${Problem} error=${error} reload=${reload} />`;
  return html`
    <${Guard} key=${route.value.path.join('/')} instead=${(failure) => html`<${Problem} error=${failure} />`}>
      <${View} path=${route.value.path.slice(1)} query=${route.value.query} />
    <//>`;
}

function focusMain(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

export function Shell() {
  const [isHelpOpen, setHelpOpen] = useState(false);
  const name = route.value.path[0] ?? HOME;
  const view = VIEWS.find((one) => one.path === name);
  const current = { under: (one) => one.path === name || one.path === view?.parent };
  useShortcuts([
    { keys: '?', what: 'This help', run: () => setHelpOpen(true) },
    ...NAVIGATION.map((one) => ({ keys: one.keys, what: one.label, run: () => go([one.path]) })),
    { keys: 'g t', what: 'Light or dark', run: nextTheme },
  ]);
  // If the bar is too narrow for all links, the current one is scrolled into view.
  useEffect(() => {
    document.querySelector('.bar nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [view]);
  useEffect(() => { document.title = view?.label ? `${plain(view.label)} · Annals` : 'Annals'; }, [view]);
  return html`
    <a class="skip" href="#main" onClick=${focusMain}>Skip to the content</a>
    <${Header} current=${current} onHelp=${() => setHelpOpen(true)} />
    <main id="main" tabindex="-1" class=${cx('view', `view-${name}`)}>
      ${keyWanted.value ? html`<${KeyPrompt} />` : html`<${Content} key=${key.value} view=${view} />`}
    </main>
    <${Notes} />
    <${Help} isOpen=${isHelpOpen} close=${() => setHelpOpen(false)} />`;
}
