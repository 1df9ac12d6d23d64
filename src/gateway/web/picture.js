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
 *	explain(problem)	where there is one: shows it in place of the picture, or returns false
 */
import { download, getJson, getText } from '/assets/api.js';
import { actionButton, copyLink, fill, filters, patternInput, problemBox, pushAddress, saveMenu, segments, select } from '/assets/controls.js';
import { el } from '/assets/dom.js';
import { loadFlame } from '/assets/flame_script.js';
import { GraphView } from '/assets/graph.js';
import { showKeys } from '/assets/keys.js';
import { RowTable } from '/assets/table.js';

const SHAPES = [['flame', 'Flame graph'], ['graph', 'Call graph'], ['text', 'Table'], ['source', 'Source']];
const COUNTERS = [['inuse_space', 'bytes in use'], ['inuse_objects', 'objects in use'], ['alloc_space', 'bytes allocated'],
  ['alloc_objects', 'objects allocated']];
const GRANULARITIES = [['functions', 'functions'], ['lines', 'lines'], ['files', 'files'], ['addresses', 'addresses']];
const SAVED = [['flame', 'Flame graph (HTML)', 'html'], ['graph', 'Call graph (SVG)', 'svg'], ['text', 'Table (text)', 'txt'],
  ['pprof', 'pprof (protobuf)', 'pb.gz'], ['collapsed', 'Collapsed stacks', 'txt'], ['json', 'JSON', 'json']];

/* What is drawn at once of a flame graph; details of it are loaded when it is zoomed. */
const FRAMES = 10000;

const SHOWN = [['png', 'What is shown (PNG)'], ['svg', 'What is shown (SVG)'], ['speedscope', 'What is shown (speedscope)']];

const FUNCTION = ['function', 'of functions', 'a pattern of names'];
const FILTERS = [['focus', 'only', 'only stacks with a function or file that matches'], ['ignore', 'without', 'no stacks with a function or file that matches'],
  ['hide', 'hide', 'no frames that match'], ['show', 'show', 'only frames that match'], ['show_from', 'show from', 'only stacks with a match, without its callers'],
  ['thread', 'thread', 'only what this thread allocated, by number or name, where the profile has threads'],
  ['bytes', 'object size', 'only objects of this size: 64kb:1mb, 4096: or :4096']];

export const PICTURE_KEYS = ['shape', 'counter', 'granularity', ...FILTERS.map(([key]) => key), 'sort', 'rows', 'function', 'view'];

export class PictureView {
  constructor(source) {
    this.source = source;
    this.place = el('div.picture');
    this.controls = el('div.controls');
    this.element = el('div', this.controls, this.place);
    this.onTheme = () => this.flame?.change({ theme: document.documentElement.dataset.theme });
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
    this.flame?.close();
    this.rows?.close();
    this.flame = null;
    this.rows = null;
    this.place.replaceChildren();
  }

  get shape() {
    return SHAPES.some(([key]) => key === this.source.values.shape) ? this.source.values.shape : 'flame';
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
        el('span.spring'), actionButton('Copy link', copyLink),
        saveMenu(saved.map(([format, text, extension]) =>
          [text, () => download(this.path(format), this.source.fileName(extension), this.fetchOptions())]).concat(this.shape !== 'flame' ? []
          : SHOWN.map(([format, text]) => [text, () => this.flame?.save(format)])))),
      this.shape === 'flame' ? null : el('div.row',
        select('of', COUNTERS, values.counter || 'inuse_space', counter => this.set({ counter })),
        this.shape === 'source' ? pattern(...FUNCTION) : select('by', GRANULARITIES, values.granularity || 'functions', granularity => this.set({ granularity })),
        filters(FILTERS.some(([key]) => values[key]), FILTERS.map(([key, label, title]) => pattern(key, label, title)))));
    this.controls.querySelectorAll('select, button, input').forEach((element, i) => { element.dataset.place = i; });
  }

  fetchOptions(signal) {
    return { ...this.source.request?.(), signal };
  }

  path(format, options = {}) {
    const { counter, granularity } = this.source.values;
    const hasOwn = format.startsWith('flame') || format === 'raw';
    return this.source.path(format, hasOwn ? {} : { counter, granularity, ...Object.fromEntries(FILTERS.map(([key]) => [key, this.source.values[key]])), ...options });
  }

  async draw() {
    this.clear();
    const request = new AbortController();
    this.request = request;
    this.place.replaceChildren(el('p.waiting', 'Reading symbols and drawing\u2026'));
    try {
      await this[`draw_${this.shape}`](request.signal);
    } catch (problem) {
      if (request.signal.aborted || this.source.explain?.(problem))
        return;
      this.place.replaceChildren(problemBox(problem, actionButton('Try again', () => this.draw())));
    }
  }

  async draw_flame(signal) {
    const flame = await loadFlame();
    const load = async options => getJson(this.source.path('flame-data', { frames: FRAMES, ...options }), this.fetchOptions(signal));
    const data = await load(flame.query(this.source.values.view ?? ''));
    if (signal.aborted)
      return;
    const box = el('div.flame');
    this.place.replaceChildren(box);
    this.flame = flame(box, data, {
      embedded: {
        load,
        text: this.source.values.view ?? '',
        theme: document.documentElement.dataset.theme,
        showKeys,
        toggleTheme: () => document.getElementById('theme').click(),
        changed: (view, isStep) => {
          this.source.values.view = view;
          history[isStep ? 'pushState' : 'replaceState'](null, '', this.source.link());
        },
      },
    });
  }

  async draw_graph(signal) {
    const text = await getText(this.path('graph'), this.fetchOptions(signal));
    const graph = new GraphView(text);
    this.place.replaceChildren(graph.element);
    graph.open();
  }

  /* Lines with what they allocate themselves and with all that they call. */
  async draw_source(signal) {
    const { values } = this.source;
    if (!values.function) {
      this.place.replaceChildren(el('p.empty', 'Enter a name: the source of all functions that match is shown with the figures of each line.'));
      return;
    }
    const text = await getText(this.path('source', { function: values.function, granularity: '' }), this.fetchOptions(signal));
    this.place.replaceChildren(el('pre.source', { tabIndex: 0 }, text));
  }

  async draw_text(signal) {
    const { values } = this.source;
    this.rows = new RowTable(options => getJson(this.path('rows', options), this.fetchOptions(signal)), values, this.source.isDifference(), {
      changed: chosen => {
        const isStep = chosen.rows === values.rows;
        Object.assign(values, chosen);
        /* A search is typed letter by letter. */
        if (isStep)
          pushAddress(this.source.link());
        else
          history.replaceState(null, '', this.source.link());
      },
      /* The function by its whole name. */
      pick: ({ name }) => this.set({ shape: 'flame', view: new URLSearchParams({ search: `^${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$` }).toString() }),
    });
    await this.rows.start();
    if (!signal.aborted)
      this.place.replaceChildren(this.rows.element);
    this.rows.draw();
  }
}
