#!/usr/bin/env python3
"""Write snippets.json: small templates and what Jinja2 makes of them.

    pip install jinja2==3.1.6 && python3.11 gen_snippets.py > snippets.json

The environment is the one that transformers sets up for chat templates. Each row is [template, text] or [template] where
rendering fails; what glim refuses by design although Jinja2 renders it is [template, text, "refused"]. All see the same variables.
"""
import copy
import datetime
import itertools
import json
import re
import sys

import jinja2
import jinja2.ext
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 7, 4, 5, 6)
VARS = {
    "s": "Hello, World", "u": "Grüße, 日本 🚀ß", "e": "", "ws": "  a  b\t\nc \u00a0", "html": "<a href='x'>&\"</a>", "num": "42", "fl": "4.5",
    "multi": "one\ntwo\r\nthree\n\nfive", "n": 7, "z": 0, "neg": -3, "f": 2.5, "big": 123456789012345678, "t": True, "no": None,
    "l": [3, 1, 2], "words": ["b", "a", "C", "a"], "nested": [[1, [2, 3]], [4, []]], "el": [], "mixed": [1, "x", None, True, 2.5, {"k": "v"}],
    "d": {"b": 1, "a": "x", "C": [1, 2], "items": 5}, "ed": {}, "deep": {"a": {"b": {"c": [10, 20]}}},
    "users": [{"name": "bob", "age": 30, "x": {"y": 1}}, {"name": "Al", "age": 25}, {"name": "cy", "age": 30, "x": {"y": 0}}],
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1"}, {"role": "user", "content": "U2"}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}, {"v": 5, "c": []}],
}


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_s"), [], [], body).set_lineno(line)

    def _s(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


ENV = environment()
OUT = {}
# What Jinja2 renders and glim refuses by its own rules.
REFUSED = re.compile(r"\|\s*(pprint|random|striptags|urlize|wordwrap)\b|lipsum|\.(encode|translate|maketrans|isidentifier|fromkeys|real|imag|bit_length"
                     r"|is_integer|numerator|as_integer_ratio)\b|\{% *(block|autoescape)|\\N\{|batch\(0|slice\(-|s is sameas s|self|1e400|1e999|\{:[^}]*#\d*\.3\}|\{:[cn]\}|!a\}"
                     r"|map\('string'\) is (not )?(lower|upper)|unique\|(title|upper|wordcount|replace)"
                     # Jinja2 folds slices of constants that cannot be sliced; with variables they are errors there too
                     r"|^\{\{ (-?[\d.]+|true|none|\{'a': 1\})\[(1:|::-1)\]")


def add(t):
    if t in OUT:
        return
    try:
        text = ENV.from_string(t).render(**copy.deepcopy(VARS))
        text.encode("utf-8")
    except Exception:
        OUT[t] = [t]
        return
    if re.search(r" at 0x[0-9a-f]+|^<bound|built-in|<class|<jinja2|<function", text):
        OUT[t] = [t, "", "refused"]
        return
    big = (re.fullmatch(r"-?\d{19,400}", text) and not -(1 << 63) <= int(text) < 1 << 63) or text.endswith("j)")
    OUT[t] = [t, text, "refused"] if REFUSED.search(t) or big else [t, text]


def expr(e):
    add("{{ " + e + " }}")


def operators():
    values = ["0", "1", "-3", "2.5", "true", "none", "'ab'", "u", "''", "[1, 2]", "(1, 'a')", "{'a': 1}", "undef", "range(3)", "l|map('string')"]
    ops = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", "in", "not in", "and", "or"]
    for a, op, b in itertools.product(values, ops, values):
        expr(f"{a} {op} {b}")
    for v in values:
        for f in ["not %s", "-%s", "+%s", "%s|string", "%s|tojson", "%s|length", "%s|list", "[%s]", "(%s,)", "{'k': %s}", "%s if %s", "%s or 'x'",
                  "%s is defined", "%s[0]", "%s[-1]", "%s['a']", "%s.a", "%s[1:]", "%s[::-1]", "%s()", "%s is sequence", "%s is iterable", "%s|first", "%s|last"]:
            expr(f.replace("%s", v))
        for test in ["odd", "even", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "callable", "lower", "upper",
                     "undefined", "escaped", "divisibleby(3)", "eq 1", "in [1, 'ab']", "sameas none", "sameas true", "gt 0", "lessthan(2)"]:
            expr(f"{v} is {test}")
            expr(f"{v} is not {test}")


def precedence():
    for e in """1 + 2 * 3 - 4 / 2;2 ** 3 ** 2;-2 ** 2;2 ** -1;(-2) ** 3;7 // 2 * 2;-7 // 2;-7 % 3;7 % -3;-7.5 // 2;-7.5 % 2;7.5 % -2;1 < 2 < 3;1 < 3 < 2;3 > 2 >= 2 != 1;1 == 1.0;true == 1
        1 + 1 ~ 2 + 2;1 ~ 2 * 3;'a' ~ 1 ~ none ~ true ~ 1.0 ~ undef;not true == false;not 1 in [2];1 not in [2] and true;1 in [1] in [[1]];'b' in 'abc' == true
        1 if 0 else 2 if 0 else 3;(1 if 0) is undefined;1 if 1;[1 if 0];'x' if undef else 'y';1 or 0 and 0;not not 1;not not [];-1|abs;-1|string|length;(-1)|abs;2 * 3|string
        1.5|int + 1;'a' 'b' "c";1_000 + 0x1F + 0b11 + 0o17;1e3;1.5e-7;1e16;1e15;123456789.123456789;0.1 + 0.2;1e22;1e-5;0.0001;-0.0;1/3;2/1;10**15;2**62;2**63;2**64;-2**63
        9223372036854775807;9223372036854775807 + 1;10**20;big * 1000;big * 10;1 // 0;1 / 0;1 % 0;1.0 // 0;0 ** -1;5 // 2.0;2 ** 0.5;(-8) ** (1/3);4 ** 0.5;1e308 * 10
        l[0];l[-1];l[5];l[0:2];l[::2];l[::-1];l[-2:];l[5:];l[:];l[1:1];l[2:0:-1];l[::0];l['0'];l.0;l[1.0];l[true];no[1:];n[::-1];d[1:];undef[1:];(undef or none)[1:];s[0];s[-1];s[1:4];s[::2];s[::-1];u[1];u[-2:];u[::3];s[100];s[100:];e[0];e[:1]
        d['b'];d.b;d.items;d['items'];d.nope;d['nope'];d.nope.x;d['nope']['x'];deep.a.b.c[1];deep['a']['b'].c.0;deep.a.x is defined;deep.x.y is defined;users[0].x.y;users.0.name;undef.x;undef['x'];undef()
        (1, 2, 3)[1];(1,);();[];{};[1, [2, (3, {'a': none})]];{'a': 1, 'b': [true, none, 1.0, 'x']};{1: 2, 'a': 3, none: 4, true: 5};{'a': 1, 'a': 2};{(1, 2): 3}[(1, 2)];{[1]: 2};1,2;[1,2,];{'a':1,}
        'it\\'s';"q\\"q";'a\\nb';'tab\\there';'\\x41\\u00e9\\U0001F600\\101';'\\q';'\\N{BULLET}';'a\\\\b';['it\\'s'];["q\\"q'"];['\\n\\t\\\\'];['é', '\\x00', '\\u200b', '\\xa0', '🚀', '\\u2028'];[u, s]
        range(5);range(1, 5)|list;range(10, 0, -3)|list;range(3)[1];range(3)|length;range(0)|list;range(100001)|length;range(1, 10, 0);range(-3)|list;range(3) == range(3);2 in range(5);range(5)[1:3]
        dict(a=1, b=2);dict([('a', 1)]);dict({'x': 1}, y=2);dict(1);dict(a=1).a;namespace(a=1).a;namespace(a=1);namespace().b is defined;namespace({'q': 2}).q;cycler('a', 'b').next();joiner('x')() ~ 'y'
        raise_exception('no');strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %a %b %p %I %y %%');strftime_now('%d %b %Y');strftime_now('%-d/%-m');strftime_now('%e|%D|%T|%F|%R|%U|%u|%w|%V|%G|%Z|%z|%c|%x|%X|%h|%n|%t|%C')
        strftime_now(5);strftime_now('');lipsum();caller();loop.index;self;true.x;1.x;n.real;none.x;none['x'];(1).bit_length();f.is_integer();x.y.z;messages[0]['role'];messages|length;messages[-1].content
        nested[0][1][0];nested|length;mixed;mixed|string;mixed|tojson;d|string;users[1];1 is 2;[] is sameas [];s is sameas s;1 if;1 +;(1;[1;{1};foo bar;'abc;1 2;a.b.;.5;5.;1..2;a[;a[];f(;f(a b);*x;x|;x|nope;x is nope;x is;{{ 1;%}""".split("\n"):
        for x in e.strip().split(";"):
            expr(x)


def filters():
    values = ["s", "u", "e", "ws", "n", "f", "neg", "no", "l", "words", "d", "ed", "undef", "nested", "multi", "num", "html", "users", "true", "mixed", "range(4)", "words|unique"]
    plain = ["abs", "capitalize", "center", "count", "default", "d('x')", "default('x', true)", "dictsort", "e", "escape", "filesizeformat", "first", "float", "forceescape",
             "indent", "int", "items", "items|list", "join", "join(', ')", "last", "length", "list", "lower", "max", "min", "reverse", "reverse|list", "round", "safe", "sort",
             "string", "sum", "title", "tojson", "trim", "truncate(5)", "unique", "unique|list", "upper", "urlencode", "wordcount", "xmlattr", "tojson(indent=2)", "batch(2)|list",
             "slice(2)|list", "map('upper')|list", "map('string')|join('|')", "select|list", "reject|list", "select('string')|list", "map(attribute='name')|list", "replace('a', 'b')",
             "random", "pprint", "striptags", "urlize", "wordwrap(5)", "groupby('age')", "sort(reverse=true)", "tojson(sort_keys=true)", "attr('name')"]
    for v, f in itertools.product(values, plain):
        expr(f"{v}|{f}")
    for x in """ws|trim;'xxaxx'|trim('x');'abcba'|trim('ab');s|center(20);s|center(21) ~ '|';'ab'|center(5) ~ '|';'abc'|center(6) ~ '|';multi|indent;multi|indent(2, true);multi|indent(width='> ', blank=true)
        multi|indent(first=true);'a\\n\\nb\\n'|indent(2);'a\\n\\nb\\n'|indent(2, false, true);''|indent;''|indent(4, true);s|truncate(8);s|truncate(8, true);s|truncate(8, true, '…', 0);s|truncate(5, false, '', 0);s|truncate(2);s|truncate(11, leeway=0);u|truncate(6, true, '.', 0)
        's p a m'|truncate(5, false, '…', 0);'abc def ghi'|title;'hello-world (foo) [bar] {x} <y> it\\'s'|title;'éa ßb ǆc'|title;'ﬁx'|capitalize;'ΑΣ ΣΑΣ'|lower;'straße'|upper;'İI'|lower;'ŉ'|upper;'HELLO wORLD'|capitalize
        l|sort;l|sort(true);l|sort(reverse=true);words|sort;words|sort(case_sensitive=true);words|sort(true, true);users|sort(attribute='age')|map(attribute='name')|join(',');users|sort(attribute='age,name')|map(attribute='name')|join(',')
        users|sort(attribute='name', reverse=true)|map(attribute='name')|list;users|sort(attribute='x.y')|list;users|map(attribute='x.y')|list;users|map(attribute='x.y', default=9)|list;users|map(attribute='nope')|list;users|map(attribute='x')|list
        mixed|sort;[[2, 1], [1, 5]]|sort;d|dictsort;d|dictsort(true);d|dictsort(by='value');{'b': 2, 'A': 1}|dictsort(false, 'value', true);{'b': 2, 'a': 3}|dictsort(reverse=true);{'a': 1}|dictsort(by='x');users|sum(attribute='age');l|sum(start=10);[[1], [2]]|sum(start=[])
        ['a']|sum;[]|sum;[1.5, 2]|sum;l|min;l|max;words|min;words|max;words|max(case_sensitive=true);users|min(attribute='age');[]|max;[]|min is undefined;[1, 'a']|max;words|unique|join;words|unique(true)|join;users|unique(attribute='age')|map(attribute='name')|join
        users|groupby('age');users|groupby('age')|map('first')|list;users|groupby('nope');users|groupby('x.y', default=5)|length;words|groupby(0);users|groupby(attribute='name')|map(attribute='grouper')|list;users|groupby('age')|map(attribute='list')|map('length')|list
        users|selectattr('age', 'equalto', 30)|map(attribute='name')|list;users|selectattr('x')|list|length;users|rejectattr('x')|list|length;users|selectattr('x', 'defined')|list|length;users|selectattr('age', '>', 26)|list|length;users|selectattr('nope.y')|list
        users|selectattr('age', 'nope')|list;users|selectattr|list;l|select('odd')|list;l|reject('odd')|list;l|select('>', 1)|list;l|select('in', [1, 2])|list;range(10)|select('divisibleby', 3)|list;[0, 1, '', none]|select|list;l|map('add', 1)|list;l|map|list
        words|map('replace', 'a', 'z')|list;words|map('default', 'x')|list;['a b', 'c']|map('title')|list;l|map(attribute=0)|list;nested|map('first')|list;nested|map(attribute='0')|list;l|map('nope')|list;l|map(attribute='x', foo=1)|list
        l|join('-');users|join(',', attribute='name');d|join(',');s|join('.');[1, none, true, 1.5]|join('|');[]|join;undef|join;none|join;nested|join(';');words|first;words|last;[]|first;[]|last is undefined;s|first;s|last;d|first;d|last;u|last;(words|map('upper'))|last;(words|map('upper'))|first
        range(7)|batch(3)|list;range(7)|batch(3, 'x')|list;range(7)|slice(3)|list;range(7)|slice(3, 'x')|list;range(2)|slice(5)|list;range(5)|batch(0)|list;[]|batch(2)|list;[]|slice(2)|list;s|batch(5)|map('join')|list
        4.5|round;5.5|round;42.55|round(1);2.675|round(2);42.55|round(1, 'floor');42.51|round(1, 'ceil');42|round;42|round(1);-2.5|round;1e20|round;0.5|round;1.5|round;'x'|round;2.5|round(0, 'nope');1234.5|round(-2);1234|round(2, 'ceil');none|round
        '42'|int;' 42 '|int;'42.7'|int;'x'|int;'x'|int(5);'1e3'|int;'0x1F'|int(0, 16);'ff'|int(base=16);'0b11'|int(0, 0);'12'|int(0, 3);'1_000'|int;''|int;none|int;true|int;3.99|int;-3.99|int;[]|int;'-5'|int;'+5'|int;'inf'|int;'nan'|int(1);'99999999999999999999'|int;'٣'|int
        '4.5'|float;'x'|float;'x'|float(1.5);' 1e3 '|float;'inf'|float;'-inf'|float;'nan'|float;none|float;5|float;true|float;'1_0.5'|float;'.5'|float;'5.'|float;'.'|float;'0x1p3'|float;[]|float(2)
        1|filesizeformat;999|filesizeformat;1000|filesizeformat;123456789|filesizeformat;123456789|filesizeformat(true);1024|filesizeformat(true);1e30|filesizeformat;'2000'|filesizeformat;0|filesizeformat;1.5|filesizeformat;-5|filesizeformat
        html|e;html|escape|e;html|safe|e;html|safe ~ html;(html|safe) + html;html + (html|safe);html|e + html|e;html|forceescape;html|e|forceescape;(html|safe) is escaped;html is escaped;html|e|length;(html|e)|upper;[html|safe];(s|safe)|replace('l', '<');html|safe|string is escaped
        s|urlencode;u|urlencode;'a/b c&d'|urlencode;{'a b': 'c/d', 'x': 1}|urlencode;[('a', 'ü')]|urlencode;{'class': 'x', 'id': none, 'q': '<'}|xmlattr;{'class': 'x'}|xmlattr(false);{'a b': 1}|xmlattr;{'a': undef}|xmlattr
        '%s and %s'|format(1, 'x');'%(a)s'|format(a=5);'%d%%'|format(5);'%s'|format(none);'%s'|format;'%s'|format(1, 2);'%s'|format(a=1, b=2);s|format;s|replace('l', 'L', 1);s|replace('', '-');'aaa'|replace('a', 'b', 0);s|replace(1, 2);5|replace(5, 6);s|replace('o', none)
        s|replace(old='o', new='0');s|replace('x');s|upper('x');s|lower(foo=1);s|default;undef|default;none|default('x');none|default('x', true);''|default('x', boolean=true);undef|default(default_value='q');undef.x|default('x');deep.x|default('y');deep.x.y|default('y')
        d|attr('items');users[0]|attr('name');d|attr('b') is undefined;s|attr('upper') is callable;d|length;d|list;s|list;u|list;undef|list;none|list;5|list;d|items|list;d|items|first;undef|items|list;s|items;s|reverse;l|reverse|list;d|reverse|list;u|reverse;'a b  c'|wordcount;u|wordcount;''|wordcount
        d|tojson;d|tojson(indent=2);d|tojson(indent=0);d|tojson(indent=-1);d|tojson(indent='--');d|tojson(separators=(',', ':'));d|tojson(sort_keys=true);{'b': 1, 'a': 2}|tojson(sort_keys=true);u|tojson;u|tojson(ensure_ascii=true);u|tojson(true);html|tojson;[1, [], {}, [[]]]|tojson(indent=2);{'a': {}, 'b': []}|tojson(indent=4)
        [1.0, 1e16, 1e-7, 0.1, -0.0, 1e400, -1e999]|tojson;{1: 2, none: 3, true: 4, 1.5: 5}|tojson;{(1, 2): 3}|tojson;(1, 2)|tojson;undef|tojson;{'a': undef}|tojson;range(2)|tojson;'\\x00\\x1f\\x7f\\u2028/'|tojson;{'b': {'d': 1, 'c': 2}}|tojson(sort_keys=true, indent=1);d|tojson(separators=[';', '=']);d|tojson(nope=1);d|tojson(indent=1.5);big|tojson;'"'|tojson|tojson
        s|d|upper|lower|title;(s|upper).lower();s|upper|length > 5;l|sort|first + 1;not s|length;-l|first;l|first ** 2;s|string|string;5|string ~ 5;[1]|string;(1, 2)|string;{}|string""".split("\n"):
        for e in x.strip().split(";"):
            expr(e)


def methods():
    for x in """s.upper();s.lower();s.title();s.capitalize();s.swapcase();u.upper();u.swapcase();u.casefold();u.title();'ǆ'.title();'ŉx'.upper();'ΑΣ'.lower();'ΑΣΑ'.lower();'they\\'re'.title();'x1y'.title();s.center(20, '*');s.center(3);s.ljust(15, '.');s.rjust(15) ~ '|';'5'.zfill(3);'-5'.zfill(4);'+'.zfill(3);s.center(20, 'ab')
        s.count('l');s.count('');s.count('l', 4);'aaa'.count('aa');s.count('o', -5, -1);s.find('o');s.find('o', 5);s.find('x');s.rfind('o');s.index('W');s.index('x');s.rindex('l');u.find('日');u.rfind('ß');u.index('本');s.find('');s.find('', 100);s.find('o', 5, 3)
        s.startswith('He');s.startswith(('x', 'He'));s.startswith('W', 7);s.startswith(['H']);s.startswith(());s.endswith('ld');s.endswith(('a', 'd'));s.endswith('lo', 0, 5);s.startswith('');s.startswith('', 50);s.endswith('');s.startswith(none);s.endswith(undef)
        ws.strip();ws.lstrip();ws.rstrip();'xxaxx'.strip('x');'xyaxy'.strip('yx');'abc'.strip('');'日本日'.strip('日');s.strip(none);s.strip(5);'\\n a \\n'.lstrip('\\n');'a---'.rstrip('-');'a b'.removeprefix('a ');'a b'.removeprefix('b');'a b'.removesuffix(' b');'a'.removesuffix('')
        'a,b,c'.split(',');'a,b,c'.split(',', 1);'a,b,c'.rsplit(',', 1);'a  b c'.split();'  a  b '.split(none, 1);'  a  b '.rsplit(none, 1);''.split();''.split(',');'abc'.split('');'a,b'.split(sep=',');'a,b,c'.split(',', maxsplit=1);'a,b,c'.split(maxsplit=0);' a b '.split(maxsplit=0);' a b '.rsplit(maxsplit=0);'aXbXc'.rsplit('X');'</think>x</think>y'.split('</think>')[-1].lstrip('\\n');'abab'.rsplit('ab');'aaa'.split('aa');'aaa'.rsplit('aa')
        ws.split();u.split();'日本,語'.split(',');multi.splitlines();multi.splitlines(true);multi.splitlines(keepends=true);''.splitlines();'a\\n'.splitlines();'\\n'.splitlines();'a\\x0bb\\x0cc\\x1cd\\u2028e\\x85f'.splitlines();'a-b-c'.partition('-');'a-b-c'.rpartition('-');'abc'.partition('-');'abc'.rpartition('-');'a'.partition('')
        ','.join(['a', 'b']);','.join(words);','.join('abc');','.join([1]);','.join([]);', '.join(d);''.join(words|map('upper'));s.replace('l', 'L');s.replace('l', 'L', 1);s.replace('', '.');'abc'.replace('', '.', 2);s.replace('l', '');'aaaa'.replace('aa', 'b');s.replace('x', 'y');s.replace(1, 2);s.replace('l');s.replace('l', 'L', -1);s.replace(old='l', new='x')
        'abc'.isalpha();'ab1'.isalpha();''.isalpha();'é'.isalpha();'12'.isdigit();'²'.isdigit();'²'.isdecimal();'½'.isnumeric();'١'.isdecimal();'一'.isnumeric();'a1'.isalnum();'a_1'.isalnum();' \\t\\u3000'.isspace();''.isspace();'Abc Def'.istitle();'ABC'.isupper();'aBC'.isupper();'1'.isupper();'abc1'.islower();'ª'.islower();'Ⅷ'.isupper();'ǅ'.istitle();'ǅ'.isupper();'abc'.isascii();u.isascii();''.isascii();'a b'.isprintable();'a\\nb'.isprintable();'a1'.isidentifier();'½'.isalnum()
        'a\\tb'.expandtabs();'a\\tb'.expandtabs(4);'\\t\\n\\ta'.expandtabs(3);'ab\\tc'.expandtabs(0);'abc'.expandtabs(tabsize=2);s.encode();s.translate({});s.maketrans('a', 'b');s.nope();s.nope;s.__class__;s.upper;s['upper']();s.__len__();d.__class__;l.__len__;''.format.__globals__
        '{}'.format(1);'{} {}'.format(1, 'a');'{1} {0}'.format('a', 'b');'{a}'.format(a=5);'{0.name}'.format(users[0]);'{0[name]}'.format(users[0]);'{0[0]}'.format(l);'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c');'{:05d}'.format(42);'{:+d} {: d} {:-d}'.format(5, 5, 5);'{:,}'.format(1234567);'{:_}'.format(1234567);'{:08.3f}'.format(3.14159);'{:.2f}'.format(2);'{:e}'.format(12345.678);'{:g}'.format(1e10);'{:%}'.format(0.25);'{:.1%}'.format(0.256)
        '{:x} {:X} {:o} {:b} {:#x} {:#b}'.format(255, 255, 8, 5, 255, 5);'{:*^10}'.format('x');'{:日>4}'.format('a');'{!r}'.format('a');'{!s:>4}'.format('a');'{:{}}'.format('a', 5);'{:{w}.{p}f}'.format(3.14159, w=8, p=2);'{{}}'.format();'{{{}}}'.format(1);'{'.format();'}'.format();'{}'.format();'{0} {}'.format(1, 2);'{a}'.format();'{:d}'.format('a');'{:s}'.format(5);'{:.3}'.format('abcdef');'{:5.1}|'.format('abc');'{:10}|'.format(5);'{:<10}|'.format(5);'{:010}'.format(-5);'{:=+6}'.format(5);'{}'.format(none);'{:5}'.format(none);'{}'.format(undef)
        '{:.3}'.format(3.14159);'{:.3}'.format(1234567.0);'{}'.format(1.0);'{:g}'.format(0.0001);'{:G}'.format(1e-10);'{:.0f}'.format(2.5);'{:#.0f}'.format(2.5);'{:c}'.format(65);'{:n}'.format(5);'{!a}'.format('é');'{:,.2f}'.format(1234567.891);'{:012,}'.format(1234567);'{:z}'.format(1);'{:?}'.format(1);'{0.__class__}'.format(s);'{0.x}'.format(d);'{d[b]}'.format(d=d);'{:>{}}'.format('x', 3);'{:d}'.format(true);'{}'.format(true);'{:.3f}'.format(true);'{:5}'.format(true);'{a}'.format_map({'a': 1});'{:f}'.format(1e400);'{:10.4g}|'.format(3.14159);'{:.10}'.format(0.1);'{:.1}'.format(100.0);'{:.2e}'.format(0)
        '%s' % 'a';'%s %s' % (1, 2);'%s' % [1, 2];'%(a)s' % {'a': 1};'%d' % 5.9;'%d' % '5';'%5d|%-5d|%05d' % (5, 5, 5);'%+d % d' % (5, 5);'%x %X %o %#x %#o' % (255, 255, 8, 255, 8);'%.2f' % 3.14159;'%e' % 12345.678;'%g' % 0.00001;'%10.3f|' % 3.14159;'%-10s|' % 'a';'%10s|' % 'a';'%.2s' % 'abc';'%c%c' % ('a', 66);'%r' % 'a';'%%' % ();'%' % 1;'%s %s' % 1;'%s' % (1, 2);'%s' % ();'%z' % 1;'%*d' % (5, 3);'%.*f' % (2, 1.0);'%s' % none;'%s' % undef;'%5.1f%%' % 99.55;'%i' % true;'%s' % (u,);'%r' % (u,);'abc' % ();'abc' % 1;'abc' % {};'abc' % [];'%(x)s' % {'a': 1};'%(a)d %(b)s' % {'a': 1, 'b': 'x'};'%.3d' % 5;'%#.3x' % 5;'%F' % 1.5;'%E' % 1.5;'%G' % 1e-10;'%05s' % 'a';'%-05d|' % 3;'%ld' % 3;'%s%s' % ('a', ['b']);'%5s%%' % 'x'
        l.index(1);l.index(9);l.count(1);l.copy();l.append(1);l.pop();l.sort();l.append;l.append is defined;l.nope;(1, 2).index(2);(1, 2).count(1);(1, 2).append;d.keys();d.values();{'a': 1}.items();d.items()|list;d.keys()|list;{'a': 1}.items()|list;d.get('b');d.get('x');d.get('x', 5);d.get();d.get('x', default=1);d.copy();d.pop('b');d.update({});d.setdefault('a', 1);d.clear();d.fromkeys('ab');{'a': 1}.keys()|length;'a' in {'a': 1}.keys();1 in {'a': 1}.values();('a', 1) in {'a': 1}.items();{'a': 1}.keys()[0];{'a': 1}.items()|first;{'b': 1, 'a': 2}.keys()|sort
        s.upper(1);s.upper(x=1);s.split(1);d.get([1]);[1, 2].index(1, 1);[1, 2, 1].index(1, 1);range(5).index(3);range(5).count(2);range(3).start;range(3).stop;range(0, 9, 3).step;'x'.join(range(3)|map('string'));'abc'[1].upper();('a' ~ 1).upper();s.split(', ')[1][0];[s, u]|map('upper')|list;s.find""".split("\n"):
        for e in x.strip().split(";"):
            expr(e)


def specs():
    """Widths, alignments and types, crossed."""
    for a, z, w, t in itertools.product(["", "<", ">", "^", "=", "*^", "0>"], ["", "0", "+", "#", " 0"], ["", "8", "3"], ["", "d", "x", ".2f", ".3", "e", "g", "%", ",", "s"]):
        spec = a + z + w + t
        for v in ["42", "-7", "2.5", "'ab'"]:
            expr("'{:" + spec + "}|'.format(" + v + ")")
    for fl, w, p, c in itertools.product(["", "-", "0", "+", "#", " "], ["", "7"], ["", ".0", ".2"], "sdxofegr"):
        for v in ["42", "-7.25", "'ab'"]:
            expr("'%" + fl + w + p + c + "|' % " + v)


def floats():
    for v in ["1.0", "100.0", "1e15", "1e16", "1e17", "123456789012345680.0", "0.1", "1.1", "0.0001", "0.00001", "1.5e300", "5e-324", "1.7976931348623157e308", "3.141592653589793", "2.2250738585072014e-308", "1e21", "1e23", "9007199254740993.0", "0.30000000000000004", "1e-4", "123e-7", "4.35", "0.5", "1e100", "12345.678e-3"]:
        expr(v)
        expr("-" + v)
        expr(v + "|tojson")
        expr(v + "|round(3)")
        expr(v + "|int")
        expr("'%g %e %.3f' % (" + ", ".join([v] * 3) + ")")


STATEMENTS = r"""
{% for x in l %}{{ x }},{% endfor %}
{% for x in [] %}x{% else %}none{% endfor %}
{% for x in l %}{{ x }}{% else %}none{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}
{% for x in l if x > 5 %}x{% else %}E{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }};{% endfor %}
{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|items %}{{ k }};{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in l %}{% endfor %}
{% for a, b in ['xy', 'zw'] %}{{ a }}-{{ b }} {% endfor %}
{% for c in s %}{{ c }}.{% endfor %}
{% for c in u %}{{ c }}.{% endfor %}
{% for x in none %}{% endfor %}
{% for x in undef %}x{% else %}E{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in range(5) %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}|{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in l %}{{ loop.cycle() }}{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}
{% for x in l|map('string') %}{{ loop.last }}{{ loop.length }}{{ loop.revindex }} {% endfor %}
{% for x in l|select('odd') %}{{ x }}{{ loop.length }}{% if not loop.last %},{% endif %}{% endfor %}
{% for x in l %}{{ loop.depth }}{% for y in l %}{{ loop.depth0 }}{% endfor %}{% endfor %}
{% for n in tree recursive %}{{ loop.depth }}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}
{% for n in tree recursive %}[{{ n.v }}{{ loop(n.c) if n.c }}{{ loop.index }}]{% else %}E{% endfor %}
{% for n in tree %}{{ loop(n.c) }}{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% break %}{% else %}E{% endfor %}
{% for x in l %}{% continue %}{% else %}E{% endfor %}
{% for x in [1, 2] %}{% for y in [1, 2, 3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}
{% break %}
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in l %}{% filter upper %}a{% if x == 1 %}{% break %}{% endif %}b{% endfilter %}{% endfor %}
{% for x in l %}{% set q %}a{% if x == 1 %}{% continue %}{% endif %}b{% endset %}{{ q }}{% endfor %}
{% for x in l %}{% set y = x %}{% endfor %}{{ y }}
{% set y = 0 %}{% for x in l %}{% set y = y + x %}{{ y }}{% endfor %}{{ y }}
{% set ns = namespace(t=0) %}{% for x in l %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t }}
{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}
{% set ns = {} %}{% set ns.a = 1 %}
{% set d.x = 1 %}
{% set undef.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = [1] %}
{% set (a, b), c = (1, 2), 3 %}{{ a }}{{ b }}{{ c }}
{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}
{% set a = 1, 2 %}{{ a }}
{% set x = 1 if false %}{{ x is defined }}
{% set x %}hello {{ n }}{% endset %}{{ x }}|{{ x|length }}
{% set x | upper | trim %}  hello {% endset %}{{ x }}|
{% set x | replace('l', 'L') %}hello{% endset %}{{ x }}
{% set x %}{% set y = 5 %}{% endset %}{{ y }}
{% set ns = namespace(x='') %}{% set ns.x %}abc{% endset %}{{ ns.x }}
{% if true %}{% set x = 1 %}{% endif %}{{ x }}
{% if false %}{% set n = 1 %}{% endif %}{{ n }}
{% if undef %}a{% elif z %}b{% elif n %}c{% else %}d{% endif %}
{% if l and not el %}y{% endif %}
{% if s in 'abc' %}a{% elif 'W' in s %}b{% endif %}
{% if n == 7 and f > 2 or undef.x %}y{% endif %}
{% if undef.x %}{% endif %}
{% if 1, 2 %}t{% endif %}
{% if a if b else c %}{% endif %}
{% if %}{% endif %}
{% if x %}
{% endif %}
{% else %}
{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}
{% set a = 5 %}{% with a=1, b=a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c=3) }}|{{ m(b=1, a=2) }}|{{ m() }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}{{ m(undef) }}
{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}
{% macro m() %}{{ kwargs|tojson }}{% endmacro %}{{ m(b=1, a=2) }}
{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3}) }}{{ m(*[4], **{'b': 5}) }}
{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a, b=1, c) %}{% endmacro %}
{% macro m(a, a) %}{% endmacro %}
{% macro m() %}{{ n }}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}
{% macro m() %}{{ q }}{% endmacro %}{% set q = 5 %}{{ m() }}
{% set q = 1 %}{% macro m() %}{{ q }}{% endmacro %}{% set q = 5 %}{{ m() }}
{% for x in l %}{% macro m() %}{{ x }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}
{% macro m() %}x{% endmacro %}{{ m }}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.caller }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{% endcall %}
{% macro m() %}<{{ caller(1, b=2) }}>{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}<{{ caller() }}>{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}
{% macro m(caller=none) %}{{ caller() if caller else 'n' }}{% endmacro %}{{ m() }}{% call m() %}y{% endcall %}
{% macro m(caller) %}{{ caller() }}{% endmacro %}
{% macro m(items) %}{% for i in items %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) m([1, 2]) %}[{{ i }}{{ n }}]{% endcall %}
{% call foo %}{% endcall %}
{% call range(3) %}{% endcall %}
{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{% call b() %}x{% endcall %}
{% macro outer(x) %}{% macro inner(y) %}{{ x }}{{ y }}{% endmacro %}{{ inner(2) }}{% endmacro %}{{ outer(1) }}
{% filter upper %}abc{{ s }}{% endfilter %}
{% filter replace('a', 'b')|upper %}aaa{% endfilter %}
{% filter trim %}  x  {% endfilter %}|
{% filter nope %}{% endfilter %}
{% filter upper %}{% set q = 1 %}{% endfilter %}{{ q }}
{% generation %}a{{ n }}{% endgeneration %}
{% for m in messages %}{% generation %}{{ m.role }}{{ loop.index }}{% set q = 1 %}{% endgeneration %}{{ q }}{% endfor %}
{% print 1, 'a' %}
{% print s %}
{% raw %}{{ x }}{% if %}{% endraw %}
{%- raw -%}  {{ x }}  {%- endraw -%}  y
{% raw %}
 {{ x }}
{% endraw %}
y
a{% raw %}{% endraw %}b
{% raw %}x
{# comment #}a
a {# c #} b
a {#- c -#} b
  {# c #}
x
{# {{ x }} {% if %} #}ok
{# unclosed
{% set x = 1 %}
{{ x }}
  {% set x = 1 %}
  {{ x }}
  {%+ set x = 1 %}
x
  {% set x = 1 +%}
x
a
   {%- set x = 1 -%}
   b
a {{- 1 -}} b
a {{ 1 }}
b
a {{ 1 -}}
  b
a {{+ 1 }} b
x {% if true %} y {% endif %} z
  {% if true %}
    y
  {% endif %}
z
{% if true -%}
  y
{%- endif %}

z
{% for x in l %}
  - {{ x }}
{% endfor %}
end
{% for x in l -%}
  {{ x }}
{%- endfor %}
	{% if true %}
x	{% endif %}
a{% if true %}
{% endif %}b
{{ '}}' }}{{ "{%" }}
{{ {'a': {'b': 1}}['a']['b'] }}
{{ {'a': {'b': 1}} }}
{{ '
' }}
{{ 1
+ 2 }}
{%set x=1%}{{x}}
{%if x%}{%endif%}
{{-1}}
{{--1}}
{{- -1}}
{{ 'a' if true else 'b' -}} c
{{ }}
{{ 1 }}}
{{ {1} }}
{ { x } } {% %}
{%  %}
text only
text with {single} { braces } %} }} #}

{{ s }}


a


{% do x %}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% block a %}x{% endblock %}
{% autoescape true %}x{% endautoescape %}
{% nope %}
{% endfor %}
{% for x in l %}
{% for x in l %}{% endif %}
{% if x %}{% endfor %}
{% for in l %}{% endfor %}
{% for x l %}{% endfor %}
{% set 1 = 2 %}
{% set x y %}
{% set x = %}
{% set none = 1 %}
{% set s.x = 1 %}
{% set x[0] = 1 %}
{% for none in l %}{% endfor %}
{% for x.y in l %}{% endfor %}
{% macro 1() %}{% endmacro %}
{% if x: %}a{% endif %}
{% if n: %}a{% endif %}
{{ x.y.z }}
{{ x|nope }}
{% if false %}{{ x|nope }}{% endif %}ok
{% if false %}{{ x is nope }}{% endif %}ok
{% if true %}{{ x|nope }}{% endif %}ok
{{ 1 if true else x|nope }}
{{ (x|nope) if false else 1 }}
{% if false %}{% for y in l %}{{ y|nope }}{% endfor %}{% endif %}ok
{% for y in [] %}{{ y|nope }}{% endfor %}ok
{% if false %}{{ raise_exception('x') }}{% endif %}ok
{% if 'nope' is filter %}{{ x|nope }}{% else %}no{% endif %}
{{ 'upper' is filter }}{{ 'odd' is test }}{{ 'nope' is test }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}
{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{% set j = joiner() %}{{ j() }}{{ j() }}
{% set it = l|map('string') %}{{ it|list }}{{ it|list }}
{% set it = l|select('odd') %}{% for x in it %}{{ x }}{% endfor %}{% for x in it %}{{ x }}{% endfor %}
{% set it = l|map('string') %}{{ it|first }}{{ it|first }}{{ it|list }}
{% if l|select('gt', 100) %}true{% endif %}
{% if (l|select('gt', 100)|list) %}true{% else %}false{% endif %}
{{ l|map('string')|length }}
{{ (l|map('string'))[0] }}
{{ [l|map('string')]|length }}
{% set x = l + [4] %}{{ x }}{{ l }}
{% set x = [] %}{% for i in range(3) %}{% set x = x + [i] %}{% endfor %}{{ x }}
{% set ns = namespace(x=[]) %}{% for i in range(3) %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x }}
{% for m in messages %}{{ m['role'] }}:{{ m.content|trim }}{% if not loop.last %}|{% endif %}{% endfor %}
{% for m in messages[1:] %}{{ m.role }}{% endfor %}
{% for m in messages[::-1] %}{{ m.role }}{% endfor %}
{% for m in messages|reverse %}{{ m.role }}{{ loop.index }}{% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index0 }}{{ m.content }}{% endfor %}
{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ 'x' }}{% endif %}{% endfor %}
{% set last = (messages|selectattr('role', 'equalto', 'user')|list)[-1] %}{{ last.content }}
{% set ns = namespace(i=0) %}{% for m in messages if ns.i < 2 %}{% set ns.i = ns.i + 1 %}{{ m.role }}{% endfor %}
{% set ns = namespace(i=0) %}{% for m in messages if ns.i < 2 %}{% set ns.i = ns.i + 1 %}{{ m.role }}{{ loop.last }}{% endfor %}
{% set ns = namespace(i=0) %}{% for m in messages if ns.i < 2 %}{% set ns.i = ns.i + 1 %}{{ m.role }}{{ loop.length }}{% endfor %}
{% set messages = messages[2:] %}{{ messages|length }}
{% set content = messages[0].content if messages[0].content is string else messages[0].content|map(attribute='text')|join('') %}{{ content }}
{% macro render(x) %}{% if x is mapping %}{{ '{' }}{% for k, v in x|dictsort %}{{ k }}:{{ render(v) }},{% endfor %}{{ '}' }}{% elif x is sequence and x is not string %}[{% for i in x %}{{ render(i) }}{% endfor %}]{% else %}{{ x }}{% endif %}{% endmacro %}{{ render(deep) }}{{ render(mixed) }}{{ render(nested) }}
{%- macro m(a) -%}  {{ a }}  {%- endmacro -%}  {{- m(1) }}|
{{ loop }}
{% for x in l %}{{ loop }}{% endfor %}
{% for x in l %}{% for y in [loop.index] %}{{ y }}{{ loop.index }}{% endfor %}{% endfor %}
{% for x in l %}{% set loop = 5 %}{{ loop }}{% endfor %}
{% for loop in l %}{{ loop }}{% endfor %}
{% for x in l %}{{ x }}{% endfor %}{{ x }}
{% set x = 9 %}{% for x in l %}{{ x }}{% endfor %}{{ x }}
{% for x in [x, 1] %}{{ x }}{% endfor %}
{{ self }}
{{ self.x() }}
{{ '%s' % l }}{{ '%s' % (l,) }}
{{ "a" "b" 'c' }}
{{ 'a'.upper() ~ 'b' | upper }}
{{ ('a' ~ 'b') | upper }}
{{ 'a' + 'b' | upper }}
{{ s.split(',')|map('trim')|join('/') }}
{{ not undef }}{{ undef == undef2 }}{{ undef == none }}{{ undef != 1 }}
{{ undef ~ 'x' }}|{{ undef|upper }}|{{ undef|trim }}|{{ undef|string }}
{{ undef + 1 }}
{{ undef < 1 }}
{{ [undef] }}
{{ undef in [1] }}{{ 1 in undef }}
{{ undef in 'x' }}
{{ 1 in 'x' }}
{{ 'x' in 1 }}
{{ [1] in {} }}
"""


def main():
    operators()
    precedence()
    filters()
    methods()
    specs()
    floats()
    lines = STATEMENTS.strip("\n").split("\n")
    for line in lines:
        add(line)
    for a, b in zip(lines, lines[1:]):  # neighbours with a newline between them: white space and line starts
        add(a + "\n" + b)
        add("  " + a + " \n\t" + b + "\n")
    for a, b, c in zip(lines, lines[1:], lines[2:]):
        add(a + "\n" + b + "\r\n" + c + "\n")
    rows = ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in OUT.values())
    sys.stdout.write('{"jinja2":"%s","vars":%s,"rows":[\n%s\n]}\n' % (jinja2.__version__, json.dumps(VARS, ensure_ascii=False), rows))


if __name__ == "__main__":
    main()
