/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph: heapctlFlame(container, data, options) fills the container and returns the
 * graph; close() removes it. In another page, options.embedded has `text`, the initial state,
 * `changed(text, isStep)`, which is called with every later state, and the page's `theme`.
 * Alone, the state is in the page's address. update() draws everything from `state`.
 */
class FlameGraph {
  constructor(container, data, options) {
    this.container = container;
    this.embedded = options.embedded ?? null;
    this.model = new Model(data);
    this.initial = this.initialState(data);
    this.state = this.initial;
    this.chart = new Chart({
      hover: (box, event) => this.hover(box, event),
      click: box => box && this.click(box),
      contextMenu: (box, event) => this.zoomOutBy(box, event),
    });
    const actions = {
      zoom: box => this.zoomTo(box),
      focus: (node, order) => this.focusOn(node, order),
      copy: text => this.copy(text, text),
      copyStack: box => this.copyStack(box),
      select: node => this.selectFunction(node),
    };
    this.details = new Details(actions);
    this.table = new FunctionTable(actions);
    this.tooltip = new Tooltip();
    this.callers = null;
    this.help = makeHelp();
    this.build(data);
    this.listen();
    this.readState(this.embedded ? this.embedded.text : location.hash.slice(1));
    this.update();
  }

  initialState(data) {
    return {
      counter: data.shown,
      isFlame: false,
      order: data.is_inverted ? 'callers' : 'callees',
      colour: data.is_difference ? 'difference' : this.defaultColour(data.shown),
      query: '',
      focus: -1,
      zoom: [],
      theme: this.embedded?.theme ?? '',
    };
  }

  /* Colours by module are useful unless one module covers nearly everything. */
  defaultColour(counter) {
    const areas = [...this.model.measure(counter).moduleAreas(this.model).values()];
    const sum = areas.reduce((a, b) => a + b, 0);
    return Math.max(0, ...areas) < 0.8 * sum ? 'module' : 'function';
  }

  build(data) {
    const field = (label, control) => el('label', el('span', label), control);
    const select = (options, key) => {
      const element = el('select', ...options.map(([value, text]) => el('option', { value }, text)));
      element.addEventListener('change', () =>
        this.change({ [key]: key === 'counter' ? Number(element.value) : element.value }));
      return element;
    };
    this.counterSelect = select(data.counters.map(({ label }, i) => [i, label]), 'counter');
    const colours = [['module', 'by module'], ['function', 'by function']];
    if (data.is_difference)
      colours.unshift(['difference', 'by change']);
    this.colourSelect = select(colours, 'colour');
    this.flameButtons = this.makeSwitch('Direction', [['Icicle', false], ['Flame', true]], isFlame => this.change({ isFlame }));
    this.orderButtons = this.makeSwitch('Order', [['Callees', 'callees'], ['Callers', 'callers'], ['Both', 'both']],
      order => this.setOrder(order));
    this.buildSearch();
    this.total = el('p.fg-total');
    this.crumbs = el('nav.fg-crumbs', { 'aria-label': 'Zoom' });
    this.legend = el('ul.fg-legend', { 'aria-label': 'Colours' });
    this.announcer = el('p.fg-hidden', { id: 'flame-announcer', 'aria-live': 'polite' });
    this.root = el('div.fg',
      el('header.fg-header',
        el('div.fg-title', el('h1', data.title || 'Heap profile'),
          el('p', this.describe(data))), this.total),
      el('div.fg-toolbar', { role: 'toolbar', 'aria-label': 'View' },
        field('Show', this.counterSelect), this.orderButtons.element, this.flameButtons.element,
        field('Colour', this.colourSelect), this.search,
        ...(this.embedded ? []
          : [this.makeSaveMenu(), makeButton('\u25d0', 'Light or dark (t)', () => this.toggleTheme(), { 'aria-label': 'Light or dark' })]),
        makeButton('?', 'Keys (?)', () => this.help.showModal(), { 'aria-label': 'Keys' })),
      this.crumbs,
      el('div.fg-main',
        el('div.fg-picture', this.chart.element, this.legend),
        el('aside.fg-side', this.details.element, this.table.element)),
      this.announcer, this.tooltip.element, this.help);
    this.container.replaceChildren(this.root);
  }

  describe(data) {
    return [data.is_difference ? 'what changed' : '', data.subtitle, data.sampling].filter(Boolean).join(' \u00b7 ');
  }

  /* Another page has a menu of its own. */
  makeSaveMenu() {
    const menu = el('details.fg-save', el('summary', 'Save'));
    const way = (text, format) => makeButton(text, `What is shown, as ${text}`, () => {
      menu.open = false;
      this.save(format).catch(problem => alert(problem.message));
    });
    menu.append(el('div', way('PNG', 'png'), way('SVG', 'svg')));
    return menu;
  }

