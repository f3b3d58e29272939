/* The splitters. Above each stands the pattern it is equal to; alternatives are tried in the pattern's order, and the
 * one that matches takes as much as a backtracking engine would give it. `(?i:s)` includes U+017F (long s) there, so it
 * does here. */
#include "text/split.h"

#include <string.h>

static const uint8_t *run(const uint8_t *p, const uint8_t *end, uint8_t mask)
{
    struct uc_char c;
    while ((c = uc_at(p, end)).cls & mask)
        p += c.len;
    return p;
}

/* As long as no class of mask is met. */
static const uint8_t *run_not(const uint8_t *p, const uint8_t *end, uint8_t mask)
{
    struct uc_char c;
    while ((c = uc_at(p, end)).len && !(c.cls & mask))
        p += c.len;
    return p;
}

static const uint8_t *run_up_to(const uint8_t *p, const uint8_t *end, uint8_t mask, int most)
{
    struct uc_char c;
    for (int i = 0; (most == 0 || i < most) && (c = uc_at(p, end)).cls & mask; i++)
        p += c.len;
    return p;
}

static bool is_newline(uint32_t cp)
{
    return cp == '\n' || cp == '\r';
}

static const uint8_t *run_newlines(const uint8_t *p, const uint8_t *end, bool slash)
{
    while (p < end && (is_newline(*p) || (slash && *p == '/')))
        p++;
    return p;
}

/* Length of 's 't 're 've 'm 'll 'd at p, 0 when it is none of them. fold: in any letter case. */
static size_t contraction(const uint8_t *p, const uint8_t *end, bool fold)
{
    size_t n = (size_t)(end - p);
    if (n < 2 || *p != '\'')
        return 0;
    if (fold && n >= 3 && p[1] == 0xC5 && p[2] == 0xBF)
        return 3; /* U+017F */
    uint8_t a = fold && p[1] < 128 ? p[1] | 0x20 : p[1];
    uint8_t b = n < 3 ? 0 : fold && p[2] < 128 ? p[2] | 0x20 : p[2];
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return two ? 3 : 0;
}

