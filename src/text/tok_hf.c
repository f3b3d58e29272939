/* Vocabulary, merges and added tokens of a tokenizer.json, and the special ids that its neighbours name. */
#include "base/arith.h"
#include "base/file.h"
#include "base/mem.h"
#include "text/tok_hf.h"

#include <string.h>

enum { MAX_ID = (1 << 24) - 1 };
#define WHERE    "cannot open tokenizer.json"
#define MAX_FILE ((size_t)256 << 20)

void hf_fini(struct hf *h)
{
    mem_free(h->token);
    mem_free(h->type);
    mem_free(h->score);
    mem_free(h->strip);
    mem_free(h->merge);
    mem_free(h->cut);
    mem_free(h->merge_text);
    mem_free(h->end);
}

static glim_status bad_id(const char *what, const json_t *v, struct glim_err *e)
{
    return err_set(e, GLIM_FAILED, WHERE ": %s: have id %lld, need 0 to %d", what, (long long)json_integer_value(v),
                   MAX_ID);
}

static bool id_ok(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= MAX_ID;
}

/* ---- tokens ---- */

/* One more than the highest id of vocabulary and added tokens. */
static glim_status count_tokens(json_t *vocab, const json_t *added, size_t *n, struct glim_err *e)
{
    const char *key;
    json_t *v;
    *n = json_array_size(vocab);
    json_object_foreach(vocab, key, v)
    {
        if (!id_ok(v))
            return bad_id("model.vocab", v, e);
        if ((size_t)json_integer_value(v) >= *n)
            *n = (size_t)json_integer_value(v) + 1;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *id = json_object_get(json_array_get(added, i), "id");
        if (!id_ok(id))
            return bad_id("added_tokens", id, e);
        if ((size_t)json_integer_value(id) >= *n)
            *n = (size_t)json_integer_value(id) + 1;
    }
    return GLIM_OK;
}

static glim_status take_arrays(struct hf *h, size_t n, size_t n_merge, size_t merge_bytes, struct glim_err *e)
{
    h->token = mem_calloc(n, sizeof *h->token);
    h->type = mem_calloc(n, sizeof *h->type);
    h->score = mem_calloc(n, sizeof *h->score);
    h->strip = mem_calloc(n, sizeof *h->strip);
    h->merge = mem_calloc(n_merge, sizeof *h->merge);
    h->cut = mem_calloc(n_merge, sizeof *h->cut);
    h->merge_text = mem_alloc(merge_bytes);
    if (!h->token || !h->type || !h->score || !h->strip || !h->merge || !h->cut || !h->merge_text)
        return err_nomem(e, "tokenizer.json", n * 16 + n_merge * 20 + merge_bytes);
    return GLIM_OK;
}

static void set_token(struct hf *h, size_t id, const char *s, enum tok_type type)
{
    h->token[id] = (struct tok_piece){s, (uint32_t)strlen(s)};
    h->type[id] = (int32_t)type;
}

/* Does the piece look like <0x0A>? */
static bool is_byte_piece(const char *s)
{
    return strlen(s) == 6 && strncmp(s, "<0x", 3) == 0 && s[5] == '>';
}

static glim_status read_pieces(struct hf *h, json_t *vocab, struct glim_err *e)
{
    const char *key;
    json_t *v;
    json_object_foreach(vocab, key, v)
    {
        size_t id = (size_t)json_integer_value(v);
        if (h->token[id].s)
            return err_set(e, GLIM_FAILED, WHERE ": model.vocab: have two tokens with id %zu, need one", id);
        set_token(h, id, key, h->rules.byte_fallback && is_byte_piece(key) ? TOK_BYTE : TOK_NORMAL);
    }
    for (size_t i = 0; i < json_array_size(vocab); i++) { /* Unigram: [piece, log probability] */
        const json_t *row = json_array_get(vocab, i), *score = json_array_get(row, 1);
        const char *s = json_string_value(json_array_get(row, 0));
        if (!s || !json_is_number(score))
            return err_set(e, GLIM_FAILED, WHERE ": model.vocab[%zu]: have something else, need [piece, score]", i);
        set_token(h, i, s, h->rules.byte_fallback && is_byte_piece(s) ? TOK_BYTE : TOK_NORMAL);
        h->score[i] = (float)json_number_value(score);
    }
    return GLIM_OK;
}

