/* Compiled grammars, kept. See grammars.h. */
#include "serve/grammars.h"

#include "base/hash.h"
#include "base/mem.h"
#include "run/run.h"

#include <pthread.h>
#include <string.h>

struct grammar_lease { /* one grammar; all its users share it */
    struct sha256 key;
    struct glim_grammar *grammar;
    size_t users;
    uint64_t used; /* when, by the cache's clock */
    struct grammar_lease *next;
};

struct grammars {
    const struct glim_model *model;
    const struct dialect *dialect;
    pthread_mutex_t lock;
    struct grammar_lease *first;
    size_t n, built;
    uint64_t clock;
};

glim_status grammars_create(struct grammars **out, const struct glim_model *m, const struct dialect *d,
                            struct glim_err *e)
{
    struct grammars *g = *out = mem_calloc(1, sizeof *g);
    if (!g)
        return err_nomem(e, "grammars", sizeof *g);
    g->model = m;
    g->dialect = d;
    pthread_mutex_init(&g->lock, NULL);
    return GLIM_OK;
}

static void lease_free(struct grammar_lease *l)
{
    glim_grammar_free(l->grammar);
    mem_free(l);
}

void grammars_free(struct grammars *g)
{
    if (!g)
        return;
    while (g->first) {
        struct grammar_lease *next = g->first->next;
        lease_free(g->first);
        g->first = next;
    }
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

size_t grammars_built(struct grammars *g)
{
    pthread_mutex_lock(&g->lock);
    size_t n = g->built;
    pthread_mutex_unlock(&g->lock);
    return n;
}

/* ---- names ---- */

/* Every part with its length, so that no two specs are spelled alike. */
static void spell(struct str *out, const char *p, size_t n)
{
    str_printf(out, "%zu:", n);
    str_add(out, p, n);
}

static glim_status key_of(const struct grammar_spec *s, struct sha256 *key, struct glim_err *e)
{
    struct str text = {0};
    const char *name = s->calls.only_name ? s->calls.only_name : "", *after = s->after ? s->after : "";
    str_printf(&text, "%d,%d,%d,%d,", s->source, s->calls.parallel, s->calls.lazy, s->calls.only_name != NULL);
    spell(&text, name, strlen(name));
    spell(&text, after, strlen(after));
    if (s->source == GRAMMAR_CALLS) {
        char *tools = json_dumps(s->tools, JSON_COMPACT);
        text.failed |= !tools;
        spell(&text, tools ? tools : "", tools ? strlen(tools) : 0);
        mem_free(tools);
    } else {
        spell(&text, s->text, s->n);
    }
    glim_status st = text.failed ? err_nomem(e, "grammar", text.n) : sha256_of(text.s, text.n, key, e);
    str_fini(&text);
    return st;
}

/* ---- leases ---- */

/* With the lock. */
static struct grammar_lease *find(struct grammars *g, const struct sha256 *key)
{
    for (struct grammar_lease *l = g->first; l; l = l->next)
        if (memcmp(&l->key, key, sizeof *key) == 0) {
            l->users++;
            l->used = ++g->clock;
            return l;
        }
    return NULL;
}

/* Take the idle grammar that was used longest ago out of the list, while there are too many. With the lock. */
static struct grammar_lease *take_oldest(struct grammars *g)
{
    struct grammar_lease **oldest = NULL;
    if (g->n <= GRAMMARS_MAX)
        return NULL;
    for (struct grammar_lease **at = &g->first; *at; at = &(*at)->next)
        if ((*at)->users == 0 && (!oldest || (*at)->used < (*oldest)->used))
            oldest = at;
    if (!oldest)
        return NULL;
    struct grammar_lease *l = *oldest;
    *oldest = l->next;
    g->n--;
    return l;
}

static glim_status build(struct grammars *g, const struct grammar_spec *s, struct glim_grammar **out,
                         struct glim_err *e)
{
    glim_status st = GLIM_OK;
    switch (s->source) {
    case GRAMMAR_GBNF:
        st = glim_grammar_gbnf(out, g->model, s->text, s->n, e);
        break;
    case GRAMMAR_SCHEMA:
        st = glim_grammar_json_schema(out, g->model, s->text, s->n, e);
        break;
    case GRAMMAR_CALLS:
        st = run_grammar_calls(out, g->model, g->dialect, s->tools, &s->calls, e);
        break;
    }
    if (st == GLIM_OK && s->after)
        st = glim_grammar_after(*out, s->after, false, e);
    return st;
}

glim_status grammars_get(struct grammars *g, const struct grammar_spec *s, struct grammar_lease **out,
                         struct glim_err *e)
{
    struct sha256 key;
    *out = NULL;
    TRY(key_of(s, &key, e));
    pthread_mutex_lock(&g->lock);
    *out = find(g, &key);
    pthread_mutex_unlock(&g->lock);
    if (*out)
        return GLIM_OK;
    struct grammar_lease *l = mem_calloc(1, sizeof *l), *other, *old = NULL;
    glim_status st = l ? build(g, s, &l->grammar, e) : err_nomem(e, "grammar", sizeof *l);
    if (st != GLIM_OK) {
        if (l)
            lease_free(l);
        return st;
    }
    l->key = key;
    l->users = 1;
    pthread_mutex_lock(&g->lock);
    g->built++;
    other = find(g, &key);
    if (!other) {
        l->used = ++g->clock;
        l->next = g->first;
        g->first = l;
        g->n++;
        old = take_oldest(g);
    }
    pthread_mutex_unlock(&g->lock);
    if (other)
        lease_free(l);
    if (old)
        lease_free(old);
    *out = other ? other : l;
    return GLIM_OK;
}

struct glim_grammar *grammar_of(const struct grammar_lease *l)
{
    return l ? l->grammar : NULL;
}

void grammar_drop(struct grammars *g, struct grammar_lease *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&g->lock);
    l->users--;
    struct grammar_lease *old = take_oldest(g);
    pthread_mutex_unlock(&g->lock);
    if (old)
        lease_free(old);
}
