/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown as a profile for other programs: speedscope's JSON, and pprof. */

/* [stack of nodes, root first; value of each counter] for each frame with values of its own. */
function* stacksOf(model) {
  const { frames } = model, measures = model.data.counters.map((_, i) => model.measure(i));
  for (const leaf of frames.leaves) {
    const stack = [];
    for (let at = leaf; at >= 0; at = frames.parents[at])
      stack.unshift(frames.nodes[at]);
    yield [stack, measures.map(({ self }) => self.now[leaf] - self.base[leaf])];
  }
}

/* One profile for each counter; it has no form for what shrank. */
function asSpeedscope(model, title) {
  const stacks = [...stacksOf(model)], units = { bytes: 'bytes', nanoseconds: 'nanoseconds', count: 'none' };
  const profiles = model.data.counters.map(({ label, unit }, counter) => {
    const samples = stacks.filter(([, values]) => values[counter] > 0);
    const weights = samples.map(([, values]) => values[counter]);
    return { type: 'sampled', name: `${title}: ${label}`, unit: units[unit], startValue: 0, endValue: weights.reduce((a, b) => a + b, 0),
      samples: samples.map(([stack]) => stack), weights };
  });
  const frames = model.names.map((name, node) => ({ name, ...(model.files[node] ? { file: model.files[node] } : {}),
    ...(model.lines[node] > 0 ? { line: model.lines[node] } : {}) }));
  return JSON.stringify({ $schema: 'https://www.speedscope.app/file-format-schema.json', name: title, exporter: 'heapctl',
    activeProfileIndex: model.data.shown, profiles, shared: { frames } });
}

/* Fields of a protobuf message. */
class Message {
  constructor() {
    this.bytes = [];
  }

  varint(value) {
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest > 127n; rest >>= 7n)
      this.bytes.push(Number(rest & 127n) | 128);
    this.bytes.push(Number(rest));
  }

  number(field, value) {
    this.varint(field << 3);
    this.varint(value);
    return this;
  }

  /* A message, or bytes. */
  part(field, bytes) {
    this.varint(field << 3 | 2);
    this.varint(bytes.length);
    for (const byte of bytes)
      this.bytes.push(byte);
    return this;
  }

  packed(field, values) {
    const inner = new Message();
    values.forEach(value => inner.varint(value));
    return this.part(field, inner.bytes);
  }
}

class Strings {
  constructor() {
    this.numbers = new Map([['', 0]]);
  }

  add(text) {
    if (!this.numbers.has(text))
      this.numbers.set(text, this.numbers.size);
    return this.numbers.get(text);
  }
}

/* perftools.profiles.Profile: each node is a function with one location. */
function pprofMessage(model, title) {
  const profile = new Message(), strings = new Strings(), { data } = model;
  for (const { name, unit } of data.counters)
    profile.part(1, new Message().number(1, strings.add(name)).number(2, strings.add(unit)).bytes);
  for (const [stack, values] of stacksOf(model))
    profile.part(2, new Message().packed(1, stack.reverse().map(node => node + 1)).packed(2, values.map(Math.round)).bytes);
  model.names.forEach((name, node) => {
    const id = node + 1, line = new Message().number(1, id).number(2, model.lines[node]);
    profile.part(4, new Message().number(1, id).part(4, line.bytes).bytes);
    profile.part(5, new Message().number(1, id).number(2, strings.add(name)).number(3, strings.add(name)).number(4, strings.add(model.files[node])).bytes);
  });
  const comment = strings.add(`${title}; ${data.subtitle}`), shown = strings.add(data.counters[data.shown].name);
  const encoder = new TextEncoder();
  for (const text of strings.numbers.keys())
    profile.part(6, encoder.encode(text));
  return Uint8Array.from(profile.number(13, comment).number(14, shown).bytes);
}

/* Compressed, as pprof's readers expect it. */
const asPprof = (model, title) =>
  new Response(new Blob([pprofMessage(model, title)]).stream().pipeThrough(new CompressionStream('gzip'))).blob();