/* \s+(?!\S)|\s+   All spaces at the end of the piece; else all but the last, which may belong to the next word. */
static const uint8_t *spaces(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q = p, *last = p;
    struct uc_char c;
    while ((c = uc_at(q, end)).cls & UC_SPACE) {
        last = q;
        q += c.len;
    }
    return q == end || last == p ? q : last;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ */
static const uint8_t *spaces_or_lines(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q = p, *line = NULL;
    struct uc_char c;
    while ((c = uc_at(q, end)).cls & UC_SPACE) {
        q += c.len;
        if (is_newline(c.cp))
            line = q;
    }
    return line ? line : spaces(p, end);
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
const uint8_t *split_gpt2(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    size_t n = contraction(p, end, false);
    if (n)
        return p + n;
    const uint8_t *q = p + (*p == ' ');
    struct uc_char c = uc_at(q, end);
    if (c.cls & UC_L)
        return run(q, end, UC_L);
    if (c.cls & UC_N)
        return run(q, end, UC_N);
    if (c.len && !(c.cls & UC_SPACE))
        return run_not(q, end, UC_SPACE | UC_L | UC_N);
    return spaces(p, end);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?W+|\p{N}{1,digits}| ?[^\sW\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * with W = \p{L}, or [\p{L}\p{M}] where stage.word has UC_M. */
static const uint8_t *split_cl100k(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    size_t n = contraction(p, end, true);
    if (n)
        return p + n;
    struct uc_char c = uc_at(p, end);
    if (c.cls & s->word)
        return run(p, end, s->word);
    if (c.cls & UC_N)
        return run_up_to(p, end, UC_N, s->digits);
    struct uc_char d = uc_at(p + c.len, end);
    if (d.cls & s->word && !is_newline(c.cp))
        return run(p + c.len, end, s->word);
    if (c.cp == ' ' && d.len && !(d.cls & (UC_SPACE | UC_N)))
        return run_newlines(run_not(p + 1, end, UC_SPACE | UC_N | s->word), end, false);
    if (!(c.cls & UC_SPACE))
        return run_newlines(run_not(p, end, UC_SPACE | UC_N | s->word), end, false);
    return spaces_or_lines(p, end);
}

/* The two cases of a letter, where marks and letters without case are both. */
enum { UPPER = 1, LOWER = 2 };

static int case_of(struct uc_char c, bool han)
{
    if (!(c.cls & (UC_L | UC_M)) || (han && uc_in(uc_han, uc_han_n, c.cp)))
        return 0;
    return c.cls & UC_UPPER ? UPPER : c.cls & UC_LOWER ? LOWER : UPPER | LOWER;
}

/* U*L+ or, where no such match begins at p, U+L* (*weak is set then); NULL when p begins neither.
 * A backtracking engine takes all of U*, then gives back until one character of L is left for L+: the last such of the
 * run. */
static const uint8_t *cased_word(const uint8_t *p, const uint8_t *end, bool han, bool *weak)
{
    const uint8_t *q = p, *both = NULL;
    struct uc_char c;
    int k;
    while ((k = case_of(c = uc_at(q, end), han)) & UPPER) {
        q += c.len;
        if (k & LOWER)
            both = q;
    }
    *weak = !both && !(k & LOWER);
    if (*weak)
        return q > p ? q : NULL;
    if (!(k & LOWER))
        return both;
    while (case_of(c = uc_at(q, end), han) & LOWER)
        q += c.len;
    return q;
}

/* [^\r\n\p{L}\p{N}]?U*L+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?U+L*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,digits}
 * | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L = [\p{Ll}\p{Lm}\p{Lo}\p{M}]. The contractions are there with
 * stage.contract, the slash with stage.slash; with stage.han, [\p{Han}]+| stands in front and neither U nor L has Han
 * characters. A mark is both a possible first character and a word: U*L+ without it in front wins over U+L* with it. */
static const uint8_t *split_cased(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    if (s->han) {
        const uint8_t *q = p;
        struct uc_char h;
        while ((h = uc_at(q, end)).len && uc_in(uc_han, uc_han_n, h.cp))
            q += h.len;
        if (q > p)
            return q;
    }
    struct uc_char c = uc_at(p, end);
    const uint8_t *w = NULL;
    bool weak = true;
    if (!(c.cls & (UC_L | UC_N)) && !is_newline(c.cp))
        w = cased_word(p + c.len, end, s->han, &weak);
    if (weak && c.cls & (UC_L | UC_M))
        w = cased_word(p, end, s->han, &weak);
    if (w)
        return w + (s->contract ? contraction(w, end, true) : 0);
    if (c.cls & UC_N)
        return run_up_to(p, end, UC_N, s->digits);
    struct uc_char d = uc_at(p + c.len, end);
    const uint8_t *q = p + (c.cp == ' ' && d.len && !(d.cls & (UC_SPACE | UC_L | UC_N)));
    if (q == p && c.cls & UC_SPACE)
        return spaces_or_lines(p, end);
    return run_newlines(run_not(q, end, UC_SPACE | UC_L | UC_N), end, s->slash);
}

/* ---- stages that isolate matches: between two matches lies a gap, which is a piece too ---- */

typedef const uint8_t *match_fn(const struct split_stage *s, const uint8_t *p, const uint8_t *end);

/* The match at p, or the gap up to the next match. */
static const uint8_t *isolate(match_fn *match, const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q = match(s, p, end);
    if (q)
        return q;
    for (q = p + uc_at(p, end).len; q < end && !match(s, q, end);)
        q += uc_at(q, end).len;
    return q;
}

/* \p{N}{1,digits} */
static const uint8_t *match_number(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q = run_up_to(p, end, UC_N, s->digits);
    return q > p ? q : NULL;
}

const uint8_t *split_number(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_number, s, p, end);
}

/* [0-9][0-9][0-9] */
static const uint8_t *match_three(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    for (int i = 0; i < 3; i++)
        if (end - p < 3 || p[i] < '0' || p[i] > '9')
            return NULL;
    return p + 3;
}

static const uint8_t *split_three(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_three, s, p, end);
}

/* [\p{P}\$\+<=>\^~\|]+ */
static const uint8_t *match_punct(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    const uint8_t *q = p;
    struct uc_char c;
    while ((c = uc_at(q, end)).cls & UC_P || (c.len == 1 && c.cp && c.cp < 128 && strchr("$+<=>^~|", (int)c.cp)))
        q += c.len;
    return q > p ? q : NULL;
}

static const uint8_t *split_punct(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_punct, s, p, end);
}

/* [\r\n] */
static const uint8_t *match_line(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    (void)end;
    return is_newline(*p) ? p + 1 : NULL;
}

static const uint8_t *split_line(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_line, s, p, end);
}

