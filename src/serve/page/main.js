/* The frame around chat and dashboard: where we are (the address after #), theme, keys, drawers on narrow screens. */
(() => {
  'use strict';
  const { $, el } = util;

  /* ---- theme: the system's, or the user's choice ---- */

  const THEMES = ['system', 'light', 'dark'];
  function theme(name) {
    if (name === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    $('theme-name').textContent = 'Theme: ' + name;
    store.setting('theme', name);
  }

  /* ---- where we are ---- */

  let lastChat = '#/';
  function route() {
    const dashboard = location.hash === '#/dashboard';
    $('chat').hidden = dashboard;
    $('dash').hidden = !dashboard;
    $('to-dash').setAttribute('aria-current', dashboard ? 'page' : 'false');
    document.body.classList.toggle('at-dash', dashboard);
    drawer(false);
    if (dashboard) {
      settings.open(false, false);
      dash.show();
      chat.list();
    } else {
      const id = (location.hash.match(/^#\/c\/(\w+)$/) || [])[1];
      if (!chat.open(id)) history.replaceState(null, '', '#/');
      if (matchMedia('(hover: hover)').matches) $('input').focus();
    }
    document.title = (dashboard ? 'Dashboard' : chat.title()) + ' – glim';
  }

  function newChat() {
    if (location.hash === '#/' || location.hash === '') route();
    else location.hash = '#/';
    $('input').focus();
  }

  /* ---- the list of conversations, a drawer on narrow screens ---- */

  const narrow = matchMedia('(max-width: 760px)');
  function drawer(yes) {
    const was = document.body.classList.contains('with-side');
    document.body.classList.toggle('with-side', yes);
    $('stage').inert = yes && narrow.matches;
    $('side').inert = !yes && narrow.matches;
    $('side-open').setAttribute('aria-expanded', String(yes));
    if (yes) $('side-close').focus();
    else if (was) $('side-open').focus();
  }

  /* ---- keys ---- */

  function escape() {
    if (document.body.classList.contains('with-side')) drawer(false);
    else if (chat.running() && !$('chat').hidden) chat.stop();
    else if (settings.isOpen()) settings.open(false);
    else return false;
    return true;
  }

  const ALT = {
    KeyN: newChat,
    KeyR: () => { if (!$('chat').hidden) chat.regenerateLast(); },
    KeyD: () => { if ($('dash').hidden) { lastChat = location.hash || '#/'; location.hash = '#/dashboard';
      } else location.hash = lastChat; },
    KeyS: () => { if (!$('chat').hidden) settings.open(!settings.isOpen()); },
  };

  function onKey(e) {
    if (document.querySelector('dialog[open]')) return;
    if (e.key === 'Escape' && escape()) return e.preventDefault();
    if (e.altKey && !e.ctrlKey && !e.metaKey && ALT[e.code]) {
      e.preventDefault();
      return ALT[e.code]();
    }
    if (e.key === '/' && !e.target.closest('input, textarea, select') && !$('chat').hidden) {
      e.preventDefault();
      $('input').focus();
    }
  }

  /* ---- what the server is ---- */

  function chooseModel(list) {
    const ids = list.map(m => m.id).filter(id => typeof id === 'string');
    const kept = store.setting('model');
    const model = ids.includes(kept) ? kept : ids[0] || '';
    const select = $('model');
    select.hidden = ids.length < 2;
    $('model-name').textContent = select.hidden ? model : '';
    select.replaceChildren(...ids.map(id => el('option', { value: id, text: id })));
    select.value = model;
    select.onchange = () => { store.setting('model', select.value); chat.know({ model: select.value }); };
    chat.know({ model });
  }

  async function know() {
    try {
      chooseModel((await api.json('/v1/models')).data || []);
      const props = await api.json('/props');
      settings.know(props);
      chat.know({ n_ctx: props.default_generation_settings?.n_ctx || props.glim?.model?.ctx || null });
    } catch (e) {
      util.toast(e.message, { label: 'Try again', run: know });
    }
  }

  function load(frame) {
    const q = frame.queue || {};
    $('side-load').textContent = q.waiting ? `${util.count(q.waiting)} waiting` : q.running
      ? `${util.count(q.running)} running` : '';
  }

  theme(THEMES.includes(store.setting('theme')) ? store.setting('theme') : 'system');
  settings.build();
  settings.know({});
  chat.start();
  $('theme').addEventListener('click',
    () => theme(THEMES[(THEMES.indexOf(store.setting('theme') || 'system') + 1) % THEMES.length]));
  $('new').addEventListener('click', newChat);
  $('help').addEventListener('click', () => $('help-dialog').showModal());
  $('side-open').addEventListener('click', () => drawer(true));
  $('side-close').addEventListener('click', () => drawer(false));
  $('shade').addEventListener('click', () => drawer(false));
  $('settings-open').addEventListener('click', () => settings.open(!settings.isOpen()));
  document.querySelector('.skip').addEventListener('click',
    e => { e.preventDefault(); ($('chat').hidden ? $('dash') : $('log')).focus(); });
  narrow.addEventListener('change', () => drawer(false));
  addEventListener('keydown', onKey);
  addEventListener('hashchange', route);
  dash.start(load);
  route();
  know();
})();
