/* Token lists and prompts as commands take them. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1 << 30 };

/* ---- token ids ---- */

static glim_status ids_of_json(const json_t *a, const char *where, uint32_t n_vocab, int32_t **ids, size_t *n,
                               struct glim_err *e)
{
    *n = json_array_size(a);
    *ids = mem_alloc(*n * sizeof **ids);
    if (!*ids)
        return err_nomem(e, "token list", *n * sizeof **ids);
    for (size_t i = 0; i < *n; i++) {
        const json_t *v = json_array_get(a, i);
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id >= (json_int_t)n_vocab) {
            char have[24] = "something else";
            if (json_is_integer(v))
                snprintf(have, sizeof have, "%lld", (long long)json_integer_value(v));
            mem_free(*ids);
            *ids = NULL;
            return err_set(e, GLIM_USAGE, "tokens: %s[%zu]: have %s, need an id from 0 to %u", where, i, have,
                           n_vocab - 1);
        }
        (*ids)[i] = (int32_t)id;
    }
    return GLIM_OK;
}

glim_status cli_read_tokens(const char *arg, int64_t index, uint32_t n_vocab, int32_t **ids, size_t *n,
                            struct glim_err *e)
{
    *ids = NULL;
    if (!arg)
        return err_set(e, GLIM_USAGE, "tokens: have none, need --tokens FILE or --tokens '[1,2,3]'");
    json_t *root = NULL;
    bool literal = arg[0] == '[';
    TRY(literal ? json_parse(arg, strlen(arg), "--tokens", &root, e) : json_parse_file(arg, TEXT_MAX, &root, e));
    const char *where = literal ? "--tokens" : arg;
    const json_t *list = root;
    glim_status st;
    bool nested = json_is_array(root) && json_is_array(json_array_get(root, 0));
    if (nested && index < 0) {
        st = err_set(e, GLIM_USAGE, "tokens: %s: have a list of %zu lists, need --index to pick one", where,
                     json_array_size(root));
        goto out;
    }
    if (index >= 0) {
        list = json_array_get(root, (size_t)index);
        if (!nested || !list) {
            st = err_set(e, GLIM_USAGE, "tokens: %s: have %zu lists, need more than --index %lld", where,
                         nested ? json_array_size(root) : 0, (long long)index);
            goto out;
        }
    }
    if (!json_is_array(list)) {
        st = err_set(e, GLIM_USAGE, "tokens: %s: have no JSON array, need one of token ids", where);
        goto out;
    }
    st = ids_of_json(list, where, n_vocab, ids, n, e);
out:
    json_decref(root);
    return st;
}

void cli_json_tokens(struct str *s, const int32_t *ids, size_t n)
{
    str_putc(s, '[');
    for (size_t i = 0; i < n; i++)
        str_printf(s, i ? ",%d" : "%d", ids[i]);
    str_putc(s, ']');
}

/* ---- text ---- */

static glim_status read_stdin(char **out, size_t *n, struct glim_err *e)
{
    struct str s = {0};
    char buf[65536];
    size_t got;
    while (!s.failed && s.n <= TEXT_MAX && (got = fread(buf, 1, sizeof buf, stdin)) > 0)
        str_add(&s, buf, got);
    str_add(&s, "", 0);
    glim_status st = GLIM_OK;
    if (ferror(stdin))
        st = err_set(e, GLIM_FAILED, "text: standard input: have a read error, need a readable stream");
    else if (s.failed)
        st = err_nomem(e, "text from standard input", s.n);
    else if (s.n > TEXT_MAX)
        st = err_set(e, GLIM_REFUSED, "text: standard input: have over %d bytes, need at most that", TEXT_MAX);
    if (st == GLIM_OK && s.n == 0) { /* nothing was allocated */
        s.s = mem_strdup("");
        st = s.s ? GLIM_OK : err_nomem(e, "text", 1);
    }
    if (st != GLIM_OK) {
        str_fini(&s);
        return st;
    }
    *out = s.s;
    *n = s.n;
    return GLIM_OK;
}

glim_status cli_read_text(const char *text, const char *file, char **out, size_t *n, struct glim_err *e)
{
    *out = NULL;
    *n = 0;
    if (!text == !file)
        return err_set(e, GLIM_USAGE, "text: have %s, need exactly one of -p TEXT and -f FILE",
                       text ? "both -p and -f" : "neither -p nor -f");
    if (file && strcmp(file, "-") == 0)
        return read_stdin(out, n, e);
    if (file)
        return file_read(file, TEXT_MAX, out, n, e);
    *n = strlen(text);
    *out = mem_strdup(text);
    return *out ? GLIM_OK : err_nomem(e, "text", *n);
}
