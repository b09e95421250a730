// The vertical positions of the log's pages: measured or estimated heights, and an anchor that keeps the visible events
// in place while the events around them change.
import { PAGE, pageOf } from './log.js';

/** The estimated height of an event until enough pages are measured, in pixels. */
const GUESS = 84;
/** The maximum number of pixels that a browser scrolls reliably. */
const PIXELS_MAX = 12e6;
/** The maximum number of pages whose heights are kept. The oldest heights are estimated again. */
const MEASURED_MAX = 400;
/** Within this distance of the end, the view counts as being at the end, in pixels. */
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
    /** The position that was set last. A scroll event with this position is not the user's. */
    this.setTop = null;
  }

  resize(total) {
    this.events = total;
    this.pages = Math.ceil(total / PAGE);
  }

  /** The estimated height of an event: the mean of the measured ones. */
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

  /** Stores the height of a page. Returns whether it has changed. */
  measure(page, height) {
    if (Math.abs((this.heights.get(page) ?? -1) - height) < 0.5) return false;
    this.heights.set(page, height);
    if (this.heights.size > MEASURED_MAX) this.heights.delete(this.heights.keys().next().value);
    return true;
  }

  /** Computes the offsets of all pages and of the end. */
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

  /** Stores the position of the upper edge. It is called when the user scrolls. */
  note() {
    const { scrollTop, clientHeight, scrollHeight } = this.pane;
    const page = this.at(scrollTop);
    this.anchor = { page, within: scrollTop - this.offsets[page] };
    // Between setting a position and its event, the log may grow. The view follows it all the same.
    if (this.setTop !== null && Math.abs(scrollTop - this.setTop) < 1) return;
    this.setTop = null;
    this.isAtEnd = scrollTop + clientHeight >= scrollHeight - NEAR_END;
  }

  /** Returns the page at an offset. */
  at(y) {
    let [low, high] = [0, Math.max(0, this.pages - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.offsets[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Returns the first and the last visible page, with `ahead` more pixels on both sides. */
  range(ahead) {
    const { scrollTop, clientHeight } = this.pane;
    return [this.at(scrollTop - ahead), this.at(scrollTop + clientHeight + ahead)];
  }

  /**
   * Scrolls to the target if there is one, to the end if the view was there, otherwise back to the anchor. A log that
   * fits into the view shows its end, so the view follows it when it grows.
   */
  settle() {
    const { pane } = this;
    const isKnown = this.heights.size >= this.pages;
    if (isKnown && this.target === null && pane.scrollHeight <= pane.clientHeight + 1) this.isAtEnd = true;
    let top = this.offsets[Math.min(this.anchor.page, this.pages)] + this.anchor.within;
    if (this.target !== null) top = this.#targetTop();
    else if (this.isAtEnd) top = pane.scrollHeight;
    const most = pane.scrollHeight - pane.clientHeight;
    top = Math.max(0, Math.min(top, most));
    if (Math.abs(pane.scrollTop - top) >= 1) {
      pane.scrollTop = top;
      this.setTop = pane.scrollTop;
    }
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

  /** Returns the element that shows an event. An answer is shown with its call. */
  element(sequence) {
    return this.pane.querySelector(`[data-seqs~="${sequence}"]`);
  }

  /** Goes to an event and keeps it in view until the user scrolls. */
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
