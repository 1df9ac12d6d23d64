/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kept snapshots of a name over time: one line for each figure and process, a tick for each snapshot,
 * a mark where a process began, a shade where nothing was kept, a flag for each note, a dashed line where a leak began. A click chooses a snapshot, dragging a range between two; so do the
 * arrow keys with Enter and Shift.
 */
import { el, svg } from '/assets/dom.js';
import { axes, byteMarks, Legend } from '/assets/figures.js';
import { findHoles, holeTest, processKey } from '/assets/holes.js';
import { dateTime } from '/assets/time.js';

const HEIGHT = 280;
const TOP = 40;
/* Marks closer than this are drawn as one, with their number. */
const CLUSTER = 12;
const NOTE_WIDTH = 130;
const NOTE_CHARACTERS = 18;
const LEFT = 64;
const RIGHT = 12;
const STRIP = 14;
const BOTTOM = 22 + STRIP;
const PLOT_BOTTOM = HEIGHT - BOTTOM;
const DRAG_PIXELS = 5;
const BEGIN_WIDTH = 110;

const REASONS_SHOWN = 5;

function describeCaptures(snapshots) {
  const lines = snapshots.slice(0, REASONS_SHOWN).map(({ time_ms: time, reason }) => `${dateTime(time)}: ${reason}`);
  return snapshots.length === 1 ? snapshots[0].reason
    : [`${snapshots.length} captures`, ...lines, ...snapshots.length > REASONS_SHOWN ? ['\u2026'] : []].join('\n');
}

export class Timeline {
  /* choose(first, last): snapshots, equal for one */
  constructor(choose) {
    this.choose = choose;
    this.snapshots = [];
    this.selection = null;
    this.notes = [];
    this.onsets = [];
    this.at = -1;
    this.picture = svg('svg', {
      class: 'curves timeline', height: HEIGHT, tabindex: 0, role: 'slider', 'aria-label': 'kept snapshots', 'aria-describedby': 'timeline-help',
    });
    this.readout = el('p.readout', { 'aria-live': 'polite' });
    this.legend = new Legend(() => this.draw());
    this.holeText = el('p.hole-text');
    this.element = el('div.curves-box', this.legend.element, this.picture, this.readout, this.holeText, this.legend.note);
    this.listen();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  close() {
    this.observer.disconnect();
  }

  /* selection: [first, last] or null */
  show(snapshots, processes, selection) {
    this.snapshots = snapshots;
    this.legend.offer(key => key === 'rss' || snapshots.some(snapshot => snapshot[key] !== null));
    this.isHole = holeTest(snapshots);
    this.holes = findHoles(snapshots);
    this.processes = processes;
    this.selection = selection;
    this.at = -1;
    this.draw();
  }

  /* [{ time_ms, text }], by time */
  setNotes(notes) {
    this.notes = notes;
    this.draw();
  }

  /* [{ time_ms, name }]: when the growth of a suspected leak began */
  setOnsets(onsets) {
    this.onsets = onsets;
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0 || this.snapshots.length === 0)
      return;
    let start = this.snapshots[0].time_ms, end = this.snapshots.at(-1).time_ms;
    if (end - start < 1000)
      [start, end] = [start - 30000, end + 30000];
    const lines = this.legend.shown;
    const top = this.snapshots.reduce((max, snapshot) => lines.reduce((a, { key }) => Math.max(a, snapshot[key]), max), 1);
    const marks = byteMarks(top * 1.02, 4);
    const x = time => LEFT + (time - start) / (end - start) * (width - LEFT - RIGHT);
    const y = value => TOP + (1 - value / marks.at(-1)) * (PLOT_BOTTOM - TOP);
    this.scale = { start, end, width, x, y };
    this.band = svg('g');
    this.cursorLine = svg('line', { class: 'cursor', y1: TOP, y2: PLOT_BOTTOM, x1: -9, x2: -9 });
    this.picture.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.picture.replaceChildren(...axes(this.scale, marks, { height: HEIGHT, left: LEFT, right: RIGHT }), ...this.holes.map(hole => this.hole(hole)), this.band, ...this.begins(), ...lines.flatMap(line => this.lines(line)), ...this.drawOnsets(), ...this.drawNotes(),
      ...this.ticks(), this.cursorLine);
    this.drawSelection(this.selection);
    this.point(this.at);
  }

  /* Where a process that is not the first one was seen for the first time. */
  begins() {
    const { x, width } = this.scale;
    let free = LEFT;
    return this.processes.slice(1).flatMap(process => {
      const at = x(process.first_ms);
      const line = svg('line', { class: 'begin', x1: at, x2: at, y1: TOP - 8, y2: PLOT_BOTTOM }, svg('title', {}, `process ${process.pid}`));
      const text = `pid ${process.pid} begins`;
      const isLeft = at > width - BEGIN_WIDTH;
      if ((isLeft ? at - BEGIN_WIDTH : at) < free)
        return [line];
      free = isLeft ? width : at + BEGIN_WIDTH;
      return [line, svg('text', { class: 'mark', x: at + (isLeft ? -4 : 4), y: TOP - 10, 'text-anchor': isLeft ? 'end' : 'start' }, text)];
    });
  }

