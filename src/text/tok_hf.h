/* State of opening a tokenizer.json, shared by tok_json.c (components) and tok_hf.c (vocabulary, merges, config files).
 */
#ifndef GLIM_TEXT_TOK_HF_H
#define GLIM_TEXT_TOK_HF_H

#include "base/json.h"
#include "text/tok_impl.h"

struct hf {
    struct tok_rules rules;
    struct tok_spec spec; /* its arrays are those below; pieces point into the JSON */
    struct tok_piece *token;
    int32_t *type;
    float *score;
    uint8_t *strip;
    struct tok_piece *merge;
    uint32_t *cut;
    char *merge_text;
    int32_t *end;
    bool normalizer_prefix;  /* the prefix is put there by the normalizer, not by Metaspace */
    json_int_t template_bos; /* -1 = the template has none */
};

glim_status hf_unsupported(const char *part, const json_t *v, struct glim_err *e);
glim_status hf_read_vocab(struct hf *h, const json_t *root, struct glim_err *e);
glim_status hf_read_configs(struct hf *h, const struct tok_json *j, struct glim_err *e);
void hf_fini(struct hf *h);

#endif
