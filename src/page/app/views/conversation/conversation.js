// The view of a loaded conversation. It follows new events and combines the parts of the view.
import { html, cx, useEffect, useLayoutEffect, useMemo, useState, useSignal } from '../../lib/ui.js';
import { useShortcuts } from '../../lib/keys.js';
import { highlight, unhighlight, wordsOf } from '../../lib/highlight.js';
import { Live } from '../../lib/live.js';
import { plain } from '../../ui/text.js';
import { WithCode } from '../../ui/pieces.js';
import { Context, follow, numbered } from './context.js';
import { BESIDE } from './group.js';
import { Head } from './head.js';
import { Timeline } from './timeline.js';
import { Side } from './side.js';
import { Time } from './time.js';
import { Composer } from './composer.js';
import { Raw } from './raw.js';
import { Messages } from './messages.js';
import { Branches } from './branches.js';
import { Tail } from './tail.js';
import { shortcuts } from './shortcuts.js';

const SOON_MS = 700;
/** The delay of work that can wait until the first cards are drawn. */
const LATER_MS = 250;

/** Follows the conversation live while the view is open. */
function useLive(context) {
  const link = useSignal('connecting');
  const pieces = useSignal(null);
  useEffect(() => {
    let timer = null;
    let before = null;
    const soon = () => {
      timer ??= setTimeout(() => {
        timer = null;
        context.refresh();
      }, SOON_MS);
    };
    const live = new Live(context.id, context.log.total.peek(), {
      event: (sequence, event) => {
        context.log.append(sequence, event);
        if (!BESIDE.has(event.kind)) {
          // HEAD was moved to an earlier event, so other events are live now.
          if (before && event.parent_id && event.parent_id !== before) context.lookForBranches();
          before = event.id;
        }
        if (event.source === 'agent') pieces.value = null;
        soon();
      },
      state: (event) => {
        const status = event.key === 'execution_status' ? event.value : event.value?.execution_status;
        const head = context.head.peek();
        if (status && status !== head.status) context.head.value = { ...head, status };
        soon();
      },
      piece: (frame) => {
        if (frame.type === 'item_started') pieces.value = { id: frame.item_id, text: '', reasoning: '' };
        else if (frame.type === 'item_aborted') pieces.value = null;
        else if (frame.type === 'delta') {
          const name = frame.kind === 'reasoning' ? 'reasoning' : 'text';
          const old = pieces.peek()?.id === frame.item_id ? pieces.peek() : { id: frame.item_id, text: '', reasoning: '' };
          pieces.value = { ...old, [name]: old[name] + frame.content };
        }
      },
      link: (state) => { link.value = state; },
    });
    return () => {
      clearTimeout(timer);
      live.end();
    };
  }, [context]);
  return { link, pieces };
}

/** Marks the words of the search that led here, as soon as their event is drawn. */
function useFound(context, find, event) {
  useEffect(() => {
    if (!find || event === null) return undefined;
    const words = wordsOf(find);
    let isOpen = false;
    const look = () => {
      const element = context.control.current?.element(event);
      if (!element) return;
      // A folded part may contain the words.
      if (!isOpen) for (const more of element.querySelectorAll('button.more')) more.click();
      isOpen = true;
      highlight(element, words);
    };
    const timers = [60, 250, 600, 1200, 2500].map((ms) => setTimeout(look, ms));
    return () => {
      timers.forEach(clearTimeout);
      unhighlight();
    };
  }, [find, event]);
}

const wide = () => innerWidth > 1000;

export function Conversation({ head: first, events, query, remove }) {
  const context = useMemo(() => {
    const made = new Context(first, events);
    follow(made, query);
    return made;
  }, []);
  const [isSideOpen, setSideOpen] = useState(wide());
  const { link, pieces } = useLive(context);
  const tab = query.tab ?? 'timeline';
  useEffect(() => {
    const timer = setTimeout(() => context.lookForBranches(), LATER_MS);
    return () => {
      clearTimeout(timer);
      context.end();
    };
  }, []);
  useLayoutEffect(() => { follow(context, query); }, [query.event, query.at]);
  const head = context.head.value;
  useEffect(() => { document.title = `${plain(head.title ?? 'Conversation')} · Annals`; }, [head.title]);
  useShortcuts(shortcuts(context, { toggleSide: () => setSideOpen((old) => !old) }), [context]);
  useFound(context, query.find, numbered(query.event));
  const target = numbered(query.event) ?? numbered(query.at);
  const isRunning = head.status === 'running' && !head.is_last_known;
  return html`
    <div class=${cx('talk', isSideOpen && 'with-side')}>
      <${Head} context=${context} remove=${remove} link=${link.value} tab=${tab} isSideOpen=${isSideOpen} toggleSide=${() => setSideOpen(!isSideOpen)} />
      <div class="talk-main">
        ${tab === 'timeline' && html`<${Timeline} log=${context.log} context=${context} control=${context.control} target=${target}
          startAtEnd=${isRunning || head.status === 'waiting_for_confirmation'} tail=${html`<${Tail} pieces=${pieces} isRunning=${isRunning} />`} />`}
        ${tab === 'messages' && html`<${Messages} context=${context} reply=${numbered(query.reply)} />`}
        ${tab === 'branches' && html`<${Branches} context=${context} />`}
      </div>
      ${isSideOpen && html`<${Side} context=${context} close=${() => setSideOpen(false)} />`}
      <div class="talk-foot">
        <${Time} context=${context} />
        ${!context.copyOf && (head.cannot_run ? html`<p class="soft"><${WithCode} text=${head.cannot_run} /></p>` : html`<${Composer} context=${context} />`)}
      </div>
    </div>
    <${Raw} context=${context} />`;
}
