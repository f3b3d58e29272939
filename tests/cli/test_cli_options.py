"""If these fail, a mistyped command does something else than its user meant, scripts cannot tell one failure from another, or
`--json` output is mixed with other text."""
import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, GLIM, glim  # noqa: E402

LLAMA = os.path.join(DATA, "gguf", "llama.f32.gguf")
COMMANDS = ["run", "chat", "serve", "keys", "tls", "tokenize", "detokenize", "logits", "bench", "inspect", "plan", "levers", "text", "doctor", "pull",
            "version"]
WITH_LEVERS = ["serve", "keys", "run", "chat", "tokenize", "detokenize", "logits", "bench", "plan", "doctor", "levers", "pull"]


def fails(code, *args, **kw):
    """The one error line of a command that must fail with this code."""
    r = glim(*args, ok=False, **kw)
    assert r.returncode == code, f"exit {r.returncode}: {r.stderr}"
    lines = r.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("glim: "), r.stderr
    return lines[0]


def test_help_lists_every_command():
    out = glim("help").stdout
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(COMMANDS + ["help"])
    assert glim("--help").stdout == out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command):
    out = glim(command, "--help").stdout
    assert out.startswith(f"usage: glim {command} ")
    assert ("--prefill-chunk" in out) == (command in WITH_LEVERS)
    assert glim(command, "-h").stdout == out


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--bogus", "--js", "--bogus=1", "-Z", "--prefill_chunk"])
def test_unknown_options_are_refused_by_name(command, option):
    assert option.split("=")[0] in fails(2, command, option)


def test_usage_errors():
    assert "command" in fails(2)
    assert "'frobnicate'" in fails(2, "frobnicate")
    assert "'extra'" in fails(2, "inspect", LLAMA, "extra")
    assert "-n: have no value" in fails(2, "run", "-m", LLAMA, "-p", "x", "-n")
    assert "'1x'" in fails(2, "run", "-m", LLAMA, "-p", "x", "-n", "1x")
    assert "'-1'" in fails(2, "run", "-m", LLAMA, "-p", "x", "-n", "-1")
    assert "'nan'" in fails(2, "run", "-m", LLAMA, "-p", "x", "--temp", "nan")
    assert "--top-p" in fails(2, "run", "-m", LLAMA, "-p", "x", "--top-p", "1.5")
    assert "--json" in fails(2, "version", "--json=yes")
    assert "'18446744073709551616'" in fails(2, "run", "-m", LLAMA, "-p", "x", "--seed", "18446744073709551616")
    assert "model: have none" in fails(2, "tokenize", "-p", "x")


@pytest.mark.parametrize(
    "args",
    [[], ["-p", "x", "-f", "y"], ["-p", "x", "--tokens", "[1]"], ["--tokens", "[1]", "--special"], ["-p", "x", "--index", "0"],
     ["--tokens", "[1]", "--chat"], ["-p", "x", "--chat", "--special"], ["-p", "x", "--logit-bias", "5"],
     ["-p", "x", "--logit-bias", "5=nan"], ["-p", "x", "--logit-bias", "=1"], ["-p", "x", "--logit-bias", "320=1"]],
)
def test_contradicting_run_options(args):
    fails(2, "run", "-m", LLAMA, *args)


def test_both_spellings_of_a_value_and_the_last_one_counts():
    want = glim("run", "-m", LLAMA, "-p", "the", "-n", "5", "--json").stdout
    tokens = json.loads(want)["tokens"]
    for args in (["-n5"], ["-n", "5"], ["--n-predict=5"], ["--n-predict", "5"], ["-n", "9", "-n", "5"]):
        assert json.loads(glim("run", "-m", LLAMA, "-p", "the", "--json", *args).stdout)["tokens"] == tokens


def test_exit_codes_tell_failures_apart(tmp_path):
    assert "none.gguf" in fails(1, "run", "-m", tmp_path / "none.gguf", "-p", "x")
    assert "glim pull" in fails(1, "run", "-m", "nothing-of-that-name", "-p", "x")
    (tmp_path / "junk.gguf").write_bytes(b"junk" * 10)
    fails(1, "inspect", tmp_path / "junk.gguf")
    assert "513" in fails(3, "run", "-m", LLAMA, "-p", "x", "--ctx", "513")
    assert "cuda" in fails(3, "run", "-m", LLAMA, "-p", "x", "--backend", "cuda")
    assert "--batch" in fails(2, "bench", "-m", LLAMA, "-b", "0")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["help"], ["version"], ["tokenize", "-m", LLAMA, "-p", "x"], ["inspect", LLAMA]])
def test_a_full_disk_is_an_error(args):
    with open("/dev/full", "w") as full:
        r = subprocess.run([GLIM, *args], stdout=full, stderr=subprocess.PIPE, text=True)
    assert r.returncode == 1 and "standard output" in r.stderr


@pytest.mark.parametrize(
    "args",
    [["version"], ["levers"], ["doctor"], ["inspect", LLAMA], ["plan", "-m", LLAMA], ["tokenize", "-m", LLAMA, "-p", "x"],
     ["run", "-m", LLAMA, "-p", "x", "-n", "3", "-v"], ["bench", "-m", LLAMA, "-p", "8", "-n", "4", "-r", "2"],
     ["detokenize", "-m", LLAMA, "--tokens", "[7,8]"]],
)
def test_json_is_all_that_reaches_standard_output(args):
    json.loads(glim(*args, "--json").stdout)


def test_lever_flags_reach_the_engine_and_are_checked():
    one = json.loads(glim("bench", "-m", LLAMA, "-p", "8", "-n", "0", "-r", "1", "-t", "1", "--json").stdout)
    two = json.loads(glim("bench", "-m", LLAMA, "-p", "8", "-n", "0", "-r", "1", "--threads", "2", "--json").stdout)
    assert (one[0]["threads"], two[0]["threads"]) == (1, 2)
    assert "threads" in fails(3, "run", "-m", LLAMA, "-p", "x", "--threads", "257")
    ref = json.loads(glim("bench", "-m", LLAMA, "-p", "8", "-n", "0", "-r", "1", "--backend", "ref", "--json").stdout)
    assert ref[0]["backend"] == "ref"


def test_a_flag_wins_over_the_environment():
    r = glim("bench", "-m", LLAMA, "-p", "8", "-n", "0", "-r", "1", "-t", "1", "--json", env={"GLIM_THREADS": "2"})
    assert json.loads(r.stdout)[0]["threads"] == 1
