# If this fails: what a client's JSON Schema admits here is not what the schema means, in the judgement of the `jsonschema` package,
# which nobody here wrote.
"""Sentences of the grammars that schemas become, against jsonschema.

For each schema of tests/data/schemas the C test walks at random through the grammar; every walk must end, parse and be valid. Valid
sentences are then damaged: what jsonschema calls invalid the grammar must refuse, and what it calls valid and is spelled as the
grammar spells (text/schema.h) the grammar must take.
"""

import copy
import json
import random
import re
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data/schemas"
FILES = sorted(p.stem for p in DATA.glob("*.json"))
WALKS = 10000  # of a schema
EVERY = 20  # jsonschema looks at each 20th
DAMAGED = 150  # of a schema


@pytest.fixture(scope="session")
def tool():
    """The C test, which walks and checks when asked to."""
    r = subprocess.run(["cmake", "--build", ROOT / "build", "--target", "test_text_schema"], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    return ROOT / "build/test_text_schema"


# ---- formats, for jsonschema leaves them to packages ----

FORMATS = jsonschema.FormatChecker(formats=())
DIGITS = {"date": r"\d{4}-\d\d-\d\d", "time": r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"}


def check(name):
    return FORMATS.checks(name, raises=(ValueError, AssertionError))


@check("date")
def is_date(v):
    import datetime
    return not isinstance(v, str) or bool(re.fullmatch(DIGITS["date"], v, re.A) and datetime.date.fromisoformat(v))


@check("time")
def is_time(v):
    import datetime
    if not isinstance(v, str):
        return True
    m = re.fullmatch(r"(\d\d:\d\d:\d\d)(\.\d+)?(?:Z|[+-](\d\d:\d\d))", v, re.A)
    return bool(m and datetime.time.fromisoformat(m[1]) and (not m[3] or datetime.time.fromisoformat(m[3])))


@check("date-time")
def is_date_time(v):
    return not isinstance(v, str) or (v[10:11] == "T" and is_date(v[:10]) and is_time(v[11:]))


@check("ipv4")
def is_ipv4(v):
    import ipaddress
    return not isinstance(v, str) or bool(ipaddress.IPv4Address(v))


@check("ipv6")
def is_ipv6(v):
    import ipaddress
    return not isinstance(v, str) or ("%" not in v and bool(ipaddress.IPv6Address(v)))


@check("uuid")
def is_uuid(v):
    import uuid
    return not isinstance(v, str) or (bool(uuid.UUID(v)) and all(v[i] == "-" for i in (8, 13, 18, 23)) and len(v) == 36)


@check("hostname")
def is_hostname(v):
    fine = r"[A-Za-z0-9-]{1,63}"
    return not isinstance(v, str) or (
        len(v) <= 253 and all(re.fullmatch(fine, x) and x[0] != "-" and x[-1] != "-" for x in v.split(".")))


@check("email")
def is_email(v):
    m = re.fullmatch(r"(.{1,64})@([^@]*)", v) if isinstance(v, str) else None
    atom = r"[\w!#$%&'*+/=?^`{|}~-]+"
    return not isinstance(v, str) or bool(m and re.fullmatch(rf"{atom}(\.{atom})*", m[1], re.A) and is_hostname(m[2]))


def is_reference(v, absolute):
    """RFC 3986, appendices A and B."""
    m = re.fullmatch(r"(([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(\?([^#]*))?(#(.*))?", v, re.S)
    char = r"[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}"
    scheme, authority, path, query, fragment = m[2], m[4], m[5], m[7] or "", m[9] or ""
    fine = [re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme, re.A) if scheme else not absolute,
            re.fullmatch(rf"({char}|/)*", path), re.fullmatch(rf"({char}|[/?])*", query), re.fullmatch(rf"({char}|[/?])*", fragment)]
    if authority is not None:
        a = re.fullmatch(r"(?:(.*)@)?(\[.*\]|[^:\[\]@]*)(?::[0-9]*)?", authority)
        fine += [a, not a or re.fullmatch(rf"({char})*", a[1] or "") and "@" not in (a[1] or "")]
        fine += [a and (is_ipv6(a[2][1:-1]) if a[2].startswith("[") else re.fullmatch(rf"({char})*", a[2]))]
    return all(fine)


@check("uri")
def is_uri(v):
    return not isinstance(v, str) or is_reference(v, True)


@check("uri-reference")
def is_uri_reference(v):
    return not isinstance(v, str) or is_reference(v, False)


@check("json-pointer")
def is_pointer(v):
    return not isinstance(v, str) or (v == "" or v[0] == "/") and not re.search(r"~(?![01])", v)


@check("relative-json-pointer")
def is_relative_pointer(v):
    m = re.match(r"(0|[1-9]\d*)", v, re.A) if isinstance(v, str) else None
    return not isinstance(v, str) or bool(m and (v[m.end():] == "#" or is_pointer(v[m.end():])))


@check("duration")
def is_duration(v):
    if not isinstance(v, str):
        return True
    time = r"T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)"  # RFC 3339, appendix A
    date = r"(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)"
    return bool(re.fullmatch(rf"P(\d+W|{date}({time})?|{time})", v, re.A))


# ---- reading and writing ----


def parse(text):
    def pairs(items):
        return dict(items)
    return json.loads(text, parse_float=Decimal, object_pairs_hook=pairs)


def spell(v):
    """The grammar's spelling; None where it has none (numbers that are too long)."""
    if isinstance(v, bool) or v is None or isinstance(v, str):
        return json.dumps(v, ensure_ascii=False)
    if isinstance(v, int):
        return str(v) if -2**63 <= v < 2**63 else None
    if isinstance(v, Decimal):
        s = format(v, "f")
        digits = s.lstrip("-").replace(".", "")
        ok = "." in s and len(digits) <= 15 + digits.startswith("0") and not (v == 0 and s.startswith("-"))
        return s if ok else None
    if isinstance(v, list):
        parts = [spell(x) for x in v]
        return None if None in parts else "[" + ",".join(parts) + "]"
    parts = [(spell(k), spell(x)) for k, x in v.items()]
    return None if any(x is None for _, x in parts) else "{" + ",".join(f"{k}:{x}" for k, x in parts) + "}"


def ecma(schema):
    """Patterns in Python's spelling."""
    if isinstance(schema, dict):
        return {k: ecma_pattern(v) if k == "pattern" and isinstance(v, str) else
                {ecma_pattern(p): ecma(x) for p, x in v.items()} if k == "patternProperties" else ecma(v) for k, v in schema.items()}
    return [ecma(x) for x in schema] if isinstance(schema, list) else schema


def ecma_pattern(p):
    upper = "A-ZÀ-ÖØ-ÞΑ-ΩА-Я"
    if r"\p{" in p:  # the one case; sentences are cut down to what this class knows
        p = p.replace(r"\p{Lu}", f"[{upper}]").replace(r"\p{L}", r"[^\W\d_]")
    return re.sub(r"(?<!\\)\$", r"\\Z", p)


def whole(v):
    return isinstance(v, Decimal) and v == v.to_integral_value()


def validator(case):
    schema = json.loads(json.dumps(ecma(case["schema"])), parse_float=Decimal)
    kind = jsonschema.Draft4Validator if case.get("draft4") else jsonschema.Draft7Validator if case.get("draft7") else None
    kind = kind or jsonschema.Draft202012Validator
    types = kind.TYPE_CHECKER
    integer = types.redefine("integer", lambda _, v: types.is_type(v, "integer") or whole(v))  # 1.0, read as a Decimal
    return jsonschema.validators.extend(kind, type_checker=integer)(schema, format_checker=FORMATS)


def judged(case):
    """Can jsonschema judge it? OpenAPI's keywords are none of JSON Schema's."""
    return not case.get("openapi") and r"\p{" not in json.dumps(case["schema"])


# ---- damage ----


def places(v, path=()):
    yield path, v
    if isinstance(v, dict):
        for k, x in v.items():
            yield from places(x, path + (k,))
    if isinstance(v, list):
        for i, x in enumerate(v):
            yield from places(x, path + (i,))


def changed(v, rng):
    """Another value, near v."""
    other = [None, True, False, 0, -1, 1, "", "a", [], {}, Decimal("0.5")]
    if isinstance(v, bool) or v is None:
        return rng.choice(other)
    if isinstance(v, (int, Decimal)):
        return rng.choice([v + 1, v - 1, v * 2, -v, v + Decimal("0.1"), *other])
    if isinstance(v, str):
        return rng.choice([v[1:], v[:-1], v + "x", v.upper(), v + v, "é" + v, v[::-1], *other])
    if isinstance(v, list):
        return rng.choice([v[1:], v[:-1], v + v[:1], v[::-1], v + [None], *other])
    k = rng.choice(list(v)) if v else None
    less = {a: b for a, b in v.items() if a != k}
    return rng.choice([less, {**v, "extra": 1}, {**v, "zz": None}, less, *other])


def damage(v, rng):
    path, old = rng.choice(list(places(v)))
    new = changed(old, rng)
    if not path:
        return new
    v = copy.deepcopy(v)
    at = v
    for p in path[:-1]:
        at = at[p]
    at[path[-1]] = new
    return v


# ---- tests ----


def walks(tool, name):
    r = subprocess.run([tool, "walk", name, str(WALKS), str(EVERY)], capture_output=True, timeout=300)
    assert r.returncode == 0, r.stderr.decode()
    found = {}
    for line in r.stdout.decode().split("\n")[:-1]:
        i, text = line.split("\t", 1)
        found.setdefault(int(i), []).append(text)
    return found


@pytest.mark.parametrize("name", FILES)
def test_sentences(tool, name):
    cases = json.loads((DATA / f"{name}.json").read_text())
    found = walks(tool, name)
    rng = random.Random(1)
    asked = []
    for i, case in enumerate(cases):
        if "refused" in case:
            continue
        texts = found[i]
        assert len(texts) == WALKS // EVERY
        kept = list(dict.fromkeys(texts))
        v = validator(case)
        for text in kept:
            value = parse(text)
            if judged(case):
                problem = next(v.iter_errors(value), None)
                assert problem is None, f"{case['name']}: {text}: {problem.message}"
        if judged(case):
            asked += [(i, x) for x in (damage(parse(rng.choice(kept)), rng) for _ in range(DAMAGED)) if spell(x) is not None]
    compare(tool, name, cases, asked)


def compare(tool, name, cases, asked):
    """Which damaged values the grammar takes. 1.0 may be refused where it is valid, because integers and the numbers of an enum
    have one spelling; with "subset" so may strings of formats that are admitted in part. Older versions of jsonschema think that
    true equals 1 inside lists and objects of an enum."""
    lines = "".join(f"{i}\t{spell(x)}\n" for i, x in asked)
    r = subprocess.run([tool, "check", name], input=lines.encode(), capture_output=True, timeout=300)
    assert r.returncode == 0, r.stderr.decode()
    answers = r.stdout.decode().split()
    assert len(answers) == len(asked)
    validators, bad, rejected = {}, [], 0
    for (i, x), taken in zip(asked, answers):
        v = validators.setdefault(i, validator(cases[i]))
        valid = v.is_valid(x)
        rejected += not valid
        blurred = re.search("enum|const", str(cases[i]["schema"])) and any(path and isinstance(y, bool) for path, y in places(x))
        excused = valid and (cases[i].get("subset") or blurred or any(whole(y) for _, y in places(x)))
        if valid != (taken == "1") and not excused:
            bad.append(f"{cases[i]['name']}: {'valid and refused' if valid else 'INVALID AND TAKEN'}: {spell(x)}")
    assert not bad, "\n".join(bad)
    assert rejected > len(asked) // 10


@pytest.mark.parametrize("name", FILES)
def test_cases_agree(name):
    """The cases' own values: jsonschema must think of them as the file says."""
    text = (DATA / f"{name}.json").read_text()
    for case, values in zip(json.loads(text), parse(text)):
        if "refused" in case or not judged(case):
            continue
        v = validator(case)
        for x in values.get("valid", []):
            assert v.is_valid(x), f"{case['name']}: {x}"
        for x in values.get("invalid", []):
            assert not v.is_valid(x), f"{case['name']}: {x}"
