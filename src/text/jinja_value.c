/* Memory, strings, lists and dicts of a render. */
#include "base/hash.h"
#include "text/jinja_impl.h"
#include "text/unicode.h"

/* ---- memory ---- */

struct jj_block {
    struct jj_block *next;
    _Alignas(16) char bytes[];
};

enum { BLOCK = 64 << 10 };

void *jj_mem_take(struct jj_mem *m, size_t n, bool *over)
{
    *over = false;
    if (!align_up(n ? n : 1, 16, &n) || n > m->left) {
        *over = true;
        return NULL;
    }
    if ((size_t)(m->end - m->at) < n) {
        size_t size = n > BLOCK ? n : BLOCK;
        struct jj_block *b = mem_alloc(sizeof *b + size);
        if (!b)
            return NULL;
        b->next = m->block;
        m->block = b;
        m->at = b->bytes;
        m->end = b->bytes + size;
    }
    void *p = m->at;
    m->at += n;
    m->left -= n;
    return p;
}

void jj_mem_fini(struct jj_mem *m)
{
    for (struct jj_block *b = m->block; b;) {
        struct jj_block *next = b->next;
        mem_free(b);
        b = next;
    }
    *m = (struct jj_mem){0};
}

void *jj_take(struct jj *x, size_t n)
{
    bool over;
    if (jj_work(x, n / 64) != GLIM_OK)
        return NULL;
    void *p = jj_mem_take(&x->mem, n, &over);
    if (!p && over)
        jj_fail(x, "have more than %zu bytes of values, need less", x->limit_bytes);
    else if (!p)
        err_nomem(x->e, "chat template", n);
    return p;
}

glim_status jj_out_of(struct jj *x)
{
    return x->e->status;
}

/* ---- strings ---- */

static struct jj_val str_val(struct jj_str *s)
{
    return (struct jj_val){.type = JJ_STR, .s = s};
}

glim_status jj_str_ref(struct jj *x, const char *p, size_t n, bool data, struct jj_val *out)
{
    struct jj_str *s = jj_take(x, sizeof *s);
    if (!s)
        return jj_out_of(x);
    *s = (struct jj_str){.p = p, .n = n, .n_cp = SIZE_MAX, .data = data};
    *out = str_val(s);
    return GLIM_OK;
}

glim_status jj_str_z(struct jj *x, const char *s, struct jj_val *out)
{
    return jj_str_ref(x, s, strlen(s), false, out);
}

/* Runs of bytes from..to of a mixed string: where they begin and what is left of the first. */
static const struct jj_run *run_at(const struct jj_str *s, size_t from, size_t *left)
{
    const struct jj_run *r = s->run;
    while (from >= r->n) {
        from -= r->n;
        r++;
    }
    *left = r->n - from;
    return r;
}

bool jj_str_data_in(const struct jj_str *s, size_t from, size_t to)
{
    if (!s->run || from >= to)
        return s->data;
    size_t left;
    for (const struct jj_run *r = run_at(s, from, &left);; r++, left = r->n) {
        if (r->data)
            return true;
        if (to - from <= left)
            return false;
        from += left;
    }
}

glim_status jj_str_sub(struct jj *x, const struct jj_str *s, size_t from, size_t to, struct jj_val *out)
{
    if (!s->run) {
        TRY(jj_str_ref(x, s->p + from, to - from, s->data, out));
        if (s->n_cp == s->n)
            out->s->n_cp = to - from;
        return GLIM_OK;
    }
    struct jj_buf b = {0};
    TRY(jj_work(x, s->n_run));
    TRY(jj_buf_sub(x, &b, s, from, to));
    return jj_buf_done(x, &b, out);
}

size_t jj_str_len(struct jj_str *s)
{
    if (s->n_cp == SIZE_MAX) {
        size_t n = 0;
        for (size_t i = 0; i < s->n; i++)
            n += ((unsigned char)s->p[i] & 0xC0) != 0x80;
        s->n_cp = n;
    }
    return s->n_cp;
}

size_t jj_str_byte(const struct jj_str *s, size_t i)
{
    if (s->n_cp == s->n)
        return i;
    size_t at = 0;
    for (; at < s->n; at++)
        if (((unsigned char)s->p[at] & 0xC0) != 0x80 && i-- == 0)
            break;
    return at;
}

