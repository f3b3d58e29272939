# If this fails: someone who opens glim serve in a browser cannot talk to the model, stop it or see what the server does; or
# text that a model wrote runs as a program in that browser.
"""The page of glim serve in headless Chromium, against a scripted server (scripted.py).

everyday() holds what must be true against any server. Screenshots stay in build/page/.
"""

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import chromium  # noqa: E402
from scripted import PROPS, Scripted, answer, chunk, event, page, telemetry  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
SHOTS = ROOT / "build/page"
LAST = "article:last-of-type"


@pytest.fixture(scope="module")
def browser():
    if not chromium.find():
        packaged = shutil.which("apt-cache") and subprocess.run(["apt-cache", "show", "chromium"], capture_output=True).returncode == 0
        assert not packaged, "chromium is not installed: run tools/deps.sh test"
        pytest.skip("this system has no package of chromium")
    with chromium.Browser() as b:
        yield b


@pytest.fixture
def site():
    s = Scripted()
    yield s
    s.close()


@pytest.fixture
def opened(browser, site):
    """Opens tabs on the scripted server's page; afterwards none of them may have failed or asked elsewhere."""
    tabs = []

    def open_tab(path="/", **how):
        t = browser.tab(**how)
        tabs.append(t)
        t.open(site.base + path)
        t.wait("document.querySelector('#model-name').textContent !== '' || document.querySelector('dialog[open]')")
        return t

    yield open_tab
    for t in tabs:
        assert not t.errors, t.errors
        assert not t.violations, t.violations
        assert not elsewhere(t, site), t.requests
        t.close()


@pytest.fixture
def tab(opened):
    return opened()


def elsewhere(t, site):
    return [u for u in t.requests if not u.startswith((site.base + "/", "data:", "about:"))]


def ask(t, text):
    t.click("#input")
    t.type(text)
    t.key("Enter")


def settle(t):
    """Until no answer is being written."""
    t.wait("document.querySelector('#send').dataset.mode === 'send' && !document.querySelector('.answer.live')")


class Gate:
    """Lets a script go on when the test says so."""

    def __init__(self):
        self.event = threading.Event()

    def __iter__(self):
        while not self.event.wait(0.02):
            yield ": ping\n\n"


def gated(gate, before, after):
    for part in answer(before):
        if '"finish_reason": "stop"' in part:
            break
        yield part
    yield from gate
    yield from answer(after)


def endless(body):
    yield chunk({"role": "assistant"})
    for i in range(2000):
        yield chunk({"content": f"word{i} "})
        yield 0.02


# ---- against any server ----


def everyday(t, base, question="Count from one to two hundred in words."):
    """Ask, see it grow, stop it; look at the dashboard; come back."""
    t.open(base + "/")
    t.wait("document.querySelector('#model-name').textContent !== ''")
    ask(t, question)
    t.wait("document.querySelector('.answer.live .md')?.textContent.length > 5", limit=60)
    first = len(t.text(".answer .md"))
    t.wait(f"document.querySelector('.answer .md').innerText.length > {first}", limit=60)
    t.key("Escape")
    settle(t)
    assert "You stopped this answer." in t.text(".answer")
    t.key("d", "alt")
    t.wait("document.querySelector('#badge').textContent === 'live'", limit=20)
    t.wait("document.querySelector('.tiles dd').textContent !== '' && document.querySelector('.tiles dd').textContent !== '–'")
    t.key("d", "alt")
    t.wait("!document.querySelector('#chat').hidden && document.querySelectorAll('article').length === 2")


def test_everyday(tab, site):
    site.script = endless
    everyday(tab, site.base)
    assert site.gone.wait(5), "the server was not told that nobody listens"


def test_everyday_with_a_model(browser):
    sys.path.insert(0, str(ROOT / "tests/lib"))
    import servetest
    server, t = servetest.smollm2(), browser.tab()
    everyday(t, f"http://127.0.0.1:{server.port}", "Write a very long story about a lighthouse, the sea and a ship.")
    assert not t.errors and not t.violations, (t.errors, t.violations)
    t.close()
    server.end()  # nothing is left running: the answer that was stopped ended


# ---- conversation ----


def test_answer_streams(tab, site):
    gate = Gate()
    site.script = lambda body: gated(gate, "The **first", " half** and\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```c\nint x = 1; /* one */\n```\n\n5. five\n6. six\n")
    ask(tab, "Tell me")
    tab.wait("document.querySelector('.answer .md').textContent.includes('first')")
    assert tab.js("document.querySelector('#send').getAttribute('aria-label')") == "Stop"
    assert tab.js("document.querySelector('.md strong').textContent") == "first"  # no asterisks before it is closed
    assert "half" not in tab.text(".answer .md")
    tab.screenshot(SHOTS / "streaming.png")
    gate.event.set()
    settle(tab)
    assert tab.js("document.querySelector('.md strong').textContent") == "first half"
    assert tab.js("getComputedStyle(document.querySelector('.md tbody td:last-child')).textAlign") == "right"
    assert tab.js("document.querySelector('.md ol').start") == 5
    assert tab.js("document.querySelector('.code-head').innerText.trim()") == "c"
    assert tab.js("document.querySelector('.code .c-word').textContent") == "int"
    assert "38.6 tok/s" in tab.text(".answer .stats") and "prompt 41, 16 cached" in tab.text(".answer .stats")
    assert tab.text("#live") == "Answer complete"
    body = site.bodies[0]
    assert body == {"model": "tiny-1b", "messages": [{"role": "user", "content": "Tell me"}], "stream": True, "stream_options": {"include_usage": True}}


