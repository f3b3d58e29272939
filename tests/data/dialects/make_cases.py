"""Outputs of models in each dialect, and what has to be read from them: writes <dialect>.json next to this file.

The forms are those of the families' published chat templates (how a template renders the calls of its history is how the
model writes them), written down here by hand and independently of src/text/dialect_table.c. Run: python3 make_cases.py
"""

import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def j(v):
    return json.dumps(v, ensure_ascii=False)


# ---- how each family writes a turn ----


def tag(open_, close):
    return lambda text: f"{open_}{text}{close}"


def json_calls(begin, end, between, name="name", args="arguments", extra=""):
    return lambda calls: begin + between.join("{%s\"%s\": %s, \"%s\": %s}" % (extra, name, j(n), args, j(a)) for n, a in calls) + end


def params(begin, end, call, call_end, param, param_end, between="\n", key_end='">', name_end='">\n'):
    def value(v):
        return v if isinstance(v, str) else j(v)

    def one(n, a):
        body = "".join(param + k + (key_end(v) if callable(key_end) else key_end) + value(v) + param_end for k, v in a.items())
        return call + n + name_end + body + call_end

    return lambda calls: begin + between.join(one(n, a) for n, a in calls) + end


def python_literal(v):
    if v is None or isinstance(v, bool):
        return repr(v)
    if isinstance(v, str):
        return '"' + v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
    if isinstance(v, list):
        return "[" + ", ".join(map(python_literal, v)) + "]"
    if isinstance(v, dict):
        return "{" + ", ".join(python_literal(k) + ": " + python_literal(x) for k, x in v.items()) + "}"
    return j(v)


def pythonic(begin, end, between):
    def one(n, a):
        return f"{n}({', '.join(k + '=' + python_literal(v) for k, v in a.items())})"

    return lambda calls: begin + between.join(one(n, a) for n, a in calls) + end


def braces(begin, end, quote):
    def value(v):
        if isinstance(v, str):
            return quote + v + quote
        if isinstance(v, list):
            return "[" + ",".join(map(value, v)) + "]"
        if isinstance(v, dict):
            return "{" + ",".join(k + ":" + value(x) for k, x in v.items()) + "}"
        return j(v)

    return lambda calls: "".join(begin + n + "{" + ",".join(k + ":" + value(v) for k, v in a.items()) + "}" + end for n, a in calls)


def named(begin, end, call, name_end, call_end, between=""):
    return lambda calls: begin + between.join(call(i, n) + name_end + j(a) + call_end for i, (n, a) in enumerate(calls)) + end


def xtml(calls):
    kind = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array", type(None): "null"}
    out = "<|open|>tools<|sep|>"
    for i, (n, a) in enumerate(calls):
        out += f'<|open|>call tool="{n}" index="{i + 1}"<|sep|>'
        for k, v in a.items():
            text = v if isinstance(v, str) else j(v)
            key = k.replace("&", "&amp;").replace('"', "&quot;")
            out += f'<|open|>argument key="{key}" type="{kind[type(v)]}"<|sep|>{text}<|close|>argument<|sep|>'
        out += "<|close|>call<|sep|>"
    return out + "<|close|>tools<|sep|>"


def atem(calls):
    def value(v):
        return v if isinstance(v, str) else j(v)

    return "<|eom|><|start|>assistant".join(
        f' to={n}<|message|><atem:function_calls>\n<atem:invoke name="{n}">\n'
        + "".join(f'<atem:parameter name="{k}">{value(v)}</atem:parameter>\n' for k, v in a.items())
        + "</atem:invoke>\n</atem:function_calls>" for n, a in calls) + "<|eot|>"


def harmony(calls):
    return "<|start|>assistant".join(f"<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>{j(a)}<|call|>" for n, a in calls)


def dsml(block):
    bar = "｜DSML｜"
    return params(f"<{bar}{block}>\n", f"\n</{bar}{block}>", f'<{bar}invoke name="', f"</{bar}invoke>", f'<{bar}parameter name="',
                  f"</{bar}parameter>\n", key_end=lambda v: f'" string="{"true" if isinstance(v, str) else "false"}">')


THINK = tag("<think>\n", "\n</think>\n\n")
FUNCTION = dict(call="<function=", call_end="</function>", param="<parameter=", name_end=">\n")

