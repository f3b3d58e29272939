/* From a request of llama.cpp's to a job. In workers. */
#include "serve/api_llamacpp.h"
#include "serve/openai.h"

#include "base/mem.h"
#include "run/model.h"

#include <math.h>
#include <string.h>

static glim_status refuse(struct call *c, const char *member, struct glim_err *e)
{
    return call_fail(c, 400, member, "invalid_value", e);
}

/* ---- prompts ---- */

/* Tokens of a list under construction. */
struct ids {
    int32_t *id;
    size_t n, cap;
};

static glim_status ids_add(struct ids *to, const int32_t *id, size_t n, struct glim_err *e)
{
    if (to->n + n > to->cap) {
        size_t cap = 2 * (to->n + n);
        int32_t *more = mem_realloc(to->id, cap * sizeof *more);
        if (!more)
            return err_nomem(e, "prompt", cap * sizeof *more);
        to->id = more;
        to->cap = cap;
    }
    if (n)
        memcpy(to->id + to->n, id, n * sizeof *id);
    to->n += n;
    return GLIM_OK;
}

static glim_status ids_add_text(struct ids *to, const struct glim_model *m, const char *text, size_t n, int flags,
                                struct glim_err *e)
{
    int32_t *id;
    size_t n_id;
    TRY(glim_tokenize(m, text, n, flags, &id, &n_id, e));
    glim_status st = ids_add(to, id, n_id, e);
    glim_free(id);
    return st;
}

static const char *member_of(const struct job_spec *s)
{
    return s->member ? s->member : "prompt";
}

/* A list of texts and ids; BOS only before a text that begins it. */
static glim_status add_mixed(struct call *c, const json_t *list, struct job_spec *s, struct glim_err *e)
{
    const struct glim_model *m = c->server->model;
    struct ids to = {0};
    size_t i;
    json_t *item;
    glim_status st = GLIM_OK;
    json_array_foreach(list, i, item)
    {
        int32_t id = (int32_t)json_number_value(item);
        int flags = GLIM_TOK_SPECIAL | (i == 0 ? GLIM_TOK_BOS : 0);
        if (json_is_string(item)) {
            st = ids_add_text(&to, m, json_string_value(item), json_string_length(item), flags, e);
        } else if (!json_is_number(item)) {
            st = err_set(e, GLIM_REFUSED, "%s: item %zu: have a list or object among token ids, need a text or an id",
                         member_of(s), i);
        } else if ((uint32_t)id >= m->info.n_vocab) {
            st = err_set(e, GLIM_REFUSED, "%s: token %zu: have id %d, need 0 to %u", member_of(s), i, id,
                         m->info.n_vocab - 1);
        } else {
            st = ids_add(&to, &id, 1, e);
        }
        if (st != GLIM_OK) {
            mem_free(to.id);
            return e->status == GLIM_REFUSED ? refuse(c, member_of(s), e) : st;
        }
    }
    return job_add_tokens(s, to.id, to.n, e);
}

/* {"prompt_string": …} or {"content": [{"type": "text", "text": …}, …]}: one of them. */
static glim_status add_object(struct call *c, const json_t *object, struct job_spec *s, struct glim_err *e)
{
    const json_t *content = field_get(object, "content");
    size_t n, i;
    const char *text = field_get_text(object, "prompt_string", &n);
    json_t *part;
    struct str joined = {0};
    if (!text == !content) {
        err_set(e, GLIM_REFUSED, "%s: have %s, need either prompt_string or content", member_of(s),
                text ? "both prompt_string and content" : "an object with neither");
        return refuse(c, member_of(s), e);
    }
    if (text)
        return job_add_text(c, text, n, true, s, e);
    json_array_foreach(content, i, part)
    {
        text = field_get_text(part, "text", &n);
        str_add(&joined, text, n);
    }
    glim_status st = joined.failed ? err_nomem(e, "prompt", joined.n)
                                   : job_add_text(c, joined.s ? joined.s : "", joined.n, true, s, e);
    str_fini(&joined);
    return st;
}

