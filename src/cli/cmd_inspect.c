/* glim inspect: what is in a checkpoint. It lists files whose architecture nobody here knows, too; --check walks every
 * block of every tensor for numbers that are not finite. */
#include "cli/cli.h"

#include "arch/arch.h"
#include "base/mem.h"
#include "run/run.h"
#include "text/chat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_CHARS = 120, SHOWN_ELEMS = 8 };

struct bad_block {
    const struct tensor *t;
    uint64_t first, n; /* index of the first, how many */
};

struct inspect {
    struct checkpoint ck;
    struct tokenizer *tok;    /* NULL when it cannot be read: */
    struct glim_err tok_err;  /* why */
    struct chat *chat;        /* NULL when there is none or it cannot be read: */
    struct glim_err chat_err; /* why */
    struct glim_err arch_err; /* why the architecture is not served; empty when it is */
    char arch[64];
    struct bad_block *bad;
    size_t n_bad, cap_bad;
    uint64_t n_block;
    size_t n_unchecked; /* tensors of a type that is not in the table */
    bool check;
};

/* ---- gathering ---- */

/* Whether arch/ serves it, and if not why. */
static void ask_arch(struct inspect *in)
{
    struct config c = {0};
    struct binder b = {.ck = &in->ck};
    struct plan p = {0};
    const struct arch *arch;
    if (config_open(&c, &in->ck, &in->arch_err) == GLIM_OK) {
        snprintf(in->arch, sizeof in->arch, "%.*s", (int)c.arch_len, c.arch);
        if (arch_plan(&c, &arch, &p, &in->arch_err) == GLIM_OK && arch->bind(&b, &p, &in->arch_err) == GLIM_OK &&
            bind_check_unused(&b, &in->arch_err) == GLIM_OK)
            in->arch_err = (struct glim_err){0};
    }
    binder_fini(&b);
    plan_fini(&p);
    config_close(&c);
}

/* How the model holds conversations. */
static void ask_chat(struct inspect *in)
{
    char *text = NULL, *tool_text = NULL;
    struct run_templates from = {.name = "checkpoint"};
    glim_status st = model_chat_templates(&in->ck, &text, &tool_text, &in->chat_err);
    from.text = text;
    from.tool_text = tool_text;
    if (st == GLIM_OK && run_chat_open(&in->chat, in->tok, &from, NULL, &in->chat_err) != GLIM_OK)
        in->chat = NULL;
    mem_free(text);
    mem_free(tool_text);
}

static glim_status check_tensor(struct inspect *in, const struct tensor *t, struct glim_err *e)
{
    if (!t->fmt || !t->fmt->finite) {
        in->n_unchecked++;
        return GLIM_OK;
    }
    uint64_t n = tensor_elems(t) / t->fmt->block_elems;
    struct bad_block bad = {.t = t};
    for (uint64_t i = 0; i < n; i++)
        if (!t->fmt->finite(t->data + i * t->fmt->block_bytes) && bad.n++ == 0)
            bad.first = i;
    in->n_block += n;
    if (bad.n == 0)
        return GLIM_OK;
    void *p = in->bad;
    if (!mem_grow(&p, &in->cap_bad, in->n_bad, sizeof *in->bad))
        return err_nomem(e, "list of bad tensors", sizeof *in->bad);
    in->bad = p;
    in->bad[in->n_bad++] = bad;
    return GLIM_OK;
}

static glim_status check_all(struct inspect *in, struct glim_err *e)
{
    struct bar bar = {.what = "checking", .unit = "tensors", .scale = 1};
    size_t n = checkpoint_n_tensor(&in->ck);
    for (size_t i = 0; i < n; i++) {
        TRY(check_tensor(in, checkpoint_tensor_at(&in->ck, i), e));
        bar_show(&bar, i + 1, n);
    }
    bar_clear(&bar);
    return GLIM_OK;
}

/* ---- metadata ---- */

static const char *type_name(enum gguf_type t)
{
    static const char *const name[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                       "bool", "string", "array", "u64", "i64", "f64"};
    return (unsigned)t < GGUF_TYPE_COUNT ? name[t] : "?";
}

