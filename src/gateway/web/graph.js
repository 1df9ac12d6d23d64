/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call graph in SVG, moved with the mouse or fingers and zoomed with the wheel and keys. It opens
 * on the function that allocates most, as large as one can read it. A click on a box, or n and N,
 * dims all that it neither calls nor is called by.
 */
import { button, el } from '/assets/dom.js';

const SCALE_MAX = 2;
const READABLE = 13; /* pixels of its text */
const LEGIBLE = 10; /* of the smallest text beside it */
const DRAG = 4; /* pixels; less is a click */

/* The picture's own script and style are for a file of its own; the page's policy allows neither. */
function parse(text) {
  const bare = text.replace(/<(script|style)\b[^]*?<\/\1>/g, '');
  const root = new DOMParser().parseFromString(bare, 'image/svg+xml').documentElement;
  if (root.nodeName !== 'svg')
    throw new Error('The call graph could not be read.');
  return document.importNode(root, true);
}

export class GraphView {
  constructor(text) {
    this.picture = parse(text);
    this.home = this.picture.viewBox.baseVal;
    this.home = { x: this.home.x, y: this.home.y, width: this.home.width, height: this.home.height };
    this.shown = { ...this.home };
    this.picture.removeAttribute('width');
    this.picture.removeAttribute('height');
    this.picture.setAttribute('tabindex', '0');
    this.picture.setAttribute('role', 'application');
    this.picture.setAttribute('aria-label', 'Call graph. Arrow keys move it, plus and minus zoom, n and N go through the functions by what they allocate, 0 shows all of it.');
    this.said = el('p.graph-said', { 'aria-live': 'polite' });
    this.readParts();
    this.element = el('div.graph', el('div.graph-tools',
      button('+', () => this.zoom(0.8), { title: 'Larger (+)', 'aria-label': 'Larger' }),
      button('\u2212', () => this.zoom(1.25), { title: 'Smaller (-)', 'aria-label': 'Smaller' }),
      button('Largest', () => this.goTo(this.nodes[0]), { title: 'The function that allocates most (Home)', disabled: this.nodes.length === 0 }),
      button('All', () => this.fit(), { title: 'All of it (0)' })), this.picture, this.said);
    this.listen();
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.picture);
  }

  /* Text is as large as before, around the same middle: scaled to a narrower window it could not be read. */
  resize() {
    const { width, height } = this.picture.getBoundingClientRect(), { size: before, shown } = this;
    if (!this.picture.isConnected)
      this.resized.disconnect();
    if (!(width > 0))
      return;
    this.size = { width, height };
    if (!before || (before.width === width && before.height === height))
      return;
    const scale = Math.min(before.width / shown.width, before.height / shown.height);
    this.show({ x: shown.x + (shown.width - width / scale) / 2, y: shown.y + (shown.height - height / scale) / 2,
      width: width / scale, height: height / scale });
  }

  listen() {
    const { picture } = this;
    picture.addEventListener('wheel', event => {
      event.preventDefault();
      this.zoom(Math.exp((event.deltaMode ? 30 : 1) * event.deltaY * 0.0015), event.clientX, event.clientY);
    }, { passive: false });
    picture.addEventListener('pointerdown', event => {
      this.pointers.set(event.pointerId, event);
      if (this.pointers.size === 1)
        this.travelled = 0;
    });
    picture.addEventListener('pointermove', event => this.drag(event));
    for (const end of ['pointerup', 'pointercancel'])
      picture.addEventListener(end, event => this.pointers.delete(event.pointerId));
    picture.addEventListener('click', event => {
      if (this.travelled <= DRAG)
        this.pick(event.target.closest('.node'));
    });
    picture.addEventListener('keydown', event => {
      const steps = {
        n: () => this.step(1), N: () => this.step(-1), Home: () => this.goTo(this.nodes[0]), Escape: () => this.pick(null),
        '+': () => this.zoom(0.8), '=': () => this.zoom(0.8), '-': () => this.zoom(1.25), '0': () => this.fit(),
        ArrowLeft: () => this.pan(60, 0), ArrowRight: () => this.pan(-60, 0), ArrowUp: () => this.pan(0, 60), ArrowDown: () => this.pan(0, -60),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !steps[event.key])
        return;
      event.preventDefault();
      steps[event.key]();
    });
  }

  /* Two fingers zoom. */
  drag(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last)
      return;
    const x = event.clientX - last.clientX, y = event.clientY - last.clientY;
    this.travelled += Math.abs(x) + Math.abs(y);
    if (this.travelled > DRAG && !this.picture.hasPointerCapture(event.pointerId))
      this.picture.setPointerCapture(event.pointerId);
    this.pan(x / this.pointers.size, y / this.pointers.size);
    if (this.pointers.size === 2) {
      const other = [...this.pointers.values()].find(({ pointerId }) => pointerId !== event.pointerId);
      const distance = one => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
      this.zoom(distance(last) / distance(event), (event.clientX + other.clientX) / 2, (event.clientY + other.clientY) / 2);
    }
    this.pointers.set(event.pointerId, event);
  }

  /* graphviz keeps the names of nodes ("N1") and edges ("N1->N2") as titles, and ours as those of links. */
  readParts() {
    this.pointers = new Map();
    this.ends = new Map();
    const parts = [...this.picture.querySelectorAll('.node, .edge')].filter(part => part.querySelector('a'));
    for (const part of parts) {
      const title = part.querySelector('title'), link = part.querySelector('a');
      this.ends.set(part, title.textContent.split('->'));
      title.textContent = link.getAttribute('xlink:title') ?? '';
      link.removeAttribute('xlink:title');
    }
    const share = node => Number(/^itself .*?\(\D*([\d.]+)%\)/m.exec(node.querySelector('title').textContent)?.[1] ?? 0);
    this.nodes = parts.filter(part => part.classList.contains('node')).sort((a, b) => share(b) - share(a));
  }

  pick(node) {
    const name = node && this.ends.get(node)?.[0];
    const edges = [...this.ends.values()].filter(ends => ends.length === 2 && ends.includes(name));
    const near = new Set([name, ...edges.flat()]);
    this.picked = name ? node : null;
    this.picture.classList.toggle('picked', Boolean(name));
    for (const [part, ends] of this.ends)
      part.classList.toggle('near', ends.length === 2 ? ends.includes(name) : near.has(ends[0]));
    this.said.textContent = name ? node.querySelector('title').textContent.split('\n').join(', ') : '';
  }

  step(by) {
    const { nodes } = this, at = nodes.indexOf(this.picked);
    const next = nodes[(at + by + nodes.length) % nodes.length];
    if (!next)
      return;
    this.goTo(next);
    this.pick(next);
  }

  /* Its text is readable, and that of the boxes beside it, as far as it is not wider than the window. It is in the middle, or nearer to the
     edge where the picture ends. */
  goTo(node) {
    const box = node?.getBBox(), { width, height } = this.picture.getBoundingClientRect();
    if (!box || !(width > 0))
      return;
    const smallest = part => Math.min(...[...part.querySelectorAll('text')].map(text => Number(text.getAttribute('font-size')) || 10));
    const wanted = Math.max(READABLE / smallest(node), LEGIBLE / smallest(this.picture));
    const scale = Math.min(wanted, width / box.width, height / box.height);
    const matrix = node.getCTM().inverse().multiply(this.picture.getCTM()).inverse();
    const middle = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2).matrixTransform(matrix);
    const { home } = this, shown = { width: width / scale, height: height / scale };
    const place = (at, size, begin, whole) => size >= whole ? begin + (whole - size) / 2 : Math.min(Math.max(at - size / 2, begin), begin + whole - size);
    this.show({ x: place(middle.x, shown.width, home.x, home.width), y: place(middle.y, shown.height, home.y, home.height), ...shown });
  }

  /* All of it where that can be read, else the function that allocates most. */
  open() {
    const { width, height } = this.picture.getBoundingClientRect(), { home } = this;
    const [largest] = this.nodes;
    const size = Math.min(...[...largest?.querySelectorAll('text') ?? []].map(text => Number(text.getAttribute('font-size')) || 10), READABLE);
    if (!largest || Math.min(width / home.width, height / home.height) * size >= READABLE - 3)
      this.fit();
    else
      this.goTo(largest);
  }

  show(box) {
    this.shown = box;
    this.picture.setAttribute('viewBox', `${box.x} ${box.y} ${box.width} ${box.height}`);
  }

  /* All of it; a small graph is not blown up beyond twice the size of its text. */
  fit() {
    const { width, height } = this.picture.getBoundingClientRect();
    const { home } = this;
    const scale = Math.max(1, Math.min(width / home.width, height / home.height) / SCALE_MAX);
    this.show({
      x: home.x - home.width * (scale - 1) / 2,
      y: home.y - home.height * (scale - 1) / 2,
      width: home.width * scale,
      height: home.height * scale,
    });
  }

  zoom(factor, clientX, clientY) {
    const bounds = this.picture.getBoundingClientRect();
    const matrix = this.picture.getScreenCTM().inverse();
    const at = new DOMPoint(clientX ?? bounds.x + bounds.width / 2, clientY ?? bounds.y + bounds.height / 2).matrixTransform(matrix);
    const width = Math.min(Math.max(this.shown.width * factor, this.home.width / 100), this.home.width * 4);
    const real = width / this.shown.width;
    this.show({
      x: at.x - (at.x - this.shown.x) * real,
      y: at.y - (at.y - this.shown.y) * real,
      width,
      height: this.shown.height * real,
    });
  }

  pan(x, y) {
    const unit = 1 / this.picture.getScreenCTM().a;
    this.show({ ...this.shown, x: this.shown.x - x * unit, y: this.shown.y - y * unit });
  }
}
