/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture: boxes on a canvas of the size of its visible part. Only boxes that are wide enough
 * are laid out, and only visible rows are drawn, so that the work grows with the screen and not
 * with the profile. A sandwich has a second tree, of callers, on the other side of the root.
 */
const ROW = 24; /* what a finger can point at */
const NARROWEST = 0.6; /* pixels; below, a box is part of the grey of its neighbours */
const TEXT_FROM = 28;  /* pixels a box needs to carry text */
const ZOOM_MS = 220;
const STRIPES = 7;     /* pixels from one to the next */
const FONT_FAMILY = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif';
const FONT = `12px ${FONT_FAMILY}`;

class Chart {
  static count = 0;

  constructor(handlers) {
    this.handlers = handlers;
    this.widths = new Map();
    this.rows = [];
    this.range = [0, 1];
    /* There may be several flame graphs on a page. */
    this.announcerId = `flame-announcer-${++Chart.count}`;
    this.canvas = el('canvas', {
      tabIndex: 0,
      role: 'application',
      'aria-label': 'Flame graph. Arrow keys move between boxes, Enter zooms in, Escape zooms out, ' +
        'question mark shows all keys. The table of functions holds the same figures.',
      'aria-describedby': this.announcerId,
    });
    this.spacer = el('div.fg-spacer', this.canvas);
    this.element = el('div.fg-chart', this.spacer);
    this.context = this.canvas.getContext('2d');
    this.listen();
  }

  listen() {
    const { canvas, handlers } = this;
    this.element.addEventListener('scroll', () => this.requestDraw());
    canvas.addEventListener('pointermove', event => handlers.hover(this.boxAt(event), event));
    canvas.addEventListener('pointerleave', () => handlers.hover(null, null));
    canvas.addEventListener('click', event => handlers.click(this.boxAt(event)));
    canvas.addEventListener('contextmenu', event => handlers.contextMenu(this.boxAt(event), event));
    canvas.addEventListener('focus', () => this.requestDraw());
    canvas.addEventListener('blur', () => this.requestDraw());
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  /* Shows the picture; the zoomed box fills the width. Animated unless the user prefers reduced motion. */
  show(picture) {
    const isSameTree = this.picture?.tree === picture.tree;
    this.picture = picture;
    const whole = picture.tree.root.size || 1, { zoom } = picture;
    const goal = [zoom.x / whole, (zoom.x + zoom.size) / whole];
    const isStill = this.range.every((edge, i) => edge === goal[i]);
    cancelAnimationFrame(this.animation);
    if (!isSameTree || isStill || this.isMotionReduced()) {
      this.range = goal;
      this.layOut();
      this.reveal(isSameTree ? picture.selected : zoom);
    } else {
      this.animate(this.range, goal, performance.now());
    }
  }

  isMotionReduced() {
    return matchMedia('(prefers-reduced-motion: reduce)').matches || document.hidden;
  }

  animate(from, to, start) {
    const step = now => {
      const part = Math.min(1, Math.max(0, (now - start) / ZOOM_MS)), eased = 1 - (1 - part) ** 3;
      this.range = part === 1 ? to : from.map((edge, i) => edge + (to[i] - edge) * eased);
      this.layOut();
      if (part < 1)
        this.animation = requestAnimationFrame(step);
      else
        this.reveal(this.picture.selected ?? this.picture.zoom);
    };
    step(start);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (this.isPrinting || (width === this.width && height === this.height))
      return;
    this.setSize(width, height);
    if (this.picture) {
      this.layOut();
      this.reveal(this.picture.selected ?? this.picture.zoom);
      /* The new size has cleared the canvas, and this frame is shown before the requested draw. */
      this.paint();
    }
  }

  setSize(width, height) {
    const scale = window.devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
  }

  layOut() {
    if (!this.width)
      return;
    const { tree, callers } = this.picture;
    const above = callers ? this.rowsOf(callers).slice(1).reverse() : [];
    this.rows = [...above, ...this.rowsOf(tree)];
    this.middle = above.length;
    this.spacer.style.height = `${Math.max(this.rows.length * ROW + 1, this.height)}px`;
    this.showNeededHeight(tree);
    this.requestDraw();
  }

  /* For flame.css. Zooming out again makes the place no lower, so that what is below it stays where it is. */
  showNeededHeight(tree) {
    this.neededRows = Math.max(this.rows.length, this.neededTree === tree ? this.neededRows : 0);
    this.neededTree = tree;
    this.element.style.setProperty('--needed-height', `${this.neededRows * ROW + 1}px`);
  }

  /* Rows of [box, left, right] in pixels; a null box stands for what is too narrow to see. */
  rowsOf(tree) {
    const whole = tree.root.size || 1, [from, to] = this.range;
    const toPixels = this.width / (to - from), rows = [];
    const put = (depth, box, left, right) => {
      const row = rows[depth] ??= [];
      const last = row[row.length - 1];
      if (box === null && last && last[0] === null && left - last[2] < 1)
        last[2] = right;
      else
        row.push([box, left, right]);
    };
    const place = box => {
      const left = Math.max(0, (box.x / whole - from) * toPixels);
      const right = Math.min(this.width, ((box.x + box.size) / whole - from) * toPixels);
      if (right <= 0 || left >= this.width)
        return;
      if (right - left < NARROWEST) {
        put(box.depth, null, left, Math.max(right, left + NARROWEST));
        return;
      }
      put(box.depth, box, left, right);
      box.children.forEach(place);
    };
    place(tree.root);
    return rows;
  }

  /* The row of a box: an index of rows. */
  levelOf(box) {
    return box.tree === this.picture.callers ? this.middle - box.depth : this.middle + box.depth;
  }

  get contentHeight() {
    return Math.max(this.rows.length * ROW + 1, this.height);
  }

  /* Top of a row in the whole picture. */
  topOf(level) {
    return this.picture.isFlame ? this.contentHeight - (level + 1) * ROW : level * ROW;
  }

  reveal(box) {
    const { element } = this;
    if (!box || !this.height)
      return;
    const top = this.topOf(this.levelOf(box)), margin = 3 * ROW;
    if (top - margin < element.scrollTop)
      element.scrollTop = Math.max(0, top - margin);
    else if (top + ROW + margin > element.scrollTop + this.height)
      element.scrollTop = top + ROW + margin - this.height;
  }

  requestDraw() {
    if (this.isDrawRequested)
      return;
    this.isDrawRequested = true;
    requestAnimationFrame(() => {
      this.isDrawRequested = false;
      this.draw();
    });
  }

  draw() {
    if (!this.picture || !this.width)
      return;
    this.paint();
    this.drawn?.();
  }

  paint() {
    const start = performance.now(), { context, element, height } = this;
    const scale = window.devicePixelRatio || 1, scrolled = element.scrollTop;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, height);
    context.font = FONT;
    context.textBaseline = 'middle';
    let count = 0;
    this.rows.forEach((row, level) => {
      const y = this.topOf(level) - scrolled;
      if (y + ROW < 0 || y > height)
        return;
      for (const [box, left, right] of row)
        this.drawBox(box, left, right, y);
      count += row.length;
    });
    this.drawMarks(scrolled);
    this.canvas.dataset.boxes = count;
    this.canvas.dataset.ms = (performance.now() - start).toFixed(1);
  }

