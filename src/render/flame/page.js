/* SPDX-License-Identifier: Apache-2.0 */
/* The page that stands alone: its data is in it. */
globalThis.heapctlFlame(document.getElementById('flame'),
  JSON.parse(document.getElementById('flame-data').textContent));