static bool is_mixed(const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (json_is_number(item))
            return true;
    }
    return false;
}

static glim_status add_prompt(struct call *c, const json_t *prompt, struct job_spec *s, struct glim_err *e)
{
    if (json_is_string(prompt))
        return job_add_text(c, json_string_value(prompt), json_string_length(prompt), true, s, e);
    return json_is_array(prompt) ? add_mixed(c, prompt, s, e) : add_object(c, prompt, s, e);
}

glim_status lcpp_add_prompts(struct call *c, const json_t *prompt, struct job_spec *s, struct glim_err *e)
{
    enum { MOST = 2048 };
    size_t i;
    json_t *item;
    if (!json_is_array(prompt) || is_mixed(prompt))
        return add_prompt(c, prompt, s, e);
    if (json_array_size(prompt) > MOST) {
        err_set(e, GLIM_REFUSED, "%s: have %zu items, need at most %d", member_of(s), json_array_size(prompt), MOST);
        return refuse(c, member_of(s), e);
    }
    json_array_foreach(prompt, i, item) TRY(add_prompt(c, item, s, e));
    return GLIM_OK;
}

/* ---- text between other text ---- */

enum gap_token { GAP_PREFIX, GAP_SUFFIX, GAP_MIDDLE, GAP_REPO, GAP_FILE, GAP_TOKENS, GAP_NAMES = 8 };

/* What families of models call these tokens. */
static const char *const gap_names[GAP_TOKENS][GAP_NAMES] = {
    [GAP_PREFIX] = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>",
                    "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>"},
    [GAP_SUFFIX] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>",
                    "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>"},
    [GAP_MIDDLE] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>",
                    "\u2581<MID>", "<|code_middle|>", "<|middle|>"},
    [GAP_REPO] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
    [GAP_FILE] = {"<|file_sep|>"},
};

static int32_t gap_id(const struct server *server, enum gap_token which)
{
    int32_t id = -1;
    for (size_t i = 0; i < GAP_NAMES && gap_names[which][i] && id < 0; i++)
        id = tok_special(server->model->tok, gap_names[which][i], strlen(gap_names[which][i]));
    return id;
}

bool lcpp_has_gap_tokens(const struct server *server)
{
    return gap_id(server, GAP_PREFIX) >= 0 && gap_id(server, GAP_SUFFIX) >= 0 && gap_id(server, GAP_MIDDLE) >= 0;
}

/* The other files, each after its name, as in repository-level pretraining; without tokens for that, after a line that
 * llama.cpp writes instead. */
static glim_status add_extra(struct ids *to, const struct server *server, const json_t *extra, struct glim_err *e)
{
    const struct glim_model *m = server->model;
    int32_t repo = gap_id(server, GAP_REPO), file = gap_id(server, GAP_FILE);
    size_t i, n;
    json_t *item;
    if (repo >= 0) {
        TRY(ids_add(to, &repo, 1, e));
        TRY(ids_add_text(to, m, "myproject\n", 10, 0, e));
    }
    json_array_foreach(extra, i, item)
    {
        const char *name = field_get_text(item, "filename", &n);
        if (file >= 0) {
            TRY(ids_add(to, &file, 1, e));
            TRY(ids_add_text(to, m, name ? name : "tmp", name ? n : 3, 0, e));
            TRY(ids_add_text(to, m, "\n", 1, 0, e));
        } else {
            TRY(ids_add_text(to, m, "\n\n--- snippet ---\n\n", 19, 0, e));
        }
        const char *text = field_get_text(item, "text", &n);
        TRY(ids_add_text(to, m, text, n, 0, e));
    }
    if (file >= 0) {
        TRY(ids_add(to, &file, 1, e));
        TRY(ids_add_text(to, m, "filename\n", 9, 0, e));
    }
    return GLIM_OK;
}

