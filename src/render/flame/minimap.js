/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All rows of a picture that is higher than its place, beside it: each box is as high as there is
 * room. A frame marks what is visible; a click or a drag moves it.
 */
const MINIMAP_WIDTH = 56;

class Minimap {
  constructor(chart) {
    this.chart = chart;
    this.canvas = el('canvas');
    this.view = el('i');
    this.element = el('div.fg-minimap', { hidden: true, 'aria-hidden': 'true', title: 'All rows: drag to move' }, this.canvas, this.view);
    this.element.addEventListener('pointerdown', event => {
      this.element.setPointerCapture(event.pointerId);
      this.moveTo(event);
    });
    this.element.addEventListener('pointermove', event => event.buttons !== 0 && this.moveTo(event));
  }

  moveTo(event) {
    const { top, height } = this.element.getBoundingClientRect(), { chart } = this;
    chart.element.scrollTop = (event.clientY - top) / height * chart.contentHeight - chart.height / 2;
  }

  /* Shown where a quarter of the rows or more is out of sight. */
  draw() {
    const { chart } = this, isNeeded = chart.contentHeight > chart.height * 1.25;
    if (this.element.hidden === isNeeded) {
      this.element.hidden = !isNeeded;
      chart.element.classList.toggle('fg-mapped', isNeeded);
    }
    if (!isNeeded)
      return;
    if (this.drawnRows !== chart.rows || this.drawnPicture !== chart.picture)
      this.requestRows();
    const part = chart.height / chart.contentHeight;
    this.view.style.top = `${100 * chart.element.scrollTop / chart.contentHeight}%`;
    this.view.style.height = `${100 * part}%`;
  }

  /* Not in the frame that draws the picture, which is waited for. */
  requestRows() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.drawRows(), 50);
  }

  drawRows() {
    const { chart, canvas } = this, scale = window.devicePixelRatio || 1, { colours, colour } = chart.picture;
    const width = MINIMAP_WIDTH * scale, height = Math.round(chart.height * scale);
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext('2d'), row = height / (chart.contentHeight / ROW);
    chart.rows.forEach((places, level) => {
      const y = chart.topOf(level) / ROW * row;
      for (const [box, left, right] of places ?? []) {
        if (box === null && right - left < chart.width / MINIMAP_WIDTH)
          continue;
        context.globalAlpha = chart.opacityOf(box);
        context.fillStyle = box === null ? colours.rest : colours.fill(box, colour);
        context.fillRect(left / chart.width * width, y, Math.max(0.5, (right - left) / chart.width * width), Math.max(0.5, row - (row > 3 ? 1 : 0)));
      }
    });
    canvas.dataset.rows = chart.rows.length;
    this.drawnRows = chart.rows;
    this.drawnPicture = chart.picture;
  }
}
