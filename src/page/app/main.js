// Where the page begins: the key that `annals open` hands over, the theme, the shell.
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
