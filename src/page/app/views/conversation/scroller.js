// Where the pages of the log stand: heights that are measured or guessed, and an anchor that keeps what one reads in
// its place while things around it change.
import { PAGE, pageOf } from './log.js';

/** The height of an event that nobody has measured, in pixels. */
const GUESS = 84;
/** The most pixels a browser can scroll reliably. */
const PIXELS_MAX = 12e6;
/** Pages whose heights are kept; those measured first are guessed again. */
const MEASURED_MAX = 400;
/** How near to its end it counts as being there. */
const NEAR_END = 60;

export class Scroller {
  constructor(pane) {
    this.pane = pane;
    this.heights = new Map();
    this.pages = 0;
    this.events = 0;
    this.anchor = { page: 0, within: 0 };
    this.target = null;
    this.isAtEnd = false;
  }

  resize(total) {
    this.events = total;
    this.pages = Math.ceil(total / PAGE);
  }

  /** The mean height of what was measured, for the rest. */
  get guess() {
    let sum = 0;
    let count = 0;
    for (const height of this.heights.values()) {
      sum += height;
      count += PAGE;
    }
    const mean = count >= PAGE * 2 ? sum / count : GUESS;
    return Math.min(mean, PIXELS_MAX / Math.max(1, this.events));
  }

  /** Notes the height of a page; tells whether it is another than before. */
  measure(page, height) {
    if (Math.abs((this.heights.get(page) ?? -1) - height) < 0.5) return false;
    this.heights.set(page, height);
    if (this.heights.size > MEASURED_MAX) this.heights.delete(this.heights.keys().next().value);
    return true;
  }

  /** Offsets of all pages, and of the end. */
  layout() {
    const guess = this.guess;
    const offsets = new Float64Array(this.pages + 1);
    for (let page = 0; page < this.pages; page += 1) {
      const events = Math.min(PAGE, this.events - page * PAGE);
      offsets[page + 1] = offsets[page] + (this.heights.get(page) ?? events * guess);
    }
    this.offsets = offsets;
    return offsets;
  }

  /** Notes what stands at the upper edge; called when somebody scrolls. */
  note() {
    const { scrollTop, clientHeight, scrollHeight } = this.pane;
    const page = this.at(scrollTop);
    this.anchor = { page, within: scrollTop - this.offsets[page] };
    this.isAtEnd = scrollTop + clientHeight >= scrollHeight - NEAR_END;
  }

  /** The page at a height. */
  at(y) {
    let [low, high] = [0, Math.max(0, this.pages - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.offsets[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The first and the last page that are seen, with `ahead` pixels on both sides. */
  range(ahead) {
    const { scrollTop, clientHeight } = this.pane;
    return [this.at(scrollTop - ahead), this.at(scrollTop + clientHeight + ahead)];
  }

  /** Puts what was at the upper edge back there, or the target into sight, or the end. */
  settle() {
    const { pane } = this;
    let top = this.offsets[Math.min(this.anchor.page, this.pages)] + this.anchor.within;
    if (this.target !== null) top = this.#targetTop();
    else if (this.isAtEnd) top = pane.scrollHeight;
    const most = pane.scrollHeight - pane.clientHeight;
    top = Math.max(0, Math.min(top, most));
    if (Math.abs(pane.scrollTop - top) >= 1) pane.scrollTop = top;
  }

  #targetTop() {
    const { pane, target } = this;
    const element = this.element(target);
    if (element) {
      const box = element.getBoundingClientRect();
      const within = box.top - pane.getBoundingClientRect().top;
      return pane.scrollTop + within - Math.max(12, Math.min(120, (pane.clientHeight - box.height) / 3));
    }
    const page = Math.min(pageOf(target), this.pages - 1);
    const height = this.offsets[page + 1] - this.offsets[page];
    return this.offsets[page] + (height * (target % PAGE)) / PAGE - 100;
  }

  /** What shows an event; an answer is shown by its call. */
  element(sequence) {
    return this.pane.querySelector(`[data-seqs~="${sequence}"]`);
  }

  /** Goes to an event and stays with it until somebody scrolls. */
  goTo(sequence) {
    this.target = Math.max(0, Math.min(sequence, this.events - 1));
    this.isAtEnd = false;
    this.settle();
  }

  goToEnd() {
    this.target = null;
    this.isAtEnd = true;
    this.settle();
  }
}
