/* SPDX-License-Identifier: Apache-2.0 */
/* Memory over time: one line for each figure, drawn anew with every sample. */
import { el, svg } from '/assets/dom.js';
import { bytes, moment } from '/assets/format.js';

const LINES = [
  ['rss', 'RSS', 'resident memory of the whole process'],
  ['resident', 'resident', 'what the allocator keeps in memory, freed pages included'],
  ['active', 'active', 'pages that hold allocations'],
  ['allocated', 'allocated', 'what the program has allocated'],
  ['retained', 'retained', 'address space without memory behind it'],
];

const HEIGHT = 240;
const LEFT = 64;
const BOTTOM = 22;

/* 1, 2 or 5 times a power of two's kin, so that the marks read well in KiB and MiB. */
function niceStep(span, marks) {
  const raw = span / marks;
  const power = 2 ** Math.floor(Math.log2(raw));
  return raw <= power ? power : 2 * power;
}

export class Curves {
  constructor() {
    this.samples = [];
    this.figures = [];
    this.hidden = new Set(['retained']);
    this.picture = svg('svg', { class: 'curves', role: 'img', 'aria-label': 'memory over time' });
    this.readout = el('p.readout');
    this.legend = el('div.legend', LINES.map(([key, name, help], index) => this.makeSwitch(key, name, help, index)));
    this.element = el('div.curves-box', this.legend, this.picture, this.readout);
    this.picture.addEventListener('pointermove', event => this.point(event));
    this.picture.addEventListener('pointerleave', () => this.point(null));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  close() {
    this.observer.disconnect();
  }

  makeSwitch(key, name, help, index) {
    const value = el('span.value');
    const input = el('input', {
      type: 'checkbox', checked: !this.hidden.has(key),
      onchange: () => {
        input.checked ? this.hidden.delete(key) : this.hidden.add(key);
        this.draw();
      },
    });
    return el(`label.line-${index}`, { title: help, 'data-key': key }, input, el('i'), name, ' ', value);
  }

  add({ figures, samples }) {
    this.figures = figures;
    const last = this.samples.at(-1)?.[0] ?? 0;
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

  shownLines() {
    return LINES.map(([key, name], index) => ({ key, name, index })).filter(({ key }) => !this.hidden.has(key));
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0 || this.samples.length === 0)
      return;
    const end = this.lastTime;
    const start = Math.min(this.samples[0][0], end - 60000);
    const lines = this.shownLines();
    const top = Math.max(1, ...this.samples.flatMap(sample => lines.map(({ key }) => sample[this.column(key)])));
    const step = niceStep(top * 1.05, 4);
    const limit = Math.ceil(top * 1.02 / step) * step;
    const x = time => LEFT + (time - start) / (end - start) * (width - LEFT - 8);
    const y = value => 8 + (1 - value / limit) * (HEIGHT - BOTTOM - 8);
    this.scale = { start, end, width, x, y };
    this.picture.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.picture.setAttribute('height', HEIGHT);
    this.picture.replaceChildren(...this.marks(limit, step), ...lines.map(line => this.line(line)), this.cursor());
    this.showValues(this.samples.at(-1));
  }

  marks(limit, step) {
    const { x, y, width, start, end } = this.scale;
    const made = [];
    for (let value = 0; value <= limit; value += step) {
      made.push(svg('line', { class: 'mark', x1: LEFT, x2: width - 8, y1: y(value), y2: y(value) }),
        svg('text', { class: 'mark', x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' }, bytes(value)));
    }
    for (const time of [start, (start + end) / 2, end]) {
      made.push(svg('text', {
        class: 'mark', x: x(time), y: HEIGHT - 5,
        'text-anchor': time === start ? 'start' : time === end ? 'end' : 'middle',
      }, moment(time)));
    }
    return made;
  }

  /* A gap in the samples is a gap in the line: nobody was watching. */
  line({ key, index }) {
    const column = this.column(key);
    const { x, y } = this.scale;
    let path = '';
    let last = -Infinity;
    for (const sample of this.samples) {
      path += `${sample[0] - last > 10000 ? 'M' : 'L'}${x(sample[0]).toFixed(1)},${y(sample[column]).toFixed(1)}`;
      last = sample[0];
    }
    return svg('path', { class: `line line-${index}`, d: path });
  }

  cursor() {
    this.cursorLine = svg('line', { class: 'cursor', y1: 8, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
    return this.cursorLine;
  }

  point(event) {
    if (!this.scale)
      return;
    if (event === null) {
      this.cursorLine.setAttribute('x1', -9);
      this.cursorLine.setAttribute('x2', -9);
      this.readout.textContent = '';
      this.showValues(this.samples.at(-1));
      return;
    }
    const { start, end, width, x } = this.scale;
    const box = this.picture.getBoundingClientRect();
    const time = start + (event.clientX - box.left - LEFT) / (width - LEFT - 8) * (end - start);
    const nearest = this.samples.reduce((best, sample) =>
      Math.abs(sample[0] - time) < Math.abs(best[0] - time) ? sample : best);
    this.cursorLine.setAttribute('x1', x(nearest[0]));
    this.cursorLine.setAttribute('x2', x(nearest[0]));
    this.readout.textContent = `at ${moment(nearest[0])}`;
    this.showValues(nearest);
  }

  showValues(sample) {
    for (const label of this.legend.children)
      label.querySelector('.value').textContent = bytes(sample[this.column(label.dataset.key)]);
  }
}