typedef bool set_fn(struct uc_char c);

/* \s?[set]+   The space is not part of any of the sets but U+3000 of is_old_punct, which the optional \s takes first.
 */
static const uint8_t *space_and(set_fn *in, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q = p;
    struct uc_char c = uc_at(q, end);
    if (c.cls & UC_SPACE) {
        struct uc_char d = uc_at(q + c.len, end);
        if (d.len && in(d))
            q += c.len;
    }
    const uint8_t *first = q;
    while ((c = uc_at(q, end)).len && in(c))
        q += c.len;
    return q > first ? q : NULL;
}

static bool is_letter(struct uc_char c)
{
    return c.cls & UC_L;
}

static bool is_punct(struct uc_char c)
{
    return c.cls & UC_P;
}

/* The cased letters of DeepSeek's first pattern (tools/gen_unicode.py spells them). */
static bool is_old_letter(struct uc_char c)
{
    return uc_in(uc_deepseek, uc_deepseek_n, c.cp);
}

/* [!-/:-~！-／：-～‘-‟　-。] */
static bool is_old_punct(struct uc_char c)
{
    static const uint32_t set[] = {'!', '/', ':', '~', 0x2018, 0x201F, 0x3000, 0x3002, 0xFF01, 0xFF0F, 0xFF1A, 0xFF5E};
    return uc_in(set, sizeof set / sizeof *set, c.cp);
}

/* \s?[is_old_letter]+ */
static const uint8_t *match_old_letters(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    return space_and(is_old_letter, p, end);
}

static const uint8_t *split_old_letters(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_old_letters, s, p, end);
}

/* \s?[is_old_punct]+ */
static const uint8_t *match_old_punct(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    return space_and(is_old_punct, p, end);
}

static const uint8_t *split_old_punct(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_old_punct, s, p, end);
}

/* \s?\p{L}+ */
static const uint8_t *match_letters(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    return space_and(is_letter, p, end);
}

static const uint8_t *split_letters(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_letters, s, p, end);
}

/* \s?\p{P}+ */
static const uint8_t *match_puncts(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    return space_and(is_punct, p, end);
}

static const uint8_t *split_puncts(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_puncts, s, p, end);
}

/* \s+$   In the engine's Ruby syntax $ also matches before a line end; pieces that reach this stage hold none but
 * alone. */
static const uint8_t *split_last_spaces(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    for (const uint8_t *q = p; q < end;) {
        const uint8_t *r = run(q, end, UC_SPACE);
        if (r == end)
            return q == p ? end : q;
        q = run_not(r, end, UC_SPACE);
    }
    return end;
}

/* [一-龥ࠀ-一가-퟿]+   (U+0800 to U+9FA5 and U+AC00 to U+D7FF) */
static const uint8_t *match_old_cjk(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    static const uint32_t set[] = {0x800, 0x9FA5, 0xAC00, 0xD7FF};
    (void)s;
    const uint8_t *q = p;
    struct uc_char c;
    while ((c = uc_at(q, end)).len && uc_in(set, 4, c.cp))
        q += c.len;
    return q > p ? q : NULL;
}

static const uint8_t *split_old_cjk(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_old_cjk, s, p, end);
}

/* [一-龥぀-ゟ゠-ヿ]+   (U+4E00 to U+9FA5 and U+3040 to U+30FF) */
static const uint8_t *match_cjk(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    static const uint32_t set[] = {0x3040, 0x30FF, 0x4E00, 0x9FA5};
    (void)s;
    const uint8_t *q = p;
    struct uc_char c;
    while ((c = uc_at(q, end)).len && uc_in(set, 4, c.cp))
        q += c.len;
    return q > p ? q : NULL;
}

static const uint8_t *split_cjk(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_cjk, s, p, end);
}

static bool is_ascii_punct(uint32_t cp)
{
    return cp > ' ' && cp < 127 && !(uc_ascii[cp] & (UC_L | UC_N));
}