  /* The whole picture as a file, in the colours of the screen. */
  async save(format) {
    const { data } = this.model, { chart, tree } = this, title = data.title || 'heap';
    const heading = `${title}, ${tree.measure.counter.label}: ${this.total.firstChild.textContent}`;
    chart.beginPrint(Math.max(chart.width, 1000));
    try {
      saveFile(format === 'svg' ? pictureAsSvg(chart, heading) : await pictureAsPng(chart),
        `${title.replace(/[^\w.-]+/g, '_')}.flame.${format}`);
    } finally {
      chart.endPrint();
    }
  }

  makeSwitch(label, choices, choose) {
    const buttons = choices.map(([text, value]) =>
      makeButton(text, `${label}: ${text.toLowerCase()}`, () => choose(value)));
    return {
      element: el('div.fg-switch', { role: 'group', 'aria-label': label }, ...buttons),
      buttons,
      show: value => buttons.forEach((button, i) =>
        button.setAttribute('aria-pressed', String(choices[i][1] === value))),
    };
  }

  buildSearch() {
    this.searchInput = el('input', {
      type: 'search', placeholder: 'Search: a name or regular expression', spellcheck: false,
      autocomplete: 'off', 'aria-label': 'Search functions', 'aria-keyshortcuts': '/',
    });
    this.searchResult = el('output.fg-matched');
    this.search = el('div.fg-search', { role: 'search' }, this.searchInput, this.searchResult);
    let timer = 0;
    this.searchInput.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.change({ query: this.searchInput.value }), 120);
    });
    this.searchInput.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        clearTimeout(timer);
        this.change({ query: this.searchInput.value });
        this.selectMatch(1);
        this.chart.canvas.focus();
      } else if (event.key === 'Escape') {
        clearTimeout(timer);
        this.change({ query: '' });
        this.chart.canvas.focus();
      }
      event.stopPropagation();
    });
  }

  listen() {
    const dark = matchMedia('(prefers-color-scheme: dark)');
    this.listeners = new AbortController();
    const on = (target, name, handler) =>
      target.addEventListener(name, handler, { signal: this.listeners.signal });
    on(dark, 'change', () => this.update());
    on(this.root, 'keydown', event => this.handleKey(event));
    on(document, 'keydown', event => event.target === document.body && this.handleKey(event));
    on(window, 'hashchange', () => !this.embedded && this.applyHash());
    on(window, 'beforeprint', () => this.print(true));
    on(window, 'afterprint', () => this.print(false));
  }

  close() {
    this.listeners.abort();
    this.container.replaceChildren();
  }

  get isDark() {
    return !this.isPrinting && (this.state.theme === '' ? matchMedia('(prefers-color-scheme: dark)').matches
      : this.state.theme === 'dark');
  }

  /* The function that is chosen, or -1. */
  get node() {
    return (this.selected ?? this.zoom).node;
  }

  get isSandwich() {
    return this.callers !== null;
  }

  /* Callers and callees at once are those of one function. */
  setOrder(order) {
    if (order === 'both' && this.state.focus < 0)
      this.focusOn(this.node, order);
    else
      this.change({ order });
  }

  /* Another state; a turned or refocused tree starts unzoomed, another counter keeps its place. */
  change(changes, isStep = false) {
    const turns = ['order', 'focus'].some(key => key in changes && changes[key] !== this.state[key]);
    this.state = { ...this.state, ...(turns ? { zoom: [] } : {}), ...changes };
    if (turns)
      this.selected = null;
    this.update();
    this.writeState(isStep || turns);
  }

  /* Makes everything follow the state. */
  update() {
    const { state, model } = this, measure = model.measure(state.counter);
    if (this.root.dataset.theme !== (this.isDark ? 'dark' : 'light') || !this.colours) {
      this.root.dataset.theme = this.isDark ? 'dark' : 'light';
      this.colours = new Colours(model, this.isDark);
      this.colours.rankModules(measure);
    }
    this.updateTree();
    this.updateMatches(measure);
    this.counterSelect.value = state.counter;
    this.colourSelect.value = state.colour;
    this.flameButtons.show(state.isFlame);
    this.orderButtons.show(state.order);
    this.total.replaceChildren(...this.totalText(measure));
    this.updateCrumbs();
    this.updateLegend();
    this.showTable();
    this.showSelection();
  }

  showTable() {
    const shown = { model: this.model, measure: this.tree.measure, matches: this.matches };
    const key = [this.state.counter, this.state.query].join();
    if (key !== this.tableKey)
      this.table.show(shown);
    this.tableKey = key;
  }

  updateTree() {
    const { counter, order, focus, zoom } = this.state, key = [counter, order, focus].join();
    if (key !== this.treeKey) {
      const lineage = this.selected?.lineage.slice(1).map(box => box.node);
      const isAbove = this.isSandwich && this.selected?.tree === this.callers;
      this.tree = new Tree(this.model, counter, order === 'callers', focus);
      this.callers = order === 'both' ? new Tree(this.model, counter, true, focus) : null;
      this.treeKey = key;
      this.hovered = null;
      this.selected = lineage ? (isAbove && this.callers || this.tree).find(lineage) : null;
    }
    this.zoom = this.tree.find(zoom);
  }

  updateMatches(measure) {
    const { names } = this.model, pattern = compileSearch(this.state.query);
    this.matches = pattern && Uint8Array.from(names, name => pattern.test(name) ? 1 : 0);
    if (document.activeElement !== this.searchInput)
      this.searchInput.value = this.state.query;
    if (!pattern) {
      this.searchResult.textContent = '';
      return;
    }
    const sum = measure.sumMatches(this.model, this.matches), isChange = this.model.isDifference;
    const found = this.matches.reduce((a, b) => a + b, 0), value = isChange ? sum.now - sum.base : sum.now;
    const share = percent(value, isChange ? measure.sum.size : measure.sum.now);
    this.searchResult.textContent = found === 0 ? 'nothing found' : `${count(found)} function${
      found === 1 ? '' : 's'}, ${formatValue(measure, value, isChange)}${share && ` (${share})`}`;
  }

  totalText(measure) {
    const { sum, counter } = measure, isChange = this.model.isDifference;
    const value = formatValue(measure, isChange ? sum.now - sum.base : sum.now, isChange);
    const parts = [el('strong', value)];
    if (sum.variance + sum.baseVariance > 0)
      parts.push(el('span', ` (${formatInterval(measure, sum, isChange)})`));
    parts.push(el('small', isChange ? `${counter.label}: ${formatValue(measure, sum.base)} \u2192 ${
      formatValue(measure, sum.now)}` : this.readPart(measure)));
    return parts;
  }

  /* After a filter, the total before it. */
  readPart({ sum, counter, unit }) {
    const isPart = counter.total - sum.now > counter.total * 0.0005;
    return isPart ? `${counter.label}, of ${formatValue({ unit }, counter.total)}` : counter.label;
  }

  updateCrumbs() {
    const { names } = this.model, { focus, order } = this.state;
    const crumb = (box, text, isLast) => {
      const button = makeButton(text, text, () => this.zoomTo(box));
      if (isLast)
        button.setAttribute('aria-current', 'location');
      return button;
    };
    const boxes = this.zoom.lineage, items = [];
    if (focus >= 0)
      items.push(makeButton(`\u2715 ${order === 'both' ? 'callers and callees' : order} of`, 'Back to everything (Home)',
        () => this.change({ focus: -1, order: 'callees' })));
    boxes.forEach((box, i) => {
      if (boxes.length > 9 && i > 1 && i < boxes.length - 6) {
        if (i === 2)
          items.push(el('span', ELLIPSIS));
        return;
      }
      const name = box.node < 0 ? 'all' : shortenName(names[box.node]);
      items.push(crumb(box, name, i === boxes.length - 1));
    });
    if (items.length === 1)
      items[0] = el('p', this.tree.root.size > 0 ? 'Click a box to zoom in. Arrow keys move, / searches, ? shows all keys.'
        : `Nothing to draw: ${this.tree.measure.counter.label} is 0. A profile has what was allocated while sampling was on.`);
    this.crumbs.replaceChildren(...items);
    this.crumbs.classList.toggle('fg-idle', items.length === 1);
  }

  updateLegend() {
    const { colours, state } = this;
    const entry = (colour, text) => {
      const swatch = el('i.fg-swatch');
      swatch.style.backgroundColor = css(colour);
      return el('li', swatch, text);
    };
    const entries = state.colour === 'module'
      ? colours.modules.slice(0, 8).map(module => entry(colours.ofModule(module), module))
      : state.colour === 'difference' ? [entry(colours.ofChange(1), 'grown or new'),
        entry(colours.ofChange(0), 'as before'), entry(colours.ofChange(-1), 'shrunk or gone')] : [];
    if (colours.modules.length > 8 && state.colour === 'module')
      entries.push(el('li', `and ${colours.modules.length - 8} more`));
    if (this.tree.measure.hasErrors)
      entries.push(el('li', el('i.fg-swatch.fg-striped'),
        this.model.isDifference ? 'within the error' : 'few samples'));
    this.legend.replaceChildren(...entries);
  }

  showSelection() {
    const { model, state, zoom, tree, colours } = this;
    const box = this.selected ?? (zoom.node >= 0 ? zoom : null);
    this.details.show(box, model, tree.measure, box && colours.fill(box, state.colour));
    this.table.mark(box ? box.node : -1);
    this.orderButtons.buttons[2].disabled = this.node < 0;
    this.chart.show({
      tree, callers: this.callers, zoom, colours, names: model.names, matches: this.matches, colour: state.colour,
      isFlame: state.isFlame, selected: this.selected, hovered: this.hovered,
    });
  }

  hover(box, event) {
    if (event?.pointerType === 'touch')
      return;
    const { model, tree } = this;
    this.tooltip.show(box, event, model, tree.measure, box && (box.node < 0 ? 'all' : model.names[box.node]));
    this.chart.canvas.style.cursor = box ? 'pointer' : '';
    if (box === this.hovered)
      return;
    this.hovered = box;
    this.chart.picture.hovered = box;
    this.chart.requestDraw();
  }

  click(box) {
    this.select(box, false);
    if (!this.isSandwich)
      this.zoomTo(box);
  }

  select(box, isAnnounced = true) {
    this.selected = box;
    this.showSelection();
    if (isAnnounced && box) {
      const { model, tree } = this, value = model.isDifference ? box.change : box.now;
      this.announcer.textContent = `${box.node < 0 ? 'all' : model.names[box.node]}, ${
        formatValue(tree.measure, value, model.isDifference)}`;
    }
  }

  /* In a sandwich the function of the box becomes the middle. */
  zoomTo(box) {
    if (this.isSandwich) {
      this.focusOn(box.node, 'both');
      return;
    }
    if (box !== this.tree.root)
      this.selected = box;
    else if (this.zoom !== this.tree.root)
      this.selected = null;
    this.change({ zoom: box.lineage.slice(1).map(({ node }) => node) }, true);
  }

  zoomOutBy(box, event) {
    if (this.zoom === this.tree.root)
      return;
    event.preventDefault();
    this.zoomTo(this.zoom.parent);
  }

  focusOn(node, order) {
    this.change({ focus: node, order, zoom: [] }, true);
  }

  /* From the table: the function's biggest box, if the tree has one in sight, and its figures. */
  selectFunction(node) {
    let found = null;
    for (const row of this.chart.rows) {
      for (const [box] of row ?? []) {
        if (box?.node === node && !(found?.size >= box.size))
          found = box;
      }
    }
    if (found) {
      this.select(found);
      return;
    }
    const alone = new Tree(this.model, this.state.counter, false, node).root;
    this.selected = null;
    this.showSelection();
    this.details.show(alone, this.model, this.tree.measure, this.colours.fill(alone, this.state.colour));
    this.table.mark(node);
  }

  selectMatch(step) {
    if (!this.matches)
      return;
    const found = this.chart.rows.flatMap(row => row ?? []).map(([box]) => box)
      .filter(box => box && box.node >= 0 && this.matches[box.node]);
    const at = found.indexOf(this.selected);
    if (found.length > 0)
      this.select(found[(at < 0 && step < 0 ? 0 : at) + step] ?? found[step > 0 ? 0 : found.length - 1]);
  }

  /* Callers first, as a stack is read from its root. */
  copyStack(box) {
    const names = box.lineage.filter(({ node }) => node >= 0).map(({ node }) => this.model.names[node]);
    if (box.tree.isInverted)
      names.reverse();
    this.copy(names.join('\n'), `a stack of ${names.length} function${names.length === 1 ? '' : 's'}`);
  }

  copy(text, what) {
    const done = () => this.announcer.textContent = `Copied ${what}`;
    const byHand = () => {
      const area = el('textarea', { value: text, className: 'fg-hidden' });
      this.root.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
      this.chart.canvas.focus();
      done();
    };
    if (navigator.clipboard)
      navigator.clipboard.writeText(text).then(done, byHand);
    else
      byHand();
  }

  toggleTheme() {
    if (this.embedded)
      this.embedded.toggleTheme?.();
    else
      this.change({ theme: this.isDark ? 'light' : 'dark' });
  }

  handleKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open)
      return;
    const action = this.keyAction(event);
    if (!action)
      return;
    event.preventDefault();
    action();
  }

  keyAction(event) {
    const { state, selected, node } = this;
    const isInChart = event.target === this.chart.canvas || event.target === document.body;
    if (event.target.closest?.('select'))
      return null;
    if (event.key.startsWith('Arrow'))
      return isInChart ? () => this.move(event.key) : null;
    if (event.key === 'Enter' && isInChart)
      return () => selected && this.zoomTo(selected);
    const withNode = action => node >= 0 ? action : null;
    return {
      Escape: () => this.stepBack(),
      Home: () => this.change({ zoom: [], focus: -1, order: state.focus >= 0 ? 'callees' : state.order }, true),
      '/': () => this.searchInput.select(),
      '?': () => this.help.showModal(),
      n: () => this.selectMatch(1),
      N: () => this.selectMatch(-1),
      i: () => this.change({ order: state.order === 'callers' ? 'callees' : 'callers' }),
      f: () => this.change({ isFlame: !state.isFlame }),
      t: () => this.toggleTheme(),
      c: withNode(() => this.focusOn(node, 'callers')),
      e: withNode(() => this.focusOn(node, 'callees')),
      s: withNode(() => this.focusOn(node, 'both')),
      y: withNode(() => this.copy(this.model.names[node], this.model.names[node])),
      Y: withNode(() => this.copyStack(selected ?? this.zoom)),
    }[event.key];
  }

  move(key) {
    const next = this.selected ? this.chart.neighbour(this.selected, key) : this.zoom;
    if (next)
      this.select(next);
  }

  /* Escape undoes one step at a time, the most recent kind first. */
  stepBack() {
    if (this.state.query !== '')
      this.change({ query: '' });
    else if (this.zoom.parent)
      this.zoomTo(this.zoom.parent);
    else if (this.state.focus >= 0)
      this.change({ focus: -1, order: 'callees' }, true);
    else
      this.select(null);
  }

  print(isPrinting) {
    this.isPrinting = isPrinting;
    this.update();
    if (isPrinting)
      this.chart.beginPrint(1000);
    else
      this.chart.endPrint();
  }

  /* The address keeps what differs from the beginning: functions by number, the rest by name. */
  stateText() {
    const { state, model, initial } = this;
    const values = new URLSearchParams();
    const put = (key, isSet, value) => isSet && values.set(key, value);
    put('show', state.counter !== initial.counter, model.data.counters[state.counter].name);
    put('order', state.order !== initial.order, state.order);
    put('direction', state.isFlame, 'flame');
    put('colour', state.colour !== initial.colour, state.colour);
    put('theme', !this.embedded && state.theme !== '', state.theme);
    put('focus', state.focus >= 0, state.focus);
    put('zoom', state.zoom.length > 0, state.zoom.join('.'));
    put('search', state.query !== '', state.query);
    return values.toString();
  }

  /* Zooming makes a step that the browser's back button undoes. */
  writeState(isStep) {
    const text = this.stateText();
    if (this.embedded) {
      if (text !== this.embedded.text)
        this.embedded.changed(text, isStep);
      this.embedded.text = text;
      return;
    }
    if (text === location.hash.slice(1))
      return;
    const address = text === '' ? location.pathname + location.search : `#${text}`;
    try {
      history[isStep ? 'pushState' : 'replaceState'](null, '', address);
    } catch {
      location.hash = text;
    }
  }

  readState(text) {
    const values = new URLSearchParams(text), { model } = this;
    const state = { ...this.initial }, nodes = model.names.length;
    const counter = model.data.counters.findIndex(({ name }) => name === values.get('show'));
    const isNode = node => Number.isInteger(node) && node >= 0 && node < nodes;
    const focus = values.has('focus') ? Number(values.get('focus')) : -1;
    if (counter >= 0)
      state.counter = counter;
    if (['callees', 'callers'].includes(values.get('order')) || (values.get('order') === 'both' && isNode(focus)))
      state.order = values.get('order');
    if ([...this.colourSelect.options].some(({ value }) => value === values.get('colour')))
      state.colour = values.get('colour');
    if (!this.embedded && ['light', 'dark'].includes(values.get('theme')))
      state.theme = values.get('theme');
    state.isFlame = values.get('direction') === 'flame';
    state.focus = isNode(focus) ? focus : -1;
    state.zoom = (values.get('zoom') ?? '').split('.').filter(Boolean).map(Number).filter(isNode);
    state.query = values.get('search') ?? '';
    this.state = state;
  }

  applyHash() {
    if (location.hash.slice(1) === this.stateText())
      return;
    this.readState(location.hash.slice(1));
    this.selected = null;
    this.update();
  }
}

globalThis.heapctlFlame = (container, data, options = {}) => new FlameGraph(container, data, options);
