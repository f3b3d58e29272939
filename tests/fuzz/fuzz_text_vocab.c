/* Any vocabulary and any text: nothing but an error sentence may go wrong, and where every byte has a token the bytes
 * come back.
 *
 * Input: byte 0 the model, 1 the pre-tokeniser and flags, 2 the number of pieces, 3 of merges; then pieces and merges,
 * each a length byte (low 4 bits; high bits: the type) and its text; what is left is the text to encode. */
#include "base/mem.h"
#include "text/tok_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 256 + 256 + 4 };

struct input {
    const uint8_t *p;
    size_t n;
};

static uint8_t next(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

static struct tok_piece piece(struct input *in, uint8_t *head)
{
    *head = next(in);
    size_t n = *head & 15;
    if (n > in->n)
        n = in->n;
    struct tok_piece s = {(const char *)in->p, (uint32_t)n};
    in->p += n;
    in->n -= n;
    return s;
}

static struct tok_piece token[MAX], merge[256];
static int32_t type[MAX];
static float score[MAX];
static char byte_text[256][8];

/* 256 byte tokens in the spelling of the model, then the input's pieces. */
static void make(struct input *in, struct tok_spec *s)
{
    static const char *const model[] = {"gpt2", "llama", "gemma4", "t5"};
    static const char *const pre[] = {"gpt-2",  "llama-bpe",    "qwen35",      "gpt-4o",
                                      "smollm", "deepseek-llm", "deepseek-v3", "default"};
    uint8_t kind = next(in) & 3, flags = next(in), n_piece = next(in), n_merge = next(in), head;
    *s = (struct tok_spec){.model = model[kind],
                           .pre = pre[flags & 7],
                           .token = token,
                           .score = score,
                           .type = type,
                           .merge = merge,
                           .bos = -1,
                           .eos = -1,
                           .eot = -1,
                           .unk = -1,
                           .add_bos = -1,
                           .add_eos = -1,
                           .add_space_prefix = (int8_t)((flags >> 3 & 3) - 1),
                           .remove_extra_spaces = flags & 32};
    for (int b = 0; b < 256; b++) {
        if (kind)
            snprintf(byte_text[b], sizeof *byte_text, "<0x%02X>", b);
        else
            byte_text[b][utf8_encode(tok_letter_of_byte((uint8_t)b), byte_text[b])] = 0;
        token[b] = (struct tok_piece){byte_text[b], (uint32_t)strlen(byte_text[b])};
        type[b] = kind ? TOK_BYTE : TOK_NORMAL;
        score[b] = 0;
    }
    token[256] = (struct tok_piece){TOK_SPACE, 3};
    type[256] = TOK_NORMAL;
    s->n_token = 257;
    for (int i = 0; i < n_piece; i++) {
        size_t k = s->n_token++;
        token[k] = piece(in, &head);
        type[k] = head >> 4 & 3 ? TOK_NORMAL : head >> 6 == 0 ? TOK_CONTROL : head >> 6 == 1 ? TOK_USER : TOK_UNUSED;
        score[k] = (float)((head * 37) % 11) - 9;
    }
    for (int i = 0; i < n_merge; i++)
        merge[s->n_merge++] = piece(in, &head);
}

/* SentencePiece vocabularies write spaces as U+2581 and put one before a text. Where a user-defined token or the text
 * itself has that sign, or a user-defined token has a space, the spelling is ambiguous and bytes need not come back. */
static bool ambiguous_spaces(const struct tok_spec *s, const uint8_t *p, size_t n)
{
    bool user = false;
    for (size_t i = 257; i < s->n_token; i++)
        user = user || (type[i] == TOK_USER && token[i].n &&
                        (memmem(token[i].s, token[i].n, TOK_SPACE, 3) || memchr(token[i].s, ' ', token[i].n)));
    return user || memmem(p, n, TOK_SPACE, 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct tok_spec s;
    struct glim_err e = {0};
    struct tokenizer *t;
    make(&in, &s);
    if (tok_open(&t, &s, &e) != GLIM_OK) {
        if (!e.message[0])
            abort();
        return 0;
    }
    bool exact = strcmp(s.model, "gpt2") == 0 || !ambiguous_spaces(&s, in.p, in.n);
    exact = exact && !(strcmp(s.model, "t5") == 0 && s.remove_extra_spaces);
    for (int flags = 0; flags <= TOK_SPECIAL; flags += TOK_SPECIAL) {
        int32_t *id;
        char *back;
        size_t n_id, n;
        if (tok_encode(t, (const char *)in.p, in.n, flags, &id, &n_id, &e) != GLIM_OK ||
            tok_decode(t, id, n_id, true, &back, &n, &e) != GLIM_OK) {
            fprintf(stderr, "%s\n", e.message);
            abort();
        }
        if (exact && (n != in.n || (n && memcmp(back, in.p, n) != 0))) {
            fprintf(stderr, "%zu bytes came back as %zu\n", in.n, n);
            abort();
        }
        mem_free(back);
        mem_free(id);
    }
    tok_close(t);
    return 0;
}
