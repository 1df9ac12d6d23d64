/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is drawn: one function at one place, for all frames that come together there. Where callers
 * are found by walking up, a box has for each of its frames the frame that the values come from,
 * the origin.
 */
class Box {
  constructor(tree, parent, node) {
    this.tree = tree;
    this.parent = parent;
    this.node = node;
    this.depth = parent ? parent.depth + 1 : 0;
    this.frames = [];
    this.origins = tree.walksUp ? [] : this.frames;
    for (const part of PARTS)
      this[part] = 0;
    this.x = 0;
    this.madeChildren = null;
  }

  add(frame, origin) {
    const { values } = this.tree;
    this.frames.push(frame);
    if (this.tree.walksUp)
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

  /* Which part of what was allocated here is still in use. */
  get shareInUse() {
    const pair = this.tree.agePair;
    if (!pair)
      return 0;
    const [inUse, allocated] = pair.map(measure => {
      const { now } = this.tree.valuesOf(measure);
      return this.origins.reduce((sum, origin) => sum + now[origin], 0);
    });
    return allocated > 0 ? inUse / allocated : 0;
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

  /* Whether some of what is below it was left out of the data. */
  get isCut() {
    const { model, frames } = this.tree;
    return model.rest >= 0 && (this.node === model.rest || this.frames.some(frame => {
      for (let i = frame + 1; i < frames.ends[frame]; i++) {
        if (frames.nodes[i] === model.rest)
          return true;
      }
      return false;
    }));
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
    const own = isInverted && node < 0 ? model.callers : null;
    this.frames = own ?? model.frames;
    this.walksUp = isInverted && !own;
    this.values = this.valuesOf(this.measure);
    this.root = new Box(this, null, node);
    if (node >= 0) {
      for (const frame of model.frames.outermost(node))
        this.root.add(frame, frame);
      this.addMissing(this.measure.functions.cumulative, node);
    } else {
      Object.assign(this.root, this.measure.sum);
    }
  }

  valuesOf(measure) {
    return this.walksUp && this.node < 0 ? measure.self : this.frames === this.model.callers ? measure.callers.total : measure.total;
  }

  get agePair() {
    this.madeAgePair ??= this.model.agePairs.get(this.model.measures.indexOf(this.measure)) ?? null;
    return this.madeAgePair;
  }

  /* What the function has in frames that are left out is a box of its own beside its callees or callers. */
  addMissing(sums, node) {
    const missing = this.model.cut ? sums.size[node] - this.root.size : 0;
    if (!(missing > this.measure.sum.size * 1e-9))
      return;
    this.missing = {};
    for (const part of PARTS) {
      this.missing[part] = sums[part][node] - this.root[part];
      this.root[part] = sums[part][node];
    }
  }

  childrenOf(box) {
    const byNode = new Map();
    const put = (frame, origin) => {
      if (!(this.values.size[origin] > 0))
        return;
      const node = this.frames.nodes[frame];
      if (!byNode.has(node))
        byNode.set(node, new Box(this, box, node));
      byNode.get(node).add(frame, origin);
    };
    this.forEachChildFrame(box, put);
    if (box === this.root && this.missing && this.model.rest >= 0) {
      const rest = byNode.get(this.model.rest) ?? new Box(this, box, this.model.rest);
      for (const part of PARTS)
        rest[part] += this.missing[part];
      byNode.set(this.model.rest, rest);
    }
    return [...byNode.values()].sort((a, b) =>
      (a.node === this.model.rest) - (b.node === this.model.rest) || b.size - a.size ||
      (this.model.names[a.node] < this.model.names[b.node] ? -1 : 1));
  }

  forEachChildFrame(box, put) {
    const { parents, ends, leaves, nodes } = this.frames;
    if (box.node < 0 && this.walksUp) {
      for (const leaf of leaves)
        put(leaf, leaf);
    } else if (box.node < 0) {
      for (let i = 0; i < nodes.length; i = ends[i])
        put(i, i);
    } else if (this.walksUp) {
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
