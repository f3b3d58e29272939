"""If these fail, `glim chat` loses what was said, mixes up turns, dies where a person would go on, or reads a conversation again
from its beginning."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, GLIM, glim  # noqa: E402

LLAMA = os.path.join(DATA, "gguf", "llama.f32.gguf")
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}"
NUMBERS = re.compile(r"\[read (\d+) of (\d+) tokens at [\d.]+ tok/s, wrote (\d+) at [\d.]+ tok/s(, [a-z ]+)?\]")


@pytest.fixture
def args(tmp_path):
    path = tmp_path / "chatml.jinja"
    path.write_text(TEMPLATE)
    words = tmp_path / "words.gbnf"  # random weights write no UTF-8 otherwise
    words.write_text("root ::= [a-z]{1,30}")
    return ["chat", "-m", LLAMA, "--chat-template", str(path), "--grammar", str(words), "-v"]


def chat(args, *lines, ok=True):
    """Lines through a pipe: the text of standard output, and of each answer (read, prompt tokens, written)."""
    r = subprocess.run([GLIM, *args], input="".join(line + "\n" for line in lines), capture_output=True, text=True)
    if ok:
        assert r.returncode == 0, r.stderr
    return r, [tuple(map(int, m.groups()[:3])) for m in NUMBERS.finditer(r.stderr)]


def saved(args, tmp_path, *lines):
    path = tmp_path / "saved.json"
    _, numbers = chat(args, *lines, f"/save {path}")
    return json.loads(path.read_text()), numbers


def test_turns_alternate_and_only_what_is_new_is_read(args, tmp_path):
    said, numbers = saved([*args, "-n", "9"], tmp_path, "one", "two", "three")
    assert [m["role"] for m in said] == ["user", "assistant"] * 3
    assert [m["content"] for m in said[::2]] == ["one", "two", "three"]
    assert len(numbers) == 3 and numbers[0][0] == numbers[0][1]
    for (_, before, wrote), (read, prompt, _) in zip(numbers, numbers[1:]):
        assert read == prompt - (before + wrote - 1)  # the last token of an answer was never computed


def test_answers_are_those_of_run(args, tmp_path):
    said, _ = saved([*args, "-n", "9"], tmp_path, "one", "two")
    alone = json.loads(glim("run", *args[1:-1], "--chat", "one", "-n", "9", "--json").stdout)
    assert said[1] == alone["message"]


def test_a_saved_conversation_goes_on(args, tmp_path):
    path = tmp_path / "a.json"
    want, _ = saved([*args, "-n", "9"], tmp_path, "one", "two")
    chat([*args, "-n", "9"], "one", f"/save {path}")
    got, _ = saved([*args, "-n", "9"], tmp_path, f"/load {path}", "two")
    assert got == want


def test_a_loaded_conversation_may_hold_parts(args, tmp_path):
    path = tmp_path / "parts.json"
    path.write_text(json.dumps([{"role": "system", "content": [{"type": "text", "text": "s"}]}]))
    r, _ = chat(args, f"/load {path}", "/system")
    assert r.stdout == "(1 messages)\n\n"


def test_regenerate_edit_and_clear(args, tmp_path):
    warm = [*args, "-n", "9", "--temp", "1", "--seed", "1"]
    said, _ = saved(warm, tmp_path, "one", "/regenerate")
    again, _ = saved([*warm[:-1], "2"], tmp_path, "one")
    assert said == again
    said, _ = saved([*args, "-n", "9"], tmp_path, "one", "two", "/edit three")
    want, _ = saved([*args, "-n", "9"], tmp_path, "one", "three")
    assert said == want
    said, _ = saved([*args, "-n", "9"], tmp_path, "/system be kind", "one", "/clear", "two")
    assert [m["role"] for m in said] == ["system", "user", "assistant"]
    said, _ = saved([*args, "-n", "9"], tmp_path, "/system be kind", "/system off", "one")
    assert [m["role"] for m in said] == ["user", "assistant"]
    assert saved([*args, "-n", "9", "--system", "s"], tmp_path, "one")[0][0] == {"role": "system", "content": "s"}


def test_a_backslash_goes_on_with_the_next_line(args, tmp_path):
    said, _ = saved([*args, "-n", "2"], tmp_path, "one\\", "two")
    assert said[0]["content"] == "one\ntwo"


def test_params(args):
    r, _ = chat(args, "/params temp 0.5", "/params", "/quit", "not read")
    assert r.stdout.count("temp               0.5") == 2 and "top-k" in r.stdout


@pytest.mark.parametrize(
    "line, code, word",
    [("/image cat.png", 3, "images"), ("/nonsense", 2, "/help"), ("/params temp 1000", 2, "temp"), ("/params warmth 1", 2, "warmth"),
     ("/load /nonexistent", 1, "/nonexistent"), ("/save", 2, "file"), ("/regenerate", 3, "message"), ("/edit", 3, "message"),
     ("/tools /nonexistent", 1, "/nonexistent")])
def test_through_a_pipe_the_first_failure_ends_it(line, code, word, args):
    r, _ = chat(args, line, "/save /tmp/never", ok=False)
    assert r.returncode == code and word in r.stderr


def test_help_lists_every_command(args):
    r, _ = chat(args, "/help")
    for name in "help system regenerate edit clear save load tools params image quit".split():
        assert f"/{name}" in r.stdout


# ---- at a terminal ----


class Terminal:
    def __init__(self, args, home):
        self.master, slave = pty.openpty()
        self.text = ""
        self.p = subprocess.Popen([GLIM, *args], stdin=slave, stdout=slave, stderr=slave, start_new_session=True, close_fds=True,
                                  env=dict(os.environ, TERM="xterm", NO_COLOR="1", GLIM_HOME=str(home)),
                                  preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
        os.close(slave)

    def wait_for(self, pattern, seconds=60):
        end = time.time() + seconds
        while not (m := re.search(pattern, self.text, re.S)):
            assert time.time() < end, f"have {self.text[-500:]!r}, need {pattern!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                self.text += os.read(self.master, 65536).decode("utf-8", "replace")
        self.text = self.text[m.end():]
        return m

    def type(self, text):
        os.write(self.master, text.encode())


def test_ctrl_c_stops_an_answer_and_keeps_the_conversation(args, tmp_path):
    (tmp_path / "home").mkdir()
    path = tmp_path / "t.json"
    (tmp_path / "words.gbnf").write_text("root ::= [a-z]{400}")
    t = Terminal([*args, "--backend", "ref", "-n", "400"], tmp_path / "home")
    try:
        t.wait_for("> ")
        t.type("hello\r")
        t.wait_for("hello\r\n.{10}")  # the answer has begun
        t.type("\x03")
        t.wait_for(r"stopped\]")
        t.wait_for("> ")
        t.type("/params n 1\r")
        t.wait_for("/params: have 'n'")  # an error does not end it
        t.wait_for("> ")
        t.type("x\x03")  # at the prompt: a new line
        t.wait_for("> ")
        t.type(f"/save {path}\r")
        end = time.time() + 60
        while not path.exists() and time.time() < end:
            time.sleep(0.05)
        t.type("/quit\r")
        assert t.p.wait(timeout=20) == 0
    finally:
        if t.p.poll() is None:
            t.p.send_signal(signal.SIGKILL)
        os.close(t.master)
    said = json.loads(path.read_text())
    assert [m["role"] for m in said] == ["user", "assistant"] and said[1]["content"]
    assert "hello" in (tmp_path / "home" / "chat_history").read_text()