# name: (reasoning, content before calls, calls, ids)
DIALECTS = {
    "hermes": dict(think=THINK, calls=json_calls("<tool_call>\n", "\n</tool_call>", "\n</tool_call>\n<tool_call>\n")),
    "qwen3-coder": dict(think=THINK, lines=True,
                        calls=params("<tool_call>\n", "\n</tool_call>", param_end="\n</parameter>\n", key_end=">\n",
                                     between="\n</tool_call>\n<tool_call>\n", **FUNCTION)),
    "seed-oss": dict(think=tag("<seed:think>", "</seed:think>\n"),
                     calls=params("<seed:tool_call>\n", "\n</seed:tool_call>", param_end="</parameter>\n", key_end=">",
                                  between="\n</seed:tool_call>\n<seed:tool_call>\n", **FUNCTION)),
    "minimax-m2": dict(think=THINK, calls=params("<minimax:tool_call>\n", "\n</minimax:tool_call>", '<invoke name="', "</invoke>",
                                                 '<parameter name="', "</parameter>\n")),
    "minimax-m1": dict(think=THINK, calls=json_calls("<tool_calls>\n", "\n</tool_calls>", "\n")),
    "deepseek-v3.2": dict(think=tag("<think>", "</think>"), calls=dsml("function_calls")),
    "deepseek-v4": dict(think=tag("<think>", "</think>"), calls=dsml("tool_calls")),
    "deepseek-v3": dict(think=THINK, calls=named("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                                                 lambda i, n: f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}", "\n```json\n",
                                                 "\n```<｜tool▁call▁end｜>", "\n")),
    "deepseek-v3.1": dict(think=tag("<think>", "</think>"),
                          calls=named("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", lambda i, n: f"<｜tool▁call▁begin｜>{n}",
                                      "<｜tool▁sep｜>", "<｜tool▁call▁end｜>")),
    "kimi-k2": dict(think=tag("<think>", "</think>"), ids=lambda i, n: f"functions.{n}:{i}",
                    calls=named("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
                                lambda i, n: f"<|tool_call_begin|>functions.{n}:{i}", "<|tool_call_argument_begin|>",
                                "<|tool_call_end|>")),
    "kimi-k3": dict(think=tag("<|open|>think<|sep|>", "<|close|>think<|sep|>"), verbatim=True, calls=xtml,
                    ids=lambda i, n: str(i + 1), content=tag("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
                    tail="<|close|>message<|sep|>"),
    "glm": dict(think=tag("\n<think>", "</think>\n"),
                calls=params("", "", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_value>\n", name_end="\n",
                             key_end="</arg_key>\n<arg_value>")),
    "hunyuan-3": dict(think=tag("<think:opensource>", "</think:opensource>"),
                      calls=params("<tool_calls:opensource>\n", "\n</tool_calls:opensource>", "<tool_call:opensource>",
                                   "</tool_call:opensource>", "<arg_key:opensource>", "</arg_value:opensource>\n",
                                   name_end="<tool_sep:opensource>\n", key_end="</arg_key:opensource>\n<arg_value:opensource>")),
    "step3": dict(think=THINK, calls=params("<｜tool_calls_begin｜>\n", "\n<｜tool_calls_end｜>",
                                            '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="',
                                            "</steptml:invoke><｜tool_call_end｜>", '<steptml:parameter name="',
                                            "</steptml:parameter>\n")),
    "minicpm5": dict(think=THINK, calls=params("", "", '<function name="', "</function>", '<param name="', "</param>",
                                               name_end='">')),
    "atem": dict(think=tag(" to=self<|message|>", "<|eom|><|start|>assistant"), verbatim=True, calls=atem,
                 content=tag(" to=user<|message|>", "<|eom|><|start|>assistant"),
                 last=tag(" to=user<|message|>", "<|eot|>")),
    "harmony": dict(think=tag("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"), verbatim=True, calls=harmony,
                    content=tag("<|channel|>commentary<|message|>", "<|end|><|start|>assistant"),
                    last=tag("<|channel|>final<|message|>", "<|return|>")),
    "llama3": dict(bare=True, calls=json_calls("", "", "; ", args="parameters")),
    "pythonic": dict(bare=True, calls=pythonic("[", "]", ", ")),
    "lfm2": dict(think=THINK, calls=pythonic("<|tool_call_start|>[", "]<|tool_call_end|>", ", ")),
    "tool-code": dict(calls=pythonic("```tool_code\n", "\n```", "\n")),
    "gemma4": dict(think=tag("<|channel>thought\n", "\n<channel|>"), calls=braces("<|tool_call>call:", "<tool_call|>", '<|"|>')),
    "functiongemma": dict(calls=braces("<start_function_call>call:", "<end_function_call>", "<escape>")),
    "mistral": dict(think=tag("[THINK]", "[/THINK]"), calls=named("", "", lambda i, n: f"[TOOL_CALLS]{n}", "[ARGS]", "")),
    "functionary-v3.1": dict(calls=named("", "", lambda i, n: f"<function={n}", ">", "</function>")),
    "solar": dict(think=tag("<|think|>", "<|end|><|begin|>assistant"), verbatim=True, ids=lambda i, n: f"call00000{i}",
                  content=tag("<|content|>", "<|end|><|begin|>assistant"), last=tag("<|content|>", "<|end|>"),
                  calls=named("<|tool_calls|>", "<|calls|>",
                              lambda i, n: f"<|tool_call:begin|>call00000{i}<|tool_call:name|>{n}", "<|tool_call:args|>",
                              "<|tool_call:end|>")),
    "nemotron-v2": dict(think=THINK, calls=json_calls("<TOOLCALL>[", "]</TOOLCALL>", ", ")),
    "apriel": dict(first=True, think=tag("", "\n[BEGIN FINAL RESPONSE]\n"), calls=json_calls("<tool_calls>[", "]</tool_calls>", ", "),
                   tail="\n[END FINAL RESPONSE]"),
    "tool-calls-list": dict(think=THINK, calls=json_calls("<tool_calls>[", "]</tool_calls>", ", ")),
    "granite3": dict(think=THINK, calls=json_calls("<|tool_call|>[", "]", ", ")),
    "functools": dict(calls=json_calls(" functools[", "]", ", ")),
    "apertus": dict(think=tag("<|inner_prefix|>", "<|inner_suffix|>"),
                    calls=lambda calls: "<|tools_prefix|>[" + ", ".join(j({n: a}) for n, a in calls) + "]<|tools_suffix|>"),
    "cohere": dict(think=tag("<|START_THINKING|>", "<|END_THINKING|>"), verbatim=True, ids=lambda i, n: "0",
                   content=tag("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
                   calls=json_calls("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>", ",\n    ", "tool_name", "parameters",
                                    '"tool_call_id": "0", ')),
    "command-r": dict(calls=json_calls("Action:\n```json\n[\n    ", "\n]```", ",\n    ", "tool_name", "parameters")),
    "gigachat3": dict(single=True, calls=json_calls("function call<|role_sep|>\n", "", "")),
    "gigachat3.1": dict(single=True, calls=json_calls("<|function_call|>", "", "")),
    "think": dict(think=THINK),
    "none": dict(),
    "minimax-m3": dict(think=tag("<mm:think>", "</mm:think>")),
}

WEATHER = ("get_weather", {"city": "Zürich", "unit": "celsius"})
ADD = ("add", {"a": 1, "b": 4.5})
NOW = ("now", {})
TEXTS = ("note", {"title": "007", "text": "true"})
ESCAPES = ("note", {"title": "é \"q\" \\ 日本 🙂", "text": "two\nlines\tand a tab"})
NESTED = ("plan", {"steps": [{"do": "x", "at": [1, 2.5, -3e-2]}, None, True], "options": {"deep": {"er": []}, "on": False}})


class Cases:
    def __init__(self, name, d):
        self.name, self.d, self.list = name, d, []

    def add(self, title, text, want, **more):
        self.list.append({"title": title, "text": text, **more, "want": want})

    def content(self, text, last=False):
        mark = self.d.get("last" if last and "last" in self.d else "content")
        return mark(text) if mark else text

    def want(self, calls, more_ids=()):
        out = []
        for i, (n, a) in enumerate(calls):
            w = {"call": n, "arguments": j(a)}
            if "ids" in self.d:
                w["id"] = self.d["ids"](i, n)
            out.append(w)
        return out

    def calls(self, title, calls, before="", want_before=()):
        self.add(title, before + self.d["calls"](calls) + self.d.get("tail", ""), [*want_before, *self.want(calls)])


def common(c):
    d = c.d
    skip = "" if not d.get("first") else d["think"]("so")
    start = [] if not skip else [{"reasoning": "so"}]
    tail = d.get("tail", "")
    for title, text in (("plain answer", "Hello, world."), ("unicode", "Grüße, 日本 🙂, a\u0301"), ("one word", "x"),
                        ("looks like markers", "a < b > c <t <tool <| [ [T ` `` {\"x\"} to= <think"),
                        ("blanks inside", "a  b\n\n  c\td")):
        c.add(title, skip + c.content(text, True) + tail, [*start, {"content": text}])
    c.add("blanks at the end stay", skip + c.content("done \n", True), [*start, {"content": "done \n"}])
    c.add("nothing", "", [])
    if "think" in d:
        reason = "First, 2 < 3.\n\nSo <yes>."
        c.add("reasoning and answer", d["think"](reason) + c.content("Yes.", True) + tail, [{"reasoning": reason}, {"content": "Yes."}])
        before, after = d["think"]("~").split("~")
        c.add("reasoning that is open", reason + after + c.content("Yes.", True) + tail,
              [{"reasoning": reason}, {"content": "Yes."}], reasoning_open=True)
        c.add("reasoning cut", before + "Well, because", [{"reasoning": "Well, because"}], cut=True)
    if "calls" not in d:
        return
    bare = d.get("bare")
    c.calls("one call", [WEATHER], skip, start)
    c.calls("number", [ADD], skip, start)
    c.calls("no arguments", [NOW], skip, start)
    c.calls("strings that look otherwise", [TEXTS], skip, start)
    c.calls("unicode and escapes", [ESCAPES], skip, start)
    c.calls("nested", [NESTED], skip, start)
    if not d.get("single"):
        c.calls("two calls", [ADD, WEATHER], skip, start)
        c.calls("three calls", [NOW, NOW, ADD], skip, start)
    fly = [("fly", {"to": "moon"})]
    c.add("unknown tool", skip + d["calls"](fly) + tail,
          [{"content": d["calls"](fly)}] if bare else [*start, {**c.want(fly)[0], "unknown": True}])
    if not bare:
        c.calls("content and a call", [ADD], skip + c.content("Sure.") + ("" if d.get("verbatim") else "\n\n"),
                [*start, {"content": "Sure."}])
    if "think" in d:
        c.calls("reasoning and a call", [WEATHER], d["think"]("Look it up."), [{"reasoning": "Look it up."}])
        inner = d["calls"]([ADD])
        if not d.get("verbatim") and not d.get("first"):
            c.add("a call inside reasoning is none", d["think"]("I could write " + inner + " here") + "No." + tail,
                  [{"reasoning": "I could write " + inner + " here"}, {"content": "No."}])


def malformed(c):
    """Forms that a real model gets wrong: (title, text, what the reason says, the tool if its call had begun)."""
    for title, text, reason, of, *rest in BROKEN.get(c.name, []):
        raw = rest[0] if rest else text
        want = {"malformed": reason, "raw": raw}
        if of:
            want["of"] = of
        before = rest[1] if len(rest) > 1 else []
        after = rest[2] if len(rest) > 2 else []
        more = rest[3] if len(rest) > 3 else {}
        c.add(title, text, [*before, want, *after], **more)


HERMES_BAD = '<tool_call>\n{"name": "add", "arguments": {"a": 1,}}\n</tool_call>'
BROKEN = {
    "hermes": [
        ("trailing comma", HERMES_BAD, "not JSON", "add"),
        ("no name", '<tool_call>{"arguments": {}}</tool_call>', "no name", None),
        ("name is a number", '<tool_call>{"name": 1}</tool_call>', "another type", None),
        ("arguments are a list", '<tool_call>{"name": "add", "arguments": [1]}</tool_call>', "a list", None),
        ("duplicate parameter", '<tool_call>{"name": "add", "arguments": {"a": 1, "\\u0061": 2}}</tool_call>', "twice", "add"),
        ("name twice", '<tool_call>{"name": "add", "name": "now", "arguments": {}}</tool_call>', "twice", None),
        ("nothing inside", "<tool_call>\n</tool_call>", "have none", None),
        ("text inside", "<tool_call>hello</tool_call> after", "have text", None, "<tool_call>hello</tool_call>", [],
         [{"content": "after"}]),
        ("lone surrogate", '<tool_call>{"name": "note", "arguments": {"text": "\\ud800"}}</tool_call>', "not JSON", "note"),
        ("one brace too many", '<tool_call>{"name": "now", "arguments": {}}}</tool_call>', "have text", None, "}</tool_call>",
         [{"call": "now", "arguments": "{}"}]),
        ("stopped in a call", '<tool_call>{"name": "add", "arguments": {"a": 1', "the model stopped", "add"),
        ("end marker inside", '<tool_call>{"name": "add", "arguments": {"a": 1</tool_call>\nSorry.', "not JSON", "add",
         '<tool_call>{"name": "add", "arguments": {"a": 1</tool_call>', [], [{"content": "Sorry."}]),
        ("cut in a call", '<tool_call>{"name": "add", "argum', "length", None, '<tool_call>{"name": "add", "argum', [], [], {"cut": True}),
        ("bad, then good", HERMES_BAD + '<tool_call>{"name": "now", "arguments": {}}</tool_call>', "not JSON", "add", HERMES_BAD, [],
         [{"call": "now", "arguments": "{}"}]),
    ],
    "qwen3-coder": [
        ("duplicate parameter", "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n</parameter>\n"
         "</function>\n</tool_call>", "twice", "add",
         "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n</parameter>\n</function>"),
        ("text between parameters", "<tool_call>\n<function=add>\nhm\n</function>\n</tool_call>", "between parameters", "add",
         "<tool_call>\n<function=add>\nhm\n</function>"),
        ("call ends in a key", "<tool_call><function=add><parameter=a</function></tool_call>", "inside a parameter", "add",
         "<tool_call><function=add><parameter=a</function>"),
        ("bad name", "<tool_call><function=a b>\n</function></tool_call>", "name", None,
         "<tool_call><function=a b>\n</function>"),
        ("stopped in a value", "<tool_call>\n<function=note>\n<parameter=text>\nabc", "the model stopped", "note"),
        ("nothing inside", "<tool_call></tool_call>", "have none", None),
        ("cut at a marker", "<tool_call>\n<function=note>\n<parameter=text>\nabc\n</para", "length", "note",
         "<tool_call>\n<function=note>\n<parameter=text>\nabc\n</para", [], [], {"cut": True}),
    ],
    "glm": [
        ("no value", "<tool_call>add\n<arg_key>a</arg_key>\n</tool_call>", "inside a parameter", "add"),
        ("no name", "<tool_call>\n</tool_call>", "name", None),
        ("duplicate parameter", "<tool_call>add\n<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>a</arg_key><arg_value>1"
         "</arg_value></tool_call>", "twice", "add"),
    ],
    "deepseek-v3.1": [
        ("arguments are text", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>a=1<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         "no object", None, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>a=1<｜tool▁call▁end｜>"),
        ("bad, then good", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{]<｜tool▁call▁end｜><｜tool▁call▁begin｜>now"
         "<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "not JSON", "add",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{]<｜tool▁call▁end｜>", [], [{"call": "now", "arguments": "{}"}]),
    ],
    "harmony": [
        ("arguments are text", "<|channel|>commentary to=functions.add<|message|>a=1<|call|>", "no object", None,
         "<|channel|>commentary to=functions.add<|message|>a=1"),
        ("unknown channel", "<|channel|>secret<|message|>psst<|end|>", "unknown channel", None, "<|channel|>secret<|message|>psst"),
        ("another author", "<|channel|>analysis<|message|>x<|end|><|start|>functions.add to=assistant<|channel|>commentary<|message|>3<|end|>",
         "another author", None, "<|start|>functions.add to=assistant<|channel|>commentary<|message|>3", [{"reasoning": "x"}]),
        ("stopped in a call", "<|channel|>commentary to=functions.add<|message|>{\"a\": 1", "the model stopped", "add"),
        ("header without a body", "<|channel|>final", "no body", None, "<|channel|>final"),
    ],
    "atem": [
        ("wrong recipient", ' to=now<|message|><atem:function_calls><atem:invoke name="add"></atem:invoke></atem:function_calls><|eot|>',
         "recipient", None, ' to=now<|message|><atem:function_calls><atem:invoke name="add"></atem:invoke></atem:function_calls>'),
        ("dangling invoke", ' to=add<|message|><atem:function_calls>\n<atem:invoke name="add">\n<atem:parameter name="a">1<|eom|>'
         '<|start|>assistant to=user<|message|>Hm.<|eot|>', "end of its message", "add",
         ' to=add<|message|><atem:function_calls>\n<atem:invoke name="add">\n<atem:parameter name="a">1', [], [{"content": "Hm."}]),
        ("duplicate parameter", ' to=add<|message|><atem:function_calls><atem:invoke name="add"><atem:parameter name="a">1'
         '</atem:parameter><atem:parameter name="a">2</atem:parameter></atem:invoke></atem:function_calls><|eot|>', "twice", "add",
         ' to=add<|message|><atem:function_calls><atem:invoke name="add"><atem:parameter name="a">1'
         '</atem:parameter><atem:parameter name="a">2</atem:parameter></atem:invoke></atem:function_calls>'),
        ("text to a tool", " to=add<|message|>please add<|eot|>", "other text", None, " to=add<|message|>please add"),
        ("empty message to a tool", " to=add<|message|><|eot|>", "no call", None, " to=add<|message|>"),
    ],
    "pythonic": [
        ("expression", "[add(a=1, b=x+1)]", "literal", "add"),
        ("positional", "[add(a=1, 2)]", "without a name", "add"),
        ("duplicate parameter", "[add(a=1, a=2)]", "twice", "add"),
        ("stopped in a call", "[add(a=1, b=\"x", "the model stopped", "add"),
    ],
    "gemma4": [
        ("no value", "<|tool_call>call:add{a:}<tool_call|>", "literal", "add"),
        ("no arguments at all", "<|tool_call>call:add<tool_call|>", "end in its name", None),
        ("duplicate parameter", "<|tool_call>call:add{a:1,a:2}<tool_call|>", "twice", "add"),
    ],
    "mistral": [
        ("bad list", '[TOOL_CALLS][{"name": "add", "arguments": {"a": }}]', "not JSON", "add"),
        ("no arguments at all", "[TOOL_CALLS]add", "the model stopped", None),
    ],
    "llama3": [
        ("code", "<|python_tag|>print(1+1)", "interpreter", None),
        ("bad arguments", '{"name": "add", "parameters": {"a": 1,}}', "not JSON", "add"),
        ("cut in a call", '{"name": "add", "para', "length", None, '{"name": "add", "para', [], [], {"cut": True}),
    ],
}


def special(c):
    """What only one dialect does."""
    n = c.name
    if n == "hermes":
        c.add("text after a call", '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\nDone.',
              [{"call": "now", "arguments": "{}"}, {"content": "Done."}])
        c.add("no end marker", '<tool_call>\n{"name": "now", "arguments": {}}', [{"call": "now", "arguments": "{}"}])
        c.add("arguments first", '<tool_call>{"arguments": {"a": 1}, "name": "add"}</tool_call>',
              [{"call": "add", "arguments": '{"a": 1}'}])
        c.add("marker inside a string", '<tool_call>{"name": "note", "arguments": {"text": "</tool_call>"}}</tool_call>',
              [{"call": "note", "arguments": '{"text": "</tool_call>"}'}])
        c.add("no arguments member", '<tool_call>{"name": "now"}</tool_call>', [{"call": "now", "arguments": "{}"}])
        c.add("null arguments", '<tool_call>{"name": "now", "arguments": null}</tool_call>', [{"call": "now", "arguments": "{}"}])
        c.add("arguments as a string", '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>',
              [{"call": "add", "arguments": '{"a": 1}'}])
        c.add("think later is content", "The <think> tag.", [{"content": "The <think> tag."}])
        c.add("tools are off", "<tool_call>{}</tool_call>", [{"content": "<tool_call>{}</tool_call>"}], parse_tools=False)
        c.add("a closing marker comes first", "</think>\n\nHi.", [{"content": "Hi."}])
        c.add("thinks between calls", '<tool_call>{"name": "now"}</tool_call>\n<think>Hm.</think>\nOk.',
              [{"call": "now", "arguments": "{}"}, {"reasoning": "Hm."}, {"content": "Ok."}])
        c.add("part of a marker at the end", "a <tool_ca", [{"content": "a <tool_ca"}])
        c.add("part of a marker at a cut", "a <tool_ca", [{"content": "a "}], cut=True)
        c.add("big numbers as they are", '<tool_call>{"name": "add", "arguments": {"a": 123456789012345678901234567890}}</tool_call>',
              [{"call": "add", "arguments": '{"a": 123456789012345678901234567890}'}])
    if n == "qwen3-coder":
        c.add("no tool_call marker", "<function=now>\n</function>\n</tool_call>", [{"call": "now", "arguments": "{}"}])
        c.add("text after such a call", "<function=now>\n</function>\nDone.", [{"call": "now", "arguments": "{}"}, {"content": "Done."}])
        c.add("leading blanks stay", "<tool_call>\n<function=note>\n<parameter=text>\n\n  if x < 1:\n    y()\n\n</parameter>\n</function>\n</tool_call>",
              [{"call": "note", "arguments": j({"text": "\n  if x < 1:\n    y()\n"})}])
        c.add("one line", "<tool_call><function=add><parameter=a>1</parameter></function></tool_call>",
              [{"call": "add", "arguments": '{"a": 1}'}])
        c.add("not a number", "<tool_call><function=add><parameter=a>one</parameter></function></tool_call>",
              [{"call": "add", "arguments": '{"a": "one"}'}])
        c.add("nullable and mixed types", "<tool_call><function=mixed><parameter=maybe>null</parameter><parameter=either>12"
              "</parameter><parameter=choice>1</parameter><parameter=ref>true</parameter></function></tool_call>",
              [{"call": "mixed", "arguments": '{"maybe": null, "either": 12, "choice": "1", "ref": "true"}'}])
        c.add("untyped tool", "<tool_call><function=free><parameter=x>007</parameter><parameter=y>[1, 2]</parameter></function></tool_call>",
              [{"call": "free", "arguments": '{"x": "007", "y": [1, 2]}'}])
        c.add("empty value", "<tool_call><function=note><parameter=text>\n</parameter><parameter=title></parameter></function></tool_call>",
              [{"call": "note", "arguments": '{"text": "", "title": ""}'}])
    if n == "kimi-k3":
        c.add("entities in a key", '<|open|>tools<|sep|><|open|>call tool="free" index="1"<|sep|><|open|>argument key="a&quot;&amp;b" '
              'type="string"<|sep|>&amp;<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
              [{"call": "free", "arguments": '{"a\\"&b": "&amp;"}', "id": "1"}])
    if n == "mistral":
        c.add("a list", '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}, {"name": "now", "arguments": {}, "id": "abcdef012"}]',
              [{"call": "add", "arguments": '{"a": 1}'}, {"call": "now", "arguments": "{}", "id": "abcdef012"}])
        c.add("with ids", '[TOOL_CALLS]add[CALL_ID]aaaaaaaa1[ARGS]{"a": 1}', [{"call": "add", "arguments": '{"a": 1}', "id": "aaaaaaaa1"}])
        c.add("no marker before the arguments", '[TOOL_CALLS]add{"a": 1}', [{"call": "add", "arguments": '{"a": 1}'}])
    if n == "llama3":
        c.add("with a tag", '<|python_tag|>{"name": "add", "parameters": {"a": 1}}', [{"call": "add", "arguments": '{"a": 1}'}])
        c.add("built-in form", '<|python_tag|>note.call(text="a, b")', [{"call": "note", "arguments": '{"text": "a, b"}'}])
        c.add("typed", '{"type": "function", "name": "now", "parameters": {}}', [{"call": "now", "arguments": "{}"}])
        c.add("JSON that is no call", '{"name": "Bob", "age": 3}', [{"content": '{"name": "Bob", "age": 3}'}])
        c.add("JSON with another first key", '{"x": 1}', [{"content": '{"x": 1}'}])
        c.add("not JSON at all", '{ "name": "now", and so on', [{"content": '{ "name": "now", and so on'}])
        c.add("stopped early", '{"name": "add"', [{"content": '{"name": "add"'}])
    if n == "pythonic":
        c.add("marked", "<|python_start|>[now()]<|python_end|>", [{"call": "now", "arguments": "{}"}])
        c.add("a list that is no call", "[1, 2]", [{"content": "[1, 2]"}])
        c.add("an empty list", "[]", [{"content": "[]"}])
        c.add("part of a marker in a list", "[<|python_en|é", [{"content": "[<|python_en|é"}])
        c.add("a link", "[see](here)", [{"content": "[see](here)"}])
        c.add("no tool of that name", "[x(a=1)] is a call", [{"content": "[x(a=1)] is a call"}])
        c.add("escapes", r"""[note(title='it\'s \x41\u00e9\U0001F642\n', text="a\qb")]""",
              [{"call": "note", "arguments": '{"title": "it\'s Aé🙂\\n", "text": "a\\\\qb"}'}])
        c.add("trailing commas", "[add(a=1,), now(),]", [{"call": "add", "arguments": '{"a": 1}'}, {"call": "now", "arguments": "{}"}])
    if n == "tool-code":
        c.add("printed", "```tool_code\nprint(add(a=1))\n```", [{"call": "add", "arguments": '{"a": 1}'}])
    if n == "gemma4":
        c.add("bare words", "<|tool_call>call:note{title:007,text:New York}<tool_call|>",
              [{"call": "note", "arguments": '{"title": "007", "text": "New York"}'}])
        c.add("part of a quote in a string", '<|tool_call>call:note{text:<|"|>a <|"b <| <|"<|"|>}<tool_call|>',
              [{"call": "note", "arguments": j({"text": 'a <|"b <| <|"'})}])
    if n == "harmony":
        c.add("recipient first", '<|start|>assistant to=functions.add<|channel|>commentary json<|message|>{"a": 1}<|call|>',
              [{"call": "add", "arguments": '{"a": 1}'}])
        c.add("recipient first, after the prompt", ' to=functions.add<|channel|>commentary json<|message|>{"a": 1}<|call|>',
              [{"call": "add", "arguments": '{"a": 1}'}])
        c.add("no header", "Hello <b>.", [{"content": "Hello <b>."}])
        c.add("empty call", "<|channel|>commentary to=functions.now<|message|><|call|>", [{"call": "now", "arguments": "{}"}])
        c.add("header cut", "<|channel|>fin", [], cut=True)
        c.add("a built-in tool", '<|channel|>analysis to=browser.search code<|message|>{"q": "x"}<|call|>',
              [{"call": "browser.search", "arguments": '{"q": "x"}', "unknown": True}])
    if n == "atem":
        c.add("no recipient", "<|message|>Hi.<|eot|>", [{"content": "Hi."}])
        c.add("no header", "Hello.", [{"content": "Hello."}])
        c.add("header cut", " to=us", [], cut=True)
        c.add("namespace as recipient", ' to=web.*<|message|><atem:function_calls><atem:invoke name="web.find"></atem:invoke>'
              "</atem:function_calls><|eot|>", [{"call": "web.find", "arguments": "{}"}])
        c.add("blanks of strings stay", ' to=note<|message|><atem:function_calls><atem:invoke name="note"><atem:parameter name="text">'
              '  a\n"b"\n</atem:parameter></atem:invoke></atem:function_calls><|eom|>', [{"call": "note", "arguments": j({"text": '  a\n"b"\n'})}])
    if n == "granite3":
        c.add("the other marker", '<tool_call>[{"name": "add", "arguments": {"a": 1}}]', [{"call": "add", "arguments": '{"a": 1}'}])
        c.add("response tags", "<think>Hm.</think>\n<response>Yes.</response>", [{"reasoning": "Hm."}, {"content": "Yes."}])
        c.add("response tags in an answer", "Use <response> here.", [{"content": "Use <response> here."}])
    if n == "apriel":
        c.add("a call without an answer", 'Look it up.\n<tool_calls>[{"name": "now", "arguments": {}}]</tool_calls>',
              [{"reasoning": "Look it up."}, {"call": "now", "arguments": "{}"}])
    if n == "apertus":
        c.add("two tools in an object", '<|tools_prefix|>[{"now": {}, "add": {"a": 1}}]<|tools_suffix|>',
              [{"call": "now", "arguments": "{}"}, {"call": "add", "arguments": '{"a": 1}'}])
    if n == "glm":
        c.add("without line breaks", "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
              [{"call": "add", "arguments": '{"a": 1}'}])
        c.add("blanks of strings stay", "<tool_call>note<arg_key>text</arg_key><arg_value>\n  x </arg_value></tool_call>",
              [{"call": "note", "arguments": j({"text": "\n  x "})}])


for name, d in DIALECTS.items():
    c = Cases(name, d)
    common(c)
    malformed(c)
    special(c)
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        f.write("[\n" + ",\n".join(j(x) for x in c.list) + "\n]\n")
