/* What a template can do, found by rendering small conversations and looking for their words in the text.
 *
 * Reading the template's source would be guessing: a macro may print a system message under any condition. A probe is
 * the question itself: does the text of a system message come out? Where a template refuses, its reason is kept. */
#include "base/mem.h"
#include "text/template.h"

#include <stdio.h>
#include <string.h>

const struct template_cap_row template_cap_rows[TEMPLATE_CAP_COUNT] = {
    [TEMPLATE_STRING_CONTENT] = {"string content", "The content of a message may be a text."},
    [TEMPLATE_PARTS_CONTENT] = {"content in parts", "The content of a message may be a list of parts of type text."},
    [TEMPLATE_GENERATION_PROMPT] = {"generation prompt", "add_generation_prompt opens the assistant's turn."},
    [TEMPLATE_SYSTEM] = {"system message", "The text of a system message reaches the model."},
    [TEMPLATE_TOOLS] = {"tools", "The names of the tools reach the model."},
    [TEMPLATE_OBJECT_ARGUMENTS] = {"object arguments",
                                   "Earlier tool calls are printed from arguments given as an object."},
    [TEMPLATE_STRING_ARGUMENTS] = {"string arguments",
                                   "Earlier tool calls are printed from arguments given as JSON text."},
    [TEMPLATE_TOOL_RESULTS] = {"tool results", "The result of a tool reaches the model as a message of role tool."},
    [TEMPLATE_PARALLEL_CALLS] = {"parallel calls", "Several tool calls in one assistant message are all printed."},
    [TEMPLATE_REASONING_KEPT] = {"reasoning in history", "Reasoning of an earlier assistant message is printed."},
    [TEMPLATE_REASONING_SWITCH] = {"reasoning switch", "A variable switches reasoning on and off."},
    [TEMPLATE_REASONING_EFFORT] = {"reasoning effort", "A variable says how long to reason: low, medium or high."},
    [TEMPLATE_REASONING_OPEN] = {"opened reasoning", "The generation prompt opens a block of reasoning by itself."},
};

/* In the order in which they are tried. */
static const char *const switch_keys[] = {"enable_thinking", "thinking",       "enable_reasoning", "reasoning", "think",
                                          "add_thoughts",    "with_reasoning", "thinking_enabled", NULL};
static const char *const effort_keys[] = {"reasoning_effort",  "reasoning_strength",
                                          "thinking_effort",   "reasoning_level",
                                          "thinking_strength", "effort",
                                          "thinking_mode",     NULL};
static const char *const fields[] = {"reasoning_content", "reasoning", "thinking", NULL};
static const char *const openers[] = {"<think>",
                                      "<thinking>",
                                      "[THINK]",
                                      "<seed:think>",
                                      "<mm:think>",
                                      "<|think|>",
                                      "<reasoning>",
                                      "<|begin_of_thought|>",
                                      "<|START_THINKING|>",
                                      "<|inner_prefix|>",
                                      "<|channel|>analysis<|message|>",
                                      "<|channel>thought",
                                      "<thought>",
                                      NULL};

const char *template_switch_key(size_t i)
{
    return i < sizeof switch_keys / sizeof *switch_keys ? switch_keys[i] : NULL;
}

const char *template_effort_key(size_t i)
{
    return i < sizeof effort_keys / sizeof *effort_keys ? effort_keys[i] : NULL;
}

const char *template_opener(size_t i)
{
    return i < sizeof openers / sizeof *openers ? openers[i] : NULL;
}

const char *template_opens_reasoning(const char *text, size_t n)
{
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    for (const char *const *o = openers; *o; o++)
        if (n >= strlen(*o) && memcmp(text + n - strlen(*o), *o, strlen(*o)) == 0)
            return *o;
    return NULL;
}

/* ---- the conversations ---- */