/* [extra] [BOS] <prefix> prefix prompt <suffix> suffix <middle> */
static glim_status add_gap(struct ids *to, const struct server *server, const struct lcpp_gap *gap, struct glim_err *e)
{
    const struct glim_model *m = server->model;
    int32_t pre = gap_id(server, GAP_PREFIX), suf = gap_id(server, GAP_SUFFIX), mid = gap_id(server, GAP_MIDDLE);
    int32_t bos = tok_bos(m->tok);
    TRY(add_extra(to, server, gap->extra, e));
    if (tok_adds_bos(m->tok))
        TRY(ids_add(to, &bos, 1, e));
    TRY(ids_add(to, &pre, 1, e));
    TRY(ids_add_text(to, m, gap->prefix, gap->n_prefix, 0, e));
    TRY(ids_add_text(to, m, gap->prompt ? gap->prompt : "", gap->n_prompt, GLIM_TOK_SPECIAL, e));
    TRY(ids_add(to, &suf, 1, e));
    TRY(ids_add_text(to, m, gap->suffix, gap->n_suffix, 0, e));
    return ids_add(to, &mid, 1, e);
}

glim_status lcpp_add_gap(struct call *c, const struct lcpp_gap *gap, struct job_spec *s, struct glim_err *e)
{
    struct ids to = {0};
    if (!lcpp_has_gap_tokens(c->server)) {
        err_set(e, GLIM_REFUSED,
                "infill: have a model without tokens for prefix, suffix and middle, need one with them");
        return call_fail(c, 501, s->member, "not_supported", e);
    }
    glim_status st = add_gap(&to, c->server, gap, e);
    if (st == GLIM_OK)
        return job_add_tokens(s, to.id, to.n, e);
    mem_free(to.id);
    return st;
}

/* ---- sampling ---- */

void lcpp_default_sampling(struct glim_sampling *p)
{
    p->temperature = 0.8f;
    p->top_k = 40;
    p->top_p = 0.95f;
    p->min_p = 0.05f;
}

enum sampler {
    SAMPLER_PENALTIES = 1,
    SAMPLER_TOP_K = 2,
    SAMPLER_TYPICAL = 4,
    SAMPLER_TOP_P = 8,
    SAMPLER_MIN_P = 16,
    SAMPLER_TEMPERATURE = 32,
    SAMPLER_ABSENT = 0 /* switched off by its own member */
};

/* Names in use; the others are switched off. */
static glim_status read_samplers(struct call *c, struct glim_sampling *p, struct glim_err *e)
{
    static const struct {
        const char *name;
        unsigned bit;
    } known[] = {{"penalties", SAMPLER_PENALTIES},     {"top_k", SAMPLER_TOP_K},      {"typ_p", SAMPLER_TYPICAL},
                 {"typical_p", SAMPLER_TYPICAL},       {"top_p", SAMPLER_TOP_P},      {"min_p", SAMPLER_MIN_P},
                 {"temperature", SAMPLER_TEMPERATURE}, {"dry", SAMPLER_ABSENT},       {"xtc", SAMPLER_ABSENT},
                 {"top_n_sigma", SAMPLER_ABSENT},      {"adaptive_p", SAMPLER_ABSENT}};
    enum { N = sizeof known / sizeof *known };
    const json_t *list = field_get(c->json, "samplers");
    unsigned used = 0;
    size_t i, k;
    json_t *item;
    if (!list)
        return GLIM_OK;
    json_array_foreach(list, i, item)
    {
        for (k = 0; k < N && strcmp(known[k].name, json_string_value(item)) != 0; k++)
            ;
        if (k == N) {
            err_set(e, GLIM_REFUSED,
                    "samplers: item %zu: have '%.40s', need one of penalties, top_k, typ_p, top_p, min_p,"
                    " temperature, or one that is off",
                    i, json_string_value(item));
            return refuse(c, "samplers", e);
        }
        used |= known[k].bit;
    }
    if (!(used & SAMPLER_PENALTIES)) {
        p->repeat_penalty = 1;
        p->presence_penalty = p->frequency_penalty = 0;
    }
    p->top_k = used & SAMPLER_TOP_K ? p->top_k : 0;
    p->typical_p = used & SAMPLER_TYPICAL ? p->typical_p : 1;
    p->top_p = used & SAMPLER_TOP_P ? p->top_p : 1;
    p->min_p = used & SAMPLER_MIN_P ? p->min_p : 0;
    p->temperature = used & SAMPLER_TEMPERATURE ? p->temperature : 1;
    return GLIM_OK;
}