static bool is_ascii_letter(uint32_t cp)
{
    return cp < 128 && uc_ascii[cp] & UC_L;
}

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
 * ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+
 * |\s+(?!\S)|\s+ */
static const uint8_t *match_v3(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    struct uc_char c = uc_at(p, end), d = uc_at(p + c.len, end);
    if (is_ascii_punct(c.cp) && is_ascii_letter(d.cp)) {
        const uint8_t *q = p + 1;
        while (q < end && is_ascii_letter(*q))
            q++;
        return q;
    }
    if (c.cls & (UC_L | UC_M))
        return run(p, end, UC_L | UC_M);
    if (d.cls & (UC_L | UC_M) && !(c.cls & (UC_P | UC_S)) && !is_newline(c.cp))
        return run(p + c.len, end, UC_L | UC_M);
    const uint8_t *q = p + (c.cp == ' ' && d.cls & (UC_P | UC_S));
    if (q > p || c.cls & (UC_P | UC_S))
        return run_newlines(run(q, end, UC_P | UC_S), end, false);
    return c.cls & UC_SPACE ? spaces_or_lines(p, end) : NULL;
}

static const uint8_t *split_v3(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    return isolate(match_v3, s, p, end);
}

/* Metaspace with split: a word begins at each U+2581. */
const uint8_t *split_space_word(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    for (const uint8_t *q = p + 1; end - q >= 3; q++)
        if (memcmp(q, "\xE2\x96\x81", 3) == 0)
            return q;
    return end;
}

/* The literal goes with the text before it ("MergedWithPrevious"). */
const uint8_t *split_literal(const struct split_stage *s, const uint8_t *p, const uint8_t *end)
{
    size_t n = strlen(s->lit);
    const uint8_t *q = memmem(p, (size_t)(end - p), s->lit, n);
    return q ? q + n : end;
}

/* ---- families ---- */

#define DIGITS(n)                                                                                                      \
    {                                                                                                                  \
        .next = split_number, .digits = (n)                                                                            \
    }
#define GPT2                                                                                                           \
    {                                                                                                                  \
        .next = split_gpt2                                                                                             \
    }
#define CASED(...)                                                                                                     \
    {                                                                                                                  \
        .next = split_cased, __VA_ARGS__                                                                               \
    }

struct family {
    const char *name;
    struct split split;
};

static const struct family families[] = {
    {"none", {.n = 0}},
    {"gpt-2", {{GPT2}, 1}},
    {"digits", {{DIGITS(1), GPT2}, 2}},
    {"llama3", {{{.next = split_cl100k, .digits = 3, .word = UC_L}}, 1}},
    {"qwen2", {{{.next = split_cl100k, .digits = 1, .word = UC_L}}, 1}},
    {"qwen35", {{{.next = split_cl100k, .digits = 1, .word = UC_L | UC_M}}, 1}},
    {"gpt-4o", {{CASED(.digits = 3, .contract = true, .slash = true)}, 1}},
    {"tekken", {{CASED(.digits = 1, .slash = true)}, 1}},
    {"kimi-k2", {{CASED(.digits = 3, .contract = true, .han = true)}, 1}},
    {"deepseek-llm",
     {{{.next = split_line},
       {.next = split_old_letters},
       {.next = split_old_punct},
       {.next = split_last_spaces},
       {.next = split_old_cjk},
       DIGITS(0)},
      6}},
    {"deepseek-coder",
     {{{.next = split_line}, {.next = split_letters}, {.next = split_puncts}, {.next = split_old_cjk}, DIGITS(1)}, 5}},
    {"deepseek-v3", {{DIGITS(3), {.next = split_cjk}, {.next = split_v3}}, 3}},
    {"default", {{{.next = split_punct}, GPT2, DIGITS(0), {.next = split_three}}, 4}},
};

bool split_family(const char *name, struct split *s)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, name) == 0) {
            *s = families[i].split;
            return true;
        }
    return false;
}

static bool same_stage(const struct split_stage *a, const struct split_stage *b)
{
    return a->next == b->next && a->digits == b->digits && a->word == b->word && a->contract == b->contract &&
           a->han == b->han && a->slash == b->slash && !a->lit && !b->lit;
}

