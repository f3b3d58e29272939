/* glim tokenize, glim detokenize: they read a checkpoint's vocabulary and leave its weights alone. */
#include "cli/cli.h"

#include "base/mem.h"
#include "run/model.h"

#include <stdio.h>
#include <string.h>

static glim_status open_tokenizer(struct cli *c, const char *model, struct tokenizer **t)
{
    char *path;
    struct checkpoint ck = {0};
    TRY(cli_model_path(c, model, &path, &c->err));
    glim_status st;
    TRY_OUT(checkpoint_open(&ck, path, &c->err));
    TRY_OUT(model_tokenizer(&ck, t, &c->err));
out:
    checkpoint_close(&ck);
    mem_free(path);
    return st;
}

int cmd_tokenize(int argc, char **argv)
{
    const char *model = NULL, *text = NULL, *file = NULL;
    bool special = false, no_bos = false, json = false;
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {'p', "prompt", ARG_TEXT, &text, "TEXT", 0, 0, "the text"},
        {'f', "file", ARG_TEXT, &file, "FILE", 0, 0, "read the text from a file; - is standard input"},
        {0, "special", ARG_FLAG, &special, NULL, 0, 0, "text such as <|im_start|> is a special token"},
        {0, "no-bos", ARG_FLAG, &no_bos, NULL, 0, 0, "do not begin with the model's BOS token"},
        {0, "json", ARG_FLAG, &json, NULL, 0, 0, "a JSON object instead of the bare list"},
    };
    const struct arg_spec spec = {"tokenize",
                                  "-m MODEL (-p TEXT | -f FILE) [OPTION …]",
                                  "Print the token ids of a text as a JSON array.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  0};
    struct cli c = {0};
    struct tokenizer *t = NULL;
    char *buf = NULL;
    int32_t *ids = NULL;
    size_t n, n_id;
    glim_status st;
    TRY_OUT(cli_begin(&c, &spec, argc, argv));
    if (c.args.help)
        goto out;
    TRY_OUT(cli_read_text(text, file, &buf, &n, &c.err));
    TRY_OUT(open_tokenizer(&c, model, &t));
    int flags = (no_bos ? 0 : GLIM_TOK_BOS) | (special ? GLIM_TOK_SPECIAL : 0);
    TRY_OUT(tok_encode(t, buf, n, flags, &ids, &n_id, &c.err));
    struct str s = {0};
    if (json)
        str_printf(&s, "{\"n_token\":%zu,\"tokens\":", n_id);
    cli_json_tokens(&s, ids, n_id);
    str_puts(&s, json ? "}\n" : "\n");
    TRY_OUT(cli_print(&s, &c.err));
out:
    mem_free(ids);
    mem_free(buf);
    tok_close(t);
    return cli_end(&c, st);
}

int cmd_detokenize(int argc, char **argv)
{
    const char *model = NULL, *tokens = NULL;
    int64_t index = -1;
    bool special = false, json = false;
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {0, "tokens", ARG_TEXT, &tokens, "JSON", 0, 0, "token ids: '[1,2,3]' or a JSON file"},
        {0, "index", ARG_INT, &index, "I", 0, 1e9, "which list, when the file holds several"},
        {0, "special", ARG_FLAG, &special, NULL, 0, 0, "print special tokens too"},
        {0, "json", ARG_FLAG, &json, NULL, 0, 0, "a JSON object instead of the bare text"},
    };
    const struct arg_spec spec = {"detokenize",
                                  "-m MODEL --tokens JSON [OPTION …]",
                                  "Print the text of token ids, byte for byte.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  0};
    struct cli c = {0};
    struct tokenizer *t = NULL;
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n_id, n;
    glim_status st;
    TRY_OUT(cli_begin(&c, &spec, argc, argv));
    if (c.args.help)
        goto out;
    TRY_OUT(open_tokenizer(&c, model, &t));
    TRY_OUT(cli_read_tokens(tokens, index, (uint32_t)tok_n(t), &ids, &n_id, &c.err));
    TRY_OUT(tok_decode(t, ids, n_id, special, &text, &n, &c.err));
    struct str s = {0};
    if (json) {
        str_puts(&s, "{\"text\":");
        str_json(&s, text, n);
        str_puts(&s, "}\n");
    } else {
        str_add(&s, text, n);
    }
    TRY_OUT(cli_print(&s, &c.err));
out:
    mem_free(text);
    mem_free(ids);
    tok_close(t);
    return cli_end(&c, st);
}