/* `normalized` tokens are looked for in normalised text. That is the same as looking in the text itself unless the
 * normaliser touches them, which it does when it puts something in front or writes their spaces otherwise. */
static glim_status read_added(struct hf *h, const json_t *added, struct glim_err *e)
{
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *a = json_array_get(added, i);
        size_t id = (size_t)json_integer_value(json_object_get(a, "id"));
        const char *s = json_string_value(json_object_get(a, "content"));
        bool touched = h->normalizer_prefix || (h->rules.escape_space && s && strchr(s, ' ')) ||
                       (h->rules.nfc && s && !uc_is_ascii((const uint8_t *)s, strlen(s)));
        if (!s)
            return err_set(e, GLIM_FAILED, WHERE ": added_tokens[%zu]: have no content, need a string", i);
        if (h->token[id].s && strcmp(h->token[id].s, s) != 0)
            return err_set(e, GLIM_FAILED,
                           WHERE ": added_tokens[%zu]: have \"%.60s\" for id %zu of \"%.60s\", need one text", i, s, id,
                           h->token[id].s);
        if (json_is_true(json_object_get(a, "single_word")))
            return err_set(e, GLIM_REFUSED, WHERE ": added_tokens \"%.60s\": have single_word true, need false", s);
        if (touched && json_is_true(json_object_get(a, "normalized")))
            return err_set(e, GLIM_REFUSED,
                           WHERE
                           ": added_tokens \"%.60s\": have normalized true under a normalizer that changes it, need "
                           "false",
                           s);
        set_token(h, id, s, json_is_true(json_object_get(a, "special")) ? TOK_CONTROL : TOK_USER);
        h->strip[id] = (uint8_t)((json_is_true(json_object_get(a, "lstrip")) ? TOK_LSTRIP : 0) |
                                 (json_is_true(json_object_get(a, "rstrip")) ? TOK_RSTRIP : 0));
    }
    return GLIM_OK;
}

/* ---- merges: "left right" or ["left", "right"] ---- */

static bool merge_sides(const json_t *m, struct tok_piece *l, struct tok_piece *r)
{
    const char *s = json_string_value(m), *a, *b;
    if (s) {
        const char *space = strchr(s, ' ');
        if (!space || strchr(space + 1, ' '))
            return false;
        *l = (struct tok_piece){s, (uint32_t)(space - s)};
        *r = (struct tok_piece){space + 1, (uint32_t)strlen(space + 1)};
    } else {
        a = json_string_value(json_array_get(m, 0));
        b = json_string_value(json_array_get(m, 1));
        if (!a || !b || json_array_size(m) != 2)
            return false;
        *l = (struct tok_piece){a, (uint32_t)strlen(a)};
        *r = (struct tok_piece){b, (uint32_t)strlen(b)};
    }
    return l->n && r->n;
}

static glim_status measure_merges(const json_t *merges, size_t *bytes, struct glim_err *e)
{
    struct tok_piece l, r;
    *bytes = 0;
    for (size_t i = 0; i < json_array_size(merges); i++) {
        if (!merge_sides(json_array_get(merges, i), &l, &r))
            return err_set(e, GLIM_FAILED, WHERE ": model.merges[%zu]: have something else, need two pieces", i);
        *bytes += (size_t)l.n + 1 + r.n;
    }
    return GLIM_OK;
}

static void read_merges(struct hf *h, const json_t *merges)
{
    char *at = h->merge_text;
    for (size_t i = 0; i < json_array_size(merges); i++) {
        struct tok_piece l = {0}, r = {0};
        merge_sides(json_array_get(merges, i), &l, &r);
        h->merge[i] = (struct tok_piece){at, l.n + 1 + r.n};
        h->cut[i] = l.n;
        memcpy(at, l.s, l.n);
        at[l.n] = ' ';
        memcpy(at + l.n + 1, r.s, r.n);
        at += h->merge[i].n;
    }
}

