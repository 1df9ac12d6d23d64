/* SPDX-License-Identifier: Apache-2.0 */
/* Figures and names for display. */
const ELLIPSIS = '\u2026';

function formatTime(value) {
  const units = ['ns', '\u00b5s', 'ms', 's'];
  let unit = 0;
  while (value >= 999.95 && unit + 1 < units.length) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const FORMATS = { bytes, nanoseconds: formatTime, count };

/* `isChange` puts a sign in front of growth as well. */
function formatValue(measure, value, isChange = false) {
  const format = FORMATS[measure.unit];
  return isChange || value < 0 ? change(value, format) : format(value);
}

/*
 * What holds the true value in 95 of 100 profiles. It inverts the score test of a binomial count, as
 * the textual reports do: right for a handful of samples too, and above 0.
 */
function intervalOf(value, variance) {
  if (value <= 0)
    return [value - 1.96 * Math.sqrt(variance), value + 1.96 * Math.sqrt(variance)];
  const step = 1.96 ** 2 * variance / value / 2;
  const width = Math.hypot(1.96 * Math.sqrt(variance), step);
  return [value + step - width, value + step + width];
}

/* The same of now - base. */
function changeIntervalOf({ now, base, variance, baseVariance }) {
  const [nowLow, nowHigh] = intervalOf(now, variance), [baseLow, baseHigh] = intervalOf(base, baseVariance);
  return [now - base - Math.hypot(now - nowLow, baseHigh - base),
    now - base + Math.hypot(nowHigh - now, base - baseLow)];
}

function formatInterval(measure, sums, isChange) {
  const [low, high] = isChange ? changeIntervalOf(sums) : intervalOf(sums.now, sums.variance);
  return `${formatValue(measure, low, isChange)} \u2013 ${formatValue(measure, high, isChange)}`;
}

/* A name without the parts that matter least, for boxes that have no room for all of it. */
function shortenName(name) {
  let short = name;
  for (const brackets of [/\((?!anonymous)[^()]*\)(?!::)/g, /(?<=\w)<[^<>]*>/g]) {
    for (let before = null; before !== short;) {
      before = short;
      short = short.replace(brackets, '');
    }
  }
  return short === '' || short.startsWith('operator') ? name : short;
}

function hashText(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++)
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash ^= hash >>> 15;
  return Math.imul(hash, 0x2c1b3c6d) >>> 0;
}
