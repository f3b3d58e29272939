/* Methods of strings. Positions are code points, as in Python; the pieces they give keep their provenance. */
#include "text/jinja_impl.h"
#include "text/unicode.h"

static struct uc_char char_at(const struct jj_str *s, size_t byte)
{
    return uc_at((const uint8_t *)s->p + byte, (const uint8_t *)s->p + s->n);
}

/* Start of the character that ends at byte `end` > 0. */
static size_t char_before(const struct jj_str *s, size_t end)
{
    do
        end--;
    while (end > 0 && ((unsigned char)s->p[end] & 0xC0) == 0x80);
    return end;
}

static glim_status need_str(struct jj *x, struct jj_val v, const char *what, struct jj_str **out)
{
    *out = v.type == JJ_STR ? v.s : NULL;
    if (!*out)
        return jj_fail(x, "have '%s' for %s, need text", jj_type_name(v), what);
    return GLIM_OK;
}

/* ---- stripping ---- */

enum { LEFT = 1, RIGHT = 2 };

static bool strips(const struct jj_str *s, size_t byte, size_t n, const struct jj_str *chars)
{
    if (!chars)
        return jj_space(char_at(s, byte).cp);
    return jj_find(chars->p, chars->n, s->p + byte, n, 0) != SIZE_MAX;
}

static glim_status strip(struct jj *x, struct jj_call *c, int sides, struct jj_val *out)
{
    struct jj_str *s = c->self.s, *chars = NULL;
    size_t from = 0, to = s->n;
    if (c->arg[0].type != JJ_MISSING && c->arg[0].type != JJ_NONE)
        TRY(need_str(x, c->arg[0], "the characters to strip", &chars));
    size_t cost = chars ? 1 + chars->n / 16 : 1;
    while ((sides & LEFT) && from < to && strips(s, from, char_at(s, from).len, chars)) {
        TRY(jj_work(x, cost));
        from += char_at(s, from).len;
    }
    while ((sides & RIGHT) && to > from) {
        size_t at = char_before(s, to);
        TRY(jj_work(x, cost));
        if (!strips(s, at, to - at, chars))
            break;
        to = at;
    }
    return jj_str_sub(x, s, from, to, out);
}

static glim_status m_strip(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return strip(x, c, LEFT | RIGHT, out);
}

static glim_status m_lstrip(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return strip(x, c, LEFT, out);
}

static glim_status m_rstrip(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return strip(x, c, RIGHT, out);
}

static glim_status m_removeprefix(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s = c->self.s, *fix;
    TRY(need_str(x, c->arg[0], "removeprefix", &fix));
    bool has = s->n >= fix->n && memcmp(s->p, fix->p, fix->n) == 0;
    return jj_str_sub(x, s, has ? fix->n : 0, s->n, out);
}

static glim_status m_removesuffix(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s = c->self.s, *fix;
    TRY(need_str(x, c->arg[0], "removesuffix", &fix));
    bool has = s->n >= fix->n && memcmp(s->p + s->n - fix->n, fix->p, fix->n) == 0;
    return jj_str_sub(x, s, 0, has ? s->n - fix->n : s->n, out);
}

/* ---- splitting ---- */

static glim_status add_piece(struct jj *x, struct jj_val list, const struct jj_str *s, size_t from, size_t to)
{
    struct jj_val v;
    TRY(jj_work(x, 1));
    TRY(jj_str_sub(x, s, from, to, &v));
    return jj_list_add(x, list, v);
}

static void reverse(struct jj_list *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        struct jj_val t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
}

/* At runs of white space; max splits counted from the left. */
static glim_status split_space(struct jj *x, const struct jj_str *s, int64_t max, struct jj_val *out)
{
    size_t at = 0, from;
    TRY(jj_work(x, s->n / 8));
    for (;;) {
        while (at < s->n && jj_space(char_at(s, at).cp))
            at += char_at(s, at).len;
        if (at == s->n)
            return GLIM_OK;
        from = at;
        if (max-- == 0)
            return add_piece(x, *out, s, from, s->n);
        while (at < s->n && !jj_space(char_at(s, at).cp))
            at += char_at(s, at).len;
        TRY(add_piece(x, *out, s, from, at));
    }
}