/* The 256 strings of one ASCII byte are shared, so that walking over text costs nothing. */
glim_status jj_str_char(struct jj *x, const struct jj_str *s, size_t byte, size_t n, struct jj_val *out)
{
    unsigned char c = (unsigned char)s->p[byte];
    if (c >= 128)
        return jj_str_sub(x, s, byte, byte + n, out);
    if (!x->ascii) {
        struct jj_str *all = jj_take(x, 256 * sizeof *all);
        char *text = jj_take(x, 128);
        if (!all || !text)
            return jj_out_of(x);
        for (int i = 0; i < 256; i++) {
            text[i & 127] = (char)(i & 127);
            all[i] = (struct jj_str){.p = text + (i & 127), .n = 1, .n_cp = 1, .data = i >= 128};
        }
        x->ascii = all;
    }
    if (s->run)
        TRY(jj_work(x, s->n_run / 8));
    *out = str_val(&x->ascii[c + (jj_str_data_in(s, byte, byte + 1) ? 128 : 0)]);
    return GLIM_OK;
}

bool jj_is(struct jj_val v, const char *s)
{
    return v.type == JJ_STR && v.s->n == strlen(s) && memcmp(v.s->p, s, v.s->n) == 0;
}

bool jj_space(uint32_t cp)
{
    return (cp >= 0x1C && cp <= 0x1F) || (uc_class(cp) & UC_SPACE);
}

size_t jj_find(const char *p, size_t n, const char *sub, size_t n_sub, size_t from)
{
    if (from > n || n_sub > n - from)
        return SIZE_MAX;
    const char *hit = memmem(p + from, n - from, sub, n_sub);
    return hit ? (size_t)(hit - p) : SIZE_MAX;
}

/* ---- text in the making ---- */

static glim_status buf_room(struct jj *x, struct jj_buf *b, size_t n)
{
    size_t need, cap = b->cap ? b->cap : 64;
    if (!add_size(b->n, n, &need) || need > x->limit_bytes)
        return jj_fail(x, "have text of more than %zu bytes, need less", x->limit_bytes);
    if (need <= b->cap)
        return GLIM_OK;
    while (cap < need)
        cap *= 2;
    char *p = jj_take(x, cap);
    if (!p)
        return jj_out_of(x);
    if (b->n)
        memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = cap;
    return GLIM_OK;
}

static glim_status buf_run(struct jj *x, struct jj_buf *b, size_t n, bool data)
{
    if (b->n_run && b->run[b->n_run - 1].data == data) {
        b->run[b->n_run - 1].n += (uint32_t)n;
        return GLIM_OK;
    }
    if (b->n_run == b->cap_run) {
        size_t cap = b->cap_run ? 2 * b->cap_run : 4;
        struct jj_run *r = jj_take(x, cap * sizeof *r);
        if (!r)
            return jj_out_of(x);
        if (b->n_run)
            memcpy(r, b->run, b->n_run * sizeof *r);
        b->run = r;
        b->cap_run = cap;
    }
    b->run[b->n_run++] = (struct jj_run){(uint32_t)n, data};
    return GLIM_OK;
}

glim_status jj_buf_add(struct jj *x, struct jj_buf *b, const char *p, size_t n, bool data)
{
    if (n == 0)
        return GLIM_OK;
    TRY(buf_room(x, b, n));
    TRY(jj_work(x, n / 64));
    TRY(buf_run(x, b, n, data));
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return GLIM_OK;
}

glim_status jj_buf_z(struct jj *x, struct jj_buf *b, const char *s, bool data)
{
    return jj_buf_add(x, b, s, strlen(s), data);
}

glim_status jj_buf_sub(struct jj *x, struct jj_buf *b, const struct jj_str *s, size_t from, size_t to)
{
    if (!s->run || from >= to)
        return jj_buf_add(x, b, s->p + from, to - from, s->data);
    size_t left;
    for (const struct jj_run *r = run_at(s, from, &left);; r++, left = r->n) {
        size_t n = left < to - from ? left : to - from;
        TRY(jj_work(x, 1));
        TRY(jj_buf_add(x, b, s->p + from, n, r->data));
        from += n;
        if (from == to)
            return GLIM_OK;
    }
}

glim_status jj_buf_str(struct jj *x, struct jj_buf *b, const struct jj_str *s)
{
    return jj_buf_sub(x, b, s, 0, s->n);
}

