/* Opening the vocabulary of a GGUF, questions about a tokenizer, and decoding.
 *
 * `tokenizer.ggml.pre` names the pre-tokeniser. Many names stand for equal rules; the table below lists all that are
 * known, and any other is refused: a wrong pre-tokeniser costs quality without any other sign. */
#include "base/mem.h"
#include "text/tok_impl.h"

#include <string.h>

struct pre_row {
    const char *name, *family; /* family: split_family */
    bool ignore_merges, adds_bos;
};

/* The first row of a family carries the name that errors list. */
static const struct pre_row pre_rows[] = {
    {"llama-bpe", "llama3", true, true},
    {"llama3", "llama3", true, true},
    {"llama-v3", "llama3", true, true},
    {"falcon3", "llama3", true, true},
    {"falcon-h1", "llama3", true, true},
    {"pixtral", "llama3", true, true},
    {"midm-2.0", "llama3", true, true},
    {"lfm2", "llama3", true, true},
    {"dbrx", "llama3", false, false},
    {"smaug-bpe", "llama3", false, false},
    {"glm4", "llama3", false, false},
    {"chatglm-bpe", "llama3", false, false},
    {"qwen2", "qwen2", false, false},
    {"deepseek-r1-qwen", "qwen2", false, false},
    {"kormo", "qwen2", false, false},
    {"f2llmv2", "qwen2", false, false},
    {"megrez", "qwen2", false, false},
    {"stablelm2", "qwen2", false, false},
    {"hunyuan", "qwen2", false, false},
    {"solar-open", "qwen2", false, false},
    {"grok-2", "qwen2", false, false},
    {"qwen35", "qwen35", false, false},
    {"gpt-2", "gpt-2", false, false},
    {"gpt2", "gpt-2", false, false},
    {"phi-2", "gpt-2", false, false},
    {"mpt", "gpt-2", false, false},
    {"olmo", "gpt-2", false, false},
    {"jais", "gpt-2", false, false},
    {"trillion", "gpt-2", false, false},
    {"granite-docling", "gpt-2", false, false},
    {"gigachat", "gpt-2", false, false},
    {"a.x-4.0", "gpt-2", false, false},
    {"mellum", "gpt-2", false, false},
    {"exaone4", "gpt-2", false, false},
    {"smollm", "digits", false, false},
    {"starcoder", "digits", false, false},
    {"refact", "digits", false, false},
    {"command-r", "digits", false, false},
    {"codeshell", "digits", false, false},
    {"exaone", "digits", false, false},
    {"minerva-7b", "digits", false, false},
    {"mellum2", "digits", false, false},
    {"gpt-4o", "gpt-4o", false, false},
    {"llama4", "gpt-4o", false, false},
    {"kanana2", "gpt-4o", false, false},
    {"minimax-m2", "gpt-4o", false, false},
    {"tekken", "tekken", true, true},
    {"kimi-k2", "kimi-k2", false, false},
    {"deepseek-llm", "deepseek-llm", false, false},
    {"deepseek-coder", "deepseek-coder", false, false},
    {"deepseek-v3", "deepseek-v3", false, false},
    {"hunyuan-dense", "deepseek-v3", false, false},
    {"joyai-llm", "deepseek-v3", false, false},
    {"hy_v4", "deepseek-v3", false, false},
    {"default", "default", false, false},
};
enum { N_PRE = sizeof pre_rows / sizeof *pre_rows };

static glim_status unknown_pre(const char *pre, struct glim_err *e)
{
    struct str known = {0};
    for (int i = 0; i < N_PRE; i++)
        if (i == 0 || strcmp(pre_rows[i].family, pre_rows[i - 1].family) != 0)
            str_printf(&known, "%s%s", i ? ", " : "", pre_rows[i].name);
    glim_status st = err_set(
        e, GLIM_REFUSED, "cannot open the vocabulary: tokenizer.ggml.pre: have \"%.80s\", need one of %s (or an alias)",
        pre, known.s ? known.s : "the known ones");
    str_fini(&known);
    return st;
}

static glim_status rules_gpt2(const char *pre, struct tok_rules *r, struct glim_err *e)
{
    if (!pre)
        pre = "default";
    for (int i = 0; i < N_PRE; i++)
        if (strcmp(pre_rows[i].name, pre) == 0) {
            *r = (struct tok_rules){.name = pre_rows[i].name,
                                    .kind = TOK_BPE,
                                    .byte_level = true,
                                    .ignore_merges = pre_rows[i].ignore_merges,
                                    .adds_bos = pre_rows[i].adds_bos};
            split_family(pre_rows[i].family, &r->split);
            return GLIM_OK;
        }
    return unknown_pre(pre, e);
}

/* Control token <|placeholder1|> in a SentencePiece vocabulary: Phi-3 and nothing else. */
static bool is_phi3(const struct tok_spec *s)
{
    const char name[] = "<|placeholder1|>";
    for (size_t i = s->n_token; s->type && i-- > 0;)
        if (s->type[i] == TOK_CONTROL && s->token[i].n == sizeof name - 1 &&
            memcmp(s->token[i].s, name, sizeof name - 1) == 0)
            return true;
    return false;
}

