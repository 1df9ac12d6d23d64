/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile: nodes (functions), frames (places in a tree of calls, parents before children), and
 * what each frame allocates, by counter. All frames are in typed arrays; what is drawn are boxes
 * (tree.js), made only where they are shown.
 *
 * Of a large profile there are the largest frames only (`cut`): what is left out below a frame is
 * together in a frame of the node `rest`. Such a profile has a tree of callers of its own, and the
 * figures of each function.
 */
const COLUMNS = { now: readSignedColumn, error: readColumn, samples: readColumn, base: readSignedColumn, base_error: readColumn, base_samples: readColumn };

/* The columns of one counter, as far as there are any. */
function readColumns(data, count) {
  return Object.fromEntries(Object.entries(COLUMNS).filter(([key]) => key in data)
    .map(([key, read]) => [key, read(data[key], new Float64Array(count))]));
}

/* Frames, which of them have values of their own (leaves), and these values for each counter. */
class FrameSet {
  constructor(nodes, parents, leaves, columns) {
    const count = nodes.length;
    this.nodes = nodes;
    this.parents = parents;
    this.leaves = leaves;
    this.columns = columns;
    /* The frames of a subtree are neighbours: this is where each one ends. */
    this.ends = new Int32Array(count);
    for (let i = count - 1; i >= 0; i--) {
      this.ends[i] = Math.max(this.ends[i], i + 1);
      if (parents[i] >= 0)
        this.ends[parents[i]] = Math.max(this.ends[parents[i]], this.ends[i]);
    }
  }

  static read({ frames, leaves, counters }) {
    const { count } = frames;
    const up = readColumn(frames.up, new Int32Array(count)), parents = new Int32Array(count);
    let previous = -1;
    for (let i = 0; i < count; i++) {
      for (let n = up[i]; n > 0; n--)
        previous = parents[previous];
      parents[i] = previous;
      previous = i;
    }
    const places = readColumn(leaves.distance, new Int32Array(leaves.count));
    let at = -1;
    for (let i = 0; i < places.length; i++)
      places[i] = at += places[i];
    return new FrameSet(readColumn(frames.node, new Int32Array(count)), parents, places,
      counters.map(counter => readColumns(counter, leaves.count)));
  }

  /* Where the function stands outermost, so that recursion does not count twice. */
  outermost(node) {
    const found = [];
    for (let i = 0; i < this.nodes.length; i++) {
      if (this.nodes[i] !== node)
        continue;
      found.push(i);
      i = this.ends[i] - 1;
    }
    return found;
  }
}

class Model {
  constructor(data) {
    this.data = data;
    this.isDifference = data.is_difference;
    this.cut = data.cut ?? null;
    this.rest = data.cut?.node ?? -1;
    this.readNodes(data);
    this.frames = FrameSet.read(data);
    this.callers = data.callers ? FrameSet.read(data.callers) : null;
    this.measures = data.counters.map(() => null);
  }

  readNodes({ strings, nodes }) {
    const column = key => readColumn(nodes[key], new Int32Array(nodes.count));
    const texts = key => Array.from(column(key), i => strings[i]);
    this.names = texts('name');
    this.files = texts('file');
    this.modules = texts('module');
    this.lines = column('line');
    this.inlined = column('inlined');
  }

  /* The same nodes with other frames; see filter.js. */
  withFrames(frames) {
    const model = Object.create(Model.prototype, Object.getOwnPropertyDescriptors(this));
    model.frames = frames;
    model.callers = null;
    model.isFiltered = true;
    model.measures = this.data.counters.map(() => null);
    return model;
  }

  /* Everything that is known of one counter, made when it is first shown. */
  measure(counter) {
    this.measures[counter] ??= new Measure(this, counter);
    return this.measures[counter];
  }

  /* In addresses: the same for every profile that has the function. */
  keyOf(node) {
    this.keys ??= this.names.map((name, i) => hashText(`${name}\0${this.modules[i]}`).toString(36));
    return this.keys[node];
  }

  /* -1 where there is none. */
  findKey(key) {
    this.keyOf(0);
    return this.keys.indexOf(key);
  }

  /* By counter of what is in use or was allocated: both, in this order. */
  get agePairs() {
    const names = this.data.counters.map(({ name }) => name), pairs = new Map();
    for (const kind of ['space', 'objects']) {
      const pair = [names.indexOf(`inuse_${kind}`), names.indexOf(`alloc_${kind}`)];
      if (pair.every(counter => counter >= 0))
        pair.forEach(counter => pairs.set(counter, pair.map(each => this.measure(each))));
    }
    return pairs;
  }

  isFunction(node) {
    return node >= 0 && node !== this.rest;
  }

  get stackCount() {
    return this.cut && !this.isFiltered ? this.cut.stacks : this.frames.leaves.length;
  }

  get functionCount() {
    return this.cut && !this.isFiltered ? this.cut.functions : new Set(this.frames.nodes).size;
  }
}

/* The parts of a value that boxes and functions add up. */
const PARTS = ['now', 'base', 'size', 'variance', 'baseVariance', 'samples'];

const square = (column, scale) => column?.map(value => (value / scale) ** 2);

