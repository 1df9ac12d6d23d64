/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile files that were dropped onto the page or chosen in it, at #//file. The page keeps them as
 * long as it is open and sends them for each picture; the gateway keeps nothing.
 */
import { query } from '/assets/api.js';
import { fill } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { bytes } from '/assets/format.js';
import { watchGateway } from '/assets/liveness.js';
import { PICTURE_KEYS, PictureView } from '/assets/picture.js';

const ADDRESS = '#//file';
const files = { shown: null, base: null };

/* See picture.js. */
class FileSource {
  constructor(values) {
    this.values = Object.fromEntries(PICTURE_KEYS.map(key => [key, values.get(key) ?? '']));
  }

  isDifference() {
    return files.base !== null;
  }

  /* Which part of the body is what. */
  path(format, options) {
    const { shown, base } = files;
    return `/api/v1/file${query({ format, name: shown.name, base_name: base?.name, base_size: base?.size, ...options })}`;
  }

  get size() {
    return files.shown.size + (files.base?.size ?? 0);
  }

  request() {
    return { method: 'POST', body: new Blob([files.base, files.shown].filter(Boolean)) };
  }

  fileName(extension) {
    return `${files.shown.name}.${extension}`;
  }

  link() {
    const search = new URLSearchParams(Object.entries(this.values).filter(([, value]) => value)).toString();
    return `${ADDRESS}${search ? `?${search}` : ''}`;
  }

  leading() {
    return [];
  }

  sides() {
    return [files.base, files.shown].map(file => ({
      title: file.name,
      size: file.size,
      path: (format, options) => `/api/v1/file${query({ format, name: file.name, ...options })}`,
      request: () => ({ method: 'POST', body: file }),
    }));
  }
}

function chooser(label, name, changed) {
  const input = el('input', { type: 'file', onchange: () => {
    files[name] = input.files[0] ?? null;
    changed();
  } });
  if (files[name]) {
    /* A dropped one, too. */
    const chosen = new DataTransfer();
    chosen.items.add(files[name]);
    input.files = chosen.files;
  }
  return el('label.file', el('span', label), input, files[name] ? el('span.quiet', `${files[name].name}, ${bytes(files[name].size)}`) : null,
    files[name] && name === 'base' ? button('Remove', () => {
      files.base = null;
      changed();
    }) : null);
}

export function showFiles(page, values) {
  const trouble = el('div.trouble'), place = el('div'), controls = el('div.controls');
  const source = new FileSource(values);
  let view = null;
  const close = () => {
    view?.close();
    view = null;
  };
  const draw = () => {
    close();
    fill(controls, el('div.row', chooser('Profile', 'shown', draw), files.shown ? chooser('compared with', 'base', draw) : null,
      files.base ? button('Swap', () => {
        [files.shown, files.base] = [files.base, files.shown];
        draw();
      }) : null));
    if (files.shown) {
      view = new PictureView(source);
      fill(place, view.element);
    } else {
      fill(place, el('div.empty.drop', el('h2', 'Drop a profile here'),
        el('p', 'Any that heapctl report reads: of jemalloc, gperftools, pprof, collapsed stacks, compressed or not. Two at once are compared.'),
        el('p.quiet', 'It is sent to this gateway to be drawn, and not kept.')));
    }
  };
  page.append(el('div.heading', el('h1', 'Profile files')), trouble, controls, place);
  addEventListener('filesdropped', draw);
  draw();
  const endWatch = watchGateway(trouble);
  return () => {
    endWatch();
    removeEventListener('filesdropped', draw);
    close();
  };
}

/* Files that are dropped anywhere lead there: one is shown, of two the older one is the base. */
export function startDrop() {
  const hasFiles = event => event.dataTransfer?.types.includes('Files');
  document.addEventListener('dragover', event => {
    if (!hasFiles(event))
      return;
    event.preventDefault();
    event.dataTransfer.dropEffect = 'copy';
  });
  document.addEventListener('drop', event => {
    if (!hasFiles(event) || event.dataTransfer.files.length === 0)
      return;
    event.preventDefault();
    const dropped = [...event.dataTransfer.files].slice(0, 2).sort((a, b) => a.lastModified - b.lastModified);
    files.shown = dropped.at(-1);
    files.base = dropped.length > 1 ? dropped[0] : null;
    if (location.hash.startsWith(ADDRESS))
      dispatchEvent(new Event('filesdropped'));
    else
      location.hash = ADDRESS;
  });
}