static glim_status rules_of(const struct tok_spec *s, struct tok_rules *r, struct glim_err *e)
{
    const char *model = s->model ? s->model : "";
    if (strcmp(model, "gpt2") == 0)
        return rules_gpt2(s->pre, r, e);
    *r = (struct tok_rules){.byte_fallback = true, .escape_space = true, .prefix_text = TOK_SPACE};
    if (strcmp(model, "gemma4") == 0) { /* merges over the whole text, no dummy space */
        r->name = "gemma4";
        r->kind = TOK_BPE;
        r->adds_bos = true;
    } else if (strcmp(model, "llama") == 0) {
        r->name = "spm";
        r->kind = TOK_SPM;
        r->fuse_unk = true;
        r->adds_bos = true;
        r->prefix = s->add_space_prefix ? TOK_PREFIX_EACH : TOK_PREFIX_NONE;
        r->phi3 = is_phi3(s);
    } else if (strcmp(model, "t5") == 0) {
        r->name = "unigram";
        r->kind = TOK_UNIGRAM;
        r->charsmap = true;
        r->merge_spaces = s->remove_extra_spaces;
        r->prefix = s->add_space_prefix > 0 ? TOK_PREFIX_EACH : TOK_PREFIX_NONE;
    } else {
        return err_set(
            e, GLIM_REFUSED,
            "cannot open the vocabulary: tokenizer.ggml.model: have \"%.80s\", need gpt2, llama, gemma4 or t5", model);
    }
    r->strip_first = r->prefix != TOK_PREFIX_NONE;
    return GLIM_OK;
}

/* SentencePiece files may leave their special ids to the format: 0 unknown, 1 bos, 2 eos. */
static void spm_defaults(struct tok_spec *s)
{
    if (s->bos < 0 && s->n_token > 2 && s->type && s->type[1] == TOK_CONTROL)
        s->bos = 1;
    if (s->eos < 0 && s->n_token > 2 && s->type && s->type[2] == TOK_CONTROL)
        s->eos = 2;
    if (s->unk < 0 && s->type && s->type[0] == TOK_UNKNOWN)
        s->unk = 0;
}

glim_status tok_open(struct tokenizer **out, const struct tok_spec *spec, struct glim_err *e)
{
    struct tok_spec s = *spec;
    struct tok_rules r;
    *out = NULL;
    TRY(rules_of(&s, &r, e));
    if (r.kind == TOK_SPM && s.n_token && !s.score)
        return err_set(e, GLIM_FAILED,
                       "cannot open the vocabulary: tokenizer.ggml.scores: have none, need one a token");
    if (r.kind == TOK_SPM)
        spm_defaults(&s);
    if (r.kind != TOK_BPE)
        s.n_merge = 0;
    return tok_build(out, &s, &r, (struct tok_extra){0}, e);
}

/* ---- questions ---- */

size_t tok_n(const struct tokenizer *t)
{
    return t->n;
}

int32_t tok_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tok_eos(const struct tokenizer *t)
{
    return t->eos;
}

bool tok_adds_bos(const struct tokenizer *t)
{
    return t->adds_bos;
}

bool tok_is_control(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < tok_n(t) && (t->type[id] & TOK_TYPE) == TOK_CONTROL;
}

bool tok_is_end(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->n && t->ends[id];
}

static bool is_special(const struct tokenizer *t, int32_t id)
{
    int type = t->type[id] & TOK_TYPE;
    return type == TOK_CONTROL || type == TOK_USER || type == TOK_UNKNOWN;
}

int32_t tok_special(const struct tokenizer *t, const char *s, size_t n)
{
    int32_t id = tok_find(t, s, n);
    return id >= 0 && is_special(t, id) ? id : -1;
}

const char *tok_pre_name(const struct tokenizer *t)
{
    return t->rules.name;
}

/* ---- decoding ---- */

struct tok_piece tok_bytes(const struct tokenizer *t, int32_t id, bool special, bool first)
{
    struct tok_piece none = {"", 0};
    if (id < 0 || (uint32_t)id >= t->n)
        return none;
    int type = t->type[id] & TOK_TYPE;
    bool hidden = type == TOK_CONTROL || type == TOK_UNKNOWN;
    if (hidden && !special)
        return none;
    struct tok_piece p = {t->bytes + t->bytes_at[id], t->bytes_at[id + 1] - t->bytes_at[id]};
    struct tok_piece raw = tok_text(t, (uint32_t)id);
    bool opens_with_sign = raw.n >= strlen(TOK_SPACE) && memcmp(raw.s, TOK_SPACE, strlen(TOK_SPACE)) == 0;
    if (first && t->rules.strip_first && !hidden && type != TOK_BYTE && opens_with_sign && p.n && *p.s == ' ')
        return (struct tok_piece){p.s + 1, p.n - 1};
    return p;
}

/* Does the token after this one open a stretch of text that got a prefix? Special tokens end a stretch; a user-defined
 * one with U+2581 in it is met inside of stretches, where merging makes it from spaces. */
static bool opens(const struct tokenizer *t, int32_t id, bool first)
{
    if (id < 0 || (uint32_t)id >= t->n)
        return first;
    if (t->rules.prefix != TOK_PREFIX_EACH)
        return first && id == t->bos;
    struct tok_piece p = tok_text(t, (uint32_t)id);
    bool user = (t->type[id] & TOK_TYPE) == TOK_USER;
    return is_special(t, id) && !(user && memmem(p.s, p.n, TOK_SPACE, strlen(TOK_SPACE)));
}

glim_status tok_decode(const struct tokenizer *t, const int32_t *ids, size_t n_id, bool special, char **text, size_t *n,
                       struct glim_err *e)
{
    struct str b = {0};
    bool first = true;
    *text = NULL;
    *n = 0;
    str_add(&b, "", 0);
    for (size_t i = 0; i < n_id; i++) {
        struct tok_piece p = tok_bytes(t, ids[i], special, first);
        str_add(&b, p.s, p.n);
        first = opens(t, ids[i], first);
    }
    if (b.failed) {
        glim_status st = err_nomem(e, "decoded text", b.n);
        str_fini(&b);
        return st;
    }
    *text = b.s;
    *n = b.n;
    return GLIM_OK;
}
