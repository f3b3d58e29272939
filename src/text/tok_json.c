/* tokenizer.json of Hugging Face's `tokenizers`, and the config files beside it, as a tok_spec and tok_rules.
 *
 * Read are the components that the real families use; any other is refused by its type name, and so is a known one with
 * a parameter that changes ids in a way this module does not know. Truncation, padding and what a template puts after
 * the text are not read: they are for training and for encoders.
 *
 *   normalizer      NFC, Prepend "▁", Replace " " by "▁", Sequence
 *   pre_tokenizer   ByteLevel, Split (known patterns; the literal kind of Gemma), Digits, Metaspace, Sequence
 *   model           BPE, Unigram
 *   decoder         ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, Sequence: checked, decoding follows the
 * model post_processor  TemplateProcessing (for the bos token), ByteLevel, Sequence */
#include "base/arith.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tok_hf.h"

#include <string.h>

#define WHERE "cannot open tokenizer.json"

glim_status hf_unsupported(const char *part, const json_t *v, struct glim_err *e)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    return err_set(e, GLIM_REFUSED, WHERE ": %s: have %.100s, need one that is implemented", part,
                   type ? type : "a component without a type");
}

static glim_status bad_value(const char *part, const char *have, const char *need, struct glim_err *e)
{
    return err_set(e, GLIM_REFUSED, WHERE ": %s: have %.100s, need %s", part, have, need);
}

static bool type_is(const json_t *v, const char *type)
{
    const char *s = json_string_value(json_object_get(v, "type"));
    return s && strcmp(s, type) == 0;
}

static bool string_is(const json_t *v, const char *key, const char *want)
{
    const char *s = json_string_value(json_object_get(v, key));
    return s && strcmp(s, want) == 0;
}

/* A missing or null member has the value `absent`. */
static bool flag(const json_t *v, const char *key, bool absent)
{
    const json_t *x = json_object_get(v, key);
    return json_is_boolean(x) ? json_is_true(x) : absent;
}

/* Run fn on v, or on each part of v when it is a Sequence whose parts stand under `list`. */
typedef glim_status part_fn(struct hf *h, const json_t *v, struct glim_err *e);
static glim_status each_part(struct hf *h, const json_t *v, const char *list, part_fn *fn, struct glim_err *e)
{
    if (!v || json_is_null(v))
        return GLIM_OK;
    if (!type_is(v, "Sequence"))
        return fn(h, v, e);
    const json_t *parts = json_object_get(v, list);
    for (size_t i = 0; i < json_array_size(parts); i++)
        TRY(fn(h, json_array_get(parts, i), e));
    return GLIM_OK;
}

/* ---- normalizer ---- */

static glim_status add_prefix(struct hf *h, enum tok_prefix when, const char *text, bool unless_there,
                              struct glim_err *e)
{
    if (h->rules.prefix != TOK_PREFIX_NONE)
        return bad_value("prefix", "two of them", "one", e);
    h->rules.prefix = when;
    h->rules.prefix_text = text;
    h->rules.prefix_unless_there = unless_there;
    return GLIM_OK;
}

static glim_status normalizer(struct hf *h, const json_t *v, struct glim_err *e)
{
    const json_t *pattern = json_object_get(v, "pattern");
    if (type_is(v, "NFC")) {
        h->rules.nfc = true;
        return GLIM_OK;
    }
    if (type_is(v, "Prepend") && string_is(v, "prepend", TOK_SPACE)) {
        h->normalizer_prefix = true;
        return add_prefix(h, TOK_PREFIX_EACH, TOK_SPACE, false, e);
    }
    if (type_is(v, "Replace") && string_is(pattern, "String", " ") && string_is(v, "content", TOK_SPACE)) {
        h->rules.escape_space = true;
        return GLIM_OK;
    }
    return hf_unsupported("normalizer", v, e);
}

/* ---- pre_tokenizer ---- */

static glim_status add_stage(struct hf *h, struct split_stage stage, struct glim_err *e)
{
    if (h->rules.byte_level)
        return bad_value("pre_tokenizer", "a component after ByteLevel", "ByteLevel to be the last", e);
    return split_add(&h->rules.split, stage) ? GLIM_OK : bad_value("pre_tokenizer", "too many parts", "at most 8", e);
}

