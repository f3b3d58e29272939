#!/usr/bin/env python3
"""Builds and runs the tests (`make test`, `make fuzz`); docs/TESTING.md explains the parts.

A suite has a label: c/<binary> plain C tests, san/<binary> the same under the address and undefined-behaviour sanitizers,
tsan/<binary> those with threads under the thread sanitizer, py/<folder>/<file> pytest, fuzz/<binary> libFuzzer. Each suite prints a line;
failures are printed in full; the last line is `N passed, N failed`. What does not build, crashes, hangs or reports fewer tests
than it announced is a failure: silence never passes.
"""

import argparse
import fnmatch
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPUS = len(os.sched_getaffinity(0))
C_FOLDERS = ["tests/unit", "tests/op", "tests/file", "tests/same"]
TSAN_TESTS = ["test_base_crew", "test_base_log", "test_base_mem", "test_run_identity", "test_run_metrics", "test_run_streams",
              "test_run_engine", "test_run_engine_api", "test_serve_http", "test_serve_http_conn", "test_serve_http_tls", "test_serve_server",
              "test_serve_store"]
PY_FOLDERS = ["tests/tools", "tests/cli", "tests/model", "tests/same", "tests/serve"]
TIME_LIMIT = 600  # seconds a suite may take

BUILDS = {  # kind of suite: build folder, CMake options, compiler
    "c": ("build", ["-DCMAKE_BUILD_TYPE=Release"], None),
    "san": ("build-san", ["-DCMAKE_BUILD_TYPE=Debug", "-DGLIM_SAN=ON"], None),
    "tsan": ("build-tsan", ["-DCMAKE_BUILD_TYPE=Debug", "-DGLIM_TSAN=ON"], None),
    "fuzz": ("build-fuzz", ["-DCMAKE_BUILD_TYPE=Debug", "-DGLIM_FUZZ=ON"], "clang"),
}
SANITIZER_ENV = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1:abort_on_error=0:quarantine_size_mb=32",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}


def environment(**more):
    """Ours without the levers a user may have set: tests must not depend on them."""
    own = ("GLIM_", "MUSER_", "METRALE_", "TQ_PLUS_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    return {**env, "LC_ALL": "C.UTF-8", **more}


class Report:
    """Counts and prints, from several threads."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lock = threading.Lock()

    def suite(self, label, passed, failures, note="", seconds=0.0):
        """failures: list of (name, text)."""
        with self.lock:
            self.passed += passed
            self.failed += len(failures)
            line = f"{label:<40} {passed} passed"
            if failures:
                line += f", {len(failures)} FAILED"
            if note:
                line += f", {note}"
            print(f"{line} ({seconds:.1f} s)")
            for name, text in failures:
                print(f"---- FAILED {label}: {name}")
                print("     " + text.strip().replace("\n", "\n     "))
            sys.stdout.flush()

    def finish(self):
        if self.passed + self.failed == 0:
            print("no test ran")
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.failed == 0 and self.passed > 0 else 1


running = set()  # process groups


def stop(signum, frame):
    """Interrupted: nothing we started, a compiler least of all, goes on behind the user's back."""
    for group in list(running):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself just now
    os._exit(128 + signum)


def run(argv, limit=TIME_LIMIT, **kw):
    """Returns (exit code, output); a run over the limit is killed with its children and gets code None."""
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                         cwd=ROOT, start_new_session=True, **kw)
    running.add(p.pid)
    try:
        out, _ = p.communicate(timeout=limit)
        return p.returncode, out.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, _ = p.communicate()
        return None, out.decode(errors="replace") + f"\n(killed after {limit} s)"
    finally:
        running.discard(p.pid)


# ---- building ----


def configure(kind, report):
    folder, options, compiler = BUILDS[kind]
    if compiler and not shutil.which(compiler):
        report.suite(f"build {folder}", 0, [("configure", f"{compiler} is not installed")])
        return False
    argv = ["cmake", "-S", ".", "-B", folder, *options]
    if compiler:
        argv.append(f"-DCMAKE_C_COMPILER={compiler}")
    if shutil.which("ccache"):
        argv.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    if shutil.which("ninja") and not (ROOT / folder / "CMakeCache.txt").exists():
        argv += ["-G", "Ninja"]
    code, out = run(argv)
    if code != 0:
        report.suite(f"build {folder}", 0, [("configure", out)])
    return code == 0


