/* Conversations, kept in this browser: one entry of localStorage each, so that saving one never writes the others.
 *
 *   {id, title, created, updated, params: {…settings}, messages: [message]}
 *   message: {role: 'user' | 'tool', content, tool_call_id?}
 *          | {role: 'assistant', versions: [version], v: index of the one that is shown}
 *   version: {content, reasoning, calls: [{id, name, arguments}], finish, stats, error}
 *
 * Other tabs see changes by the `storage` event. Where the browser keeps nothing, the page works until it is closed. */
const store = (() => {
  'use strict';
  const { toast } = util;

  const PREFIX = 'glim.chat.';
  const memory = new Map(); /* id -> conversation, of those that are open or could not be saved */
  let warned = false;

  const local = {
    get(k) { try { return localStorage.getItem(k); } catch { return null; } },
    keys() { try { return Object.keys(localStorage); } catch { return []; } },
  };

  function parse(text) {
    try {
      const c = JSON.parse(text);
      return c && typeof c.id === 'string' && Array.isArray(c.messages) ? c : null;
    } catch {
      return null;
    }
  }

  const get = id => memory.get(id) || parse(local.get(PREFIX + id));

  /* All, the last used first. */
  function all() {
    const list = new Map();
    for (const k of local.keys()) {
      if (!k.startsWith(PREFIX)) continue;
      const c = parse(local.get(k));
      if (c) list.set(c.id, c);
    }
    for (const [id, c] of memory) list.set(id, c);
    return [...list.values()].sort((a, b) => b.updated - a.updated);
  }

  function create(params) {
    const id = Array.from(crypto.getRandomValues(new Uint8Array(9)), b => b.toString(36).padStart(2, '0')).join('');
    const now = Date.now();
    return { id, title: '', created: now, updated: now, params: { ...params }, messages: [] };
  }

  function save(c) {
    memory.set(c.id, c);
    try {
      localStorage.setItem(PREFIX + c.id, JSON.stringify(c));
    } catch {
      if (!warned) toast('This conversation is not saved: the browser has no room for it. Delete some conversations.');
      warned = true;
    }
  }

  function remove(id) {
    memory.delete(id);
    try { localStorage.removeItem(PREFIX + id); } catch { /* nothing was kept */ }
  }

  /* Another tab has changed what `id` holds. */
  const forget = id => memory.delete(id);

  function setting(name, value) {
    const k = 'glim.' + name;
    if (value === undefined) return parse0(local.get(k));
    try { localStorage.setItem(k, JSON.stringify(value)); } catch { /* holds until the page is closed */ }
    return value;
  }
  function parse0(text) {
    try { return JSON.parse(text); } catch { return null; }
  }

  return { get, all, create, save, remove, forget, setting, PREFIX };
})();
