// The timeline: pages of cards, each at its place. Only the pages in view are in the document.
import { html, useEffect, useLayoutEffect, useRef, useState, useMemo } from '../../lib/ui.js';
import { Scroller } from './scroller.js';
import { group } from './group.js';
import { Item } from './item.js';
import { Problem } from '../../ui/pieces.js';

/** The number of pixels beyond the edges of the view in which pages are drawn. */
const AHEAD = 900;

/** The cards of a page. The elements stay the same until the page or a neighbour of it changes. */
function Block({ log, page, context }) {
  const [before, held, after] = [log.pages.get(page - 1), log.pages.get(page), log.pages.get(page + 1)];
  return useMemo(() => {
    if (!held) return html`<div class="page-waiting" aria-busy="true"></div>`;
    return group(held, before, after).map((item) => html`<${Item} key=${item.sequence} item=${item} context=${context} />`);
  }, [before, held, after, context]);
}

/**
 * Sets `control.current` to `{goTo(sequence), goToEnd(), element(sequence), isAtEnd()}`. `tail` is drawn after the last
 * event.
 */
export function Timeline({ log, context, control, target, startAtEnd, tail }) {
  const pane = useRef(null);
  const inner = useRef(null);
  const scroller = useRef(null);
  const [, setRound] = useState(0);
  const draw = () => setRound((round) => round + 1);
  const version = log.version.value;
  const total = log.total.value;

  if (scroller.current) {
    scroller.current.resize(total);
    scroller.current.layout();
  }
  useLayoutEffect(() => {
    const made = new Scroller(pane.current);
    scroller.current = made;
    made.resize(log.total.peek());
    made.layout();
    if (target !== null) made.target = target;
    else made.isAtEnd = startAtEnd;
    control.current = {
      goTo: (sequence) => { made.goTo(sequence); draw(); },
      goToEnd: () => { made.goToEnd(); draw(); },
      element: (sequence) => made.element(sequence),
      isAtEnd: () => made.isAtEnd,
    };
    const sizes = new ResizeObserver((entries) => {
      let isChanged = false;
      for (const { target: element, borderBoxSize } of entries) {
        const page = Number(element.dataset.page);
        const height = borderBoxSize[0].blockSize;
        if (!log.pages.has(page) || height === 0) continue;
        isChanged = made.measure(page, height) || isChanged;
      }
      if (isChanged) draw();
      else made.settle();
    });
    made.sizes = sizes;
    let isDue = false;
    let lastTop = -1;
    const scrolled = () => {
      if (isDue) return;
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        if (made.target === null) made.note();
        if (Math.abs(pane.current.scrollTop - lastTop) > 100) {
          lastTop = pane.current.scrollTop;
          draw();
        }
      });
    };
    // When the user scrolls, points or presses a key, the timeline stops scrolling to its target.
    const stopAtUser = () => {
      if (made.target !== null) {
        made.target = null;
        made.note();
      }
    };
    const element = pane.current;
    element.addEventListener('scroll', scrolled, { passive: true });
    for (const name of ['wheel', 'touchstart', 'pointerdown', 'keydown']) element.addEventListener(name, stopAtUser, { passive: true });
    const box = new ResizeObserver(() => draw());
    box.observe(element);
    // The reply that is being written grows without a new event.
    const growing = new ResizeObserver(() => made.settle());
    growing.observe(element.querySelector('.tail'));
    draw();
    return () => {
      sizes.disconnect();
      box.disconnect();
      growing.disconnect();
      element.removeEventListener('scroll', scrolled);
      for (const name of ['wheel', 'touchstart', 'pointerdown', 'keydown']) element.removeEventListener(name, stopAtUser);
    };
  }, [log]);

  useLayoutEffect(() => {
    const made = scroller.current;
    made.settle();
    made.sizes.disconnect();
    for (const element of inner.current.children) if (element.dataset.page) made.sizes.observe(element);
  });

  let blocks = null;
  let height = 0;
  const made = scroller.current;
  const range = made ? made.range(AHEAD) : [0, 0];
  useEffect(() => { if (made && total > 0) log.want(range[0], range[1]); }, [Boolean(made), range[0], range[1], total, version]);
  if (made) {
    height = made.offsets[made.pages] ?? 0;
    blocks = [];
    for (let page = range[0]; page <= Math.min(range[1], made.pages - 1); page += 1) {
      blocks.push(html`
        <div key=${page} class="page" data-page=${page} style=${{ transform: `translateY(${made.offsets[page]}px)`, minHeight: log.pages.has(page) ? 0 : `${made.offsets[page + 1] - made.offsets[page]}px` }}>
          <${Block} log=${log} page=${page} context=${context} version=${version} /></div>`);
    }
  }
  return html`
    <div class="pane" ref=${pane} tabindex="0" role="region" aria-label="Timeline" aria-busy=${log.loading.size > 0}>
      <div class="pages" ref=${inner} style=${{ height: `${height}px` }}>${blocks}</div>
      ${log.error.value && html`<${Problem} error=${log.error.value} />`}
      ${total === 0 && html`<p class="empty">Nothing has happened yet.</p>`}
      <div class="tail">${tail}</div>
    </div>`;
}
