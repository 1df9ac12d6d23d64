/* SPDX-License-Identifier: Apache-2.0 */
/* Memory over time: one line for each figure, redrawn with every sample, behind what a history kept before. */
import { el, svg } from '/assets/dom.js';
import { axes, byteMarks, Legend } from '/assets/figures.js';
import { holeTest } from '/assets/holes.js';
import { clock } from '/assets/time.js';

const HEIGHT = 240;
const TOP = 12;
const LEFT = 64;
const RIGHT = 10;
const BOTTOM = 22;

/* Samples further apart have a gap between them: no line across. */
const GAP_MS = 10000;
const PAGE_CLOSED = 'this page was closed, or in the background';

export class Curves {
  /* gapped() is called when samples of a time before are missing, which a history may have. */
  constructor(keys, gapped = () => {}) {
    this.gapped = gapped;
    this.samples = [];
    this.snapshots = [];
    /* Snapshots from before the samples and between them, in their form. */
    this.kept = [];
    this.misses = [];
    /* Times of samples whose answer came late. */
    this.late = new Set();
    this.figures = [];
    this.picture = svg('svg', { class: 'curves', role: 'img', 'aria-label': 'memory over time', height: HEIGHT });
    this.readout = el('p.readout', 'Reading the first figures\u2026');
    this.holeText = el('p.hole-text', { role: 'status' });
    this.legend = new Legend(() => this.draw(), keys);
    this.element = el('div.curves-box', this.legend.element, this.picture, this.readout, this.holeText, this.legend.note);
    this.picture.addEventListener('pointermove', event => this.point(event));
    this.picture.addEventListener('pointerleave', () => this.point(null));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  close() {
    this.observer.disconnect();
  }

  /* question() => the gateway's answer with what is new */
  async ask(question) {
    const begun = performance.now();
    try {
      this.add(await question(), performance.now() - begun);
    } catch (problem) {
      if (this.failing !== problem.message)
        this.misses.push([this.lastTime + 1, problem.message]);
      this.failing = problem.message;
      this.draw();
      throw problem;
    }
  }

  /* A gap is where there was no answer or no request; a late answer leaves none. */
  add({ figures, samples, misses }, waited) {
    const last = this.lastTime;
    const fresh = samples.filter(([time]) => time > last);
    const step = last > 0 && fresh.length > 0 ? fresh[0][0] - last : 0;
    if (step > 0 && step <= GAP_MS + waited)
      this.late.add(fresh[0][0]);
    else if (step > 0)
      this.gapped();
    this.figures = figures;
    this.failing = null;
    if (fresh.length > 0)
      this.lastAt = performance.now();
    this.samples = [...this.samples, ...fresh].slice(-3600);
    this.misses = [...this.misses, ...misses].filter(([time]) => time > this.samples[0]?.[0]);
    this.draw();
  }

  /* Snapshots of the history, of this process. */
  showKept(snapshots) {
    this.snapshots = snapshots;
    this.isKeptHole = holeTest(snapshots);
    this.draw();
  }

  /* Why there is no line between two samples; null when there is one. */
  reason(before, after) {
    const miss = this.misses.find(([time]) => time > before && time <= after);
    return miss?.[1] ?? (after - before > GAP_MS && !this.late.has(after) ? PAGE_CLOSED : null);
  }

  /* The snapshots between two times, with the samples at its ends: `points` as samples, and whether a line leads to each. */
  keptBetween(from, to) {
    const snapshots = this.snapshots.filter(({ time_ms: time }) => time > from && time < to);
    const [before, after] = [from, to].map(end => this.samples.find(([time]) => time === end));
    if (snapshots.length === 0)
      return null;
    const points = [before, ...snapshots.map(snapshot => [snapshot.time_ms, ...this.figures.map(key => snapshot[key])]), after].filter(Boolean);
    const moments = [before && { ...snapshots[0], time_ms: from }, ...snapshots, after && { ...snapshots.at(-1), time_ms: to }].filter(Boolean);
    const isLed = moments.map((moment, i) => i > 0 && !this.isKeptHole(moments[i - 1], moment));
    return { from, points, isLed, isWhole: before && after && isLed.slice(1).every(Boolean), samples: points.slice(before ? 1 : 0, after ? -1 : undefined) };
  }

  /* [from, to, reason] */
  findHoles() {
    const holes = [];
    this.samples.forEach(([time], i) => {
      const reason = i > 0 && this.reason(this.samples[i - 1][0], time);
      if (reason)
        holes.push([this.samples[i - 1][0], time, reason]);
    });
    if (this.failing)
      holes.push([this.lastTime, this.lastTime + performance.now() - this.lastAt, this.failing]);
    return holes;
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
    const gaps = this.findHoles();
    const kept = [this.keptBetween(0, this.samples[0][0]), ...gaps.map(([from, to]) => this.keptBetween(from, to))].filter(Boolean);
    /* While the page was closed, a history was kept. */
    this.holes = gaps.filter(([from, , reason]) => reason !== PAGE_CLOSED || !kept.some(row => row.isWhole && row.from === from));
    const end = this.failing ? gaps.at(-1)[1] : this.lastTime;
    this.kept = kept.flatMap(({ samples }) => samples);
    const start = Math.min(...[this.kept[0], this.samples[0]].filter(Boolean).map(([time]) => time), end - 60000);
    const lines = this.legend.shown;
    const top = [...this.kept, ...this.samples].reduce((max, sample) => lines.reduce((a, { key }) => Math.max(a, sample[this.column(key)]), max), 1);
    const marks = byteMarks(top * 1.02, 4);
    const x = time => LEFT + (time - start) / (end - start) * (width - LEFT - RIGHT);
    const y = value => TOP + (1 - value / marks.at(-1)) * (HEIGHT - BOTTOM - TOP);
    this.scale = { start, end, width, x, y };
    this.picture.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.picture.replaceChildren(...axes(this.scale, marks, { height: HEIGHT, left: LEFT, right: RIGHT }), ...this.holes.map(hole => this.hole(hole)), ...lines.flatMap(line => [this.keptLine(line, kept), this.line(line, gaps)]), this.cursor());
    const hole = this.holes.at(-1);
    const text = hole ? this.describe(hole) : '';
    /* Screen readers would read a text again that is set again. */
    if (this.holeText.textContent !== text)
      this.holeText.textContent = text;
    this.point(null);
  }

  hole([from, to, reason]) {
    const { x } = this.scale;
    return svg('rect', { class: 'hole', x: x(from).toFixed(1), y: TOP, width: (x(to) - x(from)).toFixed(1), height: HEIGHT - BOTTOM - TOP },
      svg('title', {}, reason));
  }

  describe([from, to, reason]) {
    const isOn = this.failing && from === this.lastTime;
    return `No figures from ${clock(new Date(from))} ${isOn ? 'on' : `to ${clock(new Date(to))}`}: ${reason.replace(/\.$/, '')}.`;
  }

  /* As far as the samples beside them, unless too long a time lies between. */
  keptLine({ key, index }, rows) {
    const column = this.column(key), { x, y } = this.scale;
    const d = rows.map(({ points, isLed }) => points.map((point, i) => point[column] === null ? ''
      : `${isLed[i] && points[i - 1][column] !== null ? 'L' : 'M'}${x(point[0]).toFixed(1)},${y(point[column]).toFixed(1)}`).join('')).join('');
    return svg('path', { class: `kept line-${index}`, d });
  }

  line({ key, index }, gaps) {
    const column = this.column(key);
    const { x, y } = this.scale;
    const begins = new Set([this.samples[0][0], ...gaps.map(([, to]) => to)]);
    let path = '';
    for (const sample of this.samples) {
      const at = `${x(sample[0]).toFixed(1)},${y(sample[column]).toFixed(1)}`;
      /* A line of no length is a dot, so that the first sample is seen. */
      path += begins.has(sample[0]) ? `M${at}L${at}` : `L${at}`;
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
    let hole;
    if (event !== null) {
      const { start, end, width } = this.scale;
      const box = this.picture.getBoundingClientRect();
      const time = start + (event.clientX - box.left - LEFT) / (width - LEFT - RIGHT) * (end - start);
      sample = [...this.kept, ...this.samples].reduce((best, each) => Math.abs(each[0] - time) < Math.abs(best[0] - time) ? each : best);
      hole = this.holes.find(([from, to]) => time > from && time < to);
    }
    const x = event === null ? -9 : this.scale.x(sample[0]);
    this.cursorLine.setAttribute('x1', x);
    this.cursorLine.setAttribute('x2', x);
    this.readout.textContent = hole ? this.describe(hole)
      : event === null ? `Sampled every second while this page is open${this.kept.length > 0 ? '; what was kept before is thinner' : ''}.` : `at ${clock(new Date(sample[0]))}`;
    this.legend.show(key => sample[this.column(key)]);
  }
}
