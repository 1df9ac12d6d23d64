/* SPDX-License-Identifier: Apache-2.0 */
/* A run, what is in use now, or the difference of two: as flame graph, call graph or table. */
import { download, getJson, getText, query } from '/assets/api.js';
import { actionButton, el, fill, notify, problemBox } from '/assets/dom.js';
import { moment } from '/assets/format.js';
import { GraphView } from '/assets/graph.js';

const SHAPES = [['flame', 'Flame graph'], ['graph', 'Call graph'], ['text', 'Table']];
const COUNTERS = [['inuse_space', 'bytes in use'], ['inuse_objects', 'objects in use'], ['alloc_space', 'bytes allocated'],
  ['alloc_objects', 'objects allocated']];
const GRANULARITIES = [['functions', 'functions'], ['lines', 'lines'], ['files', 'files'], ['addresses', 'addresses']];
const SAVED = [['flame', 'Flame graph', 'html'], ['graph', 'Call graph', 'svg'], ['text', 'Table', 'txt'], ['pprof', 'pprof', 'pb.gz'],
  ['collapsed', 'Collapsed stacks', 'txt'], ['json', 'JSON', 'json'], ['raw', 'Raw profile', 'heap']];

function select(label, options, value, change) {
  return el('label', label, ' ', el('select', { onchange: event => change(event.target.value) },
    options.map(([key, text]) => el('option', { value: key, selected: key === value }, text))));
}

let flameScript = null;

/* The flame graph's script is a plain one with a global entry point; it is needed here only. */
function loadFlame() {
  flameScript ??= new Promise((resolve, reject) => {
    const script = el('script', { src: '/assets/flame.js' });
    script.addEventListener('load', resolve);
    script.addEventListener('error', () => reject(new Error('The flame graph\u2019s script did not load.')));
    document.head.append(script);
  });
  return flameScript;
}

class ProfileView {
  constructor(page, target, status, runs, values) {
    this.target = target;
    this.status = status;
    this.runs = runs;
    const newest = runs.findLast(run => run.state === 'finished');
    this.values = {
      id: values.get('id') ?? (newest ? String(newest.id) : 'now'),
      base: values.get('base') ?? '',
      shape: values.get('shape') ?? 'flame',
      counter: values.get('counter') ?? '',
      granularity: values.get('granularity') ?? '',
      focus: values.get('focus') ?? '',
      ignore: values.get('ignore') ?? '',
    };
    this.place = el('div.picture');
    this.controls = el('div.controls');
    page.append(this.controls, this.place);
    this.onTheme = () => this.flame?.change({ theme: document.documentElement.dataset.theme });
    addEventListener('themechange', this.onTheme);
  }

  close() {
    removeEventListener('themechange', this.onTheme);
    this.clear();
  }

  clear() {
    this.request?.abort();
    this.flame?.close();
    this.flame = null;
    this.place.replaceChildren();
  }

  choices(withNothing) {
    const runs = this.runs.filter(run => run.state === 'finished').toReversed()
      .map(run => [String(run.id), `run of ${moment(run.started_ms)}`]);
    const known = [['now', 'in use now'], ...runs];
    const wanted = withNothing ? this.values.base : this.values.id;
    /* An address that a colleague sent may name a run that is gone: the gateway says so. */
    if (wanted && !known.some(([key]) => key === wanted))
      known.push([wanted, `run ${wanted}`]);
    return withNothing ? [['', 'nothing'], ...known] : known;
  }

  set(changes) {
    Object.assign(this.values, changes);
    history.replaceState(null, '', this.target.link('profile', this.values));
    this.drawControls();
    this.draw();
  }

