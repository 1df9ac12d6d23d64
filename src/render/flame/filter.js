/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters, as heapctl report and pprof have them. A gateway filters on its side, where all frames
 * are; a page that stands alone filters what it has.
 */
const FILTERS = [
  ['focus', 'only', 'only stacks with a function or file that matches'],
  ['ignore', 'without', 'no stacks with a function or file that matches'],
  ['hide', 'hide', 'no frames that match: their callees move up'],
  ['show', 'show', 'only frames that match'],
  ['show_from', 'show from', 'only stacks with a match, from the first one on, without its callers'],
  ['prune_from', 'prune from', 'nothing below the innermost function that matches: it allocates that itself'],
];

/* Functions that only pass a call on: what a standard library puts around functions and threads. */
const WRAPPERS = '^(std::(__)?(invoke|apply)\\b|std::__(invoke|apply|call)_|std::_Function_handler\\b|std::function<|std::_?[Bb]ind\\b' +
  '|std::_Bind|std::__future_base::|std::thread::_|std::__exception_guard|boost::(asio::detail::|_bi::|function|detail::function::|bind)' +
  '|absl::(functional_internal|base_internal)::|folly::(detail|futures::detail)::|core::ops::function::|std::sys(_common)?::|std::panicking::' +
  '|std::panic::|std::rt::|__libc_start_|_start$|start_thread$|clone3?$|__clone|execute_native_thread_routine$|runtime\\.(main|goexit)$)';

const noFilters = () => Object.fromEntries([...FILTERS.map(([key]) => [key, '']), ['fold', '']]);

const areFilters = filters => Object.values(filters).some(Boolean);

/* For the gateway: wrappers are frames to hide. */
function filterQuery({ fold, ...filters }) {
  const hide = [filters.hide && fold ? `(?:${filters.hide})` : filters.hide, fold ? WRAPPERS : ''].filter(Boolean).join('|');
  return Object.fromEntries(Object.entries({ ...filters, hide }).filter(([, value]) => value));
}

/* Which nodes a pattern means, as 0 and 1; null when there is no pattern. Files match but in prune_from. */
function matchNodes(model, key, text) {
  const pattern = text ? compilePattern(text) : null;
  return pattern && Uint8Array.from(model.names, (name, node) =>
    model.isFunction(node) && (pattern.test(name) || (key !== 'prune_from' && pattern.test(`${model.files[node]}:${model.lines[node]}`))) ? 1 : 0);
}

/* Filters are Perl's patterns, with regard to case. */
function compilePattern(text) {
  try {
    return new RegExp(text);
  } catch {
    return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  }
}

/* The frames of a stack, root first, that the filters leave; null when they leave out the stack. */
function filterStack(stack, frames, { focus, ignore, hide, show, show_from: from, prune_from: end }) {
  const nodes = stack.map(frame => frames.nodes[frame]);
  if ((focus && !nodes.some(node => focus[node])) || (ignore && nodes.some(node => ignore[node])))
    return null;
  const start = from ? nodes.findIndex(node => from[node]) : 0;
  if (start < 0)
    return null;
  const left = nodes.slice(start).filter(node => !hide?.[node] && (!show || show[node]));
  const last = end ? left.findLastIndex(node => end[node]) : -1;
  if (last >= 0)
    left.length = last + 1;
  return left.length > 0 ? left : null;
}

/* A tree of the stacks that are added to it. */
class Trie {
  constructor(counters) {
    this.root = { children: new Map(), leaf: -1 };
    this.columns = counters.map(() => ({}));
    this.leafCount = 0;
  }

  add(stack) {
    let at = this.root;
    for (const node of stack) {
      if (!at.children.has(node))
        at.children.set(node, { children: new Map(), leaf: -1 });
      at = at.children.get(node);
    }
    if (at.leaf < 0)
      at.leaf = this.leafCount++;
    return at.leaf;
  }

  /* Parents first; `order` has for each leaf its number. */
  flatten() {
    const nodes = [], parents = [], leaves = [], order = [], todo = [[...this.root.children].reverse().map(entry => [entry, -1])].flat();
    while (todo.length > 0) {
      const [[node, { children, leaf }], parent] = todo.pop(), at = nodes.length;
      nodes.push(node);
      parents.push(parent);
      if (leaf >= 0) {
        leaves.push(at);
        order.push(leaf);
      }
      for (const entry of [...children].reverse())
        todo.push([entry, at]);
    }
    return { nodes: Int32Array.from(nodes), parents: Int32Array.from(parents), leaves: Int32Array.from(leaves), order };
  }
}

/* Errors are added as what they are the root of. */
function mergeColumn(key, values, places, count) {
  const sums = new Float64Array(count), isError = key.endsWith('error');
  places.forEach((place, i) => {
    if (place >= 0)
      sums[place] += isError ? values[i] ** 2 : values[i];
  });
  return isError ? sums.map(Math.sqrt) : sums;
}

/* A model of what the filters leave of it. */
function filterModel(model, filters) {
  const patterns = Object.fromEntries(Object.entries(filterQuery(filters)).map(([key, text]) => [key, matchNodes(model, key, text)]));
  const { frames } = model, trie = new Trie(model.data.counters);
  const places = Array.from(frames.leaves, leaf => {
    const stack = [];
    for (let at = leaf; at >= 0; at = frames.parents[at])
      stack.unshift(at);
    const left = filterStack(stack, frames, patterns);
    return left ? trie.add(left) : -1;
  });
  const { nodes, parents, leaves, order } = trie.flatten();
  const columns = frames.columns.map(counter => Object.fromEntries(Object.entries(counter).map(([key, values]) => {
    const sums = mergeColumn(key, values, places, trie.leafCount);
    return [key, Float64Array.from(order, leaf => sums[leaf])];
  })));
  return model.withFrames(new FrameSet(nodes, parents, leaves, columns));
}