static glim_status rsplit_space(struct jj *x, const struct jj_str *s, int64_t max, struct jj_val *out)
{
    size_t to = s->n, end;
    TRY(jj_work(x, s->n / 8));
    for (;;) {
        while (to > 0 && jj_space(char_at(s, char_before(s, to)).cp))
            to = char_before(s, to);
        if (to == 0)
            return GLIM_OK;
        end = to;
        if (max-- == 0)
            return add_piece(x, *out, s, 0, end);
        while (to > 0 && !jj_space(char_at(s, char_before(s, to)).cp))
            to = char_before(s, to);
        TRY(add_piece(x, *out, s, to, end));
    }
}

/* Last occurrence of sub that ends at or before `end`, SIZE_MAX when there is none. */
static size_t rfind(const struct jj_str *s, const struct jj_str *sub, size_t from, size_t end)
{
    for (size_t at = sub->n > end ? SIZE_MAX : end - sub->n; at != SIZE_MAX && at >= from; at--) {
        if (memcmp(s->p + at, sub->p, sub->n) == 0)
            return at;
        if (at == 0)
            break;
    }
    return SIZE_MAX;
}

static glim_status split_at(struct jj *x, const struct jj_str *s, const struct jj_str *sep, int64_t max,
                            struct jj_val *out)
{
    size_t from = 0, hit;
    TRY(jj_work(x, s->n / 16));
    while (max-- != 0 && (hit = jj_find(s->p, s->n, sep->p, sep->n, from)) != SIZE_MAX) {
        TRY(add_piece(x, *out, s, from, hit));
        from = hit + sep->n;
    }
    return add_piece(x, *out, s, from, s->n);
}

static glim_status rsplit_at(struct jj *x, const struct jj_str *s, const struct jj_str *sep, int64_t max,
                             struct jj_val *out)
{
    size_t end = s->n, hit;
    TRY(jj_work(x, s->n / 16 * (1 + sep->n / 64)));
    while (max-- != 0 && (hit = rfind(s, sep, 0, end)) != SIZE_MAX) {
        TRY(add_piece(x, *out, s, hit + sep->n, end));
        end = hit;
    }
    return add_piece(x, *out, s, 0, end);
}

static glim_status split(struct jj *x, struct jj_call *c, bool right, struct jj_val *out)
{
    struct jj_str *sep;
    int64_t max;
    TRY(jj_arg_int(x, c->arg[1], -1, &max));
    max = max < 0 ? -1 : max;
    TRY(jj_list_new(x, JJ_LIST, 0, out));
    if (c->arg[0].type == JJ_MISSING || c->arg[0].type == JJ_NONE) {
        TRY((right ? rsplit_space : split_space)(x, c->self.s, max, out));
    } else {
        TRY(need_str(x, c->arg[0], "the separator", &sep));
        if (sep->n == 0)
            return jj_fail(x, "have an empty separator, need one with characters");
        TRY((right ? rsplit_at : split_at)(x, c->self.s, sep, max, out));
    }
    if (right)
        reverse(out->l);
    return GLIM_OK;
}

static glim_status m_split(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return split(x, c, false, out);
}

static glim_status m_rsplit(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return split(x, c, true, out);
}