  /* Items within so few pixels of the first one together: [x, items]. */
  cluster(items) {
    const { x } = this.scale;
    const groups = [];
    for (const item of items) {
      const at = x(item.time_ms), last = groups.at(-1);
      if (last && at - last[0] < CLUSTER)
        last[1].push(item);
      else
        groups.push([at, [item]]);
    }
    return groups;
  }

  drawNotes() {
    const { start, end, width } = this.scale;
    let free = LEFT;
    return this.cluster(this.notes.filter(({ time_ms: time }) => time >= start && time <= end)).map(([at, notes]) => {
      const isLeft = at > width - NOTE_WIDTH;
      const text = notes.length > 1 ? `${notes.length} notes` : notes[0].text.length > NOTE_CHARACTERS ? `${notes[0].text.slice(0, NOTE_CHARACTERS - 1)}\u2026` : notes[0].text;
      const hasRoom = (isLeft ? at - NOTE_WIDTH : at) >= free;
      if (hasRoom)
        free = isLeft ? width : at + NOTE_WIDTH;
      return svg('g', { class: 'note' }, svg('title', {}, notes.map(note => `${dateTime(note.time_ms)}: ${note.text}`).join('\n')),
        svg('path', { d: `M${at.toFixed(1)},${PLOT_BOTTOM}V4h9l-3,4l3,4h-9` }),
        ...hasRoom ? [svg('text', { x: at + (isLeft ? -4 : 12), y: 12, 'text-anchor': isLeft ? 'end' : 'start' }, text)] : []);
    });
  }

  drawOnsets() {
    const { start, end, x } = this.scale;
    return this.onsets.filter(({ time_ms: time }) => time > start && time < end).map(({ time_ms: time, name }) =>
      svg('path', { class: 'onset', d: `M${x(time).toFixed(1)},${TOP}V${PLOT_BOTTOM}` }, svg('title', {}, `${name} began to grow at ${dateTime(time)}`)));
  }

  hole([from, to, reason]) {
    const { x } = this.scale;
    return svg('rect', { class: 'hole', x: x(from).toFixed(1), y: TOP, width: (x(to) - x(from)).toFixed(1), height: PLOT_BOTTOM - TOP },
      svg('title', {}, reason));
  }

  /* One path for each process: between two nothing is known, and neither is within a hole. */
  lines({ key, index }) {
    const { x, y } = this.scale;
    const paths = new Map(), last = new Map();
    /* The figures may have been lost with the index. */
    for (const snapshot of this.snapshots.filter(each => each[key] !== null)) {
      const process = processKey(snapshot);
      const at = `${x(snapshot.time_ms).toFixed(1)},${y(snapshot[key]).toFixed(1)}`;
      const isBegin = !last.has(process) || this.isHole(last.get(process), snapshot);
      paths.set(process, `${paths.get(process) ?? ''}${isBegin ? `M${at}` : ''}L${at}`);
      last.set(process, snapshot);
    }
    return [...paths.values()].map(d => svg('path', { class: `line line-${index}`, d }));
  }

  /* A captured snapshot, one with a reason, stands out. */
  ticks() {
    const { x } = this.scale;
    const y = PLOT_BOTTOM + 5;
    const path = snapshots => snapshots.map(snapshot => `M${x(snapshot.time_ms).toFixed(1)},${y}v${STRIP - 6}`).join('');
    const captured = this.cluster(this.snapshots.filter(snapshot => snapshot.reason));
    return [svg('path', { class: 'tick', d: path(this.snapshots.filter(snapshot => !snapshot.reason)) }),
      ...captured.map(([at, snapshots]) => svg('g', { class: 'captured' }, svg('title', {}, describeCaptures(snapshots)),
        snapshots.length === 1 ? svg('path', { d: `M${at.toFixed(1)},${y - 1}l5,5l-5,5l-5,-5z` })
          : svg('text', { x: at + CLUSTER / 2, y: y + 8, 'text-anchor': 'middle' }, `\u25c6${snapshots.length}`)))];
  }

  drawSelection(selection) {
    if (!this.scale)
      return;
    this.band.replaceChildren();
    if (selection === null)
      return;
    const { x } = this.scale;
    const [from, to] = selection.map(snapshot => x(snapshot.time_ms));
    this.band.append(svg('rect', { class: 'band', x: from, y: TOP, width: Math.max(0, to - from), height: PLOT_BOTTOM - TOP }),
      ...[...new Set([from, to])].map(at => this.edge(at)));
  }

