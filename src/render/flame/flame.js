/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph: heapctlFlame(container, data, options) fills the container and returns the
 * graph; close() removes it. In another page, options.embedded has `text`, the initial state,
 * `changed(text, isStep)`, which is called with every later state, the page's `theme`, `hovered(keys)`,
 * which gets the box that is pointed at (null: none), `hasPageKeys` (keys of the page are its own), a
 * `label` where there are several, showSource(name), which shows the source of a function, and where
 * the data may be cut or filtered by a server, load(query), which promises other data of the same
 * profile; the first data are those of heapctlFlame.query(text). Alone, the state is in the page's
 * address. update() draws everything from `state`.
 */
class FlameGraph {
  constructor(container, data, options) {
    this.container = container;
    this.embedded = options.embedded ?? null;
    this.model = new Model(data);
    this.whole = this.model;
    this.initial = initialState(this.model, this.embedded?.theme ?? '');
    this.state = this.initial;
    this.loaded = this.embedded ? this.loadKey(filtersOf(new URLSearchParams(this.embedded.text))) : '';
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
      source: this.embedded?.showSource,
    };
    this.minimap = new Minimap(this.chart);
    this.chart.drawn = () => this.minimap.draw();
    this.details = new Details(actions);
    this.table = new FunctionTable(actions);
    this.tooltip = new Tooltip();
    this.callers = null;
    this.help = makeHelp();
    this.toolbar = new Toolbar(this, data);
    this.build(data);
    this.listen();
    this.readState(this.embedded ? this.embedded.text : location.hash.slice(1));
    this.update();
  }

  /* Of one of several flame graphs. */
  nameOf(part) {
    return this.embedded?.label ? `${part}, ${this.embedded.label}` : part;
  }

  build(data) {
    this.total = el('p.fg-total');
    this.crumbs = el('nav.fg-crumbs', { 'aria-label': this.nameOf('Zoom') });
    this.legend = el('ul.fg-legend', { 'aria-label': 'Colours' });
    this.announcer = el('p.fg-hidden.fg-announcer', { id: this.chart.announcerId, 'aria-live': 'polite' });
    this.notice = el('p.fg-notice', { hidden: true, role: 'status' });
    this.root = el('div.fg',
      el('header.fg-header',
        el('div.fg-title', el('h1', data.title || 'Heap profile'),
          el('p', this.describe(data))), this.total),
      this.toolbar.element,
      this.crumbs,
      el('div.fg-main',
        el('div.fg-picture', el('div.fg-rows', this.chart.element, this.minimap.element), this.legend),
        el('section.fg-side', { 'aria-label': this.nameOf('Details and functions') }, this.details.element, this.table.element)),
      this.announcer, this.notice, this.tooltip.element, this.help);
    this.container.replaceChildren(this.root);
  }

  describe(data) {
    return [data.is_difference ? 'what changed' : '', data.subtitle, data.sampling].filter(Boolean).join(' \u00b7 ');
  }

  /* As a file: the whole picture in the colours of the screen, or what it shows for other programs. */
  async save(format) {
    const { model, chart, tree } = this, title = model.data.title || 'heap';
    const name = `${title.replace(/[^\w.-]+/g, '_')}`;
    const heading = `${title}, ${tree.measure.counter.label}: ${this.total.firstChild.textContent}`;
    if (format === 'speedscope')
      return saveFile(new Blob([asSpeedscope(model, title)], { type: 'application/json' }), `${name}.speedscope.json`);
    if (format === 'pprof')
      return saveFile(await asPprof(model, title), `${name}.pb.gz`);
    if (format === 'html')
      return saveFile(new Blob([pageAsHtml(this.container)], { type: 'text/html' }), `${name}.flame.html`);
    chart.beginPrint(Math.max(chart.width, 1000));
    try {
      saveFile(format === 'svg' ? pictureAsSvg(chart, heading) : await pictureAsPng(chart), `${name}.flame.${format}`);
    } finally {
      chart.endPrint();
    }
  }

  /* For people who hear the page, and where there is no other place. */
  say(text) {
    this.announcer.textContent = text;
    this.notice.textContent = text;
    this.notice.hidden = text === '';
  }

  listen() {
    const dark = matchMedia('(prefers-color-scheme: dark)');
    this.listeners = new AbortController();
    const on = (target, name, handler) =>
      target.addEventListener(name, handler, { signal: this.listeners.signal });
    on(dark, 'change', () => this.update());
    on(this.root, 'keydown', event => this.handleKey(event));
    if (this.embedded?.hasPageKeys ?? true)
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
    const { node } = this.selected ?? this.zoom;
    return this.model.isFunction(node) ? node : -1;
  }

  keysOf(box) {
    return box.lineage.slice(1).map(({ node }) => this.model.keyOf(node));
  }

  get isSandwich() {
    return this.callers !== null;
  }

  /* Callers and callees at once are those of one function. */
  setOrder(order) {
    if (order === 'both' && this.state.focus === '')
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

  filter(changes) {
    this.change({ filters: { ...this.state.filters, ...changes } }, true);
  }

  /* The frames that the filters leave: here, or of the server that the data came from. */
  updateModel() {
    const { filters } = this.state;
    if (this.embedded?.load)
      return this.loadData(filters, '');
    const key = JSON.stringify(filters);
    if (key !== this.filterKey)
      this.setModel(areFilters(filters) ? filterModel(this.whole, filters) : this.whole);
    this.filterKey = key;
  }

  setModel(model) {
    this.model = model;
    this.colours = null;
    this.treeKey = null;
    this.tableKey = null;
    this.selected = null;
  }

  loadKey(filters) {
    return JSON.stringify(filterQuery(filters));
  }

  /* Data of these filters, and details below `root`, unless they are there already. */
  async loadData(filters, root) {
    const key = this.loadKey(filters);
    if (key === this.loaded && root === '')
      return;
    this.loaded = key;
    const turn = this.loadTurn = (this.loadTurn ?? 0) + 1;
    this.root.setAttribute('aria-busy', 'true');
    this.say(root ? 'Loading what is below it\u2026' : 'Filtering\u2026');
    try {
      const data = await this.embedded.load({ ...filterQuery(filters), root });
      if (turn !== this.loadTurn || this.listeners.signal.aborted)
        return;
      const shown = this.model.data.counters[this.state.counter].name;
      this.setModel(new Model(data));
      this.state.counter = Math.max(0, data.counters.findIndex(({ name }) => name === shown));
      this.say('');
      this.update();
    } catch (problem) {
      if (turn === this.loadTurn)
        this.say([problem.message, problem.hint].filter(Boolean).join(' '));
    } finally {
      if (turn === this.loadTurn)
        this.root.removeAttribute('aria-busy');
    }
  }

  /* What the data leave out below the box where the picture is zoomed to. */
  loadDetails() {
    const { zoom, model, state } = this, names = zoom.lineage.slice(1).map(({ node }) => model.names[node]);
    if (!this.embedded?.load || state.focus !== '' || names.length === 0 || !zoom.isCut)
      return;
    const root = [state.order, ...names.filter(name => name !== model.names[model.rest])].join('\n');
    if (root === this.detailsRoot)
      return;
    this.detailsRoot = root;
    this.loadData(state.filters, root);
  }

  /* Makes everything follow the state. */
  update() {
    this.updateModel();
    const { state, model } = this, measure = model.measure(state.counter);
    if (this.root.dataset.theme !== (this.isDark ? 'dark' : 'light') || !this.colours) {
      this.root.dataset.theme = this.isDark ? 'dark' : 'light';
      this.colours = new Colours(model, this.isDark);
      this.colours.rankModules(measure);
    }
    this.updateTree();
    this.updateMatches(measure);
    this.total.replaceChildren(...this.totalText(measure));
    this.updateCrumbs();
    this.updateLegend();
    this.showTable();
    this.showSelection();
  }

  showTable() {
    const shown = { model: this.model, measure: this.tree.measure, matches: this.matches };
    const key = [this.state.counter, this.state.query].join();
    if (key === this.tableKey)
      return;
    this.tableKey = key;
    /* The picture comes first, and a task of its own keeps the page answering. */
    clearTimeout(this.tableTimer);
    this.tableTimer = setTimeout(() => {
      this.table.show(shown);
      this.table.mark(this.markedNode);
    });
  }

  updateTree() {
    const { counter, order, focus, zoom } = this.state, key = [counter, order, focus].join();
    if (key !== this.treeKey) {
      const lineage = this.selected?.lineage.slice(1).map(box => box.node);
      const isAbove = this.isSandwich && this.selected?.tree === this.callers;
      /* A function that the profile does not have, or no more, has no tree. */
      const node = focus === '' ? -1 : this.model.findKey(focus), isBoth = order === 'both' && node >= 0;
      this.tree = new Tree(this.model, counter, order === 'callers', node);
      this.callers = isBoth ? new Tree(this.model, counter, true, node) : null;
      this.treeKey = key;
      this.hovered = null;
      this.selected = lineage ? (isAbove && this.callers || this.tree).find(lineage) : null;
    }
    this.zoom = this.tree.find(zoom.map(each => this.model.findKey(each)));
    this.loadDetails();
  }

  updateMatches(measure) {
    const { names } = this.model, pattern = compileSearch(this.state.query);
    const { matched } = this.toolbar;
    this.matches = pattern && Uint8Array.from(names, (name, node) => this.model.isFunction(node) && pattern.test(name) ? 1 : 0);
    if (!pattern) {
      matched.textContent = '';
      return;
    }
    const sum = measure.sumMatches(this.model, this.matches), isChange = this.model.isDifference;
    const found = this.matches.reduce((a, b) => a + b, 0), value = isChange ? sum.now - sum.base : sum.now;
    const share = percent(value, isChange ? measure.sum.size : measure.sum.now);
    matched.textContent = found === 0 ? 'nothing found' : `${count(found)} function${
      found === 1 ? '' : 's'}, ${sum.isLeast ? 'at least ' : ''}${formatValue(measure, value, isChange)}${share && ` (${share})`}`;
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
    const { names } = this.model, { order } = this.state;
    const crumb = (box, text, isLast) => {
      const button = makeButton(text, text, () => this.zoomTo(box));
      if (isLast)
        button.setAttribute('aria-current', 'location');
      return button;
    };
    const boxes = this.zoom.lineage, items = [];
    if (this.tree.node >= 0)
      items.push(makeButton(`\u2715 ${order === 'both' ? 'callers and callees' : order} of`, 'Back to everything (Home)',
        () => this.change({ focus: '', order: 'callees' })));
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
    if (state.colour === 'age')
      entries.push(entry(colours.ofAge(1), 'still in use'), entry(colours.ofAge(0), 'freed'));
    if (this.model.cut && !this.model.isFiltered)
      entries.push(el('li', `${count(this.model.cut.stacks)} stacks; the smallest boxes are drawn together`));
    if (this.tree.measure.hasErrors)
      entries.push(el('li', el('i.fg-swatch.fg-striped'),
        this.model.isDifference ? 'within the error' : 'few samples'));
    this.legend.replaceChildren(...entries);
  }

  showSelection() {
    const { model, state, zoom, tree, colours } = this;
    const box = this.selected ?? (zoom.node >= 0 ? zoom : null);
    this.details.show(box, model, tree.measure, box && colours.fill(box, state.colour));
    this.markedNode = box ? box.node : -1;
    this.table.mark(this.markedNode);
    this.toolbar.show(state, this.node >= 0);
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
    this.mark(box);
    this.embedded?.hovered?.(box && box.tree === this.tree ? this.keysOf(box) : null);
  }

  mark(box) {
    this.hovered = box;
    this.chart.picture.hovered = box;
    this.chart.requestDraw();
  }

  /* Shows the box that another flame graph points at, if there is one like it here. */
  point(keys) {
    const { model, tree } = this, box = keys && tree.find(keys.map(key => model.findKey(key)));
    const place = box && box.lineage.length === keys.length + 1 ? this.chart.placeOf(box) : null;
    this.mark(place && box);
    this.tooltip.show(place && box, place, model, tree.measure, place && (box.node < 0 ? 'all' : model.names[box.node]));
  }

  /* The state of another flame graph. */
  follow(text) {
    this.embedded.text = text;
    const { theme } = this.state;
    this.readState(text);
    this.state.theme = theme;
    this.selected = null;
    this.update();
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
      if (this.model.isFunction(box.node))
        this.focusOn(box.node, 'both');
      return;
    }
    if (box !== this.tree.root)
      this.selected = box;
    else if (this.zoom !== this.tree.root)
      this.selected = null;
    this.change({ zoom: this.keysOf(box) }, true);
  }

  zoomOutBy(box, event) {
    if (this.zoom === this.tree.root)
      return;
    event.preventDefault();
    this.zoomTo(this.zoom.parent);
  }

  focusOn(node, order) {
    this.change({ focus: this.model.keyOf(node), order, zoom: [] }, true);
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
    this.markedNode = node;
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

  showKeys() {
    if (this.embedded?.showKeys)
      this.embedded.showKeys();
    else
      this.help.showModal();
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
    if (event.target.closest?.('select, input, dialog'))
      return null;
    if (event.key.startsWith('Arrow'))
      return isInChart ? () => this.move(event.key) : null;
    if (event.key === 'Enter' && isInChart)
      return () => selected && this.zoomTo(selected);
    const withNode = action => node >= 0 ? action : null;
    return {
      Escape: () => this.stepBack(),
      Home: () => this.change({ zoom: [], focus: '', order: state.focus !== '' ? 'callees' : state.order }, true),
      '/': () => this.toolbar.searchInput.select(),
      '?': () => this.showKeys(),
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
    else if (this.state.focus !== '')
      this.change({ focus: '', order: 'callees' }, true);
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

  stateText() {
    return stateText(this.state, this.whole, this.initial, !this.embedded);
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
    this.state = readStateText(text, this.whole, this.initial, this.toolbar.colours.map(([key]) => key), !this.embedded);
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
/* For the page's own list of keys. */
globalThis.heapctlFlame.keys = KEYS;
globalThis.heapctlFlame.query = text => filterQuery(filtersOf(new URLSearchParams(text)));