/* A number or truth value as JSON text (which people can read, too). */
static void put_scalar(struct str *s, const struct gguf_kv *kv, uint64_t i)
{
    struct gguf_kv one = *kv;
    if (kv->type == GGUF_ARRAY) { /* element i, as if it stood alone */
        size_t width = kv->n ? kv->bytes / kv->n : 0;
        one = (struct gguf_kv){.key = kv->key, .type = kv->elem, .n = 1, .data = kv->data + i * width, .bytes = width};
    }
    int64_t n;
    uint64_t u;
    double d;
    bool b;
    if (gguf_bool(&one, &b, NULL) == GLIM_OK)
        str_puts(s, b ? "true" : "false");
    else if (one.type == GGUF_U64 && one.bytes == 8 && (memcpy(&u, one.data, 8), u > INT64_MAX))
        str_printf(s, "%" PRIu64, u);
    else if (gguf_int(&one, INT64_MIN, INT64_MAX, &n, NULL) == GLIM_OK)
        str_printf(s, "%" PRId64, n);
    else if (gguf_float(&one, &d, NULL) == GLIM_OK)
        str_printf(s, one.type == GGUF_F32 ? "%.9g" : "%.17g", d);
    else
        str_puts(s, "null"); /* not a finite number */
}

static void put_elems(struct str *s, const struct gguf_kv *kv, uint64_t max)
{
    size_t cursor = 0, n;
    const char *p;
    str_putc(s, '[');
    for (uint64_t i = 0; i < kv->n && i < max; i++) {
        if (i)
            str_putc(s, ',');
        if (kv->elem != GGUF_STRING)
            put_scalar(s, kv, i);
        else if (gguf_next_string(kv, &cursor, &p, &n))
            str_json(s, p, n);
    }
    str_putc(s, ']');
}

static void put_value(struct str *s, const struct gguf_kv *kv, uint64_t max_elems, size_t max_chars)
{
    if (kv->type == GGUF_STRING)
        str_json(s, (const char *)kv->data, kv->n < max_chars ? (size_t)kv->n : max_chars);
    else if (kv->type == GGUF_ARRAY && kv->elem != GGUF_ARRAY)
        put_elems(s, kv, max_elems);
    else if (kv->type == GGUF_ARRAY)
        str_puts(s, "null");
    else
        put_scalar(s, kv, 0);
}

