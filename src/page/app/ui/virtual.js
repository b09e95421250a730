// A long list of rows of the same height. Only the rows in view are in the document.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/ui.js';

/** The number of rows drawn beyond the edges of the view. */
const AHEAD = 8;

/**
 * Scrolls with the window. `row(index)` returns the element of a row. `onRange(first, end)` is called with the range of
 * drawn rows. When `selected` changes, the list scrolls that row into view.
 */
export function VirtualList({ total, height, row, onRange, selected = -1, label, top = 48 }) {
  const element = useRef(null);
  const [range, setRange] = useState([0, Math.min(total, 40)]);
  const measure = () => {
    if (!element.current) return;
    const above = -element.current.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(above / height) - AHEAD);
    const end = Math.min(total, Math.ceil((above + innerHeight) / height) + AHEAD);
    setRange((old) => (old[0] === first && old[1] === end ? old : [first, Math.max(first, end)]));
  };
  useLayoutEffect(measure, [total, height]);
  useEffect(() => {
    let isDue = false;
    const soon = () => {
      if (isDue) return;
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        measure();
      });
    };
    addEventListener('scroll', soon, { passive: true });
    addEventListener('resize', soon);
    return () => {
      removeEventListener('scroll', soon);
      removeEventListener('resize', soon);
    };
  }, [total, height]);
  useEffect(() => onRange?.(range[0], range[1]), [range[0], range[1], total]);
  useEffect(() => {
    if (selected < 0 || !element.current) return;
    const y = element.current.getBoundingClientRect().top + selected * height;
    if (y < top + 8) scrollBy(0, y - top - 8);
    else if (y + height > innerHeight) scrollBy(0, y + height - innerHeight + 8);
  }, [selected]);
  const [first, end] = range;
  const rows = [];
  for (let index = first; index < Math.min(end, total); index += 1) {
    rows.push(html`<li key=${index} aria-setsize=${total} aria-posinset=${index + 1}
      style=${{ transform: `translateY(${index * height}px)`, height: `${height}px` }}>${row(index)}</li>`);
  }
  return html`<ol ref=${element} class="virtual" aria-label=${label} style=${{ height: `${total * height}px` }}>${rows}</ol>`;
}
