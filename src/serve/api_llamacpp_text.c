/* What llama.cpp's clients ask of text alone: tokens, text of tokens, prompts of conversations. In workers. */
#include "serve/api_llamacpp.h"
#include "serve/openai.h"

#include "base/file.h"
#include "base/mem.h"
#include "run/model.h"

#include <string.h>

/* ---- tokens ---- */

static void put_piece(struct str *s, const struct tokenizer *tok, int32_t id)
{
    struct tok_piece p = tok_bytes(tok, id, true, false);
    uint32_t cp;
    size_t at = 0;
    for (int len; at < p.n && (len = utf8_decode((const uint8_t *)p.s + at, p.n - at, &cp)) > 0;)
        at += (size_t)len;
    str_printf(s, "{\"id\":%d,\"piece\":", id);
    if (at == p.n) {
        str_json(s, p.s ? p.s : "", p.n);
    } else {
        for (uint32_t i = 0; i < p.n; i++)
            str_printf(s, "%c%u", i ? ',' : '[', (unsigned char)p.s[i]);
        str_putc(s, ']');
    }
    str_putc(s, '}');
}

static void put_token(struct str *s, const struct tokenizer *tok, int32_t id, bool pieces)
{
    str_puts(s, s->n && s->s[s->n - 1] == '[' ? "" : ",");
    if (pieces)
        put_piece(s, tok, id);
    else
        str_printf(s, "%d", id);
}

/* The next part of a list: a text, or an id. */
static glim_status tokenize_item(struct call *c, const json_t *item, int flags, bool pieces, struct str *s,
                                 struct glim_err *e)
{
    const struct glim_model *m = c->server->model;
    int32_t *id;
    size_t n;
    if (json_is_number(item)) {
        double v = json_number_value(item);
        if (v >= m->info.n_vocab)
            return err_set(e, GLIM_REFUSED, "content: have token %.0f, need 0 to %u", v, m->info.n_vocab - 1);
        put_token(s, m->tok, (int32_t)v, pieces);
        return GLIM_OK;
    }
    TRY(glim_tokenize(m, json_string_value(item), json_string_length(item), flags, &id, &n, e));
    for (size_t i = 0; i < n; i++)
        put_token(s, m->tok, id[i], pieces);
    glim_free(id);
    return GLIM_OK;
}

glim_status lcpp_run_tokenize(struct call *c, struct glim_err *e)
{
    const json_t *content = field_get(c->json, "content");
    bool pieces = field_get_bool(c->json, "with_pieces", false);
    int special = field_get_bool(c->json, "parse_special", true) ? GLIM_TOK_SPECIAL : 0;
    int bos = field_get_bool(c->json, "add_special", false) ? GLIM_TOK_BOS : 0;
    size_t i;
    json_t *item;
    struct str s = {0};
    glim_status st = GLIM_OK;
    str_puts(&s, "{\"tokens\":[");
    if (json_is_string(content))
        st = tokenize_item(c, content, special | bos, pieces, &s, e);
    json_array_foreach(content, i, item)
    {
        if (st == GLIM_OK)
            st = tokenize_item(c, item, special | (i == 0 ? bos : 0), pieces, &s, e);
    }
    str_puts(&s, "]}");
    if (st == GLIM_OK)
        return call_reply_text(c, 200, "application/json", &s, e);
    str_fini(&s);
    return call_fail(c, 400, "content", "invalid_value", e);
}

glim_status lcpp_run_detokenize(struct call *c, struct glim_err *e)
{
    const json_t *list = field_get(c->json, "tokens");
    uint32_t n_vocab = c->server->model->info.n_vocab;
    size_t n = json_array_size(list), n_text;
    char *text;
    struct str s = {0};
    int32_t *id = mem_alloc(n * sizeof *id);
    if (!id)
        return err_nomem(e, "tokens", n * sizeof *id);
    glim_status st = GLIM_OK;
    for (size_t i = 0; i < n && st == GLIM_OK; i++) {
        id[i] = (int32_t)json_number_value(json_array_get(list, i));
        if ((uint32_t)id[i] >= n_vocab)
            st = err_set(e, GLIM_REFUSED, "tokens: item %zu: have %d, need 0 to %u", i, id[i], n_vocab - 1);
    }
    if (st == GLIM_OK)
        st = glim_detokenize(c->server->model, id, n, true, &text, &n_text, e);
    mem_free(id);
    if (st != GLIM_OK)
        return call_fail(c, 400, "tokens", "invalid_value", e);
    str_puts(&s, "{\"content\":");
    str_json(&s, text, n_text);
    str_putc(&s, '}');
    glim_free(text);
    return call_reply_text(c, 200, "application/json", &s, e);
}

/* ---- conversations ---- */

glim_status lcpp_run_apply_template(struct call *c, struct glim_err *e)
{
    struct job_chat chat = {0};
    struct chat_prompt p = {0};
    struct str s = {0};
    TRY(openai_read_conversation(c, &chat, e));
    TRY(job_chat_prompt(c, &chat, &p, e));
    str_puts(&s, "{\"prompt\":");
    str_json(&s, p.text.s ? p.text.s : "", p.text.n);
    str_putc(&s, '}');
    chat_prompt_fini(&p);
    return call_reply_text(c, 200, "application/json", &s, e);
}

glim_status lcpp_template_text(const struct server *s, char **text, struct glim_err *e)
{
    enum { MOST = 1 << 20 };
    size_t n;
    *text = NULL;
    if (!s->chat)
        return GLIM_OK;
    if (s->lv->chat_template)
        return file_read(s->lv->chat_template, MOST, text, &n, e);
    *text = s->model->chat_template ? mem_strdup(s->model->chat_template) : NULL;
    return *text || !s->model->chat_template ? GLIM_OK : err_nomem(e, "template", 0);
}