static void text_metadata(struct str *s, const struct inspect *in)
{
    if (in->ck.config) {
        char *text = json_dumps(in->ck.config, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        str_printf(s, "\nconfig.json\n%s\n", text ? text : "");
        mem_free(text);
        return;
    }
    str_puts(s, "\nmetadata\n");
    for (size_t i = 0; i < gguf_n_kv(in->ck.gguf); i++) {
        const struct gguf_kv *kv = gguf_kv_at(in->ck.gguf, i);
        str_printf(s, "  %s = ", kv->key);
        if (kv->type == GGUF_ARRAY)
            str_printf(s, "%" PRIu64 " %s ", kv->n, type_name(kv->elem));
        put_value(s, kv, SHOWN_ELEMS, SHOWN_CHARS);
        bool cut = kv->n > (kv->type == GGUF_ARRAY ? (uint64_t)SHOWN_ELEMS : SHOWN_CHARS);
        str_puts(s, cut && kv->type != GGUF_U8 ? " …\n" : "\n");
    }
}

static void json_metadata(struct str *s, const struct inspect *in)
{
    if (in->ck.config) {
        char *text = json_dumps(in->ck.config, JSON_COMPACT | JSON_PRESERVE_ORDER);
        str_printf(s, ",\n\"config\":%s", text ? text : "null");
        mem_free(text);
        return;
    }
    str_puts(s, ",\n\"metadata\":{");
    for (size_t i = 0; i < gguf_n_kv(in->ck.gguf); i++) {
        const struct gguf_kv *kv = gguf_kv_at(in->ck.gguf, i);
        str_puts(s, i ? ",\n " : "\n ");
        str_json(s, kv->key, strlen(kv->key));
        str_printf(s, ":{\"type\":\"%s\",", type_name(kv->type));
        if (kv->type == GGUF_ARRAY) /* long arrays are cut: n says how many there are */
            str_printf(s, "\"elem\":\"%s\",\"n\":%" PRIu64 ",", type_name(kv->elem), kv->n);
        str_puts(s, kv->type == GGUF_ARRAY && kv->n > SHOWN_ELEMS ? "\"head\":" : "\"value\":");
        put_value(s, kv, SHOWN_ELEMS, SIZE_MAX);
        str_putc(s, '}');
    }
    str_putc(s, '}');
}

/* ---- tensors ---- */

struct totals {
    uint64_t params, bytes;
};

static struct totals total_of(const struct checkpoint *ck)
{
    struct totals t = {0};
    for (size_t i = 0; i < checkpoint_n_tensor(ck); i++) {
        t.params += tensor_elems(checkpoint_tensor_at(ck, i));
        t.bytes += checkpoint_tensor_at(ck, i)->bytes;
    }
    return t;
}

static void put_shape(struct str *s, const struct tensor *t)
{
    str_putc(s, '[');
    for (uint32_t i = 0; i < t->n_dim; i++)
        str_printf(s, i ? ",%" PRIu64 : "%" PRIu64, t->dim[i]);
    str_putc(s, ']');
}

static void text_tensors(struct str *s, const struct inspect *in)
{
    str_puts(s, "\ntensors\n");
    for (size_t i = 0; i < checkpoint_n_tensor(&in->ck); i++) {
        const struct tensor *t = checkpoint_tensor_at(&in->ck, i);
        str_printf(s, "  %-9s %14zu  %s ", t->type_name, t->bytes, t->name);
        put_shape(s, t);
        str_puts(s, t->fmt ? "\n" : "  (type not in this build)\n");
    }
}

static void json_tensors(struct str *s, const struct inspect *in)
{
    str_puts(s, ",\n\"tensors\":[");
    for (size_t i = 0; i < checkpoint_n_tensor(&in->ck); i++) {
        const struct tensor *t = checkpoint_tensor_at(&in->ck, i);
        str_puts(s, i ? ",\n {\"name\":" : "\n {\"name\":");
        str_json(s, t->name, strlen(t->name));
        str_puts(s, ",\"type\":");
        str_json(s, t->type_name, strlen(t->type_name));
        str_printf(s, ",\"known\":%s,\"bytes\":%zu,\"shape\":", t->fmt ? "true" : "false", t->bytes);
        put_shape(s, t);
        str_putc(s, '}');
    }
    str_putc(s, ']');
}

/* ---- conversations ---- */

static void text_chat(struct str *s, const struct inspect *in)
{
    if (!in->chat) {
        str_printf(s, "chat       none: %s\n", in->tok ? in->chat_err.message : "no tokenizer");
        return;
    }
    const struct template_caps *caps = chat_caps(in->chat, true);
    const struct dialect *d = chat_dialect(in->chat);
    str_printf(s, "chat       dialect %s: %s\n", d->name, d->doc);
    for (int i = 0; i < TEMPLATE_CAP_COUNT; i++)
        str_printf(s, "           %-3s %s%s%s\n", caps->can[i] ? "yes" : "no", template_cap_rows[i].name,
                   caps->why_not[i][0] ? ": " : "", caps->why_not[i]);
}

static void json_chat(struct str *s, const struct inspect *in)
{
    if (!in->chat) {
        str_puts(s, ",\n\"chat\":null");
        return;
    }
    const struct template_caps *caps = chat_caps(in->chat, true);
    str_printf(s, ",\n\"chat\":{\"dialect\":\"%s\",\"can\":{", chat_dialect(in->chat)->name);
    for (int i = 0; i < TEMPLATE_CAP_COUNT; i++)
        str_printf(s, "%s\"%s\":%s", i ? "," : "", template_cap_rows[i].name, caps->can[i] ? "true" : "false");
    str_puts(s, "}}");
}

/* ---- output ---- */

static void put_text(struct str *s, const struct inspect *in)
{
    char buf[32];
    struct totals t = total_of(&in->ck);
    str_printf(s, "file       %s\n", in->ck.path);
    if (in->ck.gguf)
        str_printf(s, "format     GGUF version %u\n", gguf_version(in->ck.gguf));
    else
        str_puts(s, "format     Hugging Face folder\n");
    str_printf(s, "arch       %s\n", in->arch[0] ? in->arch : "none");
    str_printf(s, "served     %s%s\n", in->arch_err.message[0] ? "no: " : "yes", in->arch_err.message);
    if (in->tok)
        str_printf(s, "tokenizer  %s, %zu tokens, bos %d, eos %d\n", tok_pre_name(in->tok), tok_n(in->tok),
                   tok_bos(in->tok), tok_eos(in->tok));
    else
        str_printf(s, "tokenizer  none: %s\n", in->tok_err.message);
    text_chat(s, in);
    str_printf(s, "size       %.1f M parameters, %s in %zu tensors\n", (double)t.params * 1e-6,
               cli_bytes((double)t.bytes, buf), checkpoint_n_tensor(&in->ck));
    text_metadata(s, in);
    text_tensors(s, in);
    if (!in->check)
        return;
    str_printf(s, "\nchecked %" PRIu64 " blocks; %zu tensors have a type that cannot be checked\n", in->n_block,
               in->n_unchecked);
    for (size_t i = 0; i < in->n_bad; i++)
        str_printf(s,
                   "  bad: %s: %" PRIu64 " blocks with numbers that are not finite, the first is block %" PRIu64 "\n",
                   in->bad[i].t->name, in->bad[i].n, in->bad[i].first);
}

static void put_json(struct str *s, const struct inspect *in)
{
    struct totals t = total_of(&in->ck);
    str_puts(s, "{\"path\":");
    str_json(s, in->ck.path, strlen(in->ck.path));
    str_printf(s, ",\"format\":\"%s\",\"version\":%u,\"arch\":", in->ck.gguf ? "gguf" : "hf",
               in->ck.gguf ? gguf_version(in->ck.gguf) : 0);
    str_json(s, in->arch, strlen(in->arch));
    str_printf(s, ",\"served\":%s,\"why_not\":", in->arch_err.message[0] ? "false" : "true");
    str_json(s, in->arch_err.message, strlen(in->arch_err.message));
    str_printf(s, ",\"params\":%" PRIu64 ",\"tensor_bytes\":%" PRIu64 ",\n\"tokenizer\":", t.params, t.bytes);
    if (in->tok) {
        const char *pre = tok_pre_name(in->tok);
        str_puts(s, "{\"pre\":");
        str_json(s, pre, strlen(pre));
        str_printf(s, ",\"n\":%zu,\"bos\":%d,\"eos\":%d}", tok_n(in->tok), tok_bos(in->tok), tok_eos(in->tok));
    } else {
        str_puts(s, "null");
    }
    json_chat(s, in);
    json_metadata(s, in);
    json_tensors(s, in);
    if (in->check) {
        str_printf(s, ",\n\"check\":{\"blocks\":%" PRIu64 ",\"unchecked_tensors\":%zu,\"bad\":[", in->n_block,
                   in->n_unchecked);
        for (size_t i = 0; i < in->n_bad; i++) {
            str_puts(s, i ? ",{\"tensor\":" : "{\"tensor\":");
            str_json(s, in->bad[i].t->name, strlen(in->bad[i].t->name));
            str_printf(s, ",\"first_block\":%" PRIu64 ",\"blocks\":%" PRIu64 "}", in->bad[i].first, in->bad[i].n);
        }
        str_puts(s, "]}");
    }
    str_puts(s, "}\n");
}

int cmd_inspect(int argc, char **argv)
{
    const char *model = NULL;
    bool json = false;
    struct inspect in = {0};
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &model, "MODEL", 0, 0, "the same as the argument MODEL"},
        {0, "check", ARG_FLAG, &in.check, NULL, 0, 0, "walk every block; exit code 1 when one is not finite"},
        {0, "json", ARG_FLAG, &json, NULL, 0, 0, "a JSON object instead of text"},
    };
    const struct arg_spec spec = {"inspect", "MODEL [--check] [--json]", "List what is in a checkpoint.",
                                  arg,       sizeof arg / sizeof *arg,   false,
                                  1};
    struct cli c = {0};
    char *path = NULL;
    glim_status st;
    TRY_OUT(cli_begin(&c, &spec, argc, argv));
    if (c.args.help)
        goto out;
    if (c.args.positional.n > 0)
        model = c.args.positional.item[0];
    TRY_OUT(cli_model_path(&c, model, &path, &c.err));
    TRY_OUT(checkpoint_open(&in.ck, path, &c.err));
    ask_arch(&in);
    if (model_tokenizer(&in.ck, &in.tok, &in.tok_err) != GLIM_OK)
        in.tok = NULL;
    if (in.tok)
        ask_chat(&in);
    if (in.check)
        TRY_OUT(check_all(&in, &c.err));
    struct str s = {0};
    if (json)
        put_json(&s, &in);
    else
        put_text(&s, &in);
    TRY_OUT(cli_print(&s, &c.err));
    if (in.n_bad > 0)
        st = err_set(&c.err, GLIM_FAILED,
                     "inspect: tensor %s: block %" PRIu64 ": have numbers that are not finite, need finite ones",
                     in.bad[0].t->name, in.bad[0].first);
out:
    chat_close(in.chat);
    tok_close(in.tok);
    checkpoint_close(&in.ck);
    mem_free(in.bad);
    mem_free(path);
    return cli_end(&c, st);
}
