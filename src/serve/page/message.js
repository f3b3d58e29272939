/* One message on the page. A view is made for a message and told to `update` when that grows or changes; nodes
 * that need not change stay, so that focus, selections and opened parts survive a stream. */
const message = (() => {
  'use strict';
  const { el, button, copy, count, short, seconds, plural, isNumber } = util;

  /* ---- editing ---- */

  /* A text area in the place of `node`; done(text) or done(null). */
  function editor(node, text, label, done) {
    const area = el('textarea', { 'aria-label': 'Edit the message', rows: '2' });
    area.value = text;
    const finish = value => { form.replaceWith(node); done(value); };
    const form = el('form', { class: 'editor', on: { submit: e => { e.preventDefault(); finish(area.value); } } }, area,
      el('div', { class: 'buttons' },
        el('button', { type: 'button', text: 'Cancel', on: { click: () => finish(null) } }),
        el('button', { type: 'submit', class: 'main', text: label })));
    area.addEventListener('input', () => grow(area));
    area.addEventListener('keydown', e => {
      if (e.key === 'Escape') { e.stopPropagation(); finish(null); }
      if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); finish(area.value); }
    });
    node.replaceWith(form);
    grow(area);
    area.focus();
    area.setSelectionRange(text.length, text.length);
  }

  function grow(area) {
    area.style.height = 'auto';
    area.style.height = area.scrollHeight + 2 + 'px';
  }

  /* ---- what you and tools say ---- */

  /* actions: {edit(text), remove()}; remove may be asked for at any time, edit not while an answer runs. */
  function said(m, actions) {
    const tool = m.role === 'tool';
    const text = el('div', { class: 'text', text: m.content });
    const edit = () => editor(text, m.content, tool ? 'Save' : 'Send', value => {
      if (value === null || value.trim() === '') return editButton.focus();
      text.textContent = value;
      actions.edit(value);
    });
    const copyButton = button('Copy', 'copy', () => copy(m.content, copyButton));
    const editButton = button('Edit', 'edit', edit);
    const name = tool ? 'Result of a tool' : 'You';
    const node = el('article', { class: tool ? 'said tool' : 'said', 'aria-label': name }, text,
      el('div', { class: 'acts' }, copyButton, editButton, button('Delete', 'trash', actions.remove)));
    return { node, update() {}, edit };
  }

  /* ---- what the model says ---- */

  function statLine(stats, run) {
    if (run) {
      const parts = [((performance.now() - run.start) / 1000).toFixed(1) + ' s'];
      if (stats && isNumber(stats.generated)) parts.unshift(plural(stats.generated, 'token'));
      return parts.join(' · ');
    }
    if (!stats) return '';
    const parts = [];
    if (isNumber(stats.generated)) parts.push(plural(stats.generated, 'token')
      + (stats.reasoning ? `, ${count(stats.reasoning)} of reasoning` : ''));
    if (isNumber(stats.rate)) parts.push(`${short(stats.rate)} tok/s`);
    if (isNumber(stats.ttft)) parts.push(`first after ${seconds(stats.ttft)}`);
    if (isNumber(stats.prompt)) parts.push(`prompt ${count(stats.prompt)}`
      + (stats.cached ? `, ${count(stats.cached)} cached` : ''));
    return parts.join(' · ');
  }

  function statTitle(stats) {
    if (!stats) return null;
    const lines = [];
    if (isNumber(stats.promptRate)) lines.push(`Prompt: ${short(stats.promptRate)} tok/s`);
    if (stats.drafted > 0) lines.push(`Drafts: ${count(stats.accepted)} of ${count(stats.drafted)} accepted`);
    if (isNumber(stats.seconds)) lines.push(`Whole answer: ${seconds(stats.seconds)}`);
    return lines.join('\n') || null;
  }

  const FINISH = {
    length: 'Stopped at the limit of tokens.',
    stopped: 'You stopped this answer.',
    content_filter: 'The server ended this answer.',
  };

  function pretty(text) {
    try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
  }

  /* Calls of tools; while their results are missing, a form for them. */
  function callsPart(version, answered, send) {
    const box = el('div', { class: 'calls' });
    const inputs = [];
    version.calls.forEach((c, i) => {
      const part = el('details', { class: 'call', open: '' },
        el('summary', {}, 'Calls ', el('code', { text: c.name || 'a tool' })),
        el('pre', { tabindex: '0', text: pretty(c.arguments) }));
      if (answered === false) {
        const area = el('textarea', { rows: '2', 'aria-label': `Result of ${c.name}`, placeholder: 'Its result' });
        inputs[i] = area;
        part.append(area);
      }
      box.append(part);
    });
    if (answered === false)
      box.append(el('div', { class: 'buttons' },
        el('button', { type: 'button', text: 'Send results', on: { click: () => send(inputs.map(a => a.value)) } })));
    return box;
  }

  /* actions: {regenerate(), edit(text), remove(), turn(by), results([text])}. */
  function answer(m, actions) {
    const thoughts = el('div', { class: 'thoughts', tabindex: '0', 'aria-label': 'Reasoning' });
    const thoughtsName = el('summary');
    const reasoning = el('details', { class: 'reasoning' }, thoughtsName, thoughts);
    const body = el('div', { class: 'md' });
    const calls = el('div');
    const note = el('p', { class: 'note' });
    const error = el('div', { class: 'error', role: 'alert' });
    const stats = el('span', { class: 'stats' });
    const which = el('span', { class: 'which' });
    const turner = el('span', { class: 'turner' }, button('Earlier answer', 'left', () => actions.turn(-1)), which,
      button('Later answer', 'right', () => actions.turn(1)));
    const version = () => m.versions[m.v];
    const copyButton = button('Copy', 'copy', () => copy(version().content, copyButton));
    const again = button('Regenerate (Alt R)', 'redo', actions.regenerate);
    const edit = () => editor(body, version().content, 'Save', text => {
      if (text !== null) actions.edit(text);
      editButton.focus();
    });
    const editButton = button('Edit', 'edit', edit);
    const acts = el('div', { class: 'acts' }, copyButton, editButton, again, button('Delete', 'trash', actions.remove));
    const node = el('article', { class: 'answer', 'aria-label': 'Answer' }, reasoning, body, calls, note, error,
      el('footer', {}, turner, stats, acts));

    let shown = null, growing = null, state = '';

    function begin(v) {
      shown = v;
      growing = new markdown.Growing(body);
      body.replaceChildren();
      thoughts.textContent = '';
      calls.replaceChildren();
      state = '';
    }

    function updateReasoning(v, run) {
      reasoning.hidden = !v.reasoning;
      if (!v.reasoning) return;
      const known = thoughts.textContent.length;
      if (known < v.reasoning.length) thoughts.append(v.reasoning.slice(known));
      const thinking = run && !v.content && !v.calls.length;
      const time = isNumber(v.thought) ? v.thought : run ? (performance.now() - (run.first || run.start)) / 1000 : null;
      thoughtsName.textContent = (thinking ? 'Reasoning' : 'Reasoned')
        + (isNumber(time) ? ` for ${seconds(time)}` : '');
      reasoning.classList.toggle('live', Boolean(thinking));
    }

    /* run: the generation that is writing this message now, or null; last: whether the message is the last one;
     * answered: whether results of its calls follow. */
    function update(run, last, answered) {
      const v = version();
      if (v !== shown) begin(v);
      const now = JSON.stringify([v.content.length, v.calls.length, Boolean(run), last, answered, m.versions.length,
        v.finish, v.error]);
      updateReasoning(v, run);
      stats.textContent = statLine(v.stats, run);
      if (now === state && !(run && v.calls.length)) return;
      state = now;
      if (run) growing.set(v.content);
      else growing.end(v.content);
      node.classList.toggle('live', Boolean(run));
      node.classList.toggle('waiting', Boolean(run) && !v.content && !v.reasoning && !v.calls.length);
      calls.replaceChildren(...(v.calls.length ? [callsPart(v, run || !last ? null : answered, actions.results)] : []));
      note.textContent = run ? '' : FINISH[v.finish] || '';
      note.hidden = note.textContent === '';
      error.replaceChildren();
      error.hidden = !v.error;
      if (v.error) error.append(el('p', { text: v.error.message }),
        el('button', { type: 'button', text: 'Try again', on: { click: actions.regenerate } }));
      acts.hidden = Boolean(run);
      copyButton.hidden = editButton.hidden = v.content === '';
      turner.hidden = m.versions.length < 2 || !last || Boolean(run);
      which.textContent = `${m.v + 1} of ${m.versions.length}`;
      const title = statTitle(v.stats);
      if (title) stats.title = title;
      else stats.removeAttribute('title');
    }
    return { node, update };
  }

  return { create: (m, actions) => m.role === 'assistant' ? answer(m, actions) : said(m, actions), grow };
})();