function addColumns(a, b) {
  return a && b ? a.map((value, i) => value + b[i]) : a ?? b;
}

/*
 * The parts of columns, for `count` rows. `size` decides a box's width: in a difference the larger
 * of now and base of each path, so that both what is new and what is gone can be seen. Parts that
 * are zero all over are one array.
 */
function partsOf(columns, count, scale) {
  const zero = new Float64Array(count);
  const scaled = column => scale === 1 ? column : column?.map(value => value / scale);
  const now = scaled(columns.now) ?? zero, base = scaled(columns.base) ?? zero;
  return {
    now,
    base,
    size: now.map((value, i) => Math.max(0, value, base[i])),
    variance: square(columns.error, scale) ?? zero,
    baseVariance: square(columns.base_error, scale) ?? zero,
    samples: addColumns(columns.samples, columns.base_samples) ?? zero,
    zero,
  };
}

/* One counter over all frames of a set: what a frame has itself, and with all below it. */
class Sums {
  constructor(frames, columns, scale) {
    const leaves = partsOf(columns, frames.leaves.length, scale), count = frames.nodes.length;
    const zero = new Float64Array(count);
    this.self = {};
    this.total = {};
    for (const part of PARTS) {
      if (leaves[part] === leaves.zero) {
        this.self[part] = this.total[part] = zero;
        continue;
      }
      const self = new Float64Array(count);
      frames.leaves.forEach((at, i) => { self[at] = leaves[part][i]; });
      const total = self.slice(), { parents } = frames;
      for (let i = count - 1; i >= 0; i--) {
        if (parents[i] >= 0)
          total[parents[i]] += total[i];
      }
      this.self[part] = self;
      this.total[part] = total;
    }
  }
}

class Measure {
  constructor(model, counter) {
    this.counter = model.data.counters[counter];
    this.unit = this.counter.unit;
    this.hasErrors = 'error' in this.counter || 'base_error' in this.counter;
    const { scale } = this.counter;
    Object.assign(this, new Sums(model.frames, model.frames.columns[counter], scale));
    this.callers = model.callers && new Sums(model.callers, model.callers.columns[counter], scale);
    this.functions = model.cut && !model.isFiltered ? this.readFunctions(model, scale) : this.sumFunctions(model);
    this.sum = this.sumRoots(model.frames);
  }

  sumRoots({ nodes, ends }) {
    const sum = {};
    for (const part of PARTS)
      sum[part] = 0;
    for (let i = 0; i < nodes.length; i = ends[i]) {
      for (const part of PARTS)
        sum[part] += this.total[part][i];
    }
    return sum;
  }

  /* By function, as the data says it. */
  readFunctions({ names }, scale) {
    const read = key => partsOf(readColumns(this.counter[key], names.length), names.length, scale);
    return { flat: read('flat'), cumulative: read('cumulative') };
  }

  /* By function: flat and cumulative, a path counted once however often the function recurs. */
  sumFunctions({ names, frames: { nodes, ends } }) {
    const make = () => Object.fromEntries(PARTS.map(part => [part, new Float64Array(names.length)]));
    const sums = { flat: make(), cumulative: make() };
    const leave = new Int32Array(names.length);
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[i], isOutermost = leave[node] <= i;
      for (const part of PARTS) {
        sums.flat[part][node] += this.self[part][i];
        if (isOutermost)
          sums.cumulative[part][node] += this.total[part][i];
      }
      if (isOutermost)
        leave[node] = ends[i];
    }
    return sums;
  }

  /* How much of the picture each module covers. */
  moduleAreas({ frames: { nodes }, modules }) {
    const areas = new Float64Array(modules.length), sums = new Map();
    nodes.forEach((node, i) => areas[node] += this.total.size[i]);
    modules.forEach((module, node) => sums.set(module, (sums.get(module) ?? 0) + areas[node]));
    return sums;
  }

  /*
   * What all frames of these functions have, with all below them. Where frames are left out, it is
   * at least that, and at least what one of the functions has.
   */
  sumMatches({ frames: { nodes, ends }, cut }, matches) {
    const sum = { now: 0, base: 0, size: 0, isLeast: false }, { cumulative } = this.functions;
    let end = 0;
    for (let i = 0; i < nodes.length; i++) {
      if (!matches[nodes[i]] || i < end)
        continue;
      end = ends[i];
      for (const part of ['now', 'base', 'size'])
        sum[part] += this.total[part][i];
    }
    if (!cut)
      return sum;
    const found = [...matches.keys()].filter(node => matches[node]);
    for (const node of found) {
      if (cumulative.size[node] > sum.size * 1.000001)
        Object.assign(sum, { now: cumulative.now[node], base: cumulative.base[node], size: cumulative.size[node] });
    }
    sum.isLeast = found.length > 1 && sum.size < this.sum.size * 0.999999;
    return sum;
  }
}

/*
 * Which functions a search means: a regular expression, without regard to case unless it has a
 * capital letter; a text that is no regular expression stands for itself.
 */
function compileSearch(text) {
  if (text === '')
    return null;
  const flags = text === text.toLowerCase() ? 'i' : '';
  try {
    return new RegExp(text, flags);
  } catch {
    return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), flags);
  }
}