/* ---- */

static int32_t find_token(const struct hf *h, const char *s)
{
    size_t n = s ? strlen(s) : 0;
    for (size_t i = h->spec.n_token; n && i-- > 0;)
        if (h->token[i].n == n && memcmp(h->token[i].s, s, n) == 0)
            return (int32_t)i;
    return -1;
}

static glim_status read_unknown(struct hf *h, const json_t *model, struct glim_err *e)
{
    const json_t *id = json_object_get(model, "unk_id");
    h->spec.unk = find_token(h, json_string_value(json_object_get(model, "unk_token")));
    if (json_is_integer(id)) {
        if (!id_ok(id) || (size_t)json_integer_value(id) >= h->spec.n_token)
            return bad_id("model.unk_id", id, e);
        h->spec.unk = (int32_t)json_integer_value(id);
    }
    return GLIM_OK;
}

glim_status hf_read_vocab(struct hf *h, const json_t *root, struct glim_err *e)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    bool bpe = h->rules.kind == TOK_BPE;
    size_t n, n_merge = bpe ? json_array_size(merges) : 0, merge_bytes = 0;
    if (bpe ? !json_is_object(vocab) || !json_is_array(merges) : !json_is_array(vocab))
        return err_set(e, GLIM_FAILED, WHERE ": model: have no vocab%s, need them", bpe ? " or merges" : "");
    TRY(count_tokens(vocab, added, &n, e));
    /* A few ids may be left out, but a short file may not ask for millions. */
    size_t listed = json_object_size(vocab) + json_array_size(vocab) + json_array_size(added);
    if (n == 0 || n > (size_t)MAX_ID + 1 || n > 2 * listed + 4096)
        return err_set(e, GLIM_FAILED,
                       WHERE ": model.vocab: have %zu ids for %zu tokens, need 1 to %d with few left out", n, listed,
                       MAX_ID + 1);
    if (n_merge)
        TRY(measure_merges(merges, &merge_bytes, e));
    TRY(take_arrays(h, n, n_merge, merge_bytes, e));
    h->spec = (struct tok_spec){.n_token = n,
                                .token = h->token,
                                .score = h->score,
                                .type = h->type,
                                .n_merge = n_merge,
                                .merge = h->merge,
                                .bos = -1,
                                .eos = -1,
                                .eot = -1,
                                .unk = -1};
    for (size_t i = 0; i < n; i++)
        h->type[i] = TOK_UNUSED;
    TRY(read_pieces(h, vocab, e));
    TRY(read_added(h, added, e));
    if (n_merge)
        read_merges(h, merges);
    return read_unknown(h, model, e);
}

/* ---- neighbours ---- */

/* A config member that names a token: its text, or an object with the text as "content". */
static int32_t named_token(const struct hf *h, const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);
    return find_token(h, json_string_value(json_is_object(v) ? json_object_get(v, "content") : v));
}

/* Ids beyond the vocabulary are of rows the model has and the tokenizer does not know; they cannot be spelled. */
static void add_end(struct hf *h, const json_t *v)
{
    if (id_ok(v) && (size_t)json_integer_value(v) < h->spec.n_token)
        h->end[h->spec.n_end++] = (int32_t)json_integer_value(v);
}

/* "eos_token_id": 2 or [2, 7]; multimodal configs keep theirs under text_config. */
static glim_status read_ends(struct hf *h, const json_t *config, struct glim_err *e)
{
    const json_t *v = json_object_get(config, "eos_token_id");
    if (!v)
        v = json_object_get(json_object_get(config, "text_config"), "eos_token_id");
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    int32_t *end = mem_realloc(h->end, (h->spec.n_end + n) * sizeof *end);
    if (!end)
        return err_nomem(e, "end tokens", n * sizeof *end);
    h->spec.end = h->end = end;
    if (!json_is_array(v))
        add_end(h, v);
    for (size_t i = 0; i < json_array_size(v); i++)
        add_end(h, json_array_get(v, i));
    return GLIM_OK;
}

