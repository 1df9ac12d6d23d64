/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile or a difference as flame graph, call graph or table, with its controls. `source` has:
 *
 *	values		what is chosen; those of PICTURE_KEYS are of this file (`view` is the flame
 *			graph's own state), others are the source's
 *	isDifference()
 *	path(format, options)	the address of that format
 *	fileName(extension)
 *	link()		the page's address for the values
 *	leading()	elements before the shapes
 *	request()	where there is one: options of fetch, of a profile that is sent
 *	sides()		where there is one: the two parts (drawing.js) of a difference, the base first
 *	explain(problem)	where there is one: shows it in place of the picture, or returns false
 */
import { download } from '/assets/api.js';
import { actionButton, copyLink, fill, filters, patternInput, problemBox, pushAddress, segments, select } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { Drawing } from '/assets/drawing.js';
import { saveMenu } from '/assets/saving.js';

const SHAPES = [['flame', 'Flame graph'], ['graph', 'Call graph'], ['text', 'Table'], ['source', 'Source']];
const COUNTERS = [['inuse_space', 'bytes in use'], ['inuse_objects', 'objects in use'], ['alloc_space', 'bytes allocated'],
  ['alloc_objects', 'objects allocated']];
const GRANULARITIES = [['functions', 'functions'], ['lines', 'lines'], ['files', 'files'], ['addresses', 'addresses']];
const SAVED = [['flame', 'Flame graph (HTML)', 'html'], ['graph', 'Call graph (SVG)', 'svg'], ['text', 'Table (text)', 'txt'],
  ['pprof', 'pprof (protobuf)', 'pb.gz'], ['collapsed', 'Collapsed stacks', 'txt'], ['json', 'JSON', 'json']];

const SHOWN = [['png', 'What is shown (PNG)'], ['svg', 'What is shown (SVG)'], ['speedscope', 'What is shown (speedscope)']];

const COMPARISONS = [['', 'Difference'], ['beside', 'Side by side']];
const FUNCTION = ['function', 'of functions', 'a pattern of names'], CODES = [['', 'source'], ['disasm', 'assembly']];
const FILTERS = [['focus', 'only', 'only stacks with a function or file that matches'], ['ignore', 'without', 'no stacks with a function or file that matches'],
  ['hide', 'hide', 'no frames that match'], ['show_frames', 'show', 'only frames that match'], ['show_from', 'show from', 'only stacks with a match, without its callers'],
  ['prune_from', 'prune from', 'nothing below the innermost function that matches: it allocates that itself'],
  ['thread', 'thread', 'only what this thread allocated, by number or name, where the profile has threads'],
  ['bytes', 'object size', 'only objects of this size: 64kb:1mb, 4096: or :4096'],
  ['tagignore', 'without samples', 'no samples with thread=REGEX or bytes=LOW:HIGH']];
/* In an address `show` is the view of two snapshots or of a fleet. */
const filterOption = key => key === 'show_frames' ? 'show' : key;

export const PICTURE_KEYS = ['shape', 'compare', 'counter', 'granularity', ...FILTERS.map(([key]) => key), 'sort', 'rows', 'function', 'code', 'view'];

export class PictureView {
  constructor(source) {
    this.source = source;
    this.place = el('div.picture');
    this.controls = el('div.controls');
    this.element = el('div', this.controls, this.place);
    this.drawings = [];
    this.onTheme = () => this.drawings.forEach(({ flame }) => flame?.change({ theme: document.documentElement.dataset.theme }));
    addEventListener('themechange', this.onTheme);
    this.drawControls();
    this.draw();
  }

  close() {
    removeEventListener('themechange', this.onTheme);
    this.clear();
  }

  clear() {
    this.request?.abort();
    this.drawings.forEach(drawing => drawing.close());
    this.drawings = [];
    this.place.replaceChildren();
  }

  /* All of the drawings: one alone says nothing. */
  cancel(waiting) {
    this.clear();
    this.place.append(waiting.remains(button('Draw again', () => this.draw()), this.source.cancelled));
  }

  get shape() {
    return this.source.values.shape || 'flame';
  }

  get shapes() {
    return SHAPES;
  }

  get hasSource() {
    return true;
  }

  get isBeside() {
    return this.source.values.compare === 'beside' && this.source.isDifference() && Boolean(this.source.sides);
  }

  /* Of what is drawn. */
  isDifference() {
    return this.source.isDifference() && !this.isBeside;
  }

  /* The flame graph's state belongs to one profile. */
  set(changes) {
    const isSame = Object.keys(changes).every(key => PICTURE_KEYS.includes(key));
    Object.assign(this.source.values, isSame ? {} : { view: '' }, changes);
    pushAddress(this.source.link());
    const focused = this.focusedLabel();
    this.drawControls();
    this.controls.querySelector(focused)?.focus();
    this.draw();
  }

  /* The focused control keeps the focus when the controls are rebuilt. */
  focusedLabel() {
    const all = [...this.controls.querySelectorAll('select, button, input')];
    const index = all.indexOf(document.activeElement);
    all.forEach((element, i) => { element.dataset.place = i; });
    return index < 0 ? 'nothing' : `[data-place="${index}"]`;
  }

  drawControls() {
    const { values } = this.source;
    const pattern = (key, label, title) => patternInput(label, values[key], title, value => this.set({ [key]: value }));
    const saved = this.source.isDifference() || this.source.request ? SAVED : [...SAVED, ['raw', 'Raw profile', 'heap']];
    fill(this.controls,
      el('div.row', this.source.leading(), segments('as', SHAPES, this.shape, shape => this.set({ shape })),
        /* A table of changes has another order. */
        this.source.sides && this.source.isDifference() ? segments('compare', COMPARISONS, this.isBeside ? 'beside' : '', compare => this.set({ compare, sort: '', view: '' })) : null,
        el('span.spring'), actionButton('Copy link', copyLink),
        saveMenu(saved.map(([format, text, extension]) =>
          [text, options => download(this.path(format), this.source.fileName(extension), { ...this.source.request?.(), ...options })]).concat(this.shape !== 'flame' ? []
          : SHOWN.map(([format, text]) => [text, () => this.saveShown(format)])))),
      this.shape === 'flame' ? null : el('div.row',
        select('of', COUNTERS, values.counter || 'inuse_space', counter => this.set({ counter })),
        this.shape === 'source' ? [pattern(...FUNCTION), select('as', CODES, values.code, code => this.set({ code }))] : select('by', GRANULARITIES, values.granularity || 'functions', granularity => this.set({ granularity })),
        filters(FILTERS.some(([key]) => values[key]), FILTERS.map(([key, label, title]) => pattern(key, label, title)))));
    this.controls.querySelectorAll('select, button, input').forEach((element, i) => { element.dataset.place = i; });
  }

  async saveShown(format) {
    for (const { flame } of this.drawings)
      await flame?.save(format);
  }

  path(format, options = {}, part = this.source) {
    const { counter, granularity } = this.source.values;
    const hasOwn = format.startsWith('flame') || format === 'raw';
    return part.path(format, hasOwn ? {} : { counter, granularity, ...Object.fromEntries(FILTERS.map(([key]) => [filterOption(key), this.source.values[key]])), ...options });
  }

  async draw() {
    this.clear();
    if (!this.shapes.some(([key]) => key === this.shape)) {
      this.place.append(problemBox({ message: `There is no view \u2018${this.shape}\u2019 of a profile`, hint: 'Choose one above.' }));
      return;
    }
    const request = new AbortController();
    this.request = request;
    const drawings = [];
    drawings.push(...(this.isBeside ? this.source.sides() : [this.source]).map(part => new Drawing(this, part, drawings)));
    this.drawings = drawings;
    this.place.replaceChildren(drawings.length > 1 ? el('div.beside', drawings.map(({ element }) => element)) : drawings[0].element);
    try {
      await Promise.all(drawings.map(drawing => drawing.draw(request.signal)));
    } catch (problem) {
      if (request.signal.aborted || this.source.explain?.(problem))
        return;
      this.place.replaceChildren(problemBox(problem, actionButton('Try again', () => this.draw())));
    }
  }
}