/* ignore_eos means there that the model cannot say that it is done: its ends are forbidden. */
static glim_status forbid_ends(const struct server *server, struct job_spec *s, struct glim_err *e)
{
    const struct glim_model *m = server->model;
    struct glim_sampling *p = &s->task.request.sampling;
    for (int32_t id = 0; (uint32_t)id < m->info.n_vocab; id++) {
        if (!glim_token_is_end(m, id))
            continue;
        struct glim_bias *bias = mem_realloc(s->bias, (p->n_bias + 1) * sizeof *bias);
        if (!bias)
            return err_nomem(e, "logit bias", (p->n_bias + 1) * sizeof *bias);
        s->bias = bias;
        bias[p->n_bias++] = (struct glim_bias){.token = id, .add = -INFINITY};
    }
    return GLIM_OK;
}

/* {"a text": -1} means there what [["a text", -1]] does. */
static glim_status list_biases(struct call *c, struct glim_err *e)
{
    json_t *bias = json_object_get(c->json, "logit_bias"), *list, *value;
    const char *key;
    int64_t id;
    if (!json_is_object(bias))
        return GLIM_OK;
    if (!(list = json_array()))
        return err_nomem(e, "logit bias", 0);
    json_object_foreach(bias, key, value)
    {
        json_t *who = parse_i64(key, &id) ? json_integer(id) : json_string(key);
        if (json_array_append_new(list, json_pack("[o, O]", who, value)) != 0) {
            json_decref(list);
            return err_nomem(e, "logit bias", 0);
        }
    }
    return json_object_set_new(c->json, "logit_bias", list) == 0 ? GLIM_OK : err_nomem(e, "logit bias", 0);
}

static glim_status read_sampling(struct call *c, struct job_spec *s, struct glim_err *e)
{
    struct glim_sampling *p = &s->task.request.sampling;
    uint64_t random = p->seed >> 33; /* its clients keep seeds in 32 bits */
    p->seed = random;
    lcpp_default_sampling(p);
    TRY(list_biases(c, e));
    TRY(job_read_sampling(c, c->json, s, e));
    if (p->seed == UINT32_MAX) /* what it calls a random one */
        p->seed = random;
    TRY(read_samplers(c, p, e));
    return s->task.request.ignore_end ? forbid_ends(c->server, s, e) : GLIM_OK;
}

/* ---- settings, as replies tell them ---- */

json_t *lcpp_whole(json_t *v, int failed)
{
    if (!failed)
        return v;
    json_decref(v);
    return NULL;
}

static json_t *bias_json(const struct job_spec *s)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < s->task.request.sampling.n_bias; i++) {
        const struct glim_bias *b = &s->bias[i];
        json_t *add = isfinite(b->add) ? json_real((double)b->add) : json_null();
        failed |= json_array_append_new(list, json_pack("{s:i, s:o}", "token", (int)b->token, "bias", add));
    }
    return lcpp_whole(list, failed);
}

static json_t *stop_json(const struct job_spec *s)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < s->task.request.n_stop; i++)
        failed |= json_array_append_new(list, json_string(s->stop[i]));
    return lcpp_whole(list, failed);
}

/* What is not there is told as switched off. */
static json_t *absent_json(void)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:i, s:b, s:[]}", "dynatemp_range", 0.0, "xtc_probability",
                     0.0, "dry_multiplier", 0.0, "top_n_sigma", -1.0, "mirostat", 0, "adaptive_target", -1.0,
                     "adaptive_decay", 0.0, "min_keep", 0, "post_sampling_probs", 0, "lora");
}