def build(kind, targets, report):
    """Builds the targets; returns those that exist afterwards, reporting the rest as failures."""
    start = time.time()
    folder = BUILDS[kind][0]
    if not targets or not configure(kind, report):
        return []
    keep_going = ["--", "-k", "0"] if (ROOT / folder / "build.ninja").exists() else ["--", "-k"]
    for t in targets:  # a binary of an earlier state must not stand in for one that does not build
        if t != "glim":
            (ROOT / folder / t).unlink(missing_ok=True)
    code, out = run(["cmake", "--build", folder, "--parallel", str(CPUS), "--target", *targets, *keep_going], limit=1800)
    made = [t for t in targets if (ROOT / folder / t).exists()]
    errors = "\n".join(line for line in out.splitlines() if not re.match(r"\[\d+/\d+\] |\[ *\d+%\]", line))
    failures = [(t, "does not build") for t in targets if t not in made]
    if code != 0:
        failures.insert(0, ("compiler output", errors[-20000:]))
    report.suite(f"build {folder}", 0, failures, f"{len(made)} built", time.time() - start)
    return made


# ---- C tests ----


def parse_tap(code, out):
    """(number passed, [(name, text)], number skipped) of a cmocka program's TAP output and its exit code."""
    announced = passed = skipped = 0
    failures, loose, last = [], [], "the start"  # loose: lines since the last result
    for line in out.splitlines():
        announcement = re.match(r"1\.\.(\d+)$", line)
        result = re.match(r"(not )?ok \d+(?: -)? (.*)", line)
        if announcement:
            announced += int(announcement[1])
        elif result:
            last = result[2].strip()
            if last.startswith("# SKIP"):
                skipped += 1
            elif result[1]:
                failures.append((last, "\n".join(loose)))
            else:
                passed += 1
            loose = []
        elif line.startswith("# ") and failures and failures[-1][0] == last:
            failures[-1] = (last, failures[-1][1] + "\n" + line[2:])
        else:
            loose.append(line)
    rest, ran = "\n".join(loose), passed + skipped + len(failures)
    if code is None:
        failures.append((f"hang after {last}", rest))
    elif code < 0:
        failures.append((f"crash after {last}", f"{signal.Signals(-code).name}\n{rest}"))
    elif ran < announced or announced == 0:
        failures.append((f"end after {last}", f"{announced} tests announced, {ran} ran, exit code {code}\n{rest}"))
    elif code != 0 and not failures:
        failures.append((f"exit code {code} after {last}", rest))
    return passed, failures, skipped


def run_c(kind, name, report):
    start = time.time()
    env = environment(CMOCKA_MESSAGE_OUTPUT="TAP", **(SANITIZER_ENV if kind != "c" else {}))
    code, out = run([str(ROOT / BUILDS[kind][0] / name)], env=env)
    passed, failures, skipped = parse_tap(code, out)
    report.suite(f"{kind}/{name}", passed, failures, f"{skipped} skipped" if skipped else "", time.time() - start)


# ---- Python tests ----


def parse_junit(path):
    """(number passed, [(name, text)], [reasons of skips]) of a pytest report."""
    passed, failures, skips = 0, [], []
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        bad = [c for c in case if c.tag in ("failure", "error")]
        skip = case.find("skipped")
        if bad:
            failures.append((name, "\n".join(c.text or c.get("message", "") for c in bad)))
        elif skip is not None:
            skips.append(skip.get("message") or "no reason given")
        else:
            passed += 1
    return passed, failures, skips


def python_packages(report):
    """What tests/requirements.txt lists, in build/python; tests of the server's clients look there."""
    wanted, folder = ROOT / "tests/requirements.txt", ROOT / "build" / "python"
    stamp = folder / ".requirements"
    if stamp.exists() and stamp.read_bytes() == wanted.read_bytes():
        return
    shutil.rmtree(folder, ignore_errors=True)
    code, out = run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore",
                     "--target", str(folder), "-r", str(wanted)])
    if code == 0:
        stamp.write_bytes(wanted.read_bytes())
    else:
        report.suite("python packages", 0, [("pip install", out)])