const char *split_name(const struct split *s)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct split *f = &families[i].split;
        int k = 0;
        while (k < s->n && k < f->n && same_stage(&s->stage[k], &f->stage[k]))
            k++;
        if (s->n == f->n && k == s->n)
            return families[i].name;
    }
    return "custom";
}

bool split_is_total(const struct split_stage *s)
{
    return s->next == split_gpt2 || s->next == split_cl100k || s->next == split_cased;
}

bool split_add(struct split *s, struct split_stage stage)
{
    if (s->n == SPLIT_MAX)
        return false;
    s->stage[s->n++] = stage;
    return true;
}

#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL   "|\\s+(?!\\S)|\\s+"
#define LINES  "|\\s*[\\r\\n]+" TAIL
#define CL100K(word, digits, not_other)                                                                                \
    FOLDED "|[^\\r\\n\\p{L}\\p{N}]?" word "+|\\p{N}" digits "| ?[^\\s" not_other "]+[\\r\\n]*" LINES
#define U_                      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define L_                      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORDS(u, l, tail) "[^\\r\\n\\p{L}\\p{N}]?" u "*" l "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" u "+" l "*" tail
#define UH                      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LH                      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"

/* What tokenizer.json files spell, after JSON. Families whose pattern is one stage appear under the family's name. */
static const struct {
    const char *regex;
    struct split_stage stage;
} patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+" TAIL, GPT2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+" TAIL, GPT2},
    {CL100K("\\p{L}", "{1,3}", "\\p{L}\\p{N}"), {.next = split_cl100k, .digits = 3, .word = UC_L}},
    {CL100K("\\p{L}", "", "\\p{L}\\p{N}"), {.next = split_cl100k, .digits = 1, .word = UC_L}},
    {CL100K("\\p{L}", "+", "\\p{L}\\p{N}"), {.next = split_cl100k, .digits = 0, .word = UC_L}},
    {CL100K("[\\p{L}\\p{M}]", "", "\\p{L}\\p{M}\\p{N}"), {.next = split_cl100k, .digits = 1, .word = UC_L | UC_M}},
    {CASED_WORDS(U_, L_, FOLDED "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" LINES,
     CASED(.digits = 3, .contract = true, .slash = true)},
    {CASED_WORDS(U_, L_, "") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" LINES, CASED(.digits = 1, .slash = true)},
    {"[\\p{Han}]+|" CASED_WORDS(UH, LH, FOLDED "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" LINES,
     CASED(.digits = 3, .contract = true, .han = true)},
    {"\\p{N}{1,3}", DIGITS(3)},
    {"\\p{N}", DIGITS(1)},
    {"\\p{N}+", DIGITS(0)},
    {"[0-9][0-9][0-9]", {.next = split_three}},
    {"[\r\n]", {.next = split_line}},
    {uc_deepseek_pattern, {.next = split_old_letters}},
    {"\\s?[!-/:-~！-／：-～‘-‟　-。]+", {.next = split_old_punct}},
    {"\\s+$", {.next = split_last_spaces}},
    {"[一-龥ࠀ-一가-퟿]+", {.next = split_old_cjk}},
    {"\\s?\\p{L}+", {.next = split_letters}},
    {"\\s?\\p{P}+", {.next = split_puncts}},
    {"[一-龥぀-ゟ゠-ヿ]+", {.next = split_cjk}},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
     "[\r\n]*|\\s*[\r\n]+" TAIL,
     {.next = split_v3}},
};

bool split_pattern(const char *regex, struct split *s)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].regex, regex) == 0)
            return split_add(s, patterns[i].stage);
    return false;
}

static glim_status stage_run(const struct split *s, int k, const uint8_t *p, const uint8_t *end, split_word *fn,
                             void *user)
{
    if (k == s->n)
        return fn(user, p, (size_t)(end - p));
    while (p < end) {
        const uint8_t *q = s->stage[k].next(&s->stage[k], p, end);
        TRY(stage_run(s, k + 1, p, q, fn, user));
        p = q;
    }
    return GLIM_OK;
}

glim_status split_text(const struct split *s, const uint8_t *p, size_t n, split_word *fn, void *user)
{
    return n ? stage_run(s, 0, p, p + n, fn, user) : GLIM_OK;
}