  drawBox(box, left, right, y) {
    const { context, picture } = this, { colours } = picture;
    const gap = right - left > 3 ? 1 : 0, width = right - left - gap;
    context.globalAlpha = this.opacityOf(box);
    context.fillStyle = box === null ? colours.rest : colours.fill(box, picture.colour);
    context.fillRect(left, y, width, ROW - 1);
    if (box !== null && width >= TEXT_FROM) {
      if (this.isUncertain(box))
        this.hatch(left, y, width);
      context.fillStyle = colours.text;
      context.fillText(this.labelOf(box, width - 10), left + 5, y + ROW / 2);
    }
    context.globalAlpha = 1;
  }

  opacityOf(box) {
    const { matches, zoom } = this.picture;
    if (matches)
      return box !== null && box.node >= 0 && matches[box.node] ? 1 : 0.22;
    return box !== null && box.depth < zoom.depth ? 0.55 : 1;
  }

  /*
   * The error is as large as the value, because there are only a handful of samples. A change is
   * uncertain if it may be 0; one that is small beside the value is drawn as small already.
   */
  isUncertain(box) {
    if (!this.picture.tree.model.isDifference)
      return 1.96 * Math.sqrt(box.variance) > Math.abs(box.now);
    const [low, high] = changeIntervalOf(box);
    return box.variance + box.baseVariance > 0 && low < 0 && high > 0 && Math.abs(box.change) > 0.05 * box.size;
  }

  hatch(left, y, width) {
    this.context.fillStyle = this.stripes();
    this.context.fillRect(left, y, width, ROW - 1);
  }

