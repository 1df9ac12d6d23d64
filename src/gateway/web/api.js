/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the gateway. The token, if one is needed, is kept as long as the tab. */

import { inWords } from '/assets/words.js';

const TOKEN_KEY = 'heapctl-token';

class Problem extends Error {
  constructor(message, hint = '', status = 0, code = '') {
    super(message);
    this.hint = hint;
    this.status = status;
    this.code = code;
  }
}

export function setToken(token) {
  sessionStorage.setItem(TOKEN_KEY, token);
}

/* Whether one was entered, right or wrong. */
export const hasToken = () => Boolean(sessionStorage.getItem(TOKEN_KEY));

async function problemOf(answer) {
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text);
    const { message, hint } = inWords(error);
    return new Problem(message, hint, answer.status, error.code);
  } catch {
    return new Problem(text.trim() || `The gateway answered ${answer.status}.`, '', answer.status);
  }
}

/*
 * fetch() for a body whose way is watched: sent() gets how many bytes of it have left, and of how
 * many. Only XMLHttpRequest knows.
 */
function upload(url, { method, headers, body, signal, sent }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const fail = name => reject(new DOMException('', name));
    request.open(method, url);
    request.responseType = 'blob';
    for (const [name, value] of Object.entries(headers))
      request.setRequestHeader(name, value);
    request.upload.addEventListener('progress', ({ loaded, total }) => sent(loaded, total));
    request.addEventListener('load', () => resolve(new Response(request.response,
      { status: request.status, headers: { 'Content-Type': request.getResponseHeader('Content-Type') ?? '' } })));
    request.addEventListener('error', () => fail('NetworkError'));
    request.addEventListener('abort', () => fail('AbortError'));
    if (signal.aborted)
      fail('AbortError');
    else
      request.send(body);
    signal.addEventListener('abort', () => request.abort());
  });
}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  let answer;
  try {
    // Not below the page's own address, which may have a password in it: a browser refuses such URLs.
    const url = new URL(path, location.origin), all = { ...options, headers: token ? { Authorization: `Bearer ${token}` } : {} };
    answer = await (options.body && options.sent ? upload(url, all) : fetch(url, all));
  } catch (error) {
    if (error.name === 'AbortError')
      throw error;
    throw new Problem('The gateway does not answer.', 'Is heapctl serve still running?');
  }
  if (!answer.ok)
    throw await problemOf(answer);
  return answer;
}

/* received() of the options gets how many bytes have arrived, and of how many, 0 where that is not known. */
async function getBlob(path, { received, ...options } = {}) {
  const answer = await ask(path, options);
  if (!received)
    return answer.blob();
  const whole = Number(answer.headers.get('Content-Length') ?? 0), reader = answer.body.getReader(), parts = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    size += part.value.length;
    received(size, whole);
  }
  return new Blob(parts, { type: answer.headers.get('Content-Type') });
}

export const getText = async (path, options) => (await getBlob(path, options)).text();
export const getJson = async (path, options) => JSON.parse(await getText(path, options));
export const post = async path => (await ask(path, { method: 'POST' })).json();

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}

export function saveBlob(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/* Saves what the path gives; a plain link could not carry the token. */
export const download = async (path, name, options) => saveBlob(await getBlob(path, options), name);
