/* Embeddings in OpenAI's words. */
#include "serve/openai.h"

#include "base/mem.h"
#include "run/model.h"

#include <openssl/evp.h>
#include <string.h>

struct gathered {
    bool base64;
    struct str *item; /* [n] an input's vector */
    size_t n;
};

/* Little-endian floats. */
static void put_base64(struct str *s, const float *v, size_t n)
{
    enum { STEP = 3 * 64 }; /* floats whose bytes need no padding before the last */
    unsigned char bytes[STEP * 4], text[STEP * 4 / 3 * 4 + 1];
    str_putc(s, '"');
    for (size_t i = 0; i < n; i += STEP) {
        size_t m = n - i < STEP ? n - i : STEP;
        for (size_t k = 0; k < m; k++) {
            uint32_t bits;
            memcpy(&bits, &v[i + k], sizeof bits);
            for (size_t b = 0; b < 4; b++)
                bytes[k * 4 + b] = (unsigned char)(bits >> 8 * b);
        }
        int written = EVP_EncodeBlock(text, bytes, (int)(m * 4));
        str_add(s, (const char *)text, (size_t)written);
    }
    str_putc(s, '"');
}

static void on_embedding(struct job *j, uint32_t input, const float *v, size_t n)
{
    struct gathered *g = j->user;
    struct str *s = &g->item[input];
    if (g->base64) {
        put_base64(s, v, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        str_printf(s, "%c%.9g", i ? ',' : '[', (double)v[i]);
    str_putc(s, ']');
}

static void on_done(struct job *j)
{
    struct gathered *g = j->user;
    const struct server *server = j->call->server;
    struct glim_usage u = job_usage(j);
    struct str s = {0};
    str_puts(&s, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < g->n; i++) {
        str_printf(&s, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
        s.failed |= g->item[i].failed;
        str_add(&s, g->item[i].s ? g->item[i].s : "", g->item[i].n);
        str_putc(&s, '}');
    }
    str_puts(&s, "],\"model\":");
    str_json(&s, server->name[0], strlen(server->name[0]));
    str_printf(&s, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}", u.n_prompt, u.n_prompt);
    call_answer(j->call, 200, "application/json", &s);
}

static void gathered_free(struct gathered *g)
{
    for (size_t i = 0; i < g->n; i++)
        str_fini(&g->item[i]);
    mem_free(g->item);
    mem_free(g);
}

static void on_free(struct job *j)
{
    gathered_free(j->user);
}

glim_status openai_start_embeddings(struct call *c, struct job_spec *s, bool base64, struct glim_err *e)
{
    static const struct job_emitter emitter = {.embedding = on_embedding, .done = on_done, .free = on_free};
    static const enum glim_pooling pool[] = {[LEVER_POOLING_LAST] = GLIM_POOL_LAST,
                                             [LEVER_POOLING_MEAN] = GLIM_POOL_MEAN,
                                             [LEVER_POOLING_CLS] = GLIM_POOL_CLS};
    struct gathered *g = mem_calloc(1, sizeof *g);
    if (!g)
        return err_nomem(e, "embeddings", sizeof *g);
    g->base64 = base64;
    g->n = s->n_input;
    if (!(g->item = mem_calloc(g->n, sizeof *g->item))) {
        g->n = 0;
        gathered_free(g);
        return err_nomem(e, "embeddings", s->n_input * sizeof *g->item);
    }
    s->task.pool = pool[c->server->lv->pooling];
    return job_start(c, s, &emitter, g, e);
}
