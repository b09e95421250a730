// The head of a conversation: its title, status and figures, and the tabs.
import { html, useState } from '../../lib/ui.js';
import { href, setQuery } from '../../lib/router.js';
import { bill, billTitle, brief, bytes, count, tokens } from '../../lib/format.js';
import { Status, Ago, Tag } from '../../ui/pieces.js';
import { Icon } from '../../ui/icon.js';
import { plain } from '../../ui/text.js';
import { Actions } from './actions.js';
import { Naming } from './naming.js';

const TABS = [['timeline', 'Timeline'], ['messages', 'Messages'], ['branches', 'Branches']];

const LINKS = {
  connecting: ['…', 'The page is connecting to follow this conversation'],
  live: ['following', 'New events appear at once'],
  broken: ['not connected', 'The connection broke. The page reconnects and continues where it stopped'],
  polling: ['checked every 2 s', 'This conversation is a copy of another program’s log'],
};

export function Head({ context, remove, link, tab, isSideOpen, toggleSide }) {
  const head = context.head.value;
  const [isNaming, setNaming] = useState(false);
  const [text, title] = LINKS[link];
  return html`
    <header class="talk-head">
      <div class="row top">
        <a class="back" href=${href(['conversations'])} aria-label="All conversations"><${Icon} name="left" /></a>
        <h1 dir="auto" title=${head.title}>${plain(head.title) || 'Without a title'}</h1>
        <${Status} status=${head.status} since=${head.is_last_known && head.updated_at} />
        <span class=${`link link-${link}`} title=${title}>${text}</span>
        <span class="grow"></span>
        <${Actions} context=${context} rename=${() => setNaming(true)} remove=${remove} />
      </div>
      <div class="row under" tabindex="0" role="group" aria-label="Figures">
        <code title=${head.id}>${brief(head.id)}</code>
        ${head.models.length > 0 && html`<span class="nowrap">${head.models.join(', ')}</span>`}
        <span class="nowrap" title=${bytes(head.payload_bytes)}>${count(head.event_count)} events</span>
        <span class="nowrap" title=${`${count(head.prompt_tokens)} in, ${count(head.completion_tokens)} out`}>${tokens(head)} tokens</span>
        <span class="nowrap" title=${billTitle(head)}>${head.cost == null && head.estimated_cost == null ? 'cost unknown' : bill(head)}</span>
        ${head.with_sub_agents && html`<span class="nowrap" title=${billTitle(head.with_sub_agents)}>${bill(head.with_sub_agents)} with sub-agents</span>`}
        <span class="nowrap">last active <${Ago} time=${head.updated_at} /></span>
        ${head.copy_of && html`<span class="tag" title="It cannot be continued here">read-only copy of ${head.copy_of}</span>`}
        ${head.parent && html`<a class="tag" href=${href(['c', head.parent])}>sub-agent of ${brief(head.parent)}</a>`}
        ${head.forked_from && html`<a class="tag" href=${href(['c', head.forked_from])}>fork of ${brief(head.forked_from)}</a>`}
        ${head.sub_agents?.map((id) => html`<a key=${id} class="tag" href=${href(['c', id])}>sub-agent ${brief(id)}</a>`)}
        ${Object.entries(head.tags).map(([name, value]) => html`<${Tag} key=${name} name=${name} value=${value} />`)}
      </div>
      <div class="row tabs" role="group" aria-label="Views of the conversation">
        ${TABS.map(([name, label]) => html`
          <button key=${name} class="plain" aria-pressed=${tab === name}
            onClick=${() => setQuery({ tab: name === 'timeline' ? '' : name }, { replace: false })}>${label}</button>`)}
        <a class="button plain" href=${href(['search'], { conversation: head.id })}>Find</a>
        <a class="button plain" href=${href(['compare'], { left: head.id, right: '' })}>Compare</a>
        <span class="grow"></span>
        <button class="plain" aria-pressed=${isSideOpen} onClick=${toggleSide}>State</button>
      </div>
      <${Naming} context=${context} isOpen=${isNaming} close=${() => setNaming(false)} />
    </header>`;
}
