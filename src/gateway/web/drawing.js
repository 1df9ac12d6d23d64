/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One profile in one shape: a flame graph, a call graph, a table or source. `part` has:
 *
 *	title		what it is of, where several are beside each other
 *	path(format, options)	the address of that format
 *	request()	where there is one: options of fetch
 *	size		where there is one: of what is sent, in bytes
 *
 * Several drawings are linked: what is zoomed, filtered or sorted in one is so in all, and what is
 * pointed at in one is marked in the others.
 */
import { getJson, getText } from '/assets/api.js';
import { pushAddress } from '/assets/controls.js';
import { el } from '/assets/dom.js';
import { bytes } from '/assets/format.js';
import { loadFlame } from '/assets/flame_script.js';
import { GraphView } from '/assets/graph.js';
import { showKeys } from '/assets/keys.js';
import { RowTable } from '/assets/table.js';
import { Waiting } from '/assets/waiting.js';

/* What is drawn at once of a flame graph; details of it are loaded when it is zoomed. */
const FRAMES = 10000;

/* The files of which a listing has lines without their text. */
function filesWithoutSource(listing) {
  const routines = listing.split(/^ROUTINE =+ /m).slice(1).map(text => text.split('\n'));
  return [...new Set(routines.filter(([, , ...lines]) => lines.every(line => /^(---|\s*|\s*\S+\s+\S+\s+\d+:\s*)$/.test(line)))
    .map(([head]) => head.replace(/^.* in /, '')))];
}

/* A pattern of the whole name. */
const patternOf = name => `^${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`;

export class Drawing {
  /* `picture` is a PictureView, `others` the drawings that are linked with it, itself among them. */
  constructor(picture, part, others) {
    Object.assign(this, { picture, part, others });
    this.waiting = new Waiting(part.size ? `Sending ${bytes(part.size)}, reading symbols and drawing\u2026` : 'Reading symbols and drawing\u2026',
      () => picture.cancel(this.waiting));
    this.element = el('section.drawing', { 'aria-label': part.title ?? null }, this.waiting.element);
  }

  close() {
    this.flame?.close();
    this.rows?.close();
  }

  draw(signal) {
    return this[`draw_${this.picture.shape}`](signal);
  }

  fetchOptions(signal) {
    return { ...this.part.request?.(), ...this.waiting.options(signal) };
  }

  path(format, options) {
    return this.picture.path(format, options, this.part);
  }

  show(...content) {
    this.element.replaceChildren(...(this.part.title && this.picture.shape !== 'flame' ? [el('h2', this.part.title)] : []), ...content);
  }

  get linked() {
    return this.others.filter(other => other !== this);
  }

  async draw_flame(signal) {
    const flame = await loadFlame();
    const { values } = this.picture.source;
    const load = async options => getJson(this.part.path('flame-data', { frames: FRAMES, ...options }), this.fetchOptions(signal));
    const data = await load(flame.query(values.view ?? ''));
    if (signal.aborted)
      return;
    const box = el('div.flame');
    this.show(box);
    this.flame = flame(box, data, {
      embedded: {
        load,
        text: values.view ?? '',
        label: this.part.title,
        theme: document.documentElement.dataset.theme,
        /* A key that is pressed beside the pictures is of the first one. */
        hasPageKeys: this.others[0] === this,
        showKeys,
        showSource: this.picture.hasSource ? name => this.picture.set({ shape: 'source', function: patternOf(name) }) : null,
        toggleTheme: () => document.getElementById('theme').click(),
        changed: (view, isStep) => {
          values.view = view;
          history[isStep ? 'pushState' : 'replaceState'](null, '', this.picture.source.link());
          this.linked.forEach(({ flame }) => flame?.follow(view));
        },
        hovered: keys => this.linked.forEach(({ flame }) => flame?.point(keys)),
      },
    });
  }

  async draw_graph(signal) {
    const graph = new GraphView(await getText(this.path('graph'), this.fetchOptions(signal)));
    this.show(graph.element);
    graph.open();
  }

  /* Lines, or instructions, with what they allocate themselves and with all that they call. */
  async draw_source(signal) {
    const { values } = this.picture.source;
    if (!values.function) {
      this.show(el('p.empty', 'Enter a name: the source, or the assembly, of all functions that match is shown with the figures of each line.'));
      return;
    }
    const text = await getText(this.path(values.code === 'disasm' ? 'disasm' : 'source', { function: values.function, granularity: '' }), this.fetchOptions(signal));
    const missing = values.code === 'disasm' ? [] : filesWithoutSource(text);
    this.show(missing.length > 0 ? el('p.empty', `No source of ${missing.join(', ')}: the gateway has it neither below the folders of --source-root nor from a server of --debuginfod.`)
      : null, el('pre.source', { tabIndex: 0 }, text));
  }

  async draw_text(signal) {
    const { source } = this.picture, { values } = source;
    this.rows = new RowTable(options => getJson(this.path('rows', options), this.fetchOptions(signal)), values, this.picture.isDifference(), {
      changed: chosen => {
        const isStep = chosen.rows === values.rows;
        Object.assign(values, chosen);
        /* A search is typed letter by letter. */
        if (isStep)
          pushAddress(source.link());
        else
          history.replaceState(null, '', source.link());
        this.linked.forEach(({ rows }) => rows?.follow(chosen));
      },
      pick: ({ name }) => this.picture.set({ shape: 'flame', view: new URLSearchParams({ search: patternOf(name) }).toString() }),
      title: this.part.title,
      hovered: name => this.linked.forEach(({ rows }) => rows?.point(name)),
    });
    await this.rows.start();
    if (signal.aborted)
      return;
    this.show(this.rows.element);
    this.rows.draw();
  }
}