def test_growing_equals_whole(tab):
    """A stream ends with what the whole text gives, wherever it was cut; only links that are defined later wait for the end."""
    text = ("# T\n\npara *a*\nline\n\n- one\n\n  more\n- two\n\t- tab\n\n1. x\n2. y\n\nText\n====\n\n```py\ndef f():\n\treturn 1\n\n# end\n```\n"
            "\n> q\n> r\n\n| a |\n|---|\n| 1 |\n\n<details>\n\n<b>x</b>\n\n</details>\n\nlast\r\n\r\n***\n")
    wrong = tab.js(f"""(() => {{
        const text = {json.dumps(text)}, later = '\\n[l]: https://e.org\\n';
        const html = (f, t) => {{ const box = document.createElement('div'); f(box, t); return box.innerHTML; }};
        const whole = html((box, t) => box.append(markdown.render(t)), text), wrong = [];
        for (const step of [1, 2, 3, 7, 50, 1000]) {{
            const grown = html((box, t) => {{ const g = new markdown.Growing(box); for (let i = step; i < t.length + step; i += step) g.set(t.slice(0, i)); }}, text);
            if (grown !== whole) wrong.push([step, grown, whole]);
            const open = html((box, t) => new markdown.Growing(box).set(t), '1. x\\n\\n   ```py\\n   a = 1\\n\\n   # b');
            if (!open.includes('<span class="c-comment"># b</span>')) wrong.push(open);
            const ended = html((box, t) => {{ const g = new markdown.Growing(box); g.set(t.slice(0, 9)); g.set(t); g.end(t); }}, '[l]\\n\\n' + text + later);
            if (!ended.includes('href="https://e.org"')) wrong.push(ended);
        }}
        return wrong; }})()""")
    assert wrong == []


def test_stop_keeps_what_came(tab, site):
    site.script = endless
    ask(tab, "Go on")
    tab.wait("document.querySelector('.answer .md').textContent.includes('word3')")
    tab.click("#send")
    settle(tab)
    assert site.gone.wait(5)
    assert "word3" in tab.text(".answer .md") and "You stopped" in tab.text(".answer .note")
    site.script = lambda body: answer("Again.")
    ask(tab, "More")
    tab.wait("document.querySelectorAll('.answer').length === 2")
    settle(tab)
    roles = [m["role"] for m in site.bodies[1]["messages"]]
    assert roles == ["user", "assistant", "user"] and "word3" in site.bodies[1]["messages"][1]["content"]


def test_edit_regenerate_delete(tab, site):
    site.script = lambda body: answer(f"Answer {len(site.bodies)}.")
    for i, text in enumerate(("one", "two"), 1):
        ask(tab, text)
        tab.wait(f"document.querySelector('article:last-of-type .md')?.innerText === 'Answer {i}.'")
        settle(tab)
    # Regenerate the last answer: a second version, the first one still there.
    tab.js("document.querySelector('article:last-of-type [aria-label^=Regenerate]').click()")
    tab.wait("document.querySelector('article:last-of-type .md').innerText === 'Answer 3.'")
    settle(tab)
    assert tab.text(LAST + " .which") == "2 of 2"
    assert [m["content"] for m in site.bodies[2]["messages"]] == ["one", "Answer 1.", "two"]
    tab.click(LAST + " [aria-label='Earlier answer']")
    tab.wait("document.querySelector('article:last-of-type .md').innerText === 'Answer 2.'")
    # Edit the first message: what followed goes, and comes back by Undo.
    tab.js("document.querySelector('.said [aria-label=Edit]').click()")
    tab.key("a", "ctrl")
    tab.type("changed")
    tab.screenshot(SHOTS / "editing.png")
    tab.js("document.querySelector('.editor').requestSubmit()")
    tab.wait("document.querySelectorAll('article').length === 2 && document.querySelector('.answer .md').innerText === 'Answer 4.'")
    settle(tab)
    assert site.bodies[3]["messages"] == [{"role": "user", "content": "changed"}]
    tab.js("[...document.querySelectorAll('.toast button')].find(b => b.textContent === 'Undo').click()")
    tab.wait("document.querySelectorAll('article').length === 4")
    assert tab.text(".said .text") == "one"
    # Delete one message, and take that back.
    tab.js("document.querySelector('article:last-of-type [aria-label=Delete]').click()")
    tab.wait("document.querySelectorAll('article').length === 3")
    tab.js("[...document.querySelectorAll('.toast button')].findLast(b => b.textContent === 'Undo').click()")
    tab.wait("document.querySelectorAll('article').length === 4")
    # Edit an answer in place.
    tab.js("document.querySelector('.answer [aria-label=Edit]').click()")
    tab.key("a", "ctrl")
    tab.type("Mine.")
    tab.js("document.querySelector('.editor').requestSubmit()")
    tab.wait("document.querySelector('.answer .md').innerText === 'Mine.'")
    ask(tab, "three")
    tab.wait("document.querySelectorAll('article').length === 6")
    settle(tab)
    assert [m["content"] for m in site.bodies[-1]["messages"]][:2] == ["one", "Mine."]