json_t *lcpp_settings(const struct server *server, const struct job_spec *s, const struct lcpp_ask *ask,
                      const char *grammar)
{
    const struct glim_request *r = &s->task.request;
    const struct glim_sampling *p = &r->sampling;
    json_int_t n_predict = s->task.prompt_only ? 0 : ask->max_tokens ? (json_int_t)ask->max_tokens : -1;
    int n_probs = s->task.n_logprob > 0 ? s->task.n_logprob : 0;
    json_t *o = json_pack(
        "{s:I, s:f, s:I, s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:I, s:I, s:I, s:b, s:b, s:i, s:s, s:o,"
        " s:o, s:[s,s,s,s,s,s]}",
        "seed", (json_int_t)p->seed, "temperature", (double)p->temperature, "top_k", (json_int_t)p->top_k, "top_p",
        (double)p->top_p, "min_p", (double)p->min_p, "typical_p", (double)p->typical_p, "repeat_last_n",
        p->repeat_last_n, "repeat_penalty", (double)p->repeat_penalty, "presence_penalty", (double)p->presence_penalty,
        "frequency_penalty", (double)p->frequency_penalty, "max_tokens", n_predict, "n_predict", n_predict, "n_ctx",
        (json_int_t)server->n_ctx, "ignore_eos", r->ignore_end, "stream", ask->stream, "n_probs", n_probs, "grammar",
        grammar ? grammar : "", "stop", stop_json(s), "logit_bias", bias_json(s), "samplers", "penalties",
        "temperature", "top_k", "typ_p", "top_p", "min_p");
    json_t *absent = absent_json();
    o = lcpp_whole(o, json_object_update(o, absent));
    json_decref(absent);
    return o;
}

/* ---- completions ---- */

static int64_t first_int(const json_t *body, const char *const name[3], int64_t otherwise)
{
    for (size_t i = 0; i < 3 && name[i]; i++)
        if (field_get(body, name[i]))
            return field_get_int(body, name[i], otherwise);
    return otherwise;
}

static glim_status read_lengths(struct call *c, struct job_spec *s, struct lcpp_ask *ask, struct glim_err *e)
{
    static const char *const length[] = {"n_predict", "max_tokens", "max_completion_tokens"};
    static const char *const answers[] = {"n_cmpl", "n", NULL};
    int64_t max = first_int(c->json, length, -1), n = first_int(c->json, answers, 1);
    int32_t probs = (int32_t)field_get_int(c->json, "n_probs", 0);
    if (max == 0 && n > 1) {
        err_set(e, GLIM_REFUSED, "n_cmpl: have %lld answers of no tokens, need n_predict from 1", (long long)n);
        return refuse(c, "n_cmpl", e);
    }
    if (field_get_bool(c->json, "post_sampling_probs", false)) {
        err_set(e, GLIM_REFUSED,
                "post_sampling_probs: have true, need false: probabilities are the model's own, before"
                " sampling");
        return refuse(c, "post_sampling_probs", e);
    }
    ask->max_tokens = max > 0 ? (uint32_t)max : 0;
    s->task.prompt_only = max == 0;
    s->task.n_answer = (uint32_t)n;
    s->task.n_logprob = probs && max ? probs : -1;
    job_set_max_tokens(s, ask->max_tokens);
    return GLIM_OK;
}

/* grammar or json_schema; *grammar: its text, for the settings. */
static glim_status read_grammar(struct call *c, struct job_spec *s, const char **grammar, struct glim_err *e)
{
    struct job_constraint f = {0};
    f.gbnf = *grammar = field_get_text(c->json, "grammar", &f.n_gbnf);
    f.schema = field_get(c->json, "json_schema");
    bool gbnf = f.gbnf && f.n_gbnf;
    if (gbnf && f.schema) {
        err_set(e, GLIM_REFUSED, "json_schema: have it and grammar, need one of them");
        return refuse(c, "json_schema", e);
    }
    f.format = gbnf ? JOB_FORMAT_GBNF : f.schema ? JOB_FORMAT_SCHEMA : JOB_FORMAT_TEXT;
    return s->task.prompt_only ? GLIM_OK : job_constrain(c, &f, gbnf ? "grammar" : "json_schema", s, e);
}