#define SYSTEM        "{\"role\":\"system\",\"content\":\"PROBESYSTEM\"}"
#define USER          "{\"role\":\"user\",\"content\":\"PROBEUSER\"}"
#define USER2         "{\"role\":\"user\",\"content\":\"PROBEAGAIN\"}"
#define OBJECT(value) "{\"probe_key\":\"" value "\"}"
#define TEXT(value)   "\"{\\\"probe_key\\\": \\\"" value "\\\"}\""
#define CALL(id, args)                                                                                                 \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"probe_tool\",\"arguments\":" args "}}"
#define CALLS(list) "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" list "]}"
#define RESULT(id, text)                                                                                               \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"name\":\"probe_tool\",\"content\":\"" text "\"}"
#define ONE(kind) USER "," CALLS(CALL("probe0001", kind("PROBEVALUE"))) "," RESULT("probe0001", "PROBERESULT")
#define TWO(kind)                                                                                                      \
    USER "," CALLS(CALL("probe0001", kind("PROBEVALUE")) "," CALL("probe0002", kind("PROBESECOND"))) "," RESULT(       \
        "probe0001", "PROBERESULT") "," RESULT("probe0002", "PROBEOTHER")

static const char tool[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"probe_tool\",\"description\":\"Probes.\",\"parameters\":{"
    "\"type\":\"object\",\"properties\":{\"probe_key\":{\"type\":\"string\",\"description\":\"A key.\"}},"
    "\"required\":[\"probe_key\"]}}}]";

/* A capability is there when one of its rows renders with all of `must` and without `never`. */
static const struct row {
    enum template_cap cap;
    bool tools;
    const char *messages, *must, *must_too, *never;
} rows[] = {
    {TEMPLATE_SYSTEM, false, SYSTEM "," USER, "PROBESYSTEM", "PROBEUSER", NULL},
    {TEMPLATE_TOOLS, true, USER, "probe_tool", NULL, NULL},
    {TEMPLATE_TOOLS, true, SYSTEM "," USER, "probe_tool", NULL, NULL},
    {TEMPLATE_OBJECT_ARGUMENTS, true, ONE(OBJECT), "PROBEVALUE", NULL, "{'probe_key'"}, /* Python's repr is no JSON */
    {TEMPLATE_STRING_ARGUMENTS, true, ONE(TEXT), "PROBEVALUE", NULL, "\\\"PROBEVALUE"}, /* encoded twice */
    {TEMPLATE_TOOL_RESULTS, true, ONE(OBJECT), "PROBERESULT", NULL, NULL},
    {TEMPLATE_TOOL_RESULTS, true, ONE(TEXT), "PROBERESULT", NULL, NULL},
    {TEMPLATE_PARALLEL_CALLS, true, TWO(OBJECT), "PROBEVALUE", "PROBESECOND", NULL},
    {TEMPLATE_PARALLEL_CALLS, true, TWO(TEXT), "PROBEVALUE", "PROBESECOND", NULL},
};

/* Reasoning is often dropped before the last question, so both places are tried. */
static const char *const reasoning_rows[] = {
    USER ",{\"role\":\"assistant\",\"content\":\"PROBEANSWER\",\"%s\":\"PROBEREASON\"}," USER2,
    USER ",{\"role\":\"assistant\",\"content\":\"PROBEANSWER\",\"%s\":\"PROBEREASON\"}",
    USER ",{\"role\":\"assistant\",\"content\":\"\",\"%s\":\"PROBEREASON\",\"tool_calls\":[" CALL(
        "probe0001", OBJECT("PROBEVALUE")) "]}," RESULT("probe0001", "PROBERESULT"),
    NULL};

/* ---- rendering one ---- */

struct probe {
    const struct template *t;
    struct template_input in;
    struct template_caps *caps;
    struct glim_err *e;
    bool parts; /* contents are given as lists of parts */
    char why[200];
};

/* {"content": "x"} to {"content": [{"type": "text", "text": "x"}]} in all messages. */
static bool to_parts(json_t *messages)
{
    size_t i;
    json_t *m;
    json_array_foreach(messages, i, m)
    {
        json_t *list = json_pack("[{s:s,s:O}]", "type", "text", "text", json_object_get(m, "content"));
        if (!list || json_object_set_new(m, "content", list) != 0)
            return false;
    }
    return true;
}

static glim_status list_of(struct probe *p, const char *messages, json_t **out)
{
    char text[2000];
    int n = snprintf(text, sizeof text, "[%s]", messages);
    TRY(json_parse(text, (size_t)n, "probe", out, p->e));
    if (!p->parts || to_parts(*out))
        return GLIM_OK;
    json_decref(*out);
    *out = NULL;
    return err_nomem(p->e, "probe of a chat template", sizeof text);
}

/* Render; *ok = false and p->why filled when the template refuses. Free out with jinja_output_fini. */
static glim_status render(struct probe *p, const char *messages, bool with_tools, const json_t *extra, bool *ok,
                          struct jinja_output *out)
{
    struct template_input in = p->in;
    json_t *list = NULL, *tools = NULL;
    struct glim_err why = {0};
    *out = (struct jinja_output){0};
    *ok = false;
    glim_status st = list_of(p, messages, &list);
    if (st == GLIM_OK && with_tools)
        st = json_parse(tool, sizeof tool - 1, "probe", &tools, p->e);
    if (st == GLIM_OK) {
        in.messages = list;
        in.tools = tools;
        in.extra = extra;
        st = template_render(p->t, &in, out, &why);
        *ok = st == GLIM_OK;
        snprintf(p->why, sizeof p->why, "%.199s", *ok ? "" : why.message);
        if (st == GLIM_REFUSED)
            st = GLIM_OK;
        else if (st != GLIM_OK && p->e)
            *p->e = why;
    }
    json_decref(list);
    json_decref(tools);
    return st;
}

static bool has(const struct jinja_output *out, const char *s)
{
    return !s || (out->text.n && memmem(out->text.s, out->text.n, s, strlen(s)));
}

static void set(struct probe *p, enum template_cap cap, bool can)
{
    p->caps->can[cap] |= can;
    snprintf(p->caps->why_not[cap], sizeof p->caps->why_not[cap], "%s", p->caps->can[cap] ? "" : p->why);
}

static glim_status run_row(struct probe *p, const struct row *r)
{
    struct jinja_output out;
    bool ok;
    if (p->caps->can[r->cap])
        return GLIM_OK;
    TRY(render(p, r->messages, r->tools, NULL, &ok, &out));
    ok = ok && has(&out, r->must) && has(&out, r->must_too) && !(r->never && has(&out, r->never));
    set(p, r->cap, ok);
    jinja_output_fini(&out);
    return GLIM_OK;
}

/* ---- the questions that are no rows ---- */

/* Which form of content works decides how the other probes write theirs. */
static glim_status content_forms(struct probe *p)
{
    struct jinja_output out;
    bool ok;
    for (int parts = 1; parts >= 0; parts--) {
        p->parts = parts;
        TRY(render(p, USER, false, NULL, &ok, &out));
        ok = ok && has(&out, "PROBEUSER") && !(parts && (has(&out, "'type'") || has(&out, "\"type\"")));
        set(p, parts ? TEMPLATE_PARTS_CONTENT : TEMPLATE_STRING_CONTENT, ok);
        jinja_output_fini(&out);
    }
    p->parts = !p->caps->can[TEMPLATE_STRING_CONTENT] && p->caps->can[TEMPLATE_PARTS_CONTENT];
    return GLIM_OK;
}

static glim_status generation_prompt(struct probe *p)
{
    struct jinja_output with, without;
    bool ok, ok_without;
    TRY(render(p, USER, false, NULL, &ok, &with));
    p->in.add_generation_prompt = false;
    glim_status st = render(p, USER, false, NULL, &ok_without, &without);
    p->in.add_generation_prompt = true;
    if (st == GLIM_OK) {
        bool more = with.text.n > without.text.n;
        set(p, TEMPLATE_GENERATION_PROMPT, ok && ok_without && more);
        p->caps->open = ok && with.text.n ? template_opens_reasoning(with.text.s, with.text.n) : NULL;
        set(p, TEMPLATE_REASONING_OPEN, p->caps->open != NULL);
    }
    jinja_output_fini(&with);
    jinja_output_fini(&without);
    return st;
}

static glim_status reasoning_kept(struct probe *p)
{
    char messages[1000];
    for (const char *const *f = fields; *f && !p->caps->reasoning_field; f++)
        for (const char *const *r = reasoning_rows; *r && !p->caps->reasoning_field; r++) {
            struct jinja_output out;
            bool ok;
            const char *at = strstr(*r, "%s");
            snprintf(messages, sizeof messages, "%.*s%s%s", (int)(at - *r), *r, *f, at + 2);
            TRY(render(p, messages, strstr(*r, "tool_calls") != NULL, NULL, &ok, &out));
            if (ok && has(&out, "PROBEREASON"))
                p->caps->reasoning_field = *f;
            jinja_output_fini(&out);
        }
    set(p, TEMPLATE_REASONING_KEPT, p->caps->reasoning_field != NULL);
    return GLIM_OK;
}

/* Do two values of a variable make two texts? A tool call in the history shows switches that act on it alone. */
static glim_status differ(struct probe *p, const char *key, json_t *a, json_t *b, bool *yes)
{
    json_t *extra[2] = {json_object(), json_object()};
    struct jinja_output out[2] = {{{0}, NULL, 0}, {{0}, NULL, 0}};
    bool ok[2] = {false, false};
    glim_status st = GLIM_OK;
    if (!a || !b || json_object_set(extra[0], key, a) != 0 || json_object_set(extra[1], key, b) != 0)
        st = err_nomem(p->e, "probe of a chat template", 64);
    for (int i = 0; i < 2 && st == GLIM_OK; i++)
        st = render(p, SYSTEM "," USER, false, extra[i], &ok[i], &out[i]);
    for (int i = 0; i < 2 && st == GLIM_OK && !ok[0] && !ok[1]; i++) { /* no system message, perhaps */
        jinja_output_fini(&out[i]);
        st = render(p, USER, false, extra[i], &ok[i], &out[i]);
    }
    *yes =
        ok[0] && ok[1] && (out[0].text.n != out[1].text.n || memcmp(out[0].text.s, out[1].text.s, out[0].text.n) != 0);
    for (int i = 0; i < 2; i++) {
        jinja_output_fini(&out[i]);
        json_decref(extra[i]);
    }
    return st;
}

static glim_status find_key(struct probe *p, const char *const *keys, json_t *a, json_t *b, enum template_cap cap,
                            const char **found)
{
    glim_status st = GLIM_OK;
    bool yes = false;
    p->why[0] = 0;
    for (; *keys && !yes && st == GLIM_OK; keys++) {
        if (!template_mentions(p->t, *keys))
            continue;
        st = differ(p, *keys, a, b, &yes);
        if (yes)
            *found = *keys;
    }
    set(p, cap, yes);
    json_decref(a);
    json_decref(b);
    return st;
}

glim_status template_probe(const struct template *t, const struct template_input *in, struct template_caps *caps,
                           struct glim_err *e)
{
    struct probe p = {.t = t, .in = *in, .caps = caps, .e = e};
    *caps = (struct template_caps){0};
    p.in.documents = NULL;
    p.in.add_generation_prompt = true;
    json_setup();
    TRY(content_forms(&p));
    TRY(generation_prompt(&p));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TRY(run_row(&p, &rows[i]));
    TRY(reasoning_kept(&p));
    TRY(find_key(&p, switch_keys, json_true(), json_false(), TEMPLATE_REASONING_SWITCH, &caps->switch_key));
    return find_key(&p, effort_keys, json_string("low"), json_string("high"), TEMPLATE_REASONING_EFFORT,
                    &caps->effort_key);
}