static int32_t config_bos(const struct hf *h, const json_t *config)
{
    const json_t *v = json_object_get(config, "bos_token_id");
    if (!v)
        v = json_object_get(json_object_get(config, "text_config"), "bos_token_id");
    return id_ok(v) && (size_t)json_integer_value(v) < h->spec.n_token ? (int32_t)json_integer_value(v) : -1;
}

static glim_status parse_config(const char *p, size_t n, const char *what, json_t **out, struct glim_err *e)
{
    *out = NULL;
    if (!p)
        return GLIM_OK;
    TRY(json_parse(p, n, what, out, e));
    if (json_is_object(*out))
        return GLIM_OK;
    return err_set(e, GLIM_FAILED, "cannot open %s: have another JSON value, need an object", what);
}

/* bos: the template's, else the one named in tokenizer_config.json, else the configs'. Whether it is added:
 * add_bos_token where there is one, else whether the template has one. */
glim_status hf_read_configs(struct hf *h, const struct tok_json *j, struct glim_err *e)
{
    json_t *names = NULL, *generation = NULL, *config = NULL;
    glim_status st;
    TRY_OUT(parse_config(j->tokenizer_config, j->n_tokenizer_config, "tokenizer_config.json", &names, e));
    TRY_OUT(parse_config(j->generation_config, j->n_generation_config, "generation_config.json", &generation, e));
    TRY_OUT(parse_config(j->config, j->n_config, "config.json", &config, e));
    TRY_OUT(read_ends(h, generation, e));
    TRY_OUT(read_ends(h, config, e));
    struct tok_spec *s = &h->spec;
    if (h->template_bos >= (json_int_t)s->n_token) {
        st = err_set(e, GLIM_FAILED, WHERE ": post_processor: have bos %lld, need one below %zu",
                     (long long)h->template_bos, s->n_token);
        goto out;
    }
    s->bos = h->template_bos >= 0 ? (int32_t)h->template_bos : named_token(h, names, "bos_token");
    if (s->bos < 0)
        s->bos = config_bos(h, generation);
    if (s->bos < 0)
        s->bos = config_bos(h, config);
    s->eos = named_token(h, names, "eos_token");
    if (s->eos < 0 && s->n_end)
        s->eos = s->end[0];
    const json_t *add = json_object_get(names, "add_bos_token");
    s->add_bos = json_is_boolean(add) ? json_is_true(add) : h->template_bos >= 0;
out:
    json_decref(names);
    json_decref(generation);
    json_decref(config);
    return st;
}

/* ---- from a folder ---- */

static glim_status read_file(const char *dir, const char *name, bool required, char **buf, size_t *n,
                             struct glim_err *e)
{
    char *path = path_join(dir, name);
    *buf = NULL;
    *n = 0;
    if (!path)
        return err_nomem(e, name, strlen(dir) + strlen(name) + 2);
    glim_status st = required || file_exists(path) ? file_read(path, MAX_FILE, buf, n, e) : GLIM_OK;
    mem_free(path);
    return st;
}

glim_status tok_open_hf(struct tokenizer **out, const char *dir, struct glim_err *e)
{
    char *text[4] = {0};
    size_t n[4] = {0};
    static const char *const name[4] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
                                        "config.json"};
    glim_status st = GLIM_OK;
    *out = NULL;
    for (int i = 0; i < 4 && st == GLIM_OK; i++)
        st = read_file(dir, name[i], i == 0, &text[i], &n[i], e);
    struct tok_json j = {text[0], text[1], text[2], text[3], n[0], n[1], n[2], n[3]};
    if (st == GLIM_OK)
        st = tok_open_json(out, &j, e);
    for (int i = 0; i < 4; i++)
        mem_free(text[i]);
    return st;
}
