# If this fails: tests/run.py may call a crashed, hung or empty test program a success, and then no other test means anything.
import importlib.util
import re
import stat
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("glim_tests_run", ROOT / "tests/run.py")
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)


def program(tmp_path, body):
    p = tmp_path / "prog"
    p.write_text(f"#!/bin/sh\n{body}\n")
    p.chmod(p.stat().st_mode | stat.S_IXUSR)
    return runner.parse_tap(*runner.run([str(p)], limit=2))


def names(failures):
    return [n for n, _ in failures]


def test_all_pass(tmp_path):
    assert program(tmp_path, "printf '1..2\\nok 1 - a\\nok 2 - b\\n'") == (2, [], 0)


def test_failures_carry_their_explanation(tmp_path):
    passed, failures, skipped = program(
        tmp_path, "printf '1..4\\nok 1 - a\\nnot ok 2 - b\\n# 1 != 2\\n# b.c:9\\nnot ok 3 # SKIP c\\nnot ok 4 - d\\n# why\\n'; exit 2")
    assert (passed, skipped) == (1, 1)
    assert failures == [("b", "\n1 != 2\nb.c:9"), ("d", "\nwhy")]


def test_a_crash_is_named(tmp_path):
    passed, failures, _ = program(tmp_path, "printf '1..3\\nok 1 - a\\n'; kill -SEGV $$")
    assert passed == 1
    assert names(failures) == ["crash after a"] and "SIGSEGV" in failures[0][1]


def test_an_early_end_is_a_failure(tmp_path):
    assert names(program(tmp_path, "printf '1..3\\nok 1 - a\\n'; exit 0")[1]) == ["end after a"]
    assert names(program(tmp_path, "exit 0")[1]) == ["end after the start"]
    assert names(program(tmp_path, "printf '1..0\\n'")[1]) == ["end after the start"]


def test_a_bad_exit_code_is_a_failure(tmp_path):
    """A leak found after the last test shows in the exit code alone."""
    passed, failures, _ = program(tmp_path, "printf '1..1\\nok 1 - a\\n'; echo LeakSanitizer; exit 23")
    assert passed == 1
    assert names(failures) == ["exit code 23 after a"] and "LeakSanitizer" in failures[0][1]


def test_a_hang_is_a_failure(tmp_path):
    assert names(program(tmp_path, "printf '1..1\\n'; sleep 60")[1]) == ["hang after the start"]


def test_junit_reports_are_read(tmp_path):
    xml = tmp_path / "r.xml"
    xml.write_text('<testsuites><testsuite><testcase classname="m" name="a"/><testcase classname="m" name="b"><failure>no</failure>'
                   '</testcase><testcase classname="m" name="c"><error message="boom"/></testcase>'
                   '<testcase classname="m" name="d"><skipped message="no gpu"/></testcase></testsuite></testsuites>')
    passed, failures, skips = runner.parse_junit(xml)
    assert passed == 1
    assert failures == [("m::b", "no"), ("m::c", "boom")]
    assert skips == ["no gpu"]


def test_a_python_file_without_tests_is_a_failure(tmp_path, capsys):
    f = tmp_path / "test_nothing.py"
    f.write_text("x = 1\n")
    report = runner.Report()
    runner.run_py(str(f), report)
    assert report.failed == 1
    f.write_text("raise RuntimeError\n")
    report = runner.Report()
    runner.run_py(str(f), report)
    assert report.failed >= 1


def test_a_fuzzer_must_run_and_must_not_crash(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    folder = tmp_path / "build-fuzz"
    folder.mkdir()
    seeds = tmp_path / "tests/fuzz/corpus/x"
    seeds.mkdir(parents=True)
    fuzzer = folder / "fuzz_x"
    for body, passed, failed in [("echo stat::number_of_executed_units: 12", 1, 0), ("echo stat::number_of_executed_units: 0", 0, 1),
                                 ("echo stat::number_of_executed_units: 12; exit 77", 0, 1), ("true", 0, 1), ("kill -ABRT $$", 0, 1),
                                 (f"case \"$*\" in *-max_total_time=3*{seeds}) echo stat::number_of_executed_units: 1;; esac", 1, 0)]:
        fuzzer.write_text(f"#!/bin/sh\n{body}\n")
        fuzzer.chmod(0o755)
        report = runner.Report()
        runner.run_fuzz("fuzz_x", 3, report)
        assert (report.passed, report.failed) == (passed, failed), body


def test_no_test_at_all_is_a_failure(capsys):
    assert runner.Report().finish() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 0 failed"


def test_the_last_line_counts(capsys):
    report = runner.Report()
    report.suite("c/x", 3, [])
    assert report.finish() == 0
    report.suite("c/y", 1, [("t", "why\nso")])
    assert report.finish() == 1
    out = capsys.readouterr().out
    assert re.search(r"FAILED c/y: t\n +why\n +so", out)
    assert out.splitlines()[-1] == "4 passed, 1 failed"


def test_the_pattern_selects_a_part():
    assert runner.plan("san/*base_mem")["san"] == ["test_base_mem"]
    assert not any(runner.plan("san/*base_mem")[k] for k in ("c", "py", "fuzz", "tsan"))
    assert runner.plan("py/tools/test_run")["py"] == ["tests/tools/test_run.py"]
    assert runner.plan("base_mem")["tsan"] == ["test_base_mem"]
    everything = runner.plan(None)
    assert "test_base_mem" in everything["c"] and "tests/tools/test_run.py" in everything["py"]


def test_the_users_levers_are_hidden(monkeypatch):
    monkeypatch.setenv("GLIM_THREADS", "1")
    monkeypatch.setenv("METRALE_X", "1")
    env = runner.environment()
    assert "GLIM_THREADS" not in env and "METRALE_X" not in env and "PATH" in env


def test_python_is_new_enough():
    assert sys.version_info >= (3, 9)
