/* Talking to the server: JSON, event streams, the API key. Everything is fetch to our own origin; streams are read
 * from the body, because EventSource can send no key and no POST. */
const api = (() => {
  'use strict';
  const { $ } = util;

  /* The key lives as long as the tab, or in this browser when the user says so. */
  const KEY = 'glim.key';
  const key = () => sessionStorage.getItem(KEY) || localStorage.getItem(KEY) || '';
  function setKey(value, keep) {
    sessionStorage.removeItem(KEY);
    localStorage.removeItem(KEY);
    if (value) (keep ? localStorage : sessionStorage).setItem(KEY, value);
  }

  const keyIsKept = () => Boolean(localStorage.getItem(KEY));

  /* status 0: no reply at all. */
  class Failure extends Error {
    constructor(message, status, type) {
      super(message);
      this.status = status;
      this.type = type || '';
    }
  }

  let asking = null; /* one dialog for all requests that wait */
  function askKey(refused) {
    if (asking) return asking;
    const dialog = $('key-dialog');
    $('key-why').textContent = refused ? 'The server refused this key.' : '';
    $('key').value = '';
    $('key-keep').checked = keyIsKept();
    asking = new Promise(resolve => {
      let value = false;
      $('key-form').onsubmit = () => { value = $('key').value.trim() !== '';
        if (value) setKey($('key').value.trim(), $('key-keep').checked); };
      $('key-cancel').onclick = () => dialog.close();
      dialog.onclose = () => { asking = null; resolve(value); };
    });
    dialog.showModal();
    $('key').focus();
    return asking;
  }

  async function failure(reply) {
    const text = await reply.text().catch(() => '');
    let message = text.slice(0, 2000), type = '';
    try {
      const e = JSON.parse(text).error;
      if (typeof e === 'string') message = e;
      else if (e && e.message) { message = e.message; type = e.type || ''; }
    } catch { /* not JSON: the text itself */ }
    const wait = reply.headers.get('Retry-After');
    if (!message) message = `The server answered ${reply.status} ${reply.statusText}`.trim();
    if (wait) message += ` (try again in ${wait} s)`;
    return new Failure(message, reply.status, type);
  }

  /* The reply, when it is a success; throws Failure, or an AbortError of `signal`. quiet: no dialog, for what runs
   * by itself. */
  async function request(path, { method = 'GET', body, signal, quiet = false } = {}) {
    for (;;) {
      const headers = {};
      const used = key();
      if (used) headers.Authorization = `Bearer ${used}`;
      if (body !== undefined) headers['Content-Type'] = 'application/json';
      let reply;
      try {
        reply = await fetch(path,
          { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: 'no-store' });
      } catch (e) {
        if (e.name === 'AbortError') throw e;
        throw new Failure('The server cannot be reached.', 0);
      }
      if (reply.ok) return reply;
      if (reply.status === 401 && !quiet && (key() !== used || await askKey(used !== ''))) continue;
      throw await failure(reply);
    }
  }

  const json = async (path, options) => (await request(path, options)).json();

  /* Calls onData with the text of each event until the stream ends (RFC: the event-stream format of HTML). */
  async function events(reply, onData) {
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '', data = [];
    for (;;) {
      let part;
      try {
        part = await reader.read();
      } catch (e) {
        if (e.name === 'AbortError') throw e;
        throw new Failure('The connection to the server broke.', 0);
      }
      if (part.done) return;
      rest += part.value;
      let end;
      while ((end = rest.search(/\r\n|\n|\r(?!$)/)) >= 0) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + (rest.startsWith('\r\n', end) ? 2 : 1));
        if (line === '') {
          if (data.length) onData(data.join('\n'));
          data = [];
        } else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
  }

  return { request, json, events, Failure, key, setKey, keyIsKept };
})();
