/* SPDX-License-Identifier: Apache-2.0 */
/* What takes long: for how long already, how much was sent or has arrived, and a button that cancels it. */
import { fill } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { bytes } from '/assets/format.js';
import { duration } from '/assets/time.js';

/* What is there within a second needs no button. */
export const QUICK_MS = 1000;

export class Waiting {
  /* The button calls cancel(). */
  constructor(text, cancel) {
    this.begin = performance.now();
    this.figures = el('span.quiet');
    this.cancel = button('Cancel', cancel, { hidden: true });
    this.element = el('div.waiting', el('p', { role: 'status' }, text), this.figures, this.cancel);
    this.timer = setInterval(() => this.tick(), QUICK_MS);
  }

  get duration() {
    return duration(performance.now() - this.begin);
  }

  /* Without a place in the page, it is over. */
  tick() {
    if (!this.element.isConnected) {
      clearInterval(this.timer);
      return;
    }
    const { size = 0, whole = 0, way } = this;
    this.figures.textContent = size === 0 ? this.duration : `${this.duration}, ${bytes(size)}${whole >= size ? ` of ${bytes(whole)}` : ''} ${way}`;
    this.cancel.hidden = false;
  }

  /* Options of api.js. */
  options(signal) {
    const move = way => (size, whole) => Object.assign(this, { size, whole, way });
    return { signal, sent: move('sent'), received: move('received') };
  }

  /* What stands in its place once it was cancelled. */
  remains(again, remark) {
    return el('div.empty', el('p', { role: 'status' }, `Cancelled after ${this.duration}.`), remark ? el('p.quiet', remark) : null, el('p', again));
  }
}

/* Shows in `place` that `work`, which gets the options of its requests, is waited for. `again` is a button for a person who has cancelled it: then the result is null. */
export async function waitFor(place, text, request, again, work) {
  let isCancelled = false;
  const waiting = new Waiting(text, () => {
    isCancelled = true;
    request.abort();
    fill(place, waiting.remains(again));
  });
  fill(place, waiting.element);
  try {
    return await work(waiting.options(request.signal));
  } catch (problem) {
    if (isCancelled)
      return null;
    throw problem;
  }
}
