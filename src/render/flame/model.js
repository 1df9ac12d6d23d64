/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile: nodes (functions), frames (places in the tree of calls, parents before children),
 * and what each frame allocates, by counter. All frames are in typed arrays; what is drawn are
 * boxes, made only where they are shown.
 */
class Model {
  constructor(data) {
    this.data = data;
    this.isDifference = data.is_difference;
    this.readNodes(data);
    this.readFrames(data.frames);
    this.readLeaves(data.leaves);
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

  readFrames(frames) {
    const count = frames.count;
    const up = readColumn(frames.up, new Int32Array(count));
    this.nodes = readColumn(frames.node, new Int32Array(count));
    this.parents = new Int32Array(count);
    this.depths = new Int32Array(count);
    let previous = -1;
    for (let i = 0; i < count; i++) {
      for (let n = up[i]; n > 0; n--)
        previous = this.parents[previous];
      this.parents[i] = previous;
      this.depths[i] = previous < 0 ? 0 : this.depths[previous] + 1;
      previous = i;
    }
    /* The frames of a subtree are neighbours: this is where each one ends. */
    this.ends = new Int32Array(count);
    for (let i = count - 1; i >= 0; i--) {
      this.ends[i] = Math.max(this.ends[i], i + 1);
      if (this.parents[i] >= 0)
        this.ends[this.parents[i]] = Math.max(this.ends[this.parents[i]], this.ends[i]);
    }
  }

  readLeaves(leaves) {
    this.leaves = readColumn(leaves.distance, new Int32Array(leaves.count));
    let at = -1;
    for (let i = 0; i < leaves.count; i++)
      this.leaves[i] = at += this.leaves[i];
  }

  /* Everything that is known of one counter, made when it is first shown. */
  measure(counter) {
    this.measures[counter] ??= new Measure(this, this.data.counters[counter]);
    return this.measures[counter];
  }

  /* Where the function stands outermost, so that recursion does not count twice. */
  outermostFrames(node) {
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

/* The parts of a value that boxes and functions add up. */
const PARTS = ['now', 'base', 'size', 'variance', 'baseVariance', 'samples'];

/*
 * One counter over all frames: what a frame has itself, and with all below it. `size` is what
 * decides a box's width: in a difference the larger of now and base of each path, so that both
 * what is new and what is gone can be seen.
 */
class Measure {
  constructor(model, counter) {
    this.counter = counter;
    this.unit = counter.unit;
    this.hasErrors = 'error' in counter || 'base_error' in counter;
    this.hasSamples = 'samples' in counter || 'base_samples' in counter;
    this.readSelf(model, counter);
    this.sumUp(model);
    this.functions = this.sumFunctions(model);
    this.sum = this.sumRoots(model);
  }

  readSelf(model, counter) {
    const { leaves } = model, count = leaves.length;
    const column = (key, read = readColumn) =>
      key in counter ? read(counter[key], new Float64Array(count)) : new Float64Array(count);
    const now = column('now', readSignedColumn), base = column('base', readSignedColumn);
    const error = column('error'), baseError = column('base_error');
    const samples = column('samples'), baseSamples = column('base_samples');
    this.self = {};
    for (const part of PARTS)
      this.self[part] = new Float64Array(model.nodes.length);
    for (let i = 0; i < count; i++) {
      const at = leaves[i], { self } = this;
      self.now[at] = now[i] / counter.scale;
      self.base[at] = base[i] / counter.scale;
      self.size[at] = Math.max(0, self.now[at], self.base[at]);
      self.variance[at] = (error[i] / counter.scale) ** 2;
      self.baseVariance[at] = (baseError[i] / counter.scale) ** 2;
      self.samples[at] = samples[i] + baseSamples[i];
    }
  }

  sumUp(model) {
    this.total = {};
    for (const part of PARTS) {
      const sums = this.total[part] = this.self[part].slice();
      for (let i = sums.length - 1; i >= 0; i--) {
        if (model.parents[i] >= 0)
          sums[model.parents[i]] += sums[i];
      }
    }
  }

  sumRoots(model) {
    const sum = {};
    for (const part of PARTS)
      sum[part] = 0;
    for (let i = 0; i < model.nodes.length; i = model.ends[i]) {
      for (const part of PARTS)
        sum[part] += this.total[part][i];
    }
    return sum;
  }

  /* By function: flat and cumulative, a path counted once however often the function recurs. */
  sumFunctions(model) {
    const count = model.names.length, make = () => {
      const sums = {};
      for (const part of PARTS)
        sums[part] = new Float64Array(count);
      return sums;
    };
    const sums = { flat: make(), cumulative: make() };
    const leave = new Int32Array(count);
    for (let i = 0; i < model.nodes.length; i++) {
      const node = model.nodes[i], isOutermost = leave[node] <= i;
      for (const part of PARTS) {
        sums.flat[part][node] += this.self[part][i];
        if (isOutermost)
          sums.cumulative[part][node] += this.total[part][i];
      }
      if (isOutermost)
        leave[node] = model.ends[i];
    }
    return sums;
  }

  /* How much of the picture each module covers. */
  moduleAreas({ nodes, modules }) {
    const areas = new Float64Array(modules.length), sums = new Map();
    nodes.forEach((node, i) => areas[node] += this.total.size[i]);
    modules.forEach((module, node) => sums.set(module, (sums.get(module) ?? 0) + areas[node]));
    return sums;
  }

  /* What all frames of these functions have, with all below them. */
  sumMatches(model, matches) {
    const sum = { now: 0, base: 0, size: 0, frames: 0 };
    let end = 0;
    for (let i = 0; i < model.nodes.length; i++) {
      if (!matches[model.nodes[i]])
        continue;
      sum.frames++;
      if (i < end)
        continue;
      end = model.ends[i];
      sum.now += this.total.now[i];
      sum.base += this.total.base[i];
      sum.size += this.total.size[i];
    }
    return sum;
  }
}

/*
 * What is drawn: one function at one place, for all frames that come together there. In a tree of
 * callers a box has for each of its frames the frame that the values come from, the origin.
 */
class Box {
  constructor(tree, parent, node) {
    this.tree = tree;
    this.parent = parent;
    this.node = node;
    this.depth = parent ? parent.depth + 1 : 0;
    this.frames = [];
    this.origins = tree.isInverted ? [] : this.frames;
    for (const part of PARTS)
      this[part] = 0;
    this.x = 0;
    this.madeChildren = null;
  }

  add(frame, origin) {
    const { values } = this.tree;
    this.frames.push(frame);
    if (this.tree.isInverted)
      this.origins.push(origin);
    for (const part of PARTS)
      this[part] += values[part][origin];
  }

  get change() {
    return this.now - this.base;
  }

  /* What it allocates itself; in a tree of callers only the first row does. */
  get flat() {
    let flat = 0;
    if (this.node < 0 || this.tree.isInverted)
      return null;
    const { self } = this.tree.measure;
    for (const frame of this.frames)
      flat += self.now[frame] - (this.tree.model.isDifference ? self.base[frame] : 0);
    return flat;
  }

  get children() {
    if (this.madeChildren === null) {
      this.madeChildren = this.tree.childrenOf(this);
      let x = this.x;
      for (const child of this.madeChildren) {
        child.x = x;
        x += child.size;
      }
    }
    return this.madeChildren;
  }

  /* From the root to this box. */
  get lineage() {
    const boxes = [];
    for (let box = this; box; box = box.parent)
      boxes.unshift(box);
    return boxes;
  }
}

/*
 * A tree of boxes: callees below callers, or inverted, callers below callees; of everything or,
 * given a function, of that function's frames only.
 */
class Tree {
  constructor(model, counter, isInverted, node = -1) {
    this.model = model;
    this.measure = model.measure(counter);
    this.isInverted = isInverted;
    this.node = node;
    this.values = isInverted && node < 0 ? this.measure.self : this.measure.total;
    this.root = new Box(this, null, node);
    if (node >= 0) {
      for (const frame of model.outermostFrames(node))
        this.root.add(frame, frame);
    } else {
      Object.assign(this.root, this.measure.sum);
    }
  }

  childrenOf(box) {
    const byNode = new Map();
    const put = (frame, origin) => {
      if (!(this.values.size[origin] > 0))
        return;
      const node = this.model.nodes[frame];
      if (!byNode.has(node))
        byNode.set(node, new Box(this, box, node));
      byNode.get(node).add(frame, origin);
    };
    this.forEachChildFrame(box, put);
    return [...byNode.values()].sort((a, b) =>
      b.size - a.size || (this.model.names[a.node] < this.model.names[b.node] ? -1 : 1));
  }

  forEachChildFrame(box, put) {
    const { parents, ends, leaves, nodes } = this.model;
    if (box.node < 0 && this.isInverted) {
      for (const leaf of leaves)
        put(leaf, leaf);
    } else if (box.node < 0) {
      for (let i = 0; i < nodes.length; i = ends[i])
        put(i, i);
    } else if (this.isInverted) {
      box.frames.forEach((frame, i) => parents[frame] >= 0 && put(parents[frame], box.origins[i]));
    } else {
      for (const frame of box.frames) {
        for (let i = frame + 1; i < ends[frame]; i = ends[i])
          put(i, i);
      }
    }
  }

  /* The box at the end of these functions, or the last one on the way that is there. */
  find(nodes) {
    let box = this.root;
    for (const node of nodes) {
      const next = box.children.find(child => child.node === node);
      if (!next)
        break;
      box = next;
    }
    return box;
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