static bool line_end(uint32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static glim_status m_splitlines(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s = c->self.s;
    bool keep = jj_arg_true(c->arg[0], false);
    size_t from = 0;
    TRY(jj_list_new(x, JJ_LIST, 0, out));
    TRY(jj_work(x, s->n / 8));
    for (size_t at = 0; at < s->n;) {
        struct uc_char ch = char_at(s, at);
        size_t end = at + ch.len;
        if (!line_end(ch.cp)) {
            at = end;
            continue;
        }
        if (ch.cp == '\r' && end < s->n && s->p[end] == '\n')
            end++;
        TRY(add_piece(x, *out, s, from, keep ? end : at));
        from = at = end;
    }
    return from < s->n ? add_piece(x, *out, s, from, s->n) : GLIM_OK;
}

static glim_status partition(struct jj *x, struct jj_call *c, bool right, struct jj_val *out)
{
    struct jj_str *s = c->self.s, *sep;
    TRY(need_str(x, c->arg[0], "the separator", &sep));
    if (sep->n == 0)
        return jj_fail(x, "have an empty separator, need one with characters");
    TRY(jj_work(x, s->n / 16 * (1 + sep->n / 64)));
    size_t hit = right ? rfind(s, sep, 0, s->n) : jj_find(s->p, s->n, sep->p, sep->n, 0);
    size_t a = hit != SIZE_MAX ? hit : right ? 0 : s->n, b = hit != SIZE_MAX ? hit + sep->n : a;
    TRY(jj_list_new(x, JJ_TUPLE, 3, out));
    TRY(add_piece(x, *out, s, 0, a));
    TRY(add_piece(x, *out, s, a, b));
    return add_piece(x, *out, s, b, s->n);
}

static glim_status m_partition(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return partition(x, c, false, out);
}

static glim_status m_rpartition(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return partition(x, c, true, out);
}

/* ---- searching ---- */

/* The optional start and end of find, count and startswith (arg[i], arg[i + 1]), as bytes; false when start > end. */
static glim_status range_args(struct jj *x, struct jj_call *c, int i, size_t *from, size_t *to, bool *ok)
{
    struct jj_str *s = c->self.s;
    int64_t n, a, b;
    bool none_a = c->arg[i].type == JJ_NONE, none_b = c->arg[i + 1].type == JJ_NONE;
    TRY(jj_work(x, s->n / 32));
    n = (int64_t)jj_str_len(s);
    TRY(jj_arg_int(x, none_a ? jj_int(0) : c->arg[i], 0, &a));
    TRY(jj_arg_int(x, none_b ? jj_int(n) : c->arg[i + 1], n, &b));
    b = b > n ? n : b < 0 ? (b + n < 0 ? 0 : b + n) : b;
    a = a < 0 ? (a + n < 0 ? 0 : a + n) : a;
    *ok = a <= b;
    if (!*ok)
        return GLIM_OK;
    *from = jj_str_byte(s, (size_t)a);
    *to = jj_str_byte(s, (size_t)b);
    return GLIM_OK;
}

static glim_status find(struct jj *x, struct jj_call *c, bool right, bool must, struct jj_val *out)
{
    struct jj_str *s = c->self.s, *sub;
    size_t from, to, hit = SIZE_MAX;
    bool ok;
    TRY(need_str(x, c->arg[0], "the text to find", &sub));
    TRY(range_args(x, c, 1, &from, &to, &ok));
    TRY(jj_work(x, s->n / 16 * (right ? 1 + sub->n / 64 : 1)));
    if (ok)
        hit = right ? rfind(s, sub, from, to) : jj_find(s->p, to, sub->p, sub->n, from);
    if (hit == SIZE_MAX && must)
        return jj_fail(x, "have a text without the part asked for, need one with it (or find)");
    int64_t n = -1;
    if (hit != SIZE_MAX) {
        struct jj_str head = {.p = s->p, .n = hit, .n_cp = SIZE_MAX};
        n = (int64_t)jj_str_len(&head);
    }
    *out = jj_int(n);
    return GLIM_OK;
}

static glim_status m_find(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return find(x, c, false, false, out);
}

static glim_status m_rfind(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return find(x, c, true, false, out);
}

static glim_status m_index(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return find(x, c, false, true, out);
}

static glim_status m_rindex(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return find(x, c, true, true, out);
}

static glim_status m_count(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s = c->self.s, *sub;
    size_t from, to, hit;
    int64_t n = 0;
    bool ok;
    TRY(need_str(x, c->arg[0], "the text to count", &sub));
    TRY(range_args(x, c, 1, &from, &to, &ok));
    TRY(jj_work(x, s->n / 8));
    if (ok && sub->n == 0) {
        struct jj_str part = {.p = s->p + from, .n = to - from, .n_cp = SIZE_MAX};
        n = (int64_t)jj_str_len(&part) + 1;
    } else if (ok) {
        for (; (hit = jj_find(s->p, to, sub->p, sub->n, from)) != SIZE_MAX; from = hit + sub->n)
            n++;
    }
    *out = jj_int(n);
    return GLIM_OK;
}

static glim_status affix(struct jj *x, struct jj_call *c, bool end, struct jj_val *out)
{
    struct jj_val one[1] = {c->arg[0]}, *all = one;
    size_t n = 1, from, to;
    bool ok;
    if (c->arg[0].type == JJ_TUPLE) {
        all = c->arg[0].l->v;
        n = c->arg[0].l->n;
    }
    *out = jj_bool(false);
    TRY(range_args(x, c, 1, &from, &to, &ok));
    for (size_t i = 0; i < n; i++) {
        struct jj_str *fix;
        TRY(need_str(x, all[i], end ? "endswith" : "startswith", &fix));
        TRY(jj_work(x, 1));
        if (ok && fix->n <= to - from && memcmp(c->self.s->p + (end ? to - fix->n : from), fix->p, fix->n) == 0)
            *out = jj_bool(true);
    }
    return GLIM_OK;
}

static glim_status m_startswith(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return affix(x, c, false, out);
}

static glim_status m_endswith(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return affix(x, c, true, out);
}

/* ---- making text ---- */

static glim_status m_replace(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s = c->self.s, *old, *new;
    struct jj_buf b = {0};
    int64_t max;
    size_t from = 0;
    TRY(need_str(x, c->arg[0], "the text to replace", &old));
    TRY(need_str(x, c->arg[1], "the replacement", &new));
    TRY(jj_arg_int(x, c->arg[2], -1, &max));
    TRY(jj_work(x, s->n / 16));
    while (max != 0) {
        size_t hit = old->n ? jj_find(s->p, s->n, old->p, old->n, from) : from;
        if (hit == SIZE_MAX)
            break;
        max -= max > 0;
        TRY(jj_work(x, 1));
        TRY(jj_buf_sub(x, &b, s, from, hit));
        TRY(jj_buf_str(x, &b, new));
        from = hit + old->n;
        if (old->n == 0) { /* between all characters, and at both ends */
            if (from == s->n)
                break;
            size_t n = char_at(s, from).len;
            TRY(jj_buf_sub(x, &b, s, from, from + n));
            from += n;
        }
    }
    TRY(jj_buf_sub(x, &b, s, from, s->n));
    return jj_buf_done(x, &b, out);
}

static glim_status m_join(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_iter it;
    struct jj_buf b = {0};
    bool got;
    TRY(jj_iter_open(x, c->arg[0], &it));
    for (size_t i = 0;; i++) {
        struct jj_val e;
        struct jj_str *s;
        TRY(jj_iter_next(x, &it, &got, &e));
        if (!got)
            break;
        TRY(need_str(x, e, "a part to join", &s));
        if (i)
            TRY(jj_buf_str(x, &b, c->self.s));
        TRY(jj_buf_str(x, &b, s));
    }
    return jj_buf_done(x, &b, out);
}

/* left, right: how many fill characters on either side. */
static glim_status pad(struct jj *x, struct jj_call *c, int64_t left, int64_t right, struct jj_val *out)
{
    struct jj_buf b = {0};
    struct jj_str space = {.p = " ", .n = 1, .n_cp = 1}, *fill = &space;
    if (c->arg[1].type != JJ_MISSING)
        TRY(need_str(x, c->arg[1], "the fill character", &fill));
    if (jj_str_len(fill) != 1)
        return jj_fail(x, "have a fill of %zu characters, need one", jj_str_len(fill));
    bool data = fill->data || c->arg[0].data;
    TRY(jj_buf_fill(x, &b, fill->p, fill->n, (size_t)(left > 0 ? left : 0), data));
    TRY(jj_buf_str(x, &b, c->self.s));
    TRY(jj_buf_fill(x, &b, fill->p, fill->n, (size_t)(right > 0 ? right : 0), data));
    return jj_buf_done(x, &b, out);
}

/* How much a field of arg[0] characters has left. */
static glim_status room(struct jj *x, struct jj_call *c, int64_t *width, int64_t *left)
{
    size_t n;
    TRY(jj_arg_int(x, c->arg[0], 0, width));
    TRY(jj_len(x, c->self, &n));
    *left = *width > (int64_t)n ? *width - (int64_t)n : 0;
    return GLIM_OK;
}

static glim_status m_center(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    int64_t w, n;
    TRY(room(x, c, &w, &n));
    int64_t left = n / 2 + (n & w & 1); /* as CPython rounds it */
    return pad(x, c, left, n - left, out);
}

static glim_status m_ljust(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    int64_t w, n;
    TRY(room(x, c, &w, &n));
    return pad(x, c, 0, n, out);
}

static glim_status m_rjust(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    int64_t w, n;
    TRY(room(x, c, &w, &n));
    return pad(x, c, n, 0, out);
}

static glim_status m_zfill(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s = c->self.s;
    struct jj_buf b = {0};
    int64_t w, n;
    TRY(room(x, c, &w, &n));
    size_t sign = s->n && (s->p[0] == '+' || s->p[0] == '-');
    TRY(jj_buf_sub(x, &b, s, 0, sign));
    TRY(jj_buf_fill(x, &b, "0", 1, (size_t)n, false));
    TRY(jj_buf_sub(x, &b, s, sign, s->n));
    return jj_buf_done(x, &b, out);
}

static glim_status m_expandtabs(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s = c->self.s;
    struct jj_buf b = {0};
    int64_t size;
    size_t column = 0;
    TRY(jj_arg_int(x, c->arg[0], 8, &size));
    TRY(jj_work(x, s->n));
    for (size_t at = 0; at < s->n;) {
        size_t n = char_at(s, at).len;
        if (s->p[at] != '\t') {
            TRY(jj_buf_sub(x, &b, s, at, at + n));
            column = s->p[at] == '\n' || s->p[at] == '\r' ? 0 : column + 1;
        } else if (size > 0) {
            size_t k = (size_t)size - column % (size_t)size;
            TRY(jj_buf_fill(x, &b, " ", 1, k, jj_str_data_in(s, at, at + 1)));
            column += k;
        }
        at += n;
    }
    return jj_buf_done(x, &b, out);
}

static glim_status m_upper(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_recase(x, c->self.s, JJ_UPPER, out);
}

static glim_status m_lower(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_recase(x, c->self.s, JJ_LOWER, out);
}

static glim_status m_title(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_recase(x, c->self.s, JJ_TITLE, out);
}

static glim_status m_capitalize(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_recase(x, c->self.s, JJ_CAPITAL, out);
}

static glim_status m_swapcase(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_recase(x, c->self.s, JJ_SWAP, out);
}

static glim_status m_casefold(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_recase(x, c->self.s, JJ_FOLD, out);
}

static glim_status m_format(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_str_format(x, c->self.s, c, out);
}

static glim_status m_format_map(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    if (c->arg[0].type != JJ_DICT)
        return jj_fail(x, "have '%s' for format_map, need a dict", jj_type_name(c->arg[0]));
    struct jj_call all = {.self = c->self, .kw = c->arg[0].d->p, .n_kw = c->arg[0].d->n};
    return jj_str_format(x, c->self.s, &all, out);
}

/* ---- asking ---- */

typedef bool char_test(struct uc_char c);

/* Not empty, and all characters pass. */
static glim_status all_chars(struct jj *x, struct jj_call *c, char_test *test, struct jj_val *out)
{
    struct jj_str *s = c->self.s;
    TRY(jj_work(x, s->n / 8));
    bool yes = s->n > 0;
    for (size_t at = 0; at < s->n && yes; at += char_at(s, at).len)
        yes = test(char_at(s, at));
    *out = jj_bool(yes);
    return GLIM_OK;
}

static bool is_alpha(struct uc_char c)
{
    return c.cls & UC_L;
}

static bool is_decimal(struct uc_char c)
{
    return jj_digit(c.cp, true);
}

static bool is_digit(struct uc_char c)
{
    return jj_digit(c.cp, false);
}

static bool is_numeric(struct uc_char c)
{
    return jj_numeric(c.cp);
}

static bool is_alnum(struct uc_char c)
{
    return (c.cls & UC_L) || jj_numeric(c.cp);
}

static bool is_space(struct uc_char c)
{
    return jj_space(c.cp);
}

static bool is_printable(struct uc_char c)
{
    return c.cp == ' ' || (c.cls && !(c.cls & UC_SPACE));
}

static bool is_ascii(struct uc_char c)
{
    return c.cp < 128;
}

static glim_status m_isalpha(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return all_chars(x, c, is_alpha, out);
}

static glim_status m_isdecimal(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return all_chars(x, c, is_decimal, out);
}

static glim_status m_isdigit(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return all_chars(x, c, is_digit, out);
}

static glim_status m_isnumeric(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return all_chars(x, c, is_numeric, out);
}

static glim_status m_isalnum(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return all_chars(x, c, is_alnum, out);
}

static glim_status m_isspace(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return all_chars(x, c, is_space, out);
}

static glim_status m_isprintable(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    TRY(all_chars(x, c, is_printable, out));
    out->b |= c->self.s->n == 0;
    return GLIM_OK;
}

static glim_status m_isascii(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    TRY(all_chars(x, c, is_ascii, out));
    out->b |= c->self.s->n == 0;
    return GLIM_OK;
}

/* Cased letters all upper (or lower), at least one of them. */
static glim_status one_case(struct jj *x, struct jj_call *c, bool want_upper, struct jj_val *out)
{
    struct jj_str *s = c->self.s;
    bool any = false, upper, lower;
    TRY(jj_work(x, s->n / 8));
    *out = jj_bool(false);
    for (size_t at = 0; at < s->n; at += char_at(s, at).len) {
        if (!jj_cased(char_at(s, at).cp, &upper, &lower))
            continue;
        if (want_upper ? !upper : !lower)
            return GLIM_OK;
        any = true;
    }
    out->b = any;
    return GLIM_OK;
}

static glim_status m_isupper(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return one_case(x, c, true, out);
}

static glim_status m_islower(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return one_case(x, c, false, out);
}

/* Each run of cased letters begins with an upper one and goes on with lower ones. */
static glim_status m_istitle(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s = c->self.s;
    bool any = false, inside = false, upper, lower;
    TRY(jj_work(x, s->n / 8));
    *out = jj_bool(false);
    for (size_t at = 0; at < s->n; at += char_at(s, at).len) {
        bool cased = jj_cased(char_at(s, at).cp, &upper, &lower);
        if (cased && (inside ? !lower : lower))
            return GLIM_OK;
        any |= cased;
        inside = cased;
    }
    out->b = any;
    return GLIM_OK;
}

const struct jj_fn jj_str_methods[] = {
    {"capitalize", m_capitalize, "/", 0},
    {"casefold", m_casefold, "/", 0},
    {"center", m_center, "/ width fill", 1},
    {"count", m_count, "/ sub start end", 1},
    {"endswith", m_endswith, "/ suffix start end", 1},
    {"expandtabs", m_expandtabs, "tabsize", 0},
    {"find", m_find, "/ sub start end", 1},
    {"format", m_format, "*", 0},
    {"format_map", m_format_map, "/ map", 1},
    {"index", m_index, "/ sub start end", 1},
    {"isalnum", m_isalnum, "/", 0},
    {"isalpha", m_isalpha, "/", 0},
    {"isascii", m_isascii, "/", 0},
    {"isdecimal", m_isdecimal, "/", 0},
    {"isdigit", m_isdigit, "/", 0},
    {"islower", m_islower, "/", 0},
    {"isnumeric", m_isnumeric, "/", 0},
    {"isprintable", m_isprintable, "/", 0},
    {"isspace", m_isspace, "/", 0},
    {"istitle", m_istitle, "/", 0},
    {"isupper", m_isupper, "/", 0},
    {"join", m_join, "/ iterable", 1},
    {"ljust", m_ljust, "/ width fill", 1},
    {"lower", m_lower, "/", 0},
    {"lstrip", m_lstrip, "/ chars", 0},
    {"partition", m_partition, "/ sep", 1},
    {"removeprefix", m_removeprefix, "/ prefix", 1},
    {"removesuffix", m_removesuffix, "/ suffix", 1},
    {"replace", m_replace, "/ old new count", 2},
    {"rfind", m_rfind, "/ sub start end", 1},
    {"rindex", m_rindex, "/ sub start end", 1},
    {"rjust", m_rjust, "/ width fill", 1},
    {"rpartition", m_rpartition, "/ sep", 1},
    {"rsplit", m_rsplit, "sep maxsplit", 0},
    {"rstrip", m_rstrip, "/ chars", 0},
    {"split", m_split, "sep maxsplit", 0},
    {"splitlines", m_splitlines, "keepends", 0},
    {"startswith", m_startswith, "/ prefix start end", 1},
    {"strip", m_strip, "/ chars", 0},
    {"swapcase", m_swapcase, "/", 0},
    {"title", m_title, "/", 0},
    {"upper", m_upper, "/", 0},
    {"zfill", m_zfill, "/ width", 1},
    JJ_REFUSE("encode"),
    JJ_REFUSE("isidentifier"),
    JJ_REFUSE("maketrans"),
    JJ_REFUSE("translate"),
    {NULL, NULL, NULL, 0},
};