  /* Drawn once for each theme: a picture may have thousands of striped boxes. */
  stripes() {
    const { isDark } = this.picture.colours;
    if (this.stripesDark === isDark)
      return this.stripesPattern;
    const size = STRIPES * 4, tile = el('canvas', { width: size, height: size }), context = tile.getContext('2d');
    context.strokeStyle = isDark ? 'rgba(0,0,0,.22)' : 'rgba(255,255,255,.5)';
    context.lineWidth = 2;
    context.beginPath();
    for (let x = -size; x < 2 * size; x += STRIPES) {
      context.moveTo(x, size);
      context.lineTo(x + size, 0);
    }
    context.stroke();
    this.stripesDark = isDark;
    this.stripesPattern = this.context.createPattern(tile, 'repeat');
    return this.stripesPattern;
  }

  /* The longest of the box's texts that has room; the last one is cut. */
  labelOf(box, room) {
    const { tree, names } = this.picture;
    const name = box.node < 0 ? 'all' : names[box.node], short = shortenName(name);
    const value = tree.model.isDifference ? `  ${formatValue(tree.measure, box.change, true)}` : '';
    const texts = [name + value, short + value, name, short];
    return texts.find(text => this.widthOf(text) <= room) ?? this.cutText(short, room);
  }

  widthOf(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  cutText(text, room) {
    let length = Math.floor(text.length * room / this.widthOf(text));
    while (length > 0 && this.context.measureText(text.slice(0, length) + ELLIPSIS).width > room)
      length--;
    return length > 1 ? text.slice(0, length) + ELLIPSIS : '';
  }

  drawMarks(scrolled) {
    const { selected, hovered, colours } = this.picture, { context } = this;
    const outline = (box, width, colour) => {
      const level = this.levelOf(box), place = this.rows[level]?.find(([other]) => other === box);
      if (!place)
        return;
      const y = this.topOf(level) - scrolled;
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.strokeRect(place[1] + width / 2, y + width / 2,
        Math.max(1, place[2] - place[1] - 1 - width), ROW - 1 - width);
    };
    if (hovered)
      outline(hovered, 1.5, colours.text);
    if (selected) {
      outline(selected, 2.5, colours.isDark ? '#fff' : '#111');
      if (document.activeElement === this.canvas)
        outline(selected, 1, colours.isDark ? '#111' : '#fff');
    }
  }

  /* Below the middle of the box, as a pointer there would be; null where it is too narrow to see. */
  placeOf(box) {
    const level = this.levelOf(box), place = this.rows[level]?.find(([other]) => other === box);
    if (!place)
      return null;
    const { left, top } = this.element.getBoundingClientRect();
    return { clientX: left + (place[1] + place[2]) / 2, clientY: top + this.topOf(level) - this.element.scrollTop + ROW / 2 };
  }

  boxAt(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left, y = event.clientY - bounds.top + this.element.scrollTop;
    const level = Math.floor(this.picture?.isFlame ? (this.contentHeight - y) / ROW : y / ROW);
    const place = this.rows[level]?.find(([, left, right]) => x >= left && x < right);
    return place ? place[0] : null;
  }

  /* The box that an arrow key leads to. */
  neighbour(box, key) {
    const { tree, callers, isFlame } = this.picture, level = this.levelOf(box);
    if (key === 'ArrowLeft' || key === 'ArrowRight') {
      const row = (this.rows[level] ?? []).filter(([other]) => other !== null);
      return row[row.findIndex(([other]) => other === box) + (key === 'ArrowLeft' ? -1 : 1)]?.[0];
    }
    const step = (key === 'ArrowDown') !== isFlame ? 1 : -1, isRoot = box === tree.root;
    if (!isRoot && (step > 0) !== (box.tree === tree))
      return box.parent === callers?.root ? tree.root : box.parent;
    const parent = isRoot && step < 0 ? callers?.root : box;
    return (this.rows[level + step] ?? []).find(([other]) => other && other.parent === parent)?.[0];
  }

  /* For printing: all rows at once. The paper's layout is no resizing: it comes from this size. */
  beginPrint(width) {
    this.isPrinting = true;
    this.setSize(width, 0);
    this.layOut();
    this.setSize(width, this.rows.length * ROW + 1);
    this.element.scrollTop = 0;
    this.draw();
  }

  endPrint() {
    this.isPrinting = false;
    this.resize();
  }
}
