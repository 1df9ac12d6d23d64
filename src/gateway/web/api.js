/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the gateway. The token, if one is needed, is kept as long as the tab. */

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

async function problemOf(answer) {
  const text = await answer.text();
  try {
    const { message, hint, code } = JSON.parse(text).error;
    return new Problem(message, hint, answer.status, code);
  } catch {
    return new Problem(text.trim() || `The gateway answered ${answer.status}.`, '', answer.status);
  }
}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  let answer;
  try {
    // Not below the page's own address, which may have a password in it: a browser refuses such URLs.
    answer = await fetch(new URL(path, location.origin), { ...options, headers: token ? { Authorization: `Bearer ${token}` } : {} });
  } catch (error) {
    if (error.name === 'AbortError')
      throw error;
    throw new Problem('The gateway does not answer.', 'Is heapctl serve still running?');
  }
  if (!answer.ok)
    throw await problemOf(answer);
  return answer;
}

export const getJson = async (path, options) => (await ask(path, options)).json();
export const getText = async (path, options) => (await ask(path, options)).text();
const getBlob = async (path, options) => (await ask(path, options)).blob();
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
