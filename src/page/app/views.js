// The views of the page, in the order of the navigation. `path` is the first step of the address behind `#/`; `load` brings
// the module, whose `View` is the component. A view without a `label` is reached from others only.
export const VIEWS = [
  { path: 'conversations', label: 'Conversations', keys: 'g c', load: () => import('./views/conversations/index.js') },
  { path: 'c', parent: 'conversations', load: () => import('./views/conversation/index.js') },
  { path: 'compare', parent: 'conversations', load: () => import('./views/compare/index.js') },
  { path: 'search', label: 'Search', keys: 'g s', load: () => import('./views/search/index.js') },
  { path: 'numbers', label: 'Numbers', keys: 'g n', load: () => import('./views/numbers/index.js') },
  { path: 'reports', label: 'Reports', keys: 'g r', load: () => import('./views/reports/index.js') },
  { path: 'sql', label: 'SQL', keys: 'g q', load: () => import('./views/sql/index.js') },
];

export const HOME = 'conversations';