/* The texts of the prompts, for the reply. */
static glim_status keep_prompts(struct call *c, const struct job_spec *s, struct lcpp_ask *ask, struct glim_err *e)
{
    ask->prompt = mem_calloc(s->n_input, sizeof *ask->prompt);
    if (!ask->prompt)
        return err_nomem(e, "prompts", s->n_input * sizeof *ask->prompt);
    for (; ask->n_prompt < s->n_input; ask->n_prompt++) {
        const struct job_input *in = &s->input[ask->n_prompt];
        struct str *to = &ask->prompt[ask->n_prompt];
        char *text;
        size_t n;
        TRY(tok_decode(c->server->model->tok, in->id, in->n, true, &text, &n, e));
        str_json(to, text, n);
        mem_free(text);
        if (to->failed)
            return err_nomem(e, "prompts", n);
    }
    return GLIM_OK;
}

/* All but the prompt. */
static glim_status read_settings(struct call *c, struct job_spec *s, struct lcpp_ask *ask, struct glim_err *e)
{
    const char *grammar;
    TRY(openai_check_model(c, e));
    ask->stream = field_get_bool(c->json, "stream", false);
    ask->return_tokens = field_get_bool(c->json, "return_tokens", false);
    ask->fields = field_get(c->json, "response_fields");
    if (json_array_size(ask->fields) == 0)
        ask->fields = NULL;
    TRY(read_sampling(c, s, e));
    TRY(read_lengths(c, s, ask, e));
    TRY(read_grammar(c, s, &grammar, e));
    ask->settings = lcpp_settings(c->server, s, ask, grammar);
    return ask->settings ? GLIM_OK : err_nomem(e, "settings", 0);
}

static glim_status read_gap(struct call *c, struct job_spec *s, struct glim_err *e)
{
    struct lcpp_gap gap = {.extra = field_get(c->json, "input_extra")};
    gap.prefix = field_get_text(c->json, "input_prefix", &gap.n_prefix);
    gap.suffix = field_get_text(c->json, "input_suffix", &gap.n_suffix);
    gap.prompt = field_get_text(c->json, "prompt", &gap.n_prompt);
    return lcpp_add_gap(c, &gap, s, e);
}

static glim_status run(struct call *c, bool infill, struct glim_err *e)
{
    struct job_spec s;
    struct lcpp_ask ask = {0};
    job_spec_init(c, &s);
    glim_status st = infill ? read_gap(c, &s, e) : GLIM_OK;
    if (st == GLIM_OK)
        st = read_settings(c, &s, &ask, e);
    if (st == GLIM_OK && !infill)
        st = lcpp_add_prompts(c, field_get(c->json, "prompt"), &s, e);
    if (st == GLIM_OK)
        st = keep_prompts(c, &s, &ask, e);
    if (st == GLIM_OK)
        st = lcpp_start(c, &s, &ask, e);
    lcpp_ask_fini(&ask);
    job_spec_fini(&s);
    return st;
}

glim_status lcpp_run_completion(struct call *c, struct glim_err *e)
{
    return run(c, false, e);
}

glim_status lcpp_run_infill(struct call *c, struct glim_err *e)
{
    return run(c, true, e);
}

/* ---- embeddings ---- */

glim_status lcpp_run_embedding(struct call *c, struct glim_err *e)
{
    struct job_spec s;
    const json_t *content = field_get(c->json, "content"), *input = field_get(c->json, "input");
    job_spec_init(c, &s);
    s.member = content ? "content" : "input";
    glim_status st = openai_check_model(c, e);
    if (st == GLIM_OK && !content == !input) {
        err_set(e, GLIM_REFUSED, "content: have %s, need one of content and input", content ? "input as well" : "none");
        st = refuse(c, "content", e);
    }
    if (st == GLIM_OK)
        st = lcpp_add_prompts(c, content ? content : input, &s, e);
    if (st == GLIM_OK)
        st = lcpp_start_embeddings(c, &s, e);
    job_spec_fini(&s);
    return st;
}