static glim_status pre_byte_level(struct hf *h, const json_t *v, struct glim_err *e)
{
    if (flag(v, "add_prefix_space", true)) {
        if (h->rules.split.n)
            return bad_value("pre_tokenizer ByteLevel", "add_prefix_space after a Split", "it to stand alone", e);
        TRY(add_prefix(h, TOK_PREFIX_EACH, " ", true, e));
    }
    if (flag(v, "use_regex", true))
        TRY(add_stage(h, (struct split_stage){.next = split_gpt2}, e));
    h->rules.byte_level = true;
    return GLIM_OK;
}

static glim_status pre_split(struct hf *h, const json_t *v, struct glim_err *e)
{
    const json_t *pattern = json_object_get(v, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    const char *behavior = json_string_value(json_object_get(v, "behavior"));
    bool invert = flag(v, "invert", false);
    if (!behavior || !(regex || literal))
        return bad_value("pre_tokenizer Split", "no pattern or behavior", "both", e);
    if (strcmp(behavior, "MergedWithPrevious") == 0 && !invert && strcmp(literal ? literal : regex, " ") == 0)
        return add_stage(h, (struct split_stage){.next = split_literal, .lit = " "}, e);
    if (!regex)
        return bad_value("pre_tokenizer Split", "a literal pattern that is not Gemma's", "a known regular expression",
                         e);
    if (h->rules.byte_level)
        return add_stage(h, (struct split_stage){0}, e);
    if (!split_pattern(regex, &h->rules.split))
        return err_set(e, GLIM_REFUSED,
                       WHERE ": pre_tokenizer Split: have the pattern \"%.200s\", need one of the known families'",
                       regex);
    bool isolated = strcmp(behavior, "Isolated") == 0 && !invert;
    bool matches = strcmp(behavior, "Removed") == 0 && invert; /* keep the matches, drop what lies between: nothing */
    if (isolated || (matches && split_is_total(&h->rules.split.stage[h->rules.split.n - 1])))
        return GLIM_OK;
    return bad_value("pre_tokenizer Split behavior", behavior, "Isolated", e);
}

static glim_status prefix_scheme(const json_t *v, enum tok_prefix *when, struct glim_err *e)
{
    const char *s = json_string_value(json_object_get(v, "prepend_scheme"));
    if (!s)
        s = flag(v, "add_prefix_space", true) ? "always" : "never";
    bool always = strcmp(s, "always") == 0, first = strcmp(s, "first") == 0;
    *when = always ? TOK_PREFIX_EACH : first ? TOK_PREFIX_FIRST : TOK_PREFIX_NONE;
    if (!always && !first && strcmp(s, "never") != 0)
        return bad_value("Metaspace prepend_scheme", s, "always, first or never", e);
    if (!string_is(v, "replacement", TOK_SPACE))
        return bad_value("Metaspace replacement", "another character", "U+2581", e);
    return GLIM_OK;
}

static glim_status pre_tokenizer(struct hf *h, const json_t *v, struct glim_err *e)
{
    if (type_is(v, "ByteLevel"))
        return pre_byte_level(h, v, e);
    if (type_is(v, "Split"))
        return pre_split(h, v, e);
    if (type_is(v, "Digits"))
        return add_stage(h, (struct split_stage){.next = split_number, .digits = flag(v, "individual_digits", false)},
                         e);
    if (!type_is(v, "Metaspace"))
        return hf_unsupported("pre_tokenizer", v, e);
    enum tok_prefix when;
    TRY(prefix_scheme(v, &when, e));
    if (when != TOK_PREFIX_NONE)
        TRY(add_prefix(h, when, TOK_SPACE, true, e));
    h->rules.escape_space = true;
    return flag(v, "split", true) ? add_stage(h, (struct split_stage){.next = split_space_word}, e) : GLIM_OK;
}

/* ---- decoder and post_processor ---- */

static glim_status decoder(struct hf *h, const json_t *v, struct glim_err *e)
{
    if (type_is(v, "Metaspace")) {
        enum tok_prefix when;
        TRY(prefix_scheme(v, &when, e));
        h->rules.strip_first = when != TOK_PREFIX_NONE;
        return GLIM_OK;
    }
    if (type_is(v, "Strip") && string_is(v, "content", " ") && json_integer_value(json_object_get(v, "start")) == 1 &&
        json_integer_value(json_object_get(v, "stop")) == 0) {
        h->rules.strip_first = true;
        return GLIM_OK;
    }
    bool spaces = type_is(v, "Replace") && string_is(json_object_get(v, "pattern"), "String", TOK_SPACE) &&
                  string_is(v, "content", " ");
    if (spaces || type_is(v, "ByteLevel") || type_is(v, "ByteFallback") || type_is(v, "Fuse"))
        return GLIM_OK;
    return hf_unsupported("decoder", v, e);
}

static glim_status template_bos(struct hf *h, const json_t *v, struct glim_err *e)
{
    const json_t *single = json_object_get(v, "single");
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *part = json_object_get(json_array_get(single, i), "SpecialToken");
        if (!part)
            return GLIM_OK; /* the text; what follows it is for encoders */
        const char *name = json_string_value(json_object_get(part, "id"));
        const json_t *token = name ? json_object_get(json_object_get(v, "special_tokens"), name) : NULL;
        const json_t *ids = json_object_get(token, "ids");
        if (i > 0 || json_array_size(ids) != 1)
            return bad_value("post_processor TemplateProcessing", "several tokens before the text", "one", e);
        h->template_bos = json_integer_value(json_array_get(ids, 0));
    }
    return GLIM_OK;
}

