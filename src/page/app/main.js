// The start of the page: takes the key that `annals open` passes, applies the theme and shows the shell.
import { render, html } from './lib/ui.js';
import { takeKeyFromAddress } from './lib/key.js';
import { applyTheme } from './lib/theme.js';
import { startRouter } from './lib/router.js';
import { Shell } from './ui/shell.js';

takeKeyFromAddress();
applyTheme();
startRouter();
const root = document.getElementById('page');
root.replaceChildren();
render(html`<${Shell} />`, root);
