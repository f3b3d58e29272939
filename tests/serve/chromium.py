"""Headless Chromium for tests, driven over its DevTools protocol through a pair of pipes; needs nothing but the browser.

    with Browser() as b:
        tab = b.tab(width=1280, height=800)
        tab.open(url)
        tab.wait("document.title === 'glim'")
        tab.click("#send"); tab.type("hello"); tab.key("Enter")

What the page logs, throws, asks for over the network and has refused by its policy is kept in tab.console, tab.errors,
tab.requests and tab.violations.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
KEYS = {  # key: (code, virtual key code, text)
    "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, ""), "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowDown": ("ArrowDown", 40, ""), "Space": ("Space", 32, " "),
}
MODIFIERS = {"alt": 1, "ctrl": 2, "shift": 8}


def find():
    return next((p for p in map(shutil.which, NAMES) if p), None)


class Browser:
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="glim-chromium-")
        command_read, command_write = os.pipe()
        event_read, event_write = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-sync",
                 "--disable-component-update", "--no-first-run", "--hide-scrollbars",
                 "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",  # a mouse
                 "--remote-debugging-pipe", f"--user-data-dir={self.home}"]
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (command_read, event_write)]

        def place():  # the browser reads commands from descriptor 3 and writes events to 4
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.log = open(Path(self.home) / "log", "wb")
        self.process = subprocess.Popen([find(), *flags, "about:blank"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, close_fds=False,
                                        preexec_fn=place, start_new_session=True)
        for fd in high:
            os.close(fd)
        os.close(command_read)
        os.close(event_write)
        self.out, self.into = open(command_write, "wb", buffering=0), open(event_read, "rb", buffering=0)
        self.replies, self.handlers, self.next, self.changed = {}, {}, 0, threading.Condition()
        self.gone = False
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close", limit=5)
        except (RuntimeError, TimeoutError, OSError):
            pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.out.close()
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def _read(self):
        rest = b""
        while part := self.into.read(1 << 16):
            *messages, rest = (rest + part).split(b"\0")
            for m in map(json.loads, messages):
                with self.changed:
                    if "id" in m:
                        self.replies[m["id"]] = m
                        self.changed.notify_all()
                    elif m.get("sessionId") in self.handlers:
                        self.handlers[m["sessionId"]](m["method"], m["params"])
        with self.changed:
            self.gone = True
            self.changed.notify_all()

    def call(self, method, session=None, limit=20, **params):
        with self.changed:
            self.next += 1
            number = self.next
            message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
            self.out.write(json.dumps(message).encode() + b"\0")
            if not self.changed.wait_for(lambda: number in self.replies or self.gone, limit):
                raise TimeoutError(f"{method}: no reply in {limit} s")
            reply = self.replies.pop(number, None)
        if reply is None:
            raise RuntimeError(f"{method}: the browser has ended:\n" + (Path(self.home) / "log").read_text(errors="replace")[-2000:])
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def tab(self, **size):
        """A page with storage of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        return Tab(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"], context, **size)


class Tab:
    def __init__(self, browser, session, context, width=1280, height=800, mobile=False, dark=False, reduced=False):
        self.browser, self.session, self.context = browser, session, context
        self.console, self.errors, self.requests, self.violations = [], [], [], []
        browser.handlers[session] = self._event
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.call("Emulation.setTouchEmulationEnabled", enabled=mobile)
        self.media(dark, reduced)

    def media(self, dark=False, reduced=False):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}])

    def _event(self, method, p):
        if method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value", a.get("description", ""))) for a in p["args"]))
        elif method == "Runtime.exceptionThrown":
            self.errors.append(p["exceptionDetails"].get("exception", {}).get("description", p["exceptionDetails"]["text"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])
        elif method == "Audits.issueAdded" and p["issue"]["code"] == "ContentSecurityPolicyIssue":
            self.violations.append(p["issue"]["details"]["contentSecurityPolicyIssueDetails"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"a dialog opened: {p['message']}")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def js(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(r["exceptionDetails"].get("exception", {}).get("description", expression))
        return r["result"].get("value")

    def wait(self, condition, limit=10):
        """Until the expression is true, which it must become."""
        end = time.monotonic() + limit
        while True:
            try:
                value = self.js(f"Boolean({condition})")
            except RuntimeError:  # the document may be changing just now
                value = False
                if time.monotonic() > end:
                    raise
            if value:
                return
            if time.monotonic() > end:
                raise AssertionError(f"not in {limit} s: {condition}\n{self.js('document.body.innerText')[-3000:]}\n{self.errors}")
            time.sleep(0.03)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def click(self, selector):
        """With the mouse, in its middle: what lies above it gets the click instead."""
        box = self.js(f"""(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;
            e.scrollIntoView({{block: 'nearest'}}); const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2, b.width]; }})()""")
        assert box and box[2] > 0, f"nothing to click: {selector}"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name, *modifiers):
        code, number, text = KEYS.get(name) or ("Key" + name.upper(), ord(name.upper()), name)
        mask = sum(MODIFIERS[m] for m in modifiers)
        value = " " if name == "Space" else name
        common = {"key": value, "code": code, "windowsVirtualKeyCode": number, "modifiers": mask}
        plain = text and not mask & 3
        self.call("Input.dispatchKeyEvent", type="keyDown" if plain else "rawKeyDown", **common, **({"text": text} if plain else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
