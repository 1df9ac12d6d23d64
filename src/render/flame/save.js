/* SPDX-License-Identifier: Apache-2.0 */
/* The picture as a file. The chart is laid out as for paper: all rows at once. */
const PNG_PIXELS = 32767; /* a canvas that is higher cannot be drawn on */

const escapeXml = text => text.replace(/[&<>"]/g, sign => `&#${sign.charCodeAt(0)};`);

function boxAsSvg(chart, [box, left, right], y) {
  const { picture } = chart, { colours, names, tree: { measure, model } } = picture;
  const width = right - left - (right - left > 3 ? 1 : 0);
  const rect = colour => `<rect x="${left.toFixed(2)}" y="${y}" width="${width.toFixed(2)}" height="${ROW - 1}" fill="${colour}"/>`;
  if (box === null)
    return rect(colours.rest);
  const value = formatValue(measure, model.isDifference ? box.change : box.now, model.isDifference);
  const label = width < TEXT_FROM ? ''
    : `<text x="${(left + 5).toFixed(2)}" y="${y + ROW / 2}">${escapeXml(chart.labelOf(box, width - 10))}</text>`;
  return `<g opacity="${chart.opacityOf(box)}"><title>${escapeXml(`${box.node < 0 ? 'all' : names[box.node]}, ${value}`)}</title>${
    rect(colours.fill(box, picture.colour))}${label}</g>`;
}

function pictureAsSvg(chart, heading) {
  const { width, rows, picture: { colours } } = chart, top = ROW + 6, height = top + rows.length * ROW + 1;
  const boxes = rows.flatMap((row, level) => row.map(place => boxAsSvg(chart, place, top + chart.topOf(level))));
  return new Blob([`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" `,
    `font-family="${escapeXml(FONT_FAMILY)}" font-size="12" dominant-baseline="central" fill="${colours.text}">\n`,
    `<rect width="100%" height="100%" fill="${colours.paper}"/>\n<text x="5" y="${ROW / 2}">${escapeXml(heading)}</text>\n`,
    boxes.join('\n'), '\n<\/svg>\n'], { type: 'image/svg+xml' });
}

function pictureAsPng({ canvas }) {
  return new Promise((resolve, reject) => {
    if (canvas.height > PNG_PIXELS)
      throw new Error(`The picture is ${canvas.height} pixels high, and PNG ends at ${PNG_PIXELS}: zoom in, or save it as SVG.`);
    canvas.toBlob(blob => blob ? resolve(blob) : reject(new Error('The browser has no memory for the picture: save it as SVG.')));
  });
}

/* The page as it was when it was opened. */
function pageAsHtml(container) {
  const page = document.documentElement.cloneNode(true);
  page.querySelector(`#${CSS.escape(container.id)}`).replaceChildren();
  return `<!doctype html>\n${page.outerHTML}\n`;
}

function saveFile(blob, name) {
  const link = el('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
