// One conversation: its head, the timeline or another way to look at it, what it was at a point, and what can be done.
import { html } from '../../lib/ui.js';
import { useLoad } from '../../lib/load.js';
import { useSheet } from '../../lib/sheet.js';
import { at, get } from '../../lib/api.js';
import { Problem, Waiting } from '../../ui/pieces.js';
import { Conversation } from './conversation.js';

export function View({ path, query }) {
  useSheet('conversation');
  useSheet('cards');
  const [id] = path;
  const { value, error, again } = useLoad(async (signal) => get(at`/api/annals/conversations/${id ?? ''}`, { brief: true }, signal), [id]);
  if (error && !value) return html`<${Problem} error=${error} again=${again} />`;
  if (!value || !value.id.startsWith(id)) return html`<${Waiting} />`;
  return html`<${Conversation} key=${value.id} head=${value} query=${query} />`;
}
