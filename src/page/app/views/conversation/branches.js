// The tree of branches: where each leaves the others, how long it is, which one is live.
import { html, useEffect, useState } from '../../lib/ui.js';
import { href } from '../../lib/router.js';
import { count, plural } from '../../lib/format.js';
import { Waiting } from '../../ui/pieces.js';
import { Badge } from '../cards/card.js';

const WIDTH = 1000;

/** Sorts branches so that each is below the one that it leaves: by their fork, then the longest first. */
function ordered(branches) {
  return branches.toSorted((a, b) => (a.fork_sequence ?? -1) - (b.fork_sequence ?? -1) || b.events - a.events);
}

function Picture({ branch, last }) {
  const x = (sequence) => 4 + (sequence / Math.max(1, last)) * (WIDTH - 8);
  const from = branch.fork_sequence ?? 0;
  const own = branch.own_ranges.map(([first, end]) => `M${x(first)} 12H${Math.max(x(first) + 3, x(end))}`).join('');
  return html`
    <svg class=${`rail ${branch.live ? 'live' : ''}`} viewBox=${`0 0 ${WIDTH} 24`} preserveAspectRatio="none" aria-hidden="true">
      <path class="trunk" d=${`M4 12H${x(last)}`} />
      <path class="way" d=${`M${x(from)} 12H${x(branch.tip_sequence)}`} />
      <path class="own" d=${own} />
      <path class="mark" d=${`M${x(from)} 5v14M${x(branch.tip_sequence)} 5v14`} />
    </svg>`;
}

function Branch({ branch, last, context, live }) {
  return html`
    <li class=${`branch ${branch.live ? 'live' : ''}`}>
      <div class="row">
        <strong>${branch.fork_sequence === null ? 'From the beginning' : html`Leaves at <button class="small plain" onClick=${() => context.goTo(branch.fork_sequence)}>#${count(branch.fork_sequence)}</button>`}</strong>
        ${branch.live && html`<${Badge} tone="green">live<//>`}
        <span class="soft">${plural(branch.own_events, 'event')} of its own, ${count(branch.events)} from the root</span>
      </div>
      <${Picture} branch=${branch} last=${last} />
      <div class="row">
        <button class="small" onClick=${() => context.goTo(branch.tip_sequence)}>Go to its tip, #${count(branch.tip_sequence)}</button>
        ${!branch.live && live && html`<a class="button small" href=${href(['compare'], { left: `${context.id}@${branch.tip}`, right: context.id })}>Compare with the live one</a>`}
        ${context.mayWrite() && !branch.live && html`<button class="small" onClick=${() => context.navigate(branch.tip)}>Make it live</button>`}
        ${context.mayWrite() && html`<button class="small" onClick=${() => context.fork(branch.tip)}>Fork it</button>`}
      </div>
    </li>`;
}

export function Branches({ context }) {
  const [found, setFound] = useState(null);
  const version = context.head.value.leaf_event_id;
  useEffect(() => { context.lookForBranches().then(setFound); }, [version]);
  if (!found) return html`<div class="pane"><${Waiting} /></div>`;
  const last = context.log.total.value - 1;
  const live = found.branches.find((one) => one.live);
  return html`
    <section class="pane" tabindex="0" aria-label="Branches">
      <h2>${plural(found.branches.length, 'branch', 'branches')}</h2>
      <p class="soft">Each line shows the log from its first event to its last. The events that only this branch has are thick.
        ${found.head === null && ' HEAD is before the first event.'}</p>
      <ol class="branches">${ordered(found.branches).map((branch) => html`
        <${Branch} key=${branch.tip} branch=${branch} last=${last} context=${context} live=${live} />`)}</ol>
    </section>`;
}