glim_status jj_buf_fill(struct jj *x, struct jj_buf *b, const char *p, size_t n, size_t times, bool data)
{
    size_t all;
    if (!mul_size(n, times, &all))
        all = SIZE_MAX;
    if (all == 0)
        return GLIM_OK;
    TRY(buf_room(x, b, all));
    TRY(jj_work(x, all / 64 + times / 8));
    TRY(buf_run(x, b, all, data));
    for (size_t i = 0; i < times; i++, b->n += n)
        memcpy(b->p + b->n, p, n);
    return GLIM_OK;
}

glim_status jj_buf_done(struct jj *x, struct jj_buf *b, struct jj_val *out)
{
    bool data = b->n_run > 1 || (b->n_run == 1 && b->run[0].data);
    TRY(jj_str_ref(x, b->n ? b->p : "", b->n, data, out));
    if (b->n_run > 1) {
        out->s->run = b->run;
        out->s->n_run = b->n_run;
    }
    return GLIM_OK;
}

/* ---- lists ---- */

glim_status jj_list_new(struct jj *x, enum jj_type t, size_t cap, struct jj_val *out)
{
    struct jj_list *l = jj_take(x, sizeof *l);
    size_t bytes;
    if (!l)
        return jj_out_of(x);
    *l = (struct jj_list){.cap = cap};
    if (cap) {
        if (!mul_size(cap, sizeof *l->v, &bytes))
            bytes = SIZE_MAX / 2;
        l->v = jj_take(x, bytes);
        if (!l->v)
            return jj_out_of(x);
    }
    *out = (struct jj_val){.type = (uint8_t)t, .l = l};
    return GLIM_OK;
}

glim_status jj_list_add(struct jj *x, struct jj_val v, struct jj_val e)
{
    struct jj_list *l = v.l;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 4;
        struct jj_val *p = jj_take(x, cap * sizeof *p);
        if (!p)
            return jj_out_of(x);
        if (l->n)
            memcpy(p, l->v, l->n * sizeof *p);
        l->v = p;
        l->cap = cap;
    }
    l->v[l->n++] = e;
    return GLIM_OK;
}

glim_status jj_tuple2(struct jj *x, struct jj_val a, struct jj_val b, struct jj_val *out)
{
    TRY(jj_list_new(x, JJ_TUPLE, 2, out));
    out->l->v[0] = a;
    out->l->v[1] = b;
    out->l->n = 2;
    return GLIM_OK;
}

/* ---- dicts ---- */

enum { INDEXED = 8 }; /* pairs from which a dict gets a hash index */

/* Equal keys hash equally: 1, 1.0 and True are one key. */
static glim_status key_hash(struct jj *x, struct jj_val k, int depth, uint64_t *out)
{
    switch ((enum jj_type)k.type) {
    case JJ_STR:
        *out = xxh3(k.s->p, k.s->n);
        return jj_work(x, k.s->n / 64);
    case JJ_BOOL:
    case JJ_INT:
    case JJ_FLOAT: {
        double f = jj_as_float(k) + 0.0; /* no -0 */
        *out = xxh3(&f, sizeof f);
        return GLIM_OK;
    }
    case JJ_TUPLE: {
        uint64_t h[2] = {k.l->n, 0};
        if (depth > JJ_NEST)
            return jj_fail(x, "have a key nested deeper than %d, need less", JJ_NEST);
        for (size_t i = 0; i < k.l->n; i++) {
            TRY(jj_work(x, 1));
            TRY(key_hash(x, k.l->v[i], depth + 1, &h[1]));
            h[0] = xxh3(h, sizeof h);
        }
        *out = h[0];
        return GLIM_OK;
    }
    case JJ_NONE:
    case JJ_UNDEF:
        *out = k.type;
        return GLIM_OK;
    case JJ_RANGE:
        *out = k.l->n;
        return GLIM_OK;
    case JJ_ITER:
    case JJ_NS:
    case JJ_LOOP:
    case JJ_MACRO:
    case JJ_FUNC:
    case JJ_METHOD:
    case JJ_CYCLER:
    case JJ_JOINER: /* by what it is, not by what it holds */
        *out = xxh3(&k.l, sizeof k.l);
        return GLIM_OK;
    case JJ_MISSING:
    case JJ_LIST:
    case JJ_VIEW:
    case JJ_DICT:
        break;
    }
    return jj_fail(x, "have a key of type '%s', need one that can be hashed", jj_type_name(k));
}