def test_reasoning_is_folded(tab, site):
    site.script = lambda body: answer("Forty-two.", reasoning="Six by nine? No, six by seven.")
    ask(tab, "What is it?")
    tab.wait("document.querySelector('.answer .md').innerText === 'Forty-two.'")
    settle(tab)
    assert tab.js("document.querySelector('.reasoning').open") is False
    assert tab.text(".reasoning summary").startswith("Reasoned")
    tab.click(".reasoning summary")
    tab.wait("document.querySelector('.thoughts').innerText.includes('six by seven')")
    ask(tab, "Sure?")
    tab.wait("document.querySelectorAll('.answer').length === 2")
    settle(tab)
    assert site.bodies[1]["messages"][1] == {"role": "assistant", "content": "Forty-two.", "reasoning_content": "Six by nine? No, six by seven."}


def test_tool_calls(tab, site):
    def calls(body):
        yield chunk({"role": "assistant"})
        yield chunk({"tool_calls": [{"index": 0, "id": "k1", "type": "function", "function": {"name": "weather", "arguments": ""}}]})
        for part in ('{"city"', ': "Oslo"}'):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
        yield chunk({"tool_calls": [{"index": 1, "id": "k2", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]})
        yield chunk({}, "tool_calls")
        yield event("[DONE]")

    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    tab.key("s", "alt")
    tab.js("document.querySelector('#set-tools').closest('details').open = true")
    tab.click("#set-tools")
    tab.type(json.dumps([tool]))
    tab.key("Escape")
    site.script = calls
    ask(tab, "Weather?")
    tab.wait("document.querySelectorAll('.call textarea').length === 2")
    assert site.bodies[0]["tools"] == [tool]
    assert json.loads(tab.text(".call pre")) == {"city": "Oslo"} and "weather" in tab.text(".call summary")
    site.script = lambda body: answer("Cold.")
    for i, text in enumerate(("-3", "noon"), 1):
        tab.click(f".call:nth-child({i}) textarea")
        tab.type(text)
    tab.screenshot(SHOTS / "tools.png")
    tab.click(".calls .buttons button")
    tab.wait("document.querySelector('article:last-of-type .md')?.innerText === 'Cold.'")
    sent = site.bodies[1]["messages"]
    assert [c["id"] for c in sent[1]["tool_calls"]] == ["k1", "k2"]
    assert sent[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert sent[2:] == [{"role": "tool", "tool_call_id": "k1", "content": "-3"}, {"role": "tool", "tool_call_id": "k2", "content": "noon"}]


@pytest.mark.parametrize("script, text", [
    ((429, {"error": {"message": "the queue is full: have 64, need fewer", "type": "rate_limit_error"}}, "application/json", [("Retry-After", "7")]),
     "the queue is full: have 64, need fewer (try again in 7 s)"),
    ((400, {"error": {"message": "messages[0].content: have 9000 tokens, need at most 8192"}}), "have 9000 tokens"),
    ((502, b"<h1>Bad gateway</h1>", "text/html"), "<h1>Bad gateway</h1>"),
    ([chunk({"content": "Half"}), event({"error": {"message": "the engine is lost"}})], "the engine is lost"),
    ([chunk({"content": "Half"})], "The connection ended before the answer did."),
    ([event("{nonsense")], "The server sent something that is not JSON."),
])
def test_errors_are_shown(tab, site, script, text):
    site.script = lambda body: script
    ask(tab, "Hello")
    tab.wait("document.querySelector('.error p')")
    settle(tab)
    assert text in tab.text(".error p")
    assert tab.js("document.querySelector('.error').getAttribute('role')") == "alert"
    tab.screenshot(SHOTS / "error.png")
    site.script = lambda body: answer("Better.")
    tab.click(".error button")
    tab.wait("document.querySelector('.answer .md').innerText === 'Better.'")
    settle(tab)
    assert tab.js("document.querySelector('.error').hidden") is True
    assert site.bodies[1]["messages"] == [{"role": "user", "content": "Hello"}]


def test_server_away(tab, site):
    site.close()
    ask(tab, "Anyone?")
    tab.wait("document.querySelector('.error p')")
    assert tab.text(".error p") == "The server cannot be reached."


def test_conversations_are_kept(opened, site):
    t = opened()
    site.script = lambda body: answer("Kept.")
    for text in ("first talk", "second talk"):
        t.key("n", "alt")
        t.wait("document.querySelectorAll('article').length === 0")
        ask(t, text)
        t.wait("document.querySelector('.answer .md')?.innerText === 'Kept.'")
        settle(t)
    t.open(site.base + "/")
    t.wait("document.querySelectorAll('#list a').length === 2")
    assert [t.js(f"document.querySelectorAll('#list a')[{i}].textContent") for i in (0, 1)] == ["second talk", "first talk"]
    t.js("document.querySelectorAll('#list a')[1].click()")
    t.wait("document.querySelector('.said .text')?.textContent === 'first talk'")
    assert t.text("#title") == "first talk"
    t.js("document.querySelectorAll('#list button')[1].click()")
    t.wait("document.querySelectorAll('#list a').length === 1 && document.querySelectorAll('article').length === 0")
    t.js("[...document.querySelectorAll('.toast button')].find(b => b.textContent === 'Undo').click()")
    t.wait("document.querySelectorAll('#list a').length === 2")
    # An answer goes on while another conversation is looked at.
    gate = Gate()
    site.script = lambda body: gated(gate, "Slow ", "but sure")
    ask(t, "third talk")
    t.wait("document.querySelector('.answer .md')?.textContent.includes('Slow')")
    t.js("[...document.querySelectorAll('#list a')].find(a => a.textContent === 'first talk').click()")
    t.wait("document.querySelector('.said .text')?.textContent === 'first talk'")
    assert t.js("document.querySelector('#list a.live').textContent") == "third talk"
    gate.event.set()
    t.wait("!document.querySelector('#list a.live')")
    t.js("[...document.querySelectorAll('#list a')].find(a => a.textContent === 'third talk').click()")
    t.wait("document.querySelector('.answer .md')?.innerText === 'Slow but sure'")


def test_settings(tab, site):
    tab.wait("document.querySelector('#set-temperature').placeholder !== 'default'")
    tab.click("#settings-open")
    assert tab.js("document.activeElement.id") == "set-system"
    placeholders = {k: tab.js(f"document.querySelector('#set-{k}').placeholder") for k in ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed")}
    assert placeholders == {"temperature": "0.8", "top_p": "0.95", "top_k": "40", "min_p": "0.05", "max_tokens": "default", "seed": "default"}
    for key, text in {"system": "Be brief.", "temperature": "0.3", "top_p": "0.9", "top_k": "20", "min_p": "0.1", "max_tokens": "99", "seed": "7"}.items():
        tab.click("#set-" + key)
        tab.type(text)
    tab.js("(() => { const e = document.querySelector('#set-effort'); e.value = 'high'; e.dispatchEvent(new Event('change')); })()")
    tab.screenshot(SHOTS / "settings.png")
    ask(tab, "Hi")
    tab.wait("document.querySelector('.answer .md')?.innerText === 'Hello.'")
    settle(tab)
    body = {k: v for k, v in site.bodies[0].items() if k not in ("model", "stream", "stream_options")}
    assert body == {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], "temperature": 0.3, "top_p": 0.9,
                    "top_k": 20, "min_p": 0.1, "max_completion_tokens": 99, "seed": 7, "reasoning_effort": "high"}
    # What is no number, or too large, is said and not sent; the last good value holds.
    for bad in ("abc", "2.5"):
        tab.click("#set-temperature")
        tab.key("a", "ctrl")
        tab.type(bad)
        assert tab.js("document.querySelector('#set-temperature').getAttribute('aria-invalid')") == "true"
        assert "from 0 to 2" in tab.text("#set-temperature-doc")
    # A new conversation has the numbers, not the system prompt.
    tab.key("n", "alt")
    tab.wait("document.querySelectorAll('article').length === 0")
    ask(tab, "Again")
    tab.wait("document.querySelector('.answer .md')?.innerText === 'Hello.'")
    settle(tab)
    assert site.bodies[1]["temperature"] == 0.3 and [m["role"] for m in site.bodies[1]["messages"]] == ["user"]


def test_api_key(opened, site):
    site.key = "right"
    t = opened()
    t.wait("document.querySelector('#key-dialog').open")
    t.screenshot(SHOTS / "key.png")
    t.type("wrong")
    t.key("Enter")
    t.wait("document.querySelector('#key-why').textContent === 'The server refused this key.' && document.querySelector('#key-dialog').open")
    t.type("right")
    t.key("Enter")
    t.wait("document.querySelector('#model-name').textContent === 'tiny-1b'")
    ask(t, "Hi")
    t.wait("document.querySelector('.answer .md')?.innerText === 'Hello.'")
    assert t.js("localStorage.getItem('glim.key')") is None  # kept beyond the tab only when asked to


# ---- nothing a model writes runs ----

HOSTILE = [
    "<script>pwned = 1</script>",
    "<img src=x onerror='pwned = 1'>",
    "<img src='https://evil.example/x.png'>", "![i](https://evil.example/y.png)", "![i](//evil.example/z.png)", "![i](/v1/models)",
    "[a](javascript:pwned=1)", "[b](JaVaScRiPt:pwned=1)", "[c](java&#10;script:pwned=1)", "[d](data:text/html,<script>pwned=1</script>)", "[e](vbscript:x)",
    "<a href='javascript:pwned=1'>f</a>", "<a href=' \x01javascript:pwned=1'>g</a>", "[h](#/dashboard)", "[h](/props)",
    "<svg onload='pwned=1'><script>pwned=1</script><a xlink:href='javascript:pwned=1'><text>s</text></a></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=pwned=1&gt;'>",
    "<iframe src='javascript:pwned=1'></iframe><iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<object data='javascript:pwned=1'></object><embed src='https://evil.example/e'>", "<base href='https://evil.example/'>",
    "<form action='https://evil.example/'><input name=a><button>go</button></form>", "<form id=x tabindex=0 onfocus=pwned=1 autofocus>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>", "<link rel=stylesheet href='https://evil.example/s.css'>",
    "<style>body{display:none}@import 'https://evil.example/i.css'</style>", "<p style='position:fixed;inset:0;background:url(https://evil.example/b)'>p</p>",
    "<div class='toast' id='input'>spoof</div>", "<p class='toast'>spoof</p><code class='toast'>spoof</code>",
    "[m](data:image/svg+xml,<svg/onload=pwned=1>)", "<a href='data:image/png;base64,AAAA'>n</a>", "<details open ontoggle=pwned=1>d</details>", "<video src='https://evil.example/v' onerror=pwned=1></video>",
    "<template><script>pwned=1</script></template>", "<noscript><p title='</noscript><img src=x onerror=pwned=1>'></noscript>",
    "`<img src=x onerror=pwned=1>`", "```html\"onclick=pwned=1\n<script>pwned=1</script>\n```", "<a href='https://e.org' target=_self ping='https://evil.example/p'>k</a>",
    "| <img src=x onerror=pwned=1> |\n|---|\n| <b onclick=pwned=1>b</b> |", "[l]: javascript:pwned=1\n[l]", "<https://ok.example/> <javascript:pwned=1>",
]
LOOK = """(() => {
    const bad = [];
    for (const e of document.querySelectorAll('article *')) {
        for (const a of e.attributes) if (/^on/i.test(a.name) || ['style', 'srcdoc', 'ping', 'srcset'].includes(a.name) && !e.matches('textarea')) bad.push(e.outerHTML.slice(0, 200));
        if (e.closest('.md') && e.id) bad.push('id ' + e.id);
        if (e.closest('.md') && /toast/.test(e.className)) bad.push('class');
        if (e.tagName === 'A' && e.href && !/^(https?|mailto):/.test(e.href)) bad.push(e.href);
        if (e.tagName === 'A' && e.href && e.closest('.md') && (new URL(e.href).origin === location.origin || e.rel !== 'noopener noreferrer nofollow' || e.target !== '_blank')) bad.push('link ' + e.outerHTML);
        if (/^(script|iframe|object|embed|base|form|meta|link|style|video|template|math)$/i.test(e.tagName) && !e.matches('.editor')) bad.push(e.tagName);
        if (e.tagName === 'INPUT' && (e.type !== 'checkbox' || !e.disabled)) bad.push(e.outerHTML);
        if (e.tagName === 'IMG' && !/^data:image/.test(e.src)) bad.push(e.src);
    }
    return bad; })()"""


@pytest.mark.parametrize("size", [1000000, 5])
def test_hostile_markdown(tab, site, size):
    text = "\n\n".join(HOSTILE)
    site.script = lambda body: answer(text, reasoning=text, size=size)
    ask(tab, text)
    tab.wait("document.querySelector('.answer .md')?.innerText.includes('ok.example')")
    settle(tab)
    assert tab.js(LOOK) == []
    shown = tab.text(".answer .md")
    assert all(t in shown for t in ("<script>pwned = 1</script>", "<style>body{display:none}", "<math><mtext>", "<template>")), "text has vanished"
    for link in range(tab.js("document.querySelectorAll('.md a:not([href])').length")):
        tab.js(f"document.querySelectorAll('.md a:not([href])')[{link}].click()")
    assert tab.js("typeof pwned") == "undefined"
    assert tab.js("document.querySelectorAll('.md a[href]').length") >= 3  # honest links stay links
    assert tab.js("location.pathname + location.hash").startswith("/#/c/")


def test_hostile_html(site, browser):
    """The second wall: were the tags of a text let through, DOMPurify and the hook would still take what is bad from them."""
    t = browser.tab()
    t.open(site.base + "/")
    t.wait("document.querySelector('.welcome p')?.textContent.includes('8,192')")
    t.js("document.querySelector('#log').replaceChildren(document.createElement('article'))")
    for text in HOSTILE + [h.replace("\n", "") + "<p>after</p>" for h in HOSTILE]:
        t.js(f"""(() => {{ const md = document.createElement('div'); md.className = 'md'; md.append(markdown.clean({json.dumps(text)}));
            document.querySelector('#log article').append(md); }})()""")
    assert t.js(LOOK.replace(" || e.rel !== ", " && e.rel !== ")) == []
    t.js("document.querySelectorAll('.md a').forEach(a => { if (!a.href) a.click(); })")
    assert t.js("new Promise(f => setTimeout(f, 300))") is None
    assert t.js("typeof pwned") == "undefined" and not elsewhere(t, site) and not t.errors
    t.close()


def test_open_ends(tab):
    """Half of a bold word or of code is seen as such, not as its marks; what is no mark stays."""
    cases = {"a **b": "a <strong>b</strong>", "a **b c ": "a <strong>b c</strong>", "a **b*": "a <strong>b</strong>", "a **": "a ", "* **x": None, "a\n\n***": None, "a `x": "a <code>x</code>",
             "a `x **y": "a <code>x **y</code>", "`a` **b** c": "<code>a</code> <strong>b</strong> c", "2 * 3": "2 * 3", "`**` c": "<code>**</code> c"}
    got = tab.js(f"""Object.fromEntries({json.dumps(list(cases))}.map(t => {{ const d = document.createElement('div'); new markdown.Growing(d).set(t); return [t, d.innerHTML]; }}))""")
    assert got.pop("* **x") == "<ul>\n<li><strong>x</strong></li>\n</ul>\n" and "<hr>" in got.pop("a\n\n***")
    assert got == {k: f"<p>{v}</p>\n" for k, v in cases.items() if v}


def test_plain_tags_are_meant(tab):
    html = tab.js("(() => { const d = document.createElement('div'); d.append(markdown.render('H<sub>2</sub>O<br>x <b onclick=1>y</b> a<b and c>d\\n\\n- [x] done')); return d.innerHTML; })()")
    assert html.startswith("<p>H<sub>2</sub>O<br>x &lt;b onclick=1&gt;y a&lt;b and c&gt;d</p>"), html
    assert '<input type="checkbox" disabled="" checked="">' in html or 'checked="" disabled="" type="checkbox"' in html, html


def test_hostile_names(opened, site):
    """Everything else the server or a model can name: models, tools, errors, requests, levers."""
    evil = "<img src=x onerror='pwned=1'><script>pwned=1</script>"

    def calls(body):
        yield chunk({"tool_calls": [{"index": 0, "id": evil, "function": {"name": evil, "arguments": evil}}]})
        yield event({"error": {"message": evil}})

    site.script = calls
    site.requests = [{"id": evil, "api": evil, "state": evil, "prompt": 1, "cached": 0, "done": 1, "generated": 1, "age_s": 1}]
    t = opened()
    ask(t, evil)
    t.wait("document.querySelector('.error p')")
    t.key("d", "alt")
    t.wait("document.querySelector('tbody tr th')")
    assert evil in t.text("tbody tr th")
    assert t.js("typeof pwned") == "undefined" and t.js("document.images.length") == 0


def test_policy_blocks(opened, site, browser):
    """The safety net under all that: what is not the page's own script or style does not run even when it got in."""
    site.html = site.html.replace(b"</body>", b"<script>window.pwned = 1</script><p id=p onclick='pwned = 2' style='color: red'>x</p>"
                                  b"<img src='https://evil.example/x.png'></body>")
    t = browser.tab()
    t.open(site.base + "/")
    t.js("document.querySelector('#p').click()")
    assert t.js("typeof pwned") == "undefined"
    assert t.js("getComputedStyle(document.querySelector('#p')).color") != "rgb(255, 0, 0)"
    assert t.js("(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done'; } catch (e) { return e.name; } })()") == "TypeError"
    assert len(t.violations) >= 4, "violations are not seen: the other tests would not see them either"
    t.close()


# ---- dashboard ----


def test_dashboard(opened, site):
    site.frame_pause = 0.02
    site.requests = [{"id": "r-1", "api": "chat", "state": "decode", "prompt": 1200, "cached": 1024, "done": 1200, "generated": 212, "age_s": 6.2},
                     {"id": "r-2", "api": "messages", "state": "prefill", "prompt": 8000, "cached": 0, "done": 3072, "generated": 0, "age_s": 1.1},
                     {"id": "r-3", "api": "chat", "state": "queued", "prompt": 300, "cached": 0, "done": 0, "generated": 0, "age_s": 0.4}]
    t = opened("/#/dashboard")
    t.wait("document.querySelector('#badge').textContent === 'live' && document.querySelectorAll('tr[data-state]').length === 3")
    t.wait("document.querySelector('.chart .line').getAttribute('d').split('L').length > 120")
    tiles = t.js("Object.fromEntries([...document.querySelectorAll('.tiles > div')].map(d => [d.querySelector('dt').textContent, d.innerText]))")
    assert "of 16" in tiles["Answers running"] and "77.8 %" in tiles["Prefix-cache hits"] and "63.3 %" in tiles["Drafts accepted"]
    assert "1,320" in tiles["Answers done"] and "12 cancelled, 5 refused" in tiles["Answers done"] and "26 h" in tiles["Up"]
    kv = telemetry(1)["kv"]
    assert f"cached {kv['cached']:,}" in t.text(".legend:has(.cached)")
    cells = t.js("document.querySelectorAll('.cells i.cached').length")
    assert abs(cells - 160 * kv["cached"] / kv["pages"]) <= 1  # both of its ends are rounded
    assert "reading 38.4 %" in t.text("tr[data-state=prefill]") and "1,024" in t.text("tr[data-state=decode]")
    assert "kv_type" in t.text(".dash-in") and "q8_0" in t.text(".dash-in") and "avx512-vnni panel16 int8" in t.text(".dash-in")
    assert t.js("document.querySelectorAll('.bar-now').length") > 5
    t.screenshot(SHOTS / "dashboard.png")
    t.click("tr[data-state=prefill] button")
    t.wait("document.querySelectorAll('tr[data-state]').length === 2")
    assert site.cancelled == ["r-2"]


def test_quantiles(tab):
    """Of histograms: between edges in proportion, above the last edge unknown, nothing without observations."""
    q = "[0.5, 0.95, 1].map(q => charts.quantile({}, {}, q))"
    assert tab.js(q.format("[1, 2, 4]", "[0, 10, 0, 0]")) == [1.5, 1.95, 2]
    assert tab.js(q.format("[1, 2]", "[5, 5, 0]")) == [1, 1.9, 2]
    assert tab.js(q.format("[1, 2]", "[0, 0, 3]") + ".map(String)") == ["Infinity"] * 3
    assert tab.js(q.format("[1]", "[0, 0]")) == [None] * 3


def test_stale_and_back(opened, site):
    t = opened("/#/dashboard")
    t.wait("document.querySelector('#badge').textContent === 'live'")
    site.frame_pause = 6
    t.wait("document.querySelector('#badge').className === 'badge stale'", limit=9)
    assert re.fullmatch(r"stale, \d+(\.\d+)? s", t.text("#badge"))
    assert t.js("document.querySelector('#dash').classList.contains('stale')")
    t.screenshot(SHOTS / "stale.png")
    site.frame_pause = 0.1
    t.wait("document.querySelector('#badge').textContent === 'live'", limit=9)


# ---- looks and hands ----


def luminance(color):
    r, g, b = (int(color[i:i + 2], 16) / 255 for i in (1, 3, 5))
    return sum(w * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for w, c in zip((0.2126, 0.7152, 0.0722), (r, g, b)))


def contrast(a, b):
    a, b = sorted((luminance(a), luminance(b)), reverse=True)
    return (a + 0.05) / (b + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(opened, dark):
    """WCAG AA for every text colour on every ground."""
    t = opened(dark=dark)
    value = lambda name: t.js(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")  # noqa: E731
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for ground in ("bg", "panel", "raised"):
        for ink in ("text", "soft", "faint", "accent", "bad"):
            assert contrast(value(ink), value(ground)) >= 4.5, (ink, ground)
    for ink in ("c-word", "c-string", "c-number", "c-comment"):
        assert contrast(value(ink), value("panel")) >= 4.5, ink
    assert contrast(value("text"), value("bad-wash")) >= 4.5


DEMO = """Reversing a singly linked list means turning each `next` pointer around while you walk it. You need **three** pointers.

## In C

```c
/* Reverse in place; returns the new head. */
struct node *reverse(struct node *head)
{
    struct node *before = NULL;
    while (head) {
        struct node *after = head->next;
        head->next = before;
        before = head;
        head = after;
    }
    return before;
}
```

1. Each node is visited exactly once.
2. Each visit does a constant amount of work.

| approach | time | extra memory | note |
|---|---:|---:|---|
| iterative | O(n) | O(1) | the usual choice |
| recursive | O(n) | O(n) | the stack may overflow |
"""


@pytest.mark.parametrize("name, how", [("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390, "height": 844, "mobile": True}),
                                       ("phone-dark", {"width": 390, "height": 844, "mobile": True, "dark": True})])
def test_fits_the_screen(opened, site, name, how):
    site.script = lambda body: answer(DEMO, reasoning="A list, in C.")
    site.frame_pause = 0.05
    site.requests = [{"id": "r-1", "api": "chat", "state": "decode", "prompt": 1200, "cached": 1024, "done": 1200, "generated": 212, "age_s": 6.2}]
    t = opened(**how)
    t.screenshot(SHOTS / f"{name}-empty.png")
    ask(t, "How do I reverse a linked list in C? " + "x" * 200)
    t.wait("document.querySelector('.answer .stats')?.textContent.includes('tok/s')")
    settle(t)
    t.screenshot(SHOTS / f"{name}-chat.png")
    inside = """(() => { const w = innerWidth, h = innerHeight; const b = s => document.querySelector(s).getBoundingClientRect();
        return document.documentElement.scrollWidth <= w && b('#send').right <= w && b('#send').bottom <= h && b('.said .text').right <= w && b('.answer').left >= 0
            && b('#settings-open').right <= w; })()"""
    assert t.js(inside)
    ground = t.js("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 150) == how.get("dark", False)
    if how.get("mobile"):
        assert t.js("parseFloat(getComputedStyle(document.querySelector('#input')).fontSize)") >= 16  # or the phone zooms in
        assert t.js("getComputedStyle(document.querySelector('#side')).visibility") == "hidden"
        t.click("#side-open")
        t.wait("document.activeElement.id === 'side-close' && document.querySelector('#side').getBoundingClientRect().left === 0")
        t.screenshot(SHOTS / f"{name}-list.png")
        t.click("#to-dash")
    else:
        t.click("#to-dash")
    t.wait("document.querySelectorAll('tr[data-state]').length === 1")
    t.wait("document.querySelector('.chart .line').getAttribute('d').split('L').length > 20")
    t.screenshot(SHOTS / f"{name}-dashboard.png")
    assert t.js("document.documentElement.scrollWidth <= innerWidth && document.querySelector('#dash').scrollWidth <= innerWidth")
    t.js("document.querySelector('tr[data-state] button').scrollIntoView({block: 'center'})")
    assert t.js("document.querySelector('tr[data-state] button').getBoundingClientRect().right <= innerWidth")


def test_theme_switch(opened, site):
    t = opened(dark=True)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = t.js(ground)
    t.click("#theme")
    assert t.text("#theme-name") == "Theme: light"
    light = t.js(ground)
    assert light != dark
    t.open(site.base + "/")
    assert t.js(ground) == light
    t.click("#theme")
    t.media(dark=False)
    assert t.text("#theme-name") == "Theme: dark" and t.js(ground) == dark


def test_reduced_motion(opened, site):
    gate = Gate()
    site.script = lambda body: gated(gate, "Still", " here")
    for reduced, moving in ((False, True), (True, False)):
        gate.event.clear()
        t = opened(reduced=reduced)
        ask(t, "Wait")
        t.wait("document.querySelector('.answer.live .md p')")
        assert t.js("document.getAnimations().length > 0") is moving
        gate.event.set()
        settle(t)


FOCUS = """(() => { const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();
    const seen = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 || e.id === 'input' || b.width === 0;
    return {id: e.id, tag: e.tagName, seen, inside: b.bottom > 0 && b.right > 0 && b.top < innerHeight && b.left < innerWidth}; })()"""


def test_keyboard_only(opened, site):
    site.script = endless
    t = opened()
    order = [t.js("document.activeElement.id")]  # the message has the focus from the start; backwards from there
    while order[-1] != "skip" and len(order) < 12:
        t.key("Tab", "shift")
        f = t.js(FOCUS)
        assert f["seen"] and f["inside"], f
        order.append(f["id"] or t.js("document.activeElement.className"))
    assert order == ["input", "log", "settings-open", "help", "theme", "to-dash", "new", "skip"]
    t.key("Enter")
    assert t.js("document.activeElement.id") == "log"
    t.key("Tab")
    assert t.js("document.activeElement.id") == "input"
    t.type("Count")
    t.key("Enter")
    t.wait("document.querySelector('.answer .md')?.textContent.includes('word2')")
    t.key("Escape")
    settle(t)
    assert t.js("document.activeElement.id") == "input"
    # Regenerate, then edit the last message with the arrow.
    site.script = lambda body: answer("Short.")
    t.key("r", "alt")
    t.wait("document.querySelector('.answer .md').innerText === 'Short.'")
    settle(t)
    t.js("document.querySelector('#input').focus()")
    t.key("ArrowUp")
    assert t.js("document.activeElement.closest('.editor') !== null")
    t.key("Escape")
    assert t.js("document.querySelector('.editor')") is None
    assert t.js("document.activeElement.getAttribute('aria-label')") == "Edit"
    # From there to the buttons of the answer.
    t.key("Tab")
    t.key("Tab")
    assert t.js("document.activeElement.closest('.answer') !== null") and t.js(FOCUS)["seen"]
    t.key("s", "alt")
    assert t.js("document.activeElement.id") == "set-system"
    t.key("Escape")
    assert t.js("document.querySelector('#settings').hidden") and t.js("document.activeElement.id") == "settings-open"
    t.key("/")
    assert t.js("document.activeElement.id") == "input" and t.js("document.querySelector('#input').value") == ""
    t.js("document.querySelector('#help').focus()")
    t.key("Enter")
    t.wait("document.querySelector('#help-dialog').open")
    t.screenshot(SHOTS / "keys.png")
    t.key("Escape")
    t.wait("!document.querySelector('#help-dialog').open")
    assert t.js("document.activeElement.id") == "help"
    # A running request is cancelled without a mouse, and the focus is not lost with its row.
    site.requests = [{"id": "r-9", "api": "chat", "state": "decode", "prompt": 5, "cached": 0, "done": 5, "generated": 1, "age_s": 1}]
    t.key("d", "alt")
    t.wait("document.querySelector('tr[data-state] button')")
    t.js("document.querySelector('#to-dash').focus()")
    for _ in range(20):
        t.key("Tab")
        if t.js("document.activeElement.textContent") == "Cancel":
            break
    t.key("Enter")
    t.wait("document.querySelectorAll('tr[data-state]').length === 0")
    assert site.cancelled == ["r-9"]
    assert t.js("document.activeElement.id") == "dash"


def test_everything_has_a_name(opened, site):
    """For screen readers: each control, in the chat, the settings, the dashboard."""
    site.script = lambda body: answer(DEMO, reasoning="Hm.")
    site.requests = [{"id": "r-1", "api": "chat", "state": "decode", "prompt": 5, "cached": 0, "done": 5, "generated": 1, "age_s": 1}]
    t = opened()
    ask(t, "Hi")
    t.wait("document.querySelector('.answer .code')")
    settle(t)
    t.key("s", "alt")
    t.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")

    def nameless():
        nodes = t.call("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "link", "textbox", "combobox", "checkbox", "img", "dialog", "navigation", "region", "article", "log", "group"}
        seen = [n for n in nodes if not n["ignored"] and n["role"]["value"] in roles]
        assert len(seen) > 10
        return [n["role"]["value"] + " " + json.dumps(n.get("properties"))[:300] for n in seen if not n.get("name", {}).get("value") and n["role"]["value"] != "group"]

    assert nameless() == []
    t.key("d", "alt")
    t.wait("document.querySelector('tr[data-state] button') && document.querySelector('.plot').getAttribute('aria-label')")
    assert nameless() == []


# ---- the file ----


def test_page_is_one_small_file(site):
    html = site.html.decode()
    assert len(site.html) <= page.MAX_BYTES
    assert html.count("<script>") == 1 and html.count("<style>") == 1 and "src=" not in html.split("<script>")[0]
    assert not re.search(r"sourceMappingURL|\beval\(|new Function\(", html)
    script, style = (re.search(f"<{tag}>(.*?)</{tag}>\n", html, re.S)[1] for tag in ("script", "style"))
    assert page.policy(script, style) == site.csp
    assert site.csp.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in site.csp


def test_script_text_stays_inside_its_element():
    assert page.inline_script("a('<script>', '</SCRIPT>', '<!--', x < y);") == "a('\\x3cscript>', '\\x3c/SCRIPT>', '\\x3c!--', x < y);\n"
    with pytest.raises(SystemExit):
        page.inline_style("</style>")


def test_props_of_the_fixture_match_the_contract():
    """The scripted server says what src/serve/page.h promises: each key of it is named there."""
    text = (ROOT / "src/serve/page.h").read_text()

    def keys(value):
        if isinstance(value, dict):
            return set(value) | {k for v in value.values() for k in keys(v)}
        return {k for v in value for k in keys(v)} if isinstance(value, list) else set()

    for k in keys(telemetry(1, [{"id": 1, "api": "chat", "state": "queued"}])) | keys(PROPS):
        assert re.search(rf"\b{k}\b", text), k
