/* The conversation: what is sent, what comes back, and the list at the side.
 *
 * A run is one answer being written: {controller, conversation, version, start, first}. Each conversation has at
 * most one; it goes on when another conversation is looked at. A run only changes its version object and asks for
 * a repaint. */
const chat = (() => {
  'use strict';
  const { $, el, button, icon, isNumber, count, plural, say, toast } = util;

  let current = null; /* the conversation that is shown; saved once it has a message */
  let views = [];     /* of current.messages */
  const runs = new Map(); /* conversation's id -> run */
  let facts = { model: '', n_ctx: null };
  let stick = true; /* the end of the log stays in sight */
  const SAVE_EVERY = 2000; /* ms, while an answer grows */

  const run = () => current && runs.get(current.id) || null;
  const fresh = () => ({ content: '', reasoning: '', calls: [], finish: null, stats: null, error: null });

  /* ---- painting ---- */

  let painting = false, cost = 0;
  function paint() {
    if (painting) return;
    painting = true;
    /* A long answer takes longer to paint: leave three quarters of the time to everything else. */
    setTimeout(() => requestAnimationFrame(() => {
      painting = false;
      const t = performance.now();
      update();
      cost = performance.now() - t;
    }), Math.min(500, 3 * cost));
  }

  function answered(i) {
    const ids = current.messages[i].versions[current.messages[i].v].calls.map(c => c.id);
    const next = current.messages.slice(i + 1).filter(m => m.role === 'tool').map(m => m.tool_call_id);
    return ids.every(id => next.includes(id));
  }

  function update() {
    const r = run();
    current.messages.forEach((m, i) => {
      if (m.role !== 'assistant') return;
      const last = i === current.messages.length - 1;
      views[i].update(r && m.versions[m.v] === r.version ? r : null, last, answered(i));
    });
    composer(r);
    if (stick) $('log').scrollTop = $('log').scrollHeight;
    $('latest').hidden = stick || current.messages.length === 0;
  }

  function composer(r) {
    const send = $('send');
    const mode = r ? 'stop' : 'send';
    if (send.dataset.mode !== mode) {
      send.dataset.mode = mode;
      send.setAttribute('aria-label', r ? 'Stop' : 'Send');
      send.replaceChildren(icon(mode));
    }
    send.disabled = !r && $('input').value.trim() === '';
    $('hint').textContent = r ? 'Esc stops' : 'Enter sends, Shift Enter begins a line';
    const last = current.messages.filter(m => m.role === 'assistant').pop();
    const stats = last && last.versions[last.v].stats;
    const used = stats && isNumber(stats.prompt) ? stats.prompt + (stats.generated || 0) : null;
    $('context').textContent = used === null ? ''
      : facts.n_ctx ? `${count(used)} of ${count(facts.n_ctx)} tokens` : plural(used, 'token');
    $('context').classList.toggle('full', Boolean(used && facts.n_ctx && used > 0.9 * facts.n_ctx));
  }

  function welcome() {
    return el('div', { class: 'welcome' }, el('h2', { text: facts.model || 'glim' }),
      el('p', {}, facts.n_ctx ? `${count(facts.n_ctx)} tokens of context. ` : '', 'Conversations stay in this browser.'));
  }

  function build() {
    views = current.messages.map((m, i) => message.create(m, actionsOf(m)));
    const log = $('log');
    const focused = log.contains(document.activeElement);
    log.replaceChildren(...(views.length ? views.map(v => v.node) : [welcome()]));
    log.classList.toggle('empty', views.length === 0);
    $('chat').classList.toggle('empty', views.length === 0);
    $('title').textContent = current.title || 'New chat';
    update();
    if (focused) log.focus({ preventScroll: true });
  }

  /* ---- the list at the side ---- */

  function day(time) {
    const midnight = new Date().setHours(0, 0, 0, 0);
    if (time >= midnight) return 'Today';
    if (time >= midnight - 86400000) return 'Yesterday';
    return time >= midnight - 6 * 86400000 ? 'Last week' : 'Earlier';
  }

  function list() {
    const groups = new Map();
    for (const c of store.all()) {
      if (!c.messages.length) continue;
      const d = day(c.updated);
      if (!groups.has(d)) groups.set(d, []);
      groups.get(d).push(c);
    }
    $('list').replaceChildren(...[...groups].map(([name, items]) =>
      el('section', {}, el('h2', { text: name }), el('ul', {}, ...items.map(listItem)))));
  }

  function listItem(c) {
    const href = '#/c/' + c.id, text = c.title || 'Untitled';
    return el('li', {},
      el('a', { href, text, 'aria-current': location.hash === href && 'page', class: runs.has(c.id) ? 'live' : '' }),
      button(`Delete “${text}”`, 'trash', () => removeConversation(c)));
  }

  function removeConversation(c) {
    stop(c.id);
    store.remove(c.id);
    if (current && current.id === c.id) location.hash = '#/';
    list();
    toast('Conversation deleted.', { label: 'Undo', run: () => { store.save(c); list(); } });
    $('new').focus();
  }

  /* ---- opening ---- */

  /* id: of a conversation that exists; otherwise a new one begins. */
  function open(id) {
    const c = id && store.get(id);
    current = c || store.create(settings.initial());
    settings.show(current.params, () => { if (current.messages.length) store.save(current); });
    stick = true;
    build();
    list();
    return Boolean(c) || !id;
  }

  /* After each change of messages. */
  function changed(c, focusInput = false) {
    c.updated = Date.now();
    if (!c.title) {
      const first = c.messages.find(m => m.role === 'user');
      c.title = first ? first.content.trim().split('\n')[0].slice(0, 80) : '';
    }
    store.save(c);
    if (c === current) {
      build();
      if (location.hash !== '#/c/' + c.id && c.messages.length) history.replaceState(null, '', '#/c/' + c.id);
    }
    list();
    if (focusInput) $('input').focus();
  }

  /* ---- what one can do with a message ---- */

  function actionsOf(m) {
    const c = current;
    const at = () => c.messages.indexOf(m);
    return {
      regenerate: () => regenerate(at()),
      remove: () => removeMessage(c, at()),
      turn: by => {
        m.v = Math.min(Math.max(m.v + by, 0), m.versions.length - 1);
        store.save(c);
        update();
        say(`Answer ${m.v + 1} of ${m.versions.length}`);
      },
      results: texts => {
        const v = m.versions[m.v];
        v.calls.forEach((call, i) => c.messages.push({ role: 'tool', tool_call_id: call.id, content: texts[i] }));
        answerNow(c);
      },
      edit: text => {
        if (m.role === 'user') return edit(c, at(), text);
        if (m.role === 'tool') m.content = text;
        else m.versions[m.v].content = text;
        changed(c);
      },
    };
  }

  function regenerateLast() {
    const m = current.messages[current.messages.length - 1];
    if (!m) return;
    if (m.role === 'assistant') regenerate(current.messages.length - 1);
    else answerNow(current);
  }

  function edit(c, i, text) {
    stop(c.id);
    const dropped = c.messages.splice(i + 1);
    const before = c.messages[i].content;
    c.messages[i].content = text;
    answerNow(c);
    const restore = () => c.messages.splice(i, c.messages.length, { role: 'user', content: before }, ...dropped);
    if (dropped.length) offerBack(c, restore);
  }

  function regenerate(i) {
    const c = current;
    if (i < 0) return;
    stop(c.id);
    const dropped = c.messages.splice(i + 1);
    const m = c.messages[i];
    const v = m.versions[m.v];
    if (v.error && !v.content) m.versions.splice(m.v, 1);
    answerNow(c, m);
    if (dropped.length) offerBack(c, () => { c.messages.push(...dropped); });
  }

  function removeMessage(c, i) {
    stop(c.id);
    const [m] = c.messages.splice(i, 1);
    changed(c, true);
    toast('Message deleted.', { label: 'Undo', run: () => { c.messages.splice(i, 0, m); changed(c); } });
  }

  function offerBack(c, restore) {
    toast('The messages after it were removed.', { label: 'Undo', run: () => { stop(c.id); restore(); changed(c); } });
  }

  /* ---- asking ---- */

  /* The messages of a request: what is shown, without answers that never came. */
  function conversationFor(c, end) {
    const out = c.params.system ? [{ role: 'system', content: c.params.system }] : [];
    for (const m of c.messages.slice(0, end)) {
      if (m.role === 'user') out.push({ role: 'user', content: m.content });
      else if (m.role === 'tool') out.push({ role: 'tool', tool_call_id: m.tool_call_id, content: m.content });
      else {
        const v = m.versions[m.v];
        if (!v.content && !v.calls.length) continue;
        const said = { role: 'assistant', content: v.content };
        if (v.reasoning) said.reasoning_content = v.reasoning;
        if (v.calls.length) said.tool_calls = v.calls.map(k => ({ id: k.id, type: 'function',
          function: { name: k.name, arguments: k.arguments } }));
        out.push(said);
      }
    }
    return out;
  }

  function send(text) {
    stick = true;
    current.messages.push({ role: 'user', content: text });
    answerNow(current);
  }

  /* Write an answer after the last message, or a new version of m, which is the last. */
  function answerNow(c, m) {
    if (!m) {
      m = { role: 'assistant', versions: [], v: 0 };
      c.messages.push(m);
    }
    const v = fresh();
    m.versions.push(v);
    m.v = m.versions.length - 1;
    const r = { controller: new AbortController(), conversation: c, version: v, start: performance.now(), first: 0,
      saved: performance.now() };
    runs.set(c.id, r);
    changed(c);
    say('Answering');
    const tick = setInterval(() => { if (c === current) paint(); }, 200); /* the clock, while nothing comes */
    write(r, conversationFor(c, c.messages.length - 1)).finally(() => {
      clearInterval(tick);
      if (runs.get(c.id) === r) runs.delete(c.id);
      store.save(c);
      if (c === current) paint();
      list();
    });
  }

  async function write(r, messages) {
    const v = r.version;
    try {
      const body = { model: facts.model || undefined, messages, stream: true,
        stream_options: { include_usage: true }, ...settings.request(r.conversation.params) };
      const reply = await api.request('/v1/chat/completions', { method: 'POST', body, signal: r.controller.signal });
      await api.events(reply, data => take(r, data));
      if (!v.finish && !v.error) v.error = { message: 'The connection ended before the answer did.' };
    } catch (e) {
      if (e.name === 'AbortError') v.finish = 'stopped';
      else v.error = { message: e.message, status: e.status || 0 };
    }
    finishStats(r);
    say(v.error ? `No answer: ${v.error.message}` : v.finish === 'stopped' ? 'Stopped' : 'Answer complete');
  }

  /* One event of the stream. */
  function take(r, data) {
    if (data === '[DONE]') return;
    let chunk;
    try {
      chunk = JSON.parse(data);
    } catch {
      throw new api.Failure('The server sent something that is not JSON.', 0);
    }
    const v = r.version;
    if (chunk.error) {
      v.error = { message: chunk.error.message || String(chunk.error) };
      return;
    }
    const choice = chunk.choices && chunk.choices[0];
    if (choice) {
      delta(r, choice.delta || {});
      if (choice.finish_reason) v.finish = choice.finish_reason;
    }
    if (chunk.usage) v.stats = { ...v.stats, ...usage(chunk.usage) };
    if (chunk.timings) v.stats = { ...v.stats, ...timings(chunk.timings) };
    if (performance.now() - r.saved > SAVE_EVERY) {
      store.save(r.conversation);
      r.saved = performance.now();
    }
    if (r.conversation === current) paint();
  }

  function delta(r, d) {
    const v = r.version;
    const thought = d.reasoning_content || d.reasoning || '';
    const now = performance.now();
    if ((d.content || thought || d.tool_calls) && !r.first) r.first = now;
    if (v.reasoning && !isNumber(v.thought) && (d.content || d.tool_calls)) v.thought = (now - r.first) / 1000;
    v.reasoning += thought;
    v.content += d.content || '';
    for (const t of d.tool_calls || []) {
      const call = v.calls[Math.min(t.index ?? v.calls.length, v.calls.length)] ||= { id: '', name: '', arguments: '' };
      if (t.id) call.id = t.id;
      call.name += t.function?.name || '';
      call.arguments += t.function?.arguments || '';
    }
  }

  const usage = u => ({
    prompt: u.prompt_tokens, generated: u.completion_tokens, cached: u.prompt_tokens_details?.cached_tokens,
    reasoning: u.completion_tokens_details?.reasoning_tokens,
  });
  const timings = t => ({ rate: t.predicted_per_second, promptRate: t.prompt_per_second, drafted: t.draft_n,
    accepted: t.draft_n_accepted });

  function finishStats(r) {
    const v = r.version, now = performance.now();
    v.stats = { ...v.stats, seconds: (now - r.start) / 1000 };
    if (r.first) v.stats.ttft = (r.first - r.start) / 1000;
    if (!isNumber(v.stats.rate) && r.first && v.stats.generated > 1)
      v.stats.rate = (v.stats.generated - 1) / ((now - r.first) / 1000);
  }

  function stop(id = current && current.id) {
    const r = runs.get(id);
    if (!r) return false;
    r.controller.abort();
    return true;
  }

  /* ---- the composer ---- */

  function lastOf(role) {
    for (let i = current.messages.length - 1; i >= 0; i--) if (current.messages[i].role === role) return i;
    return -1;
  }

  function start() {
    const input = $('input'), log = $('log');
    $('composer').addEventListener('submit', e => {
      e.preventDefault();
      if (run()) { stop(); return input.focus(); }
      const text = input.value;
      if (text.trim() === '') return;
      input.value = '';
      message.grow(input);
      send(text);
      input.focus();
    });
    input.addEventListener('input', () => { message.grow(input); composer(run()); });
    input.addEventListener('keydown', e => {
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        if (!run()) $('composer').requestSubmit();
      }
      if (e.key === 'ArrowUp' && input.value === '' && !run() && lastOf('user') >= 0) {
        e.preventDefault();
        views[lastOf('user')].edit();
      }
    });
    log.addEventListener('scroll', () => {
      stick = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
      $('latest').hidden = stick;
    });
    $('latest').addEventListener('click', () => { stick = true; update(); log.focus(); });
    addEventListener('storage', e => {
      if (!e.key || !e.key.startsWith(store.PREFIX)) return;
      const id = e.key.slice(store.PREFIX.length);
      if (runs.has(id)) return;
      store.forget(id);
      if (current && current.id === id && store.get(id)) open(id);
      list();
    });
    addEventListener('pagehide', () => runs.forEach(r => store.save(r.conversation)));
  }

  function know(f) {
    facts = { ...facts, ...f };
    if (current && !current.messages.length) build();
    else if (current) composer(run());
  }

  return {
    start, open, list, know, stop, regenerateLast,
    running: () => Boolean(run()),
    title: () => current.title || 'New chat',
  };
})();
