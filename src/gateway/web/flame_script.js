/* SPDX-License-Identifier: Apache-2.0 */
/* The flame graph's script is not a module; it is loaded when it is first needed. */
import { el } from '/assets/dom.js';

let loading = null;

/* Resolves to what the script defines. */
export async function loadFlame() {
  loading ??= new Promise((resolve, reject) => {
    const script = el('script', { src: '/assets/flame.js' });
    script.addEventListener('load', resolve);
    script.addEventListener('error', () => {
      loading = null;
      reject(Object.assign(new Error('The flame graph\u2019s script did not load.'), { hint: 'Is heapctl serve still running?' }));
    });
    document.head.append(script);
  });
  await loading;
  return globalThis.heapctlFlame;
}
