// The keyboard shortcuts of a conversation.
import { go, setQuery } from '../../lib/router.js';

/** Selects the drawn card that is `by` places further, and scrolls it into view. */
function move(context, by) {
  const all = [...document.querySelectorAll('.pane [data-seqs]')];
  const selected = context.selected.peek();
  let place = all.findIndex((one) => one.dataset.seqs.split(' ').includes(String(selected)));
  if (place < 0) {
    const top = document.querySelector('.pane')?.getBoundingClientRect().top ?? 0;
    place = all.findIndex((one) => one.getBoundingClientRect().bottom > top) - (by > 0 ? 1 : 0);
  }
  const next = all[Math.max(0, Math.min(all.length - 1, place + by))];
  if (!next) return;
  const sequence = Number(next.dataset.seqs.split(' ')[0]);
  context.select(sequence);
  const box = next.getBoundingClientRect();
  const pane = document.querySelector('.pane').getBoundingClientRect();
  if (box.top < pane.top || box.bottom > pane.bottom) context.control.current.goTo(sequence);
}

const element = (context) => context.control.current?.element(context.selected.peek());

export function shortcuts(context, { toggleSide }) {
  const step = (by) => {
    const now = context.at.peek() ?? context.log.total.peek() - 1;
    const next = Math.max(0, now + by);
    context.setAt(next);
    context.control.current?.goTo(next);
  };
  const id = () => context.log.entry(context.selected.peek())?.event.id;
  return [
    { keys: 'j', what: 'The next event', run: () => move(context, 1) },
    { keys: 'k', what: 'The previous event', run: () => move(context, -1) },
    { keys: 'g g', what: 'The beginning', run: () => context.control.current?.goTo(0) },
    { keys: 'G', what: 'The end', run: () => context.control.current?.goToEnd() },
    { keys: 'Enter', what: 'Unfold or fold the event', run: () => {
      for (const fold of element(context)?.querySelectorAll('details.fold > summary') ?? []) fold.click();
      element(context)?.querySelector('button.more')?.click();
    } },
    { keys: 'r', what: 'Raw JSON of the event', run: () => context.selected.peek() !== null && context.openRaw(context.selected.peek()) },
    { keys: 'm', what: 'What the model saw for it', run: () => context.selected.peek() !== null && context.openMessages(context.selected.peek()) },
    { keys: 't', what: 'The state at the event', run: () => context.setAt(context.selected.peek()) },
    { keys: '[', what: 'One step back in time', run: () => step(-1) },
    { keys: ']', what: 'One step forward', run: () => step(1) },
    { keys: '{', what: 'Twenty steps back', run: () => step(-20) },
    { keys: '}', what: 'Twenty steps forward', run: () => step(20) },
    { keys: '.', what: 'Now: the end of the log', run: () => { context.setAt(null); context.control.current?.goToEnd(); } },
    { keys: 'f', what: 'Fork from the event', run: () => id() && context.mayWrite() && context.fork(id()) },
    { keys: 'b', what: 'Branches', run: () => setQuery({ tab: 'branches' }, { replace: false }) },
    { keys: 'l', what: 'The timeline', run: () => setQuery({ tab: '' }, { replace: false }) },
    { keys: 's', what: 'Show or hide the state', run: toggleSide },
    { keys: '/', what: 'Find in this conversation', run: () => go(['search'], { conversation: context.id }) },
    { keys: 'i', what: 'Write to the agent', run: () => document.getElementById('say')?.focus() },
  ];
}