  edge(at) {
    return svg('path', { class: 'edge', d: `M${at.toFixed(1)},${TOP}V${PLOT_BOTTOM + STRIP}` });
  }

  nearest(clientX) {
    const { start, end, width } = this.scale;
    const box = this.picture.getBoundingClientRect();
    const time = start + (clientX - box.left - LEFT) / (width - LEFT - RIGHT) * (end - start);
    let best = 0;
    this.snapshots.forEach((snapshot, i) => {
      if (Math.abs(snapshot.time_ms - time) < Math.abs(this.snapshots[best].time_ms - time))
        best = i;
    });
    return best;
  }

  /* Shows the figures of that snapshot; -1 for those of the last one. */
  point(index) {
    this.at = index;
    const snapshot = this.snapshots.at(index);
    const x = index < 0 ? -9 : this.scale.x(snapshot.time_ms);
    this.cursorLine.setAttribute('x1', x);
    this.cursorLine.setAttribute('x2', x);
    this.legend.show(key => snapshot[key]);
    const text = `${dateTime(snapshot.time_ms)}, pid ${snapshot.pid}${snapshot.reason ? `, captured because ${snapshot.reason}` : ''}`;
    this.readout.textContent = index < 0 ? `last: ${text}` : text;
    this.holeText.textContent = this.describeHoles(snapshot.time_ms, index < 0);
    this.picture.setAttribute('aria-valuemin', 1);
    this.picture.setAttribute('aria-valuemax', this.snapshots.length);
    this.picture.setAttribute('aria-valuenow', index < 0 ? this.snapshots.length : index + 1);
    this.picture.setAttribute('aria-valuetext', text);
  }

  /* The one that ends or begins at that time, or the last one. */
  describeHoles(time, isLast) {
    const hole = isLast ? this.holes.at(-1) : this.holes.find(([from, to]) => from === time || to === time);
    if (!hole)
      return '';
    const [from, to, why] = hole;
    const others = isLast && this.holes.length > 1 ? `; ${this.holes.length - 1} more before it` : '';
    return `nothing was kept from ${dateTime(from)} to ${dateTime(to)}: ${why}${others}`;
  }

  pick(a, b) {
    const [first, last] = a < b ? [a, b] : [b, a];
    this.choose(this.snapshots[first], this.snapshots[last]);
  }

  /* The other end when a range grows. */
  get anchor() {
    const index = this.selection ? this.snapshots.indexOf(this.selection[0]) : -1;
    return index < 0 ? null : index;
  }

  listen() {
    const { picture } = this;
    const shown = index => [this.snapshots[Math.min(this.from, index)], this.snapshots[Math.max(this.from, index)]];
    picture.addEventListener('pointerdown', event => {
      if (!this.scale || event.button !== 0)
        return;
      this.from = this.nearest(event.clientX);
      this.downX = event.clientX;
      picture.setPointerCapture(event.pointerId);
    });
    picture.addEventListener('pointermove', event => {
      if (!this.scale)
        return;
      const index = this.nearest(event.clientX);
      this.point(index);
      if (this.downX !== undefined && Math.abs(event.clientX - this.downX) > DRAG_PIXELS)
        this.drawSelection(shown(index));
    });
    picture.addEventListener('pointerup', event => {
      if (this.downX === undefined)
        return;
      const isDrag = Math.abs(event.clientX - this.downX) > DRAG_PIXELS;
      const index = this.nearest(event.clientX);
      this.downX = undefined;
      if (isDrag)
        this.pick(this.from, index);
      else
        this.pick(event.shiftKey && this.anchor !== null ? this.anchor : index, index);
    });
    picture.addEventListener('pointercancel', () => {
      this.downX = undefined;
      this.drawSelection(this.selection);
    });
    picture.addEventListener('pointerleave', () => this.scale && this.downX === undefined && this.point(-1));
    picture.addEventListener('keydown', event => this.key(event));
  }

  key(event) {
    const last = this.snapshots.length - 1;
    const at = this.at < 0 ? last : this.at;
    const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: last };
    if (!this.scale || event.ctrlKey || event.metaKey || event.altKey)
      return;
    if (event.key in steps) {
      const index = Math.min(last, Math.max(0, steps[event.key]));
      this.keyFrom = event.shiftKey ? this.keyFrom ?? at : undefined;
      this.point(index);
      if (event.shiftKey)
        this.drawSelection([this.snapshots[Math.min(this.keyFrom, index)], this.snapshots[Math.max(this.keyFrom, index)]]);
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.pick(this.keyFrom ?? at, at);
      this.keyFrom = undefined;
    } else {
      return;
    }
    event.preventDefault();
  }
}
