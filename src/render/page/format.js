/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for people. */

const MINUS = '\u2212';
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

const powerOf = size => size < 1023.5 ? 0 : Math.min(BYTE_UNITS.length - 1, Math.floor(Math.log2(size / 1023.5) / 10) + 1);

/* Three digits: "9.5 MiB", "158 MiB". */
export function bytes(value) {
  if (!Number.isFinite(value))
    return '-';
  const power = powerOf(Math.abs(value));
  const scaled = value / 1024 ** power;
  return `${scaled.toFixed(power === 0 || Math.abs(scaled) >= 99.95 ? 0 : 1)} ${BYTE_UNITS[power]}`;
}

/* Estimates below 10 have a decimal. */
export function count(value) {
  if (!Number.isFinite(value))
    return '-';
  return (Math.abs(value) < 10 && !Number.isInteger(value) ? value.toFixed(1) : Math.round(value).toString())
    .replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/* With its sign; `format` is bytes or count. */
export function change(value, format = bytes) {
  const text = format(Math.abs(value));
  return /^0\b/.test(text) && !/[1-9]/.test(text) ? text : (value > 0 ? '+' : value < 0 ? MINUS : '') + text;
}

/* '' of nothing. */
export function percent(part, whole) {
  if (!(whole > 0))
    return '';
  const value = 100 * part / whole, size = Math.abs(value);
  if (size > 0 && size < 0.01)
    return '<0.01%';
  return `${value < 0 ? MINUS : ''}${size.toFixed(size === 0 || size >= 99.95 ? 0 : size >= 10 ? 1 : 2)}%`;
}