def run_py(path, report):
    start = time.time()
    xml = ROOT / "build" / "pytest" / (path.replace("/", "_") + ".xml")
    xml.parent.mkdir(parents=True, exist_ok=True)
    xml.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={xml}", path]
    code, out = run(argv, env=environment(PYTHONDONTWRITEBYTECODE="1"))
    if code is None or not xml.exists():
        report.suite(label("py", path), 0, [("pytest itself", out)], seconds=time.time() - start)
        return
    passed, failures, skips = parse_junit(xml)
    if code != 0 and not failures:
        failures = [(f"pytest's exit code {code}", out)]
    note = "; ".join(f"{skips.count(s)} skipped: {s}" for s in dict.fromkeys(skips))
    report.suite(label("py", path), passed, failures, note, time.time() - start)


# ---- fuzzers ----


def run_fuzz(name, seconds, report):
    """One fuzzer counts as one test. New inputs stay in build-fuzz; a crash's input is kept and named."""
    start = time.time()
    work = ROOT / "build-fuzz"
    corpus, crashes = work / "corpus" / name, work / "crashes" / name
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    seeds = ROOT / "tests/fuzz/corpus" / name.removeprefix("fuzz_")
    argv = [str(work / name), f"-max_total_time={seconds}", "-rss_limit_mb=512", "-timeout=5", "-print_final_stats=1",
            f"-artifact_prefix={crashes}/", str(corpus)]
    if seeds.is_dir():
        argv.append(str(seeds))
    code, out = run(argv, limit=seconds + 120, env=environment(**SANITIZER_ENV))
    m = re.search(r"number_of_executed_units: *(\d+)", out)
    runs = int(m[1]) if m else 0
    ok = code == 0 and runs > 0
    failures = [] if ok else [(name, out[-8000:] if code != 0 else "no input was run\n" + out[-8000:])]
    report.suite(f"fuzz/{name}", int(ok), failures, f"{runs} runs", time.time() - start)


# ---- all of it ----


def names(folders, pattern):
    return [p.stem for f in folders for p in sorted((ROOT / f).glob(pattern))]


def label(kind, name):
    """py/tools/test_run for tests/tools/test_run.py."""
    return f"{kind}/{name.removeprefix('tests/').removesuffix('.py')}"


def plan(only):
    """Which suites to run, by kind."""
    todo = {
        "c": names(C_FOLDERS, "test_*.c"),
        "san": names(C_FOLDERS, "test_*.c"),
        "tsan": [t for t in TSAN_TESTS if any((ROOT / f / f"{t}.c").exists() for f in C_FOLDERS)],
        "py": [str(p.relative_to(ROOT)) for f in PY_FOLDERS for p in sorted((ROOT / f).glob("test_*.py"))],
        "fuzz": names(["tests/fuzz"], "fuzz_*.c"),
    }
    if only:
        for kind, labels in todo.items():
            todo[kind] = [n for n in labels if fnmatch.fnmatch(label(kind, n), f"{only}*" if "/" in only else f"*{only}*")]
    return todo


def main():
    ap = argparse.ArgumentParser(description="Build and run glim's tests.")
    ap.add_argument("--only", help="run the suites whose label begins with this (or contains it, when it has no slash); wildcards work")
    ap.add_argument("--seconds", type=int, default=20, help="seconds each fuzzer runs")
    args = ap.parse_args()
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, stop)
    report = Report()
    todo = plan(args.only)
    pool = ThreadPoolExecutor(max_workers=max(1, CPUS))

    def wait(jobs):
        for j in jobs:
            j.result()

    release = build("c", (["glim"] if todo["py"] else []) + todo["c"], report)
    wait([pool.submit(run_c, "c", t, report) for t in todo["c"] if t in release])
    for kind in ("san", "tsan"):
        wait([pool.submit(run_c, kind, t, report) for t in build(kind, todo[kind], report)])
    if any(path.startswith("tests/serve/") for path in todo["py"]):
        python_packages(report)
    for path in todo["py"]:
        run_py(path, report)
    fuzzers = build("fuzz", todo["fuzz"], report)
    with ThreadPoolExecutor(max_workers=2) as two:
        wait([two.submit(run_fuzz, f, args.seconds, report) for f in fuzzers])
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
