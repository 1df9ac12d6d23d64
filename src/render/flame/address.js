/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is shown, as text for an address: what differs from the beginning. Functions are hashes of
 * their names, so that a link shows the same in a later profile.
 */
function initialState(model, theme) {
  const { data } = model;
  return {
    counter: data.shown,
    isFlame: false,
    order: data.is_inverted ? 'callers' : 'callees',
    colour: data.is_difference ? 'difference' : defaultColour(model),
    query: '',
    focus: '',
    zoom: [],
    filters: noFilters(),
    theme,
  };
}

/* Colours by module are useful unless one module covers nearly everything. */
function defaultColour(model) {
  const areas = [...model.measure(model.data.shown).moduleAreas(model).values()];
  const sum = areas.reduce((a, b) => a + b, 0);
  return Math.max(0, ...areas) < 0.8 * sum ? 'module' : 'function';
}

function stateText(state, model, initial, hasTheme) {
  const values = new URLSearchParams();
  const put = (key, isSet, value) => isSet && values.set(key, value);
  put('show', state.counter !== initial.counter, model.data.counters[state.counter].name);
  put('order', state.order !== initial.order, state.order);
  put('direction', state.isFlame, 'flame');
  put('colour', state.colour !== initial.colour, state.colour);
  put('theme', hasTheme && state.theme !== '', state.theme);
  put('function', state.focus !== '', state.focus);
  put('zoom', state.zoom.length > 0, state.zoom.join('.'));
  put('search', state.query !== '', state.query);
  for (const [key, value] of Object.entries(state.filters))
    put(key, value !== '', value);
  return values.toString();
}

const filtersOf = values => Object.fromEntries(Object.keys(noFilters()).map(key => [key, values.get(key) ?? '']));

function readStateText(text, model, initial, colours, hasTheme) {
  const values = new URLSearchParams(text), state = { ...initial };
  const counter = model.data.counters.findIndex(({ name }) => name === values.get('show'));
  if (counter >= 0)
    state.counter = counter;
  if (/^[0-9a-z]{1,7}$/.test(values.get('function') ?? ''))
    state.focus = values.get('function');
  if (['callees', 'callers'].includes(values.get('order')) || (values.get('order') === 'both' && state.focus !== ''))
    state.order = values.get('order');
  if (colours.includes(values.get('colour')))
    state.colour = values.get('colour');
  if (hasTheme && ['light', 'dark'].includes(values.get('theme')))
    state.theme = values.get('theme');
  state.isFlame = values.get('direction') === 'flame';
  state.zoom = (values.get('zoom') ?? '').split('.').filter(key => /^[0-9a-z]{1,7}$/.test(key));
  state.query = values.get('search') ?? '';
  state.filters = filtersOf(values);
  return state;
}
