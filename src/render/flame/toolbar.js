/* SPDX-License-Identifier: Apache-2.0 */
/* The controls above the picture. `graph` is the flame graph, whose state they show and change. */
const field = (label, control) => el('label', el('span', label), control);

function makeSwitch(label, choices, choose) {
  const buttons = choices.map(([text, value]) =>
    makeButton(text, `${label}: ${text.toLowerCase()}`, () => choose(value)));
  return {
    element: el('div.fg-switch', { role: 'group', 'aria-label': label }, ...buttons),
    buttons,
    show: value => buttons.forEach((button, i) =>
      button.setAttribute('aria-pressed', String(choices[i][1] === value))),
  };
}

/* A box below a button. Keys typed in it are not the graph's. */
function makeMenu(name, text, ...content) {
  const made = menu(`fg-menu.${name}`, el('summary', text), el('div', ...content));
  made.addEventListener('keydown', event => event.stopPropagation());
  return made;
}

class Toolbar {
  constructor(graph, data) {
    this.graph = graph;
    this.counter = this.makeSelect(data.counters.map(({ label }, i) => [i, label]), value => graph.change({ counter: Number(value) }));
    this.colours = [['module', 'by module'], ['function', 'by function']];
    if (data.is_difference)
      this.colours.unshift(['difference', 'by change']);
    if (graph.model.agePairs.size > 0)
      this.colours.push(['age', 'by share still in use']);
    this.colour = this.makeSelect(this.colours, colour => graph.change({ colour }));
    this.direction = makeSwitch('Direction', [['Icicle', false], ['Flame', true]], isFlame => graph.change({ isFlame }));
    this.order = makeSwitch('Order', [['Callees', 'callees'], ['Callers', 'callers'], ['Both', 'both']], order => graph.setOrder(order));
    this.buildSearch();
    this.buildFilters();
    this.element = el('div.fg-toolbar', { role: 'toolbar', 'aria-label': 'View' },
      field('Show', this.counter), this.order.element, this.direction.element, field('Colour', this.colour), this.filters, this.search,
      graph.embedded ? null
        : [this.makeSaveMenu(), makeButton('\u25d0', 'Light or dark (t)', () => graph.toggleTheme(), { 'aria-label': 'Light or dark' })],
      makeButton('?', 'Keys (?)', () => graph.showKeys(), { 'aria-label': 'Keys' }));
  }

  makeSelect(options, choose) {
    const element = el('select', ...options.map(([value, text]) => el('option', { value }, text)));
    element.addEventListener('change', () => choose(element.value));
    return element;
  }

  /* Another page has a menu of its own. */
  makeSaveMenu() {
    const ways = [['PNG', 'png'], ['SVG', 'svg'], ['HTML', 'html'], ['pprof', 'pprof'], ['speedscope', 'speedscope']];
    const menu = makeMenu('fg-save', 'Save', ...ways.map(([text, format]) => makeButton(text, `What is shown, as ${text}`, () => {
      menu.open = false;
      this.graph.save(format).catch(problem => this.graph.say(problem.message));
    })));
    return menu;
  }

  buildSearch() {
    const { graph } = this;
    this.searchInput = el('input', {
      type: 'search', placeholder: 'Search: a name or regular expression', spellcheck: false,
      autocomplete: 'off', 'aria-label': 'Search functions', 'aria-keyshortcuts': '/',
    });
    this.matched = el('output.fg-matched');
    this.search = el('div.fg-search', { role: 'search', 'aria-label': this.graph.nameOf('Search') }, this.searchInput, this.matched);
    let timer = 0;
    this.searchInput.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(() => graph.change({ query: this.searchInput.value }), 120);
    });
    this.searchInput.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        clearTimeout(timer);
        graph.change({ query: this.searchInput.value });
        graph.selectMatch(1);
        graph.chart.canvas.focus();
      } else if (event.key === 'Escape') {
        clearTimeout(timer);
        graph.change({ query: '' });
        graph.chart.canvas.focus();
      }
      event.stopPropagation();
    });
  }

  buildFilters() {
    const { graph } = this;
    this.inputs = Object.fromEntries(FILTERS.map(([key, , title]) => [key, el('input', {
      title, placeholder: 'regular expression', spellcheck: false, autocomplete: 'off',
      onchange: event => graph.filter({ [key]: event.target.value.trim() }),
    })]));
    this.fold = el('input', { type: 'checkbox', onchange: event => graph.filter({ fold: event.target.checked ? '1' : '' }) });
    this.filters = makeMenu('fg-filters', 'Filter',
      ...FILTERS.map(([key, label]) => field(label, this.inputs[key])),
      el('label', { title: 'std::invoke, std::function, thread starts and the like' }, this.fold, el('span', 'fold wrappers')),
      makeButton('No filters', 'Everything again', () => graph.filter(noFilters())));
  }

  show({ counter, colour, isFlame, order, query, filters }, canTurn) {
    this.counter.value = counter;
    this.colour.value = colour;
    this.direction.show(isFlame);
    this.order.show(order);
    this.order.buttons[2].disabled = !canTurn;
    if (document.activeElement !== this.searchInput)
      this.searchInput.value = query;
    for (const [key, input] of Object.entries(this.inputs))
      input.value = filters[key];
    this.fold.checked = filters.fold !== '';
    const count = Object.values(filters).filter(Boolean).length;
    this.filters.firstElementChild.textContent = count > 0 ? `Filter (${count})` : 'Filter';
    this.filters.classList.toggle('fg-used', count > 0);
  }
}
