/* Upper, lower, title case and digits of any script, as Python's str has them. */
#include "text/jinja_case.h"
#include "text/jinja_impl.h"
#include "text/unicode.h"

enum map { UPPER, LOWER, TITLE, FOLD };

/* Where a character stands in a sorted table of runs: the last run that begins at or before it. */
static const struct jj_case_run *run_of(uint32_t cp, enum map m)
{
    static const struct jj_case_run *const table[] = {jj_case_upper, jj_case_lower, jj_case_title_map, jj_case_fold};
    const size_t count[] = {jj_case_upper_n, jj_case_lower_n, jj_case_title_map_n, jj_case_fold_n};
    const struct jj_case_run *t = table[m];
    size_t lo = 0, hi = count[m];
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t[mid].first <= cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && cp <= t[lo - 1].last ? &t[lo - 1] : NULL;
}

/* The mapped characters: how many, 1 to 3. */
static size_t map_char(uint32_t cp, enum map m, uint32_t to[3])
{
    to[0] = cp;
    if (cp < 128) {
        bool upper = cp >= 'A' && cp <= 'Z', lower = cp >= 'a' && cp <= 'z';
        to[0] = m == UPPER || m == TITLE ? (lower ? cp - 32 : cp) : upper ? cp + 32 : cp;
        return 1;
    }
    for (size_t i = 0; i < jj_case_many_n; i++)
        if (jj_case_many[i].map == m && jj_case_many[i].cp == cp) {
            memcpy(to, jj_case_many[i].to, sizeof jj_case_many[i].to);
            return to[2] ? 3 : 2;
        }
    const struct jj_case_run *r = run_of(cp, m);
    if (r && (cp - r->first) % r->step == 0)
        to[0] = (uint32_t)((int64_t)cp + r->delta);
    return 1;
}

/* Membership in first, last pairs in ascending order. */
static bool within(uint32_t cp, const uint32_t *pairs, size_t n)
{
    size_t lo = 0, hi = n / 2;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (pairs[2 * mid + 1] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n / 2 && pairs[2 * lo] <= cp;
}

bool jj_cased(uint32_t cp, bool *upper, bool *lower)
{
    uint8_t c = cp < 128 ? uc_ascii[cp] : uc_class(cp);
    bool title = cp >= 128 && within(cp, jj_case_titled, jj_case_titled_n);
    *upper = ((c & UC_UPPER) && !title) || within(cp, jj_case_other_upper, jj_case_other_upper_n);
    *lower = (c & UC_LOWER) || within(cp, jj_case_other_lower, jj_case_other_lower_n);
    return *upper || *lower || title;
}

bool jj_digit(uint32_t cp, bool decimal_only)
{
    if (within(cp, jj_case_decimal, jj_case_decimal_n))
        return true;
    return !decimal_only && within(cp, jj_case_digit, jj_case_digit_n);
}

/* Decimal digits stand in rows of ten. */
int jj_digit_value(uint32_t cp)
{
    for (size_t i = 0; i < jj_case_decimal_n; i += 2)
        if (cp >= jj_case_decimal[i] && cp <= jj_case_decimal[i + 1])
            return (int)((cp - jj_case_decimal[i]) % 10);
    return 0;
}

bool jj_numeric(uint32_t cp)
{
    return jj_digit(cp, false) || within(cp, jj_case_numeric, jj_case_numeric_n);
}

static bool is_cased(uint32_t cp)
{
    bool upper, lower;
    return jj_cased(cp, &upper, &lower);
}

/* A capital sigma at `at` is final when a letter stands before it and none behind; marks in between do not count. */
static bool final_sigma(const struct jj_str *s, size_t at)
{
    const uint8_t *p = (const uint8_t *)s->p, *end = p + s->n;
    struct uc_char c;
    size_t i = at;
    bool before = false;
    while (i > 0 && !before) {
        do
            i--;
        while (i > 0 && (p[i] & 0xC0) == 0x80);
        c = uc_at(p + i, end);
        if (within(c.cp, jj_case_ignorable, jj_case_ignorable_n))
            continue;
        before = is_cased(c.cp);
        break;
    }
    if (!before)
        return false;
    for (i = at + 2; i < s->n; i += c.len) {
        c = uc_at(p + i, end);
        if (!within(c.cp, jj_case_ignorable, jj_case_ignorable_n))
            return !is_cased(c.cp);
    }
    return true;
}

/* The map for the character at hand; `inside` says whether a cased letter stands right before it. */
static enum map map_for(enum jj_casing how, uint32_t cp, bool first, bool inside)
{
    bool upper, lower;
    switch (how) {
    case JJ_UPPER:
        return UPPER;
    case JJ_LOWER:
        return LOWER;
    case JJ_FOLD:
        return FOLD;
    case JJ_CAPITAL:
        return first ? TITLE : LOWER;
    case JJ_TITLE:
        return inside ? LOWER : TITLE;
    case JJ_SWAP:
        break;
    }
    jj_cased(cp, &upper, &lower);
    return upper ? LOWER : UPPER;
}

static glim_status put(struct jj *x, struct jj_buf *b, const uint32_t *cp, size_t n, bool data)
{
    char text[16];
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += (size_t)utf8_encode(cp[i], text + len);
    return jj_buf_add(x, b, text, len, data);
}

/* ASCII alone, upper or lower: a byte for a byte. */
static glim_status ascii_case(struct jj *x, const struct jj_str *s, bool upper, struct jj_val *out)
{
    char *p = jj_take(x, s->n);
    if (!p)
        return jj_out_of(x);
    for (size_t i = 0; i < s->n; i++) {
        char c = s->p[i];
        bool letter = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
        p[i] = (char)(letter ? c ^ 32 : c);
    }
    return jj_str_ref(x, p, s->n, s->data, out);
}

/* A mixed string becomes data: a mapping may look across the borders of its runs. */
glim_status jj_recase(struct jj *x, const struct jj_str *s, enum jj_casing how, struct jj_val *out)
{
    const uint8_t *p = (const uint8_t *)s->p, *end = p + s->n;
    struct jj_buf b = {0};
    bool inside = false;
    if ((how == JJ_UPPER || how == JJ_LOWER) && uc_is_ascii(p, s->n))
        return ascii_case(x, s, how == JJ_UPPER, out);
    TRY(jj_work(x, s->n));
    for (size_t at = 0; at < s->n;) {
        struct uc_char c = uc_at(p + at, end);
        uint32_t to[3];
        enum map m = map_for(how, c.cp, at == 0, inside);
        size_t n = map_char(c.cp, m, to);
        if (c.cp == 0x3A3 && m == LOWER) {
            TRY(jj_work(x, 64));
            to[0] = final_sigma(s, at) ? 0x3C2 : 0x3C3;
        }
        TRY(put(x, &b, to, n, s->data));
        inside = is_cased(c.cp);
        at += c.len;
    }
    return jj_buf_done(x, &b, out);
}