glim_status jj_dict_new(struct jj *x, size_t cap, struct jj_val *out)
{
    struct jj_dict *d = jj_take(x, sizeof *d);
    if (!d)
        return jj_out_of(x);
    *d = (struct jj_dict){.cap = cap};
    if (cap) {
        d->p = jj_take(x, cap * sizeof *d->p);
        if (!d->p)
            return jj_out_of(x);
    }
    *out = (struct jj_val){.type = JJ_DICT, .d = d};
    return GLIM_OK;
}

static glim_status index_put(struct jj *x, struct jj_dict *d, size_t i)
{
    uint64_t h;
    TRY(key_hash(x, d->p[i].key, 0, &h));
    size_t at = (size_t)h & (d->n_slot - 1);
    while (d->slot[at]) {
        at = (at + 1) & (d->n_slot - 1);
        TRY(jj_work(x, 1));
    }
    d->slot[at] = (uint32_t)i + 1;
    return GLIM_OK;
}

/* At least twice as many slots as pairs, all of them entered. */
static glim_status index_make(struct jj *x, struct jj_dict *d)
{
    size_t n = 32;
    while (n < 2 * d->cap)
        n *= 2;
    d->slot = jj_take(x, n * sizeof *d->slot);
    if (!d->slot)
        return jj_out_of(x);
    memset(d->slot, 0, n * sizeof *d->slot);
    d->n_slot = n;
    for (size_t i = 0; i < d->n; i++)
        TRY(index_put(x, d, i));
    return jj_work(x, d->n);
}

glim_status jj_dict_get(struct jj *x, struct jj_dict *d, struct jj_val k, struct jj_val **out)
{
    uint64_t h;
    bool same;
    *out = NULL;
    TRY(key_hash(x, k, 0, &h));
    if (d->n > INDEXED && !d->slot)
        TRY(index_make(x, d));
    size_t at = d->slot ? (size_t)h & (d->n_slot - 1) : 0;
    for (;; at = d->slot ? (at + 1) & (d->n_slot - 1) : at + 1) {
        if (d->slot ? d->slot[at] == 0 : at == d->n)
            return GLIM_OK;
        struct jj_pair *p = &d->p[d->slot ? d->slot[at] - 1 : at];
        if (p->key.type == JJ_STR && k.type == JJ_STR)
            same = p->key.s->n == k.s->n && memcmp(p->key.s->p, k.s->p, k.s->n) == 0;
        else
            TRY(jj_eq(x, p->key, k, &same));
        TRY(jj_work(x, 1));
        if (same) {
            *out = &p->v;
            return GLIM_OK;
        }
    }
}

/* Adds a pair whose key is not there yet. */
static glim_status dict_add(struct jj *x, struct jj_dict *d, struct jj_val k, struct jj_val v)
{
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 4;
        struct jj_pair *p = jj_take(x, cap * sizeof *p);
        if (!p)
            return jj_out_of(x);
        if (d->n)
            memcpy(p, d->p, d->n * sizeof *p);
        d->p = p;
        d->cap = cap;
        d->slot = NULL; /* made again for the new size */
    }
    d->p[d->n++] = (struct jj_pair){k, v};
    return d->slot ? index_put(x, d, d->n - 1) : GLIM_OK;
}

glim_status jj_dict_set(struct jj *x, struct jj_dict *d, struct jj_val k, struct jj_val v)
{
    struct jj_val *old;
    TRY(jj_dict_get(x, d, k, &old));
    if (!old)
        return dict_add(x, d, k, v);
    *old = v;
    return GLIM_OK;
}

/* ---- from JSON ---- */

static glim_status object_from_json(struct jj *x, const json_t *j, bool data, int depth, struct jj_val *out)
{
    TRY(jj_dict_new(x, json_object_size(j), out));
    json_t *o = (json_t *)(uintptr_t)j; /* iterating does not change it */
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
        struct jj_val k, v;
        const char *key = json_object_iter_key(it);
        TRY(jj_str_ref(x, key, strlen(key), data, &k));
        TRY(jj_from_json(x, json_object_iter_value(it), data, depth + 1, &v));
        TRY(dict_add(x, out->d, k, v));
    }
    return GLIM_OK;
}

