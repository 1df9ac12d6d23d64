/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for people. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(value) {
  if (!Number.isFinite(value))
    return '-';
  const size = Math.abs(value);
  const power = size < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(size) / 10));
  const scaled = value / 1024 ** power;
  return `${scaled.toFixed(power === 0 || Math.abs(scaled) >= 100 ? 0 : 1)} ${UNITS[power]}`;
}

export function change(value) {
  return (value > 0 ? '+' : value < 0 ? '\u2212' : '') + bytes(Math.abs(value));
}

export function count(value) {
  return Math.round(value).toLocaleString('en');
}

export function share(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(part / whole < 0.1 ? 1 : 0)}%` : '-';
}

/* "4 min 59 s" */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const parts = [[Math.floor(seconds / 3600), 'h'], [Math.floor(seconds / 60) % 60, 'min'], [seconds % 60, 's']]
    .filter(([number]) => number > 0).slice(0, 2);
  return parts.map(([number, unit]) => `${number} ${unit}`).join(' ') || '0 s';
}

export function moment(ms) {
  const date = new Date(ms);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString() : `${date.toLocaleDateString()} ${date.toLocaleTimeString()}`;
}
