// The views of the page, in the order of the navigation. `path` is the first step of the address after `#/`. `load`
// loads the style sheets and the module, whose `View` is the component. A view without a `label` has no entry in it.
import { withSheets } from './lib/sheet.js';

export const VIEWS = [
  { path: 'conversations', label: 'Conversations', keys: 'g c', load: () => withSheets(import('./views/conversations/index.js'), 'list') },
  { path: 'c', parent: 'conversations', load: () => withSheets(import('./views/conversation/index.js'), 'conversation', 'cards') },
  { path: 'compare', parent: 'conversations', load: () => withSheets(import('./views/compare/index.js'), 'compare') },
  { path: 'search', label: 'Search', keys: 'g s', load: () => withSheets(import('./views/search/index.js'), 'search') },
  { path: 'numbers', label: 'Numbers', keys: 'g n', load: () => withSheets(import('./views/numbers/index.js'), 'numbers') },
  { path: 'reports', label: 'Reports', keys: 'g r', load: () => withSheets(import('./views/reports/index.js'), 'sql', 'answer') },
  { path: 'sql', label: 'SQL', keys: 'g q', load: () => withSheets(import('./views/sql/index.js'), 'sql', 'answer') },
];

export const HOME = 'conversations';
