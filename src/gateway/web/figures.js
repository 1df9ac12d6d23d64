/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all curves over time: the figures, their switches, the marks of both axes. */
import { el, svg } from '/assets/dom.js';
import { bytes } from '/assets/format.js';
import { clock, day } from '/assets/time.js';

/* [key, name, what it is]; the position is the colour. */
const FIGURES = [
  ['rss', 'RSS', 'resident memory of the whole process, as the kernel counts it'],
  ['resident', 'resident', 'what the allocator keeps in memory, freed pages included, by its own count'],
  ['active', 'active', 'pages that hold allocations'],
  ['allocated', 'allocated', 'what the program has allocated'],
  ['retained', 'retained', 'address space that the allocator keeps without memory behind it'],
];

const UNTOUCHED = 'RSS is below what is allocated: the program has memory that it never touched. With a short sampling interval (lg_prof_sample below 16) '
  + 'much of it is the 16 KiB that each sampled object gets; heapctl account reports how much.';

/* Switches for the lines; `changed` is called after each change. */
export class Legend {
  constructor(changed, keys = FIGURES.map(([key]) => key)) {
    this.hidden = new Set(['retained']);
    this.values = new Map();
    this.labels = new Map();
    this.lines = FIGURES.map(([key, name, help], index) => ({ key, name, help, index })).filter(({ key }) => keys.includes(key));
    this.note = el('p.quiet', { hidden: true }, UNTOUCHED);
    this.element = el('div.legend', this.lines.map(line => this.makeSwitch(line, changed)));
  }

  makeSwitch({ key, name, help, index }, changed) {
    const value = el('span.value');
    this.values.set(key, value);
    const input = el('input', {
      type: 'checkbox', checked: !this.hidden.has(key),
      onchange: () => {
        input.checked ? this.hidden.delete(key) : this.hidden.add(key);
        changed();
      },
    });
    const label = el(`label.line-${index}`, { title: help }, input, el('i'), name, ' ', value);
    this.labels.set(key, label);
    return label;
  }

  /* An allocator other than jemalloc may report few figures: the others have no switch. */
  offer(isKnown) {
    for (const [key, label] of this.labels)
      label.hidden = !isKnown(key);
  }

  get shown() {
    return this.lines.filter(({ key }) => !this.hidden.has(key) && !this.labels.get(key).hidden);
  }

  /* figure: key => bytes */
  show(figure) {
    for (const [key, element] of this.values)
      element.textContent = bytes(figure(key));
    /* The element stays, because the mouse moves over snapshots with and without a reason. */
    if (this.values.has('allocated') && figure('rss') > 0 && figure('rss') < figure('allocated'))
      this.note.hidden = false;
  }
}

/* The marks of an axis of bytes that begins at 0: powers of two, which are round in KiB and MiB. */
export function byteMarks(top, wanted) {
  const raw = Math.max(1, top) / wanted;
  const power = 2 ** Math.floor(Math.log2(raw));
  const step = raw <= power ? power : 2 * power;
  const limit = Math.ceil(Math.max(1, top) / step) * step;
  return Array.from({ length: limit / step + 1 }, (_, i) => i * step);
}

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 15, 30].map(n => n * SECOND).concat([1, 2, 5, 10, 15, 30].map(n => n * MINUTE),
  [1, 2, 3, 6, 12].map(n => n * HOUR), [1, 2, 4, 7, 14, 30, 60, 120].map(n => n * DAY));

/* [time, text] at round times of the browser's time zone. */
function timeMarks(start, end, wanted) {
  const step = STEPS.find(each => (end - start) / each <= wanted) ?? STEPS.at(-1);
  const offset = -new Date(start).getTimezoneOffset() * MINUTE;
  const marks = [];
  for (let time = Math.ceil((start + offset) / step) * step - offset; time <= end; time += step) {
    const date = new Date(time);
    const text = clock(date);
    const isMidnight = text === '00:00:00';
    marks.push([time, step >= DAY || isMidnight ? day(date) : step < MINUTE ? text : text.slice(0, 5)]);
  }
  return marks;
}

/*
 * Both axes of a picture of that height. `scale` has its width, the times from `start` to `end` with their x, and the y of bytes; the
 * marks of bytes go from `left` to `right` pixels before its sides.
 */
export function axes({ x, y, width, start, end }, marks, { height, left, right }) {
  return [
    ...marks.flatMap(value => [
      svg('line', { class: 'mark', x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svg('text', { class: 'mark', x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, bytes(value))]),
    /* No text may overlap the other axis or the edge. */
    ...timeMarks(start, end, width / 90).filter(([time]) => x(time) > left + 18 && x(time) < width - 28).flatMap(([time, text]) => [
      svg('line', { class: 'mark', x1: x(time), x2: x(time), y1: height - 20, y2: height - 17 }),
      svg('text', { class: 'mark', x: x(time), y: height - 5, 'text-anchor': 'middle' }, text)]),
  ];
}