glim_status jj_from_json(struct jj *x, const json_t *j, bool data, int depth, struct jj_val *out)
{
    if (depth > JJ_NEST)
        return jj_fail(x, "have values nested deeper than %d, need less", JJ_NEST);
    *out = (struct jj_val){.type = JJ_NONE, .data = data};
    switch (j ? json_typeof(j) : JSON_NULL) {
    case JSON_OBJECT:
        return object_from_json(x, j, data, depth, out);
    case JSON_ARRAY:
        TRY(jj_list_new(x, JJ_LIST, json_array_size(j), out));
        for (size_t i = 0; i < json_array_size(j); i++)
            TRY(jj_from_json(x, json_array_get(j, i), data, depth + 1, &out->l->v[out->l->n++]));
        return GLIM_OK;
    case JSON_STRING:
        return jj_str_ref(x, json_string_value(j), json_string_length(j), data, out);
    case JSON_INTEGER:
        *out = jj_int(json_integer_value(j));
        break;
    case JSON_REAL:
        *out = jj_float(json_real_value(j));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = jj_bool(json_is_true(j));
        break;
    case JSON_NULL:
        break;
    }
    out->data = data;
    return GLIM_OK;
}

/* ---- walking ---- */

glim_status jj_iter_open(struct jj *x, struct jj_val v, struct jj_iter *it)
{
    *it = (struct jj_iter){.of = v};
    switch ((enum jj_type)v.type) {
    case JJ_UNDEF:
    case JJ_STR:
    case JJ_LIST:
    case JJ_TUPLE:
    case JJ_RANGE:
    case JJ_VIEW:
    case JJ_ITER:
    case JJ_DICT:
    case JJ_LOOP:
        return GLIM_OK;
    case JJ_MISSING:
    case JJ_NONE:
    case JJ_BOOL:
    case JJ_INT:
    case JJ_FLOAT:
    case JJ_NS:
    case JJ_MACRO:
    case JJ_FUNC:
    case JJ_METHOD:
    case JJ_CYCLER:
    case JJ_JOINER:
        break;
    }
    return jj_fail(x, "have a value of type '%s', need one that can be iterated", jj_type_name(v));
}

static glim_status iter_str(struct jj *x, struct jj_iter *it, bool *got, struct jj_val *out)
{
    const struct jj_str *s = it->of.s;
    uint32_t cp;
    *got = it->at < s->n;
    if (!*got)
        return GLIM_OK;
    size_t n = (size_t)utf8_decode((const uint8_t *)s->p + it->at, s->n - it->at, &cp);
    TRY(jj_str_char(x, s, it->at, n, out));
    it->at += n;
    return GLIM_OK;
}

glim_status jj_iter_next(struct jj *x, struct jj_iter *it, bool *got, struct jj_val *out)
{
    TRY(jj_work(x, 1));
    *got = false;
    switch (it->of.type) {
    case JJ_STR:
        return iter_str(x, it, got, out);
    case JJ_ITER:
        *got = it->of.l->at < it->of.l->n;
        if (*got)
            *out = it->of.l->v[it->of.l->at++];
        return GLIM_OK;
    case JJ_DICT:
        *got = it->at < it->of.d->n;
        if (*got)
            *out = it->of.d->p[it->at++].key;
        return GLIM_OK;
    case JJ_UNDEF:
        return GLIM_OK;
    case JJ_LOOP:
        return jj_fail(x, "have the loop itself to iterate over, need another value");
    default: /* what has a jj_list */
        *got = it->at < it->of.l->n;
        if (*got)
            *out = it->of.l->v[it->at++];
        return GLIM_OK;
    }
}

glim_status jj_to_list(struct jj *x, struct jj_val v, struct jj_val *out)
{
    struct jj_iter it;
    struct jj_val e;
    bool got;
    TRY(jj_iter_open(x, v, &it));
    TRY(jj_list_new(x, JJ_LIST, v.type == JJ_DICT ? v.d->n : v.type >= JJ_LIST && v.type <= JJ_ITER ? v.l->n : 0, out));
    for (;;) {
        TRY(jj_iter_next(x, &it, &got, &e));
        if (!got)
            return GLIM_OK;
        TRY(jj_list_add(x, *out, e));
    }
}
