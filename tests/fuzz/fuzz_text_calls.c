/* Any schema of a tool in any dialect: refused, or random sentences of the grammar are read by the dialect's parser as
 * calls of the tools, each with a JSON object, and nothing else.
 *
 * Input: byte 0 the dialect, 1 flags (1: several calls, 2: they may come; high bits: seed of the walks), then JSON: a
 * list of tools, or the parameters of one. */
#include "base/json.h"
#include "base/str.h"
#include "text/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { END = 256, WORDS = 5, STEPS = 600 };

struct seen {
    struct str args;
    bool excused; /* a name came twice, or it is nested too deeply */
    size_t n_call;
};

static void check(bool ok, const char *what, const char *text)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, text);
        abort();
    }
}

static glim_status see(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    struct seen *s = ctx;
    (void)e;
    if (ev->kind == DIALECT_MALFORMED) {
        size_t deep = 0;
        for (size_t i = 0; i < ev->n; i++)
            deep += ev->text[i] == '[' || ev->text[i] == '{';
        s->excused |= strstr(ev->reason, " twice, ") || deep > 60;
        check(s->excused, ev->reason, ev->text);
    }
    if (s->excused)
        return GLIM_OK;
    check(!ev->unknown_tool, "an unknown tool", ev->name ? ev->name : "");
    if (ev->kind == DIALECT_CALL_BEGIN) {
        str_clear(&s->args);
        s->n_call++;
    } else if (ev->kind == DIALECT_ARGUMENTS) {
        str_add(&s->args, ev->text, ev->n);
    } else if (ev->kind == DIALECT_CALL_END) {
        json_t *v = json_loadb(s->args.s ? s->args.s : "", s->args.n, JSON_DECODE_INT_AS_REAL, NULL);
        check(json_is_object(v), "arguments", s->args.s ? s->args.s : "");
        json_decref(v);
    }
    return GLIM_OK;
}

static void read_back(const struct dialect *d, const json_t *tools, const struct str *text, bool free_text)
{
    struct seen s = {0};
    struct dialect_sink sink = {see, &s};
    struct dialect_opts o = {.tools = tools, .parse_tools = true, .prompt = DIALECT_PROMPT_HAS_THOUGHT};
    struct dialect_parser *p;
    if (dialect_parser_create(&p, d, &o, NULL) != GLIM_OK)
        return;
    check(dialect_push(p, text->s, text->n, &sink, NULL) == GLIM_OK, "push", text->s);
    check(dialect_end(p, DIALECT_STOPPED, &sink, NULL) == GLIM_OK, "end", text->s);
    check(s.excused || free_text || s.n_call > 0, "no call", text->s);
    str_fini(&s.args);
    dialect_parser_free(p);
}

static uint32_t draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* A whole sentence, or false. */
static bool walk(struct grammar_state *g, const struct dialect *d, uint64_t *seed, struct str *out)
{
    const char *end[] = {d->frame.after_value, d->quote, "\"", "'", d->frame.after_args, d->frame.end, "]", "}", "0"};
    enum { N = sizeof end / sizeof *end };
    uint64_t bits[WORDS];
    grammar_state_reset(g);
    str_clear(out);
    str_puts(out, "");
    for (int step = 0; step < STEPS; step++) {
        uint32_t may[256], n = 0;
        if (grammar_mask(g, bits, NULL) != GLIM_OK)
            return false;
        for (uint32_t i = 0; i < 256; i++)
            if (bits[i / 64] >> (i % 64) & 1)
                may[n++] = i;
        if ((bits[END / 64] >> (END % 64) & 1) && (!n || draw(seed) % 4 == 0))
            return true;
        check(n > 0, "dead end", out->s);
        const char *s = draw(seed) % 3 == 0 || step > STEPS / 3 ? end[draw(seed) % N] : NULL;
        if (s && *s && grammar_accept_bytes(g, s, strlen(s), NULL) == GLIM_OK) {
            str_puts(out, s);
            continue;
        }
        uint32_t pick = may[draw(seed) % n];
        if (grammar_accept(g, pick, NULL) != GLIM_OK)
            return false;
        str_putc(out, (char)pick);
    }
    return false;
}

static void walks(const struct dialect *d, const json_t *tools, struct calls *c, bool lazy, uint64_t seed)
{
    static char byte[256];
    struct grammar_piece piece[END + 1];
    uint32_t end = END;
    struct grammar_vocab *v = NULL;
    struct grammar_matcher *m = NULL;
    struct grammar_state *g = NULL;
    struct str text = {0};
    for (int i = 0; i < 256; i++) {
        byte[i] = (char)i;
        piece[i] = (struct grammar_piece){&byte[i], 1};
    }
    piece[END] = (struct grammar_piece){"", 0};
    bool ok = grammar_vocab_create(&v, piece, END + 1, &end, 1, NULL) == GLIM_OK &&
              grammar_matcher_create(&m, c->grammar, v, NULL) == GLIM_OK &&
              grammar_state_create(&g, m, NULL) == GLIM_OK;
    for (int i = 0; i < 4 && ok; i++)
        if (walk(g, d, &seed, &text) && (!lazy || !c->n_trigger || !d->message))
            read_back(d, tools, &text, lazy && !c->n_trigger);
    str_fini(&text);
    grammar_state_free(g);
    grammar_matcher_free(m);
    grammar_vocab_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *j, *tools;
    if (size < 2 || json_parse((const char *)data + 2, size - 2, "input", &j, NULL) != GLIM_OK)
        return 0;
    const struct dialect *d = dialect_at(data[0] % dialect_count());
    struct calls_opts o = {.parallel = data[1] & 1, .lazy = data[1] & 2};
    struct calls c;
    tools =
        json_is_array(j) ? json_incref(j) : json_pack("[{s:s,s:O},{s:s}]", "name", "t", "parameters", j, "name", "u");
    if (tools && calls_make(&c, d, tools, &o, NULL) == GLIM_OK) {
        walks(d, tools, &c, o.lazy, data[1]);
        calls_fini(&c);
    }
    json_decref(tools);
    json_decref(j);
    return 0;
}