static glim_status post_processor(struct hf *h, const json_t *v, struct glim_err *e)
{
    if (type_is(v, "TemplateProcessing"))
        return template_bos(h, v, e);
    return type_is(v, "ByteLevel") ? GLIM_OK : hf_unsupported("post_processor", v, e);
}

/* ---- model ---- */

static glim_status model_rules(struct hf *h, const json_t *m, struct glim_err *e)
{
    const json_t *dropout = json_object_get(m, "dropout");
    const char *prefix = json_string_value(json_object_get(m, "continuing_subword_prefix"));
    const char *suffix = json_string_value(json_object_get(m, "end_of_word_suffix"));
    bool untyped = !json_object_get(m, "type") && json_object_get(m, "merges");
    if (!type_is(m, "BPE") && !type_is(m, "Unigram") && !untyped)
        return hf_unsupported("model", m, e);
    if (json_number_value(dropout) != 0)
        return bad_value("model dropout", "a rate", "none", e);
    if ((prefix && *prefix) || (suffix && *suffix))
        return bad_value("model", "continuing_subword_prefix or end_of_word_suffix", "neither", e);
    h->rules.kind = type_is(m, "Unigram") ? TOK_UNIGRAM : TOK_BPE;
    h->rules.byte_fallback = flag(m, "byte_fallback", false);
    h->rules.ignore_merges = flag(m, "ignore_merges", false);
    h->rules.fuse_unk = flag(m, "fuse_unk", false);
    if (h->rules.byte_level && h->rules.kind == TOK_UNIGRAM)
        return bad_value("model Unigram", "a ByteLevel pre_tokenizer", "another", e);
    return GLIM_OK;
}

static glim_status read_rules(struct hf *h, const json_t *root, struct glim_err *e)
{
    h->template_bos = -1;
    TRY(each_part(h, json_object_get(root, "normalizer"), "normalizers", normalizer, e));
    TRY(each_part(h, json_object_get(root, "pre_tokenizer"), "pretokenizers", pre_tokenizer, e));
    TRY(each_part(h, json_object_get(root, "decoder"), "decoders", decoder, e));
    TRY(each_part(h, json_object_get(root, "post_processor"), "processors", post_processor, e));
    TRY(model_rules(h, json_object_get(root, "model"), e));
    bool unigram = h->rules.kind == TOK_UNIGRAM;
    h->rules.name = unigram ? "unigram" : h->rules.escape_space ? "spm-bpe" : split_name(&h->rules.split);
    return GLIM_OK;
}

/* ---- opening ---- */

glim_status tok_open_json(struct tokenizer **out, const struct tok_json *j, struct glim_err *e)
{
    struct hf h = {0};
    json_t *root = NULL;
    glim_status st;
    *out = NULL;
    TRY_OUT(json_parse(j->tokenizer, j->n_tokenizer, "tokenizer.json", &root, e));
    TRY_OUT(read_rules(&h, root, e));
    TRY_OUT(hf_read_vocab(&h, root, e));
    TRY_OUT(hf_read_configs(&h, j, e));
    TRY_OUT(tok_build(out, &h.spec, &h.rules, (struct tok_extra){h.strip, h.cut}, e));
out:
    hf_fini(&h);
    json_decref(root);
    return st;
}