  drawControls() {
    const { values } = this;
    const pattern = key => el('input', {
      value: values[key], placeholder: 'pattern', size: 12, spellcheck: false,
      onchange: event => this.set({ [key]: event.target.value }),
    });
    fill(this.controls,
      el('div.row',
        select('Show', this.choices(false), values.id, id => this.set({ id })),
        select('compared with', this.choices(true), values.base, base => this.set({ base })),
        el('div.segments', { role: 'group', 'aria-label': 'as' }, SHAPES.map(([key, text]) => el('button', {
          type: 'button', 'aria-pressed': String(values.shape === key), onclick: () => this.set({ shape: key }),
        }, text)))),
      values.shape === 'flame' ? null : el('div.row',
        select('of', COUNTERS, values.counter || 'inuse_space', counter => this.set({ counter })),
        select('by', GRANULARITIES, values.granularity || 'functions', granularity => this.set({ granularity })),
        el('label', 'only ', pattern('focus')), el('label', 'without ', pattern('ignore'))),
      el('div.row.quiet',
        actionButton('Copy link', () => this.copyLink(), { className: 'plain' }),
        el('details.save', el('summary', 'Save as'), el('div.menu', SAVED.map(([format, text, extension]) =>
          actionButton(text, () => download(this.path(format), this.fileName(extension)), { className: 'plain' }))))));
  }

  fileName(extension) {
    const { id, base } = this.values;
    return `${this.status.name}.${id}${base ? `-${base}` : ''}.${extension}`;
  }

  path(format) {
    const { id, base, counter, granularity, focus, ignore } = this.values;
    const isFlame = format.startsWith('flame');
    return this.target.path(`/api/v1/profile${query({
      id, base, format,
      ...(isFlame ? {} : { counter, granularity, focus, ignore }),
    })}`);
  }

  async copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      notify('The link is on the clipboard.');
    } catch {
      prompt('The link:', location.href);
    }
  }

  async draw() {
    this.clear();
    const request = new AbortController();
    this.request = request;
    const busy = el('p.busy', 'Reading symbols and drawing\u2026');
    this.place.replaceChildren(busy);
    try {
      await this[`draw_${this.values.shape}`](request.signal);
    } catch (problem) {
      if (request.signal.aborted)
        return;
      this.place.replaceChildren(problemBox(problem,
        actionButton('Show the raw profile', () => download(this.path('raw'), this.fileName('heap')))));
    }
  }

  async draw_flame(signal) {
    const [data] = await Promise.all([getJson(this.path('flame-data'), { signal }), loadFlame()]);
    if (signal.aborted)
      return;
    const box = el('div.flame');
    this.place.replaceChildren(box);
    this.flame = globalThis.heapctlFlame(box, data, { useHash: false });
    this.onTheme();
  }

  async draw_graph(signal) {
    const text = await getText(this.path('graph'), { signal });
    const graph = new GraphView(text);
    this.place.replaceChildren(graph.element);
    graph.fit();
  }

  async draw_text(signal) {
    const text = await getText(this.path('text'), { signal });
    const [total, ...lines] = text.trimEnd().split('\n');
    const rows = lines.map(line => line.trim().split(/\s+/)).map(words => [...words.slice(0, 5), words.slice(5).join(' ')]);
    this.place.replaceChildren(el('p.total', total), el('div.scroll', el('table.figures',
      el('thead', el('tr', ['Flat', 'Flat %', 'Sum %', 'With callees', '%', 'Function'].map((heading, i) =>
        el(i < 5 ? 'th.number' : 'th', { scope: 'col' }, heading)))),
      el('tbody', rows.map(cells => el('tr', cells.map((cell, i) => el(i < 5 ? 'td.number' : 'td.name', cell))))))));
  }
}

export async function showProfile(page, target, status, values) {
  if (!status.profiling.available) {
    page.append(problemBox({ message: status.profiling.reason, hint: status.profiling.cure }));
    return () => {};
  }
  const { runs } = await getJson(target.path('/v1/runs'));
  const view = new ProfileView(page, target, status, runs, values);
  view.drawControls();
  view.draw();
  return () => view.close();
}
