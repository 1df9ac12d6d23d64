/* SPDX-License-Identifier: Apache-2.0 */
/* Memory over time: one line for each figure, drawn anew with every sample. */
import { el, svg } from '/assets/dom.js';
import { byteMarks, Legend, timeMarks } from '/assets/figures.js';
import { bytes, clock } from '/assets/format.js';

const HEIGHT = 240;
const TOP = 12;
const LEFT = 64;
const RIGHT = 10;
const BOTTOM = 22;

/* Nobody asked for this long: no line across. */
const GAP_MS = 10000;

export class Curves {
  constructor(keys) {
    this.samples = [];
    this.figures = [];
    this.picture = svg('svg', { class: 'curves', role: 'img', 'aria-label': 'memory over time', height: HEIGHT });
    this.readout = el('p.readout', 'Reading the first figures\u2026');
    this.legend = new Legend(() => this.draw(), keys);
    this.element = el('div.curves-box', this.legend.element, this.picture, this.readout);
    this.picture.addEventListener('pointermove', event => this.point(event));
    this.picture.addEventListener('pointerleave', () => this.point(null));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  close() {
    this.observer.disconnect();
  }

  add({ figures, samples }) {
    this.figures = figures;
    const last = this.lastTime;
    this.samples.push(...samples.filter(([time]) => time > last));
    this.samples = this.samples.slice(-3600);
    this.draw();
  }

  get lastTime() {
    return this.samples.at(-1)?.[0] ?? 0;
  }

  column(key) {
    return 1 + this.figures.indexOf(key);
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0 || this.samples.length === 0)
      return;
    const end = this.lastTime;
    const start = Math.min(this.samples[0][0], end - 60000);
    const lines = this.legend.shown;
    const top = this.samples.reduce((most, sample) => lines.reduce((a, { key }) => Math.max(a, sample[this.column(key)]), most), 1);
    const marks = byteMarks(top * 1.02, 4);
    const x = time => LEFT + (time - start) / (end - start) * (width - LEFT - RIGHT);
    const y = value => TOP + (1 - value / marks.at(-1)) * (HEIGHT - BOTTOM - TOP);
    this.scale = { start, end, width, x, y };
    this.picture.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.picture.replaceChildren(...this.axes(marks), ...lines.map(line => this.line(line)), this.cursor());
    this.point(null);
  }

  axes(marks) {
    const { x, y, width, start, end } = this.scale;
    return [
      ...marks.flatMap(value => [
        svg('line', { class: 'mark', x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        svg('text', { class: 'mark', x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' }, bytes(value))]),
      ...timeMarks(start, end, width / 90).filter(([time]) => x(time) > LEFT + 20 && x(time) < width - 30).map(([time, text]) =>
        svg('text', { class: 'mark', x: x(time), y: HEIGHT - 5, 'text-anchor': 'middle' }, text)),
    ];
  }

  line({ key, index }) {
    const column = this.column(key);
    const { x, y } = this.scale;
    let path = '';
    let last = -Infinity;
    for (const sample of this.samples) {
      const at = `${x(sample[0]).toFixed(1)},${y(sample[column]).toFixed(1)}`;
      /* A line of no length is a dot, so that the first sample is seen. */
      path += sample[0] - last > GAP_MS ? `M${at}L${at}` : `L${at}`;
      last = sample[0];
    }
    return svg('path', { class: `line line-${index}`, d: path });
  }

  cursor() {
    this.cursorLine = svg('line', { class: 'cursor', y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
    return this.cursorLine;
  }

  point(event) {
    if (!this.scale)
      return;
    let sample = this.samples.at(-1);
    if (event !== null) {
      const { start, end, width } = this.scale;
      const box = this.picture.getBoundingClientRect();
      const time = start + (event.clientX - box.left - LEFT) / (width - LEFT - RIGHT) * (end - start);
      sample = this.samples.reduce((best, each) => Math.abs(each[0] - time) < Math.abs(best[0] - time) ? each : best);
    }
    const x = event === null ? -9 : this.scale.x(sample[0]);
    this.cursorLine.setAttribute('x1', x);
    this.cursorLine.setAttribute('x2', x);
    this.readout.textContent = event === null ? 'Sampled every second while this page is open.' : `at ${clock(new Date(sample[0]))}`;
    this.legend.show(key => sample[this.column(key)]);
  }
}
