// What the caller may do: the role of its key, and whether the server only reads. What cannot be done is not offered; the
// server refuses it anyway.
import { effect, signal } from './ui.js';
import { get } from './api.js';
import { key } from './key.js';

const ROLES = ['read', 'approve', 'write', 'admin'];

const access = signal({ role: 'admin', read_only: false });

/** Whether the caller may change something that needs this role. */
export const may = (role) => !access.value.read_only && ROLES.indexOf(access.value.role) >= ROLES.indexOf(role);

// A key that is given later may have another role.
effect(() => {
  if (key.value !== null) get('/api/annals/access').then((found) => { access.value = found; }, () => {});
});
