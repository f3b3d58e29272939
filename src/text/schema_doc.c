/* The document: memory of one compilation, where each schema stands, what $ref means.
 *
 * The walk visits every schema once, in $defs as well, checks each keyword's value and refuses what is unknown. It
 * notes paths for messages, and URIs and anchors for $ref. Afterwards the graph of keywords that apply in place ($ref,
 * allOf, anyOf, oneOf, not, if …) is searched for cycles: a schema that is its own part says nothing. */
#include "base/hash.h"
#include "base/mem.h"
#include "text/schema_impl.h"

#include <string.h>

enum { CHUNK = 16 << 10, CHAIN_MAX = 1000, WORK_MAX = 1 << 22, POOL_MAX = 96 << 20 };

/* ---- pool and maps ---- */

void *schema_take(struct sch *s, size_t n)
{
    n = (n + 15) & ~(size_t)15;
    struct chunk *c = s->pool;
    if (!c || c->size - c->used < n) {
        size_t size = n > CHUNK ? n : CHUNK;
        s->taken += size;
        c = s->taken <= POOL_MAX ? mem_alloc(sizeof *c + 16 + size) : NULL;
        if (!c)
            return NULL;
        *c = (struct chunk){.next = s->pool, .size = size};
        s->pool = c;
    }
    char *base = (char *)(((uintptr_t)(c + 1) + 15) & ~(uintptr_t)15);
    void *p = base + c->used;
    c->used += n;
    memset(p, 0, n);
    return p;
}

char *schema_copy(struct sch *s, const char *p, size_t n)
{
    char *d = schema_take(s, n + 1);
    if (d)
        memcpy(d, p, n);
    return d;
}

glim_status schema_starved(const struct sch *s)
{
    if (s->taken > POOL_MAX)
        return err_set(s->e, GLIM_REFUSED,
                       "schema refused: #: have one that takes more than %d MB to compile, need a "
                       "simpler one",
                       POOL_MAX >> 20);
    return err_nomem(s->e, "JSON schema", 0);
}

glim_status schema_spend(struct sch *s, size_t n)
{
    uint64_t done = dfa_work();
    s->work += n + (done - s->dfa_work) / 8;
    s->dfa_work = done;
    if (s->work <= WORK_MAX)
        return GLIM_OK;
    return err_set(s->e, GLIM_REFUSED,
                   "schema refused: #: have one that takes too long to compile, need a simpler one");
}

void *map_get(const struct map *m, const void *key, size_t n)
{
    if (!m->cap)
        return NULL;
    uint64_t h = xxh3(key, n);
    for (size_t i = h & (m->cap - 1); m->slot[i].value; i = (i + 1) & (m->cap - 1))
        if (m->slot[i].hash == h && m->slot[i].n == n && memcmp(m->slot[i].key, key, n) == 0)
            return m->slot[i].value;
    return NULL;
}

static void map_insert(struct map *m, struct map_slot x)
{
    size_t i = x.hash & (m->cap - 1);
    while (m->slot[i].value)
        i = (i + 1) & (m->cap - 1);
    m->slot[i] = x;
    m->n++;
}

glim_status map_put(struct sch *s, struct map *m, const void *key, size_t n, void *value)
{
    if (m->n * 2 >= m->cap) {
        struct map big = {.cap = m->cap ? m->cap * 2 : 64};
        big.slot = mem_calloc(big.cap, sizeof *big.slot);
        if (!big.slot)
            return schema_starved(s);
        for (size_t i = 0; i < m->cap; i++)
            if (m->slot[i].value)
                map_insert(&big, m->slot[i]);
        mem_free(m->slot);
        *m = big;
    }
    char *copy = schema_copy(s, key, n);
    if (!copy)
        return schema_starved(s);
    map_insert(m, (struct map_slot){.key = copy, .n = n, .hash = xxh3(key, n), .value = value});
    return GLIM_OK;
}

/* ---- messages ---- */

const struct info *schema_info(const struct sch *s, const json_t *node)
{
    return map_get(&s->info, &node, sizeof node);
}

static const char *path_of(const struct sch *s, const json_t *node)
{
    const struct info *i = schema_info(s, node);
    return i ? i->path : "#";
}

glim_status schema_refuse(const struct sch *s, const json_t *node, const char *keyword, const char *have,
                          const char *need)
{
    return err_set(s->e, GLIM_REFUSED, "schema refused: %.300s%s%.80s: have %s, need %s", path_of(s, node),
                   keyword ? "/" : "", keyword ? keyword : "", have, need);
}

glim_status schema_blame(const struct sch *s, const json_t *node, const char *keyword)
{
    if (strncmp(s->e->message, "schema refused", 14) == 0 || strncmp(s->e->message, "out of memory", 13) == 0)
        return s->e->status;
    err_prefix(s->e, "schema refused: %.300s%s%s", path_of(s, node), keyword ? "/" : "", keyword ? keyword : "");
    return s->e->status = GLIM_REFUSED;
}

/* A name as a part of a JSON pointer. */
static void add_pointer(struct str *path, const char *name)
{
    str_putc(path, '/');
    for (; *name; name++)
        if (*name == '~' || *name == '/')
            str_puts(path, *name == '~' ? "~0" : "~1");
        else
            str_putc(path, *name);
}

glim_status schema_keep(struct sch *s, json_t *made, const json_t *origin)
{
    const struct info *i = schema_info(s, origin);
    if (!made || !mem_grow((void **)&s->made, &s->cap_made, s->n_made, sizeof(json_t *))) {
        json_decref(made);
        return schema_starved(s);
    }
    s->made[s->n_made++] = made;
    return i ? map_put(s, &s->info, &made, sizeof made, (void *)(uintptr_t)i) : GLIM_OK;
}

/* ---- URIs ---- */

static bool has_scheme(const char *uri)
{
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n && uri[n] == ':';
}

/* uri (without fragment) as seen from base: RFC 3986 section 5.2 but for dot segments, which simply are not found. */
static void resolve_uri(struct str *out, const char *base, const char *uri, size_t n)
{
    size_t keep = 0;
    if (n == 0)
        keep = strlen(base);
    else if (!has_scheme(uri) && has_scheme(base)) {
        const char *authority = strstr(base, "://"), *path = authority ? strchr(authority + 3, '/') : NULL;
        const char *last = strrchr(base, '/');
        if (*uri == '/')
            keep = path ? (size_t)(path - base) : strlen(base);
        else if (path)
            keep = (size_t)(last - base) + 1;
        else if (!authority)
            keep = (size_t)(strchr(base, ':') - base) + 1;
    }
    str_add(out, base, keep);
    str_add(out, uri, n);
}

static glim_status note_target(struct sch *s, const struct str *key, const json_t *node, const char *keyword)
{
    if (key->failed)
        return schema_starved(s);
    if (map_get(&s->target, key->s, key->n))
        return schema_refuse(s, node, keyword, "a name that another schema has", "different names");
    return map_put(s, &s->target, key->s, key->n, (void *)(uintptr_t)node);
}

static void anchor_key(struct str *key, const struct resource *r, const char *name)
{
    str_add(key, (const char *)&r, sizeof r);
    str_puts(key, name);
}

/* $id and $anchor of a node; *r becomes the resource that it begins. */
static glim_status note_names(struct sch *s, const json_t *node, const struct resource **r)
{
    const char *id = json_string_value(json_object_get(node, "$id"));
    const char *anchor = json_string_value(json_object_get(node, "$anchor"));
    struct str key = {0};
    glim_status st = GLIM_OK;
    if (id) {
        struct resource *fresh = schema_take(s, sizeof *fresh);
        resolve_uri(&key, *r ? (*r)->base : "", id, strcspn(id, "#"));
        char *base = key.failed || !fresh ? NULL : schema_copy(s, key.s ? key.s : "", key.n);
        if (!base)
            st = schema_starved(s);
        else {
            *fresh = (struct resource){node, base};
            *r = fresh;
            if (*base)
                st = note_target(s, &key, node, "$id");
        }
        str_clear(&key);
    }
    if (st == GLIM_OK && anchor) {
        anchor_key(&key, *r, anchor);
        st = note_target(s, &key, node, "$anchor");
    }
    str_fini(&key);
    return st;
}

/* ---- the walk ---- */

static glim_status walk(struct sch *s, const json_t *node, struct str *path, const struct resource *r, int depth);

static glim_status walk_child(struct sch *s, const json_t *child, struct str *path, const struct resource *r,
                              const char *name, size_t index, int depth)
{
    size_t n = path->n;
    if (name)
        add_pointer(path, name);
    else
        str_printf(path, "/%zu", index);
    glim_status st = path->failed ? schema_starved(s) : walk(s, child, path, r, depth + 1);
    path->n = n;
    if (path->s)
        path->s[n] = 0;
    return st;
}

static bool is_names(const json_t *v)
{
    size_t i;
    json_t *x;
    json_array_foreach((json_t *)(uintptr_t)v, i, x) if (!json_is_string(x)) return false;
    return json_is_array(v);
}

static bool is_type_name(const json_t *v)
{
    static const char *const name[] = {"null", "boolean", "number", "integer", "string", "array", "object"};
    for (size_t i = 0; json_is_string(v) && i < sizeof name / sizeof *name; i++)
        if (strcmp(json_string_value(v), name[i]) == 0)
            return true;
    return false;
}

static bool is_type(const json_t *v)
{
    size_t i;
    json_t *x;
    if (!json_is_array(v))
        return is_type_name(v);
    json_array_foreach((json_t *)(uintptr_t)v, i, x) if (!is_type_name(x)) return false;
    return json_array_size(v) > 0;
}

static bool is_count(const json_t *v)
{
    if (json_is_real(v))
        return json_real_value(v) >= 0 && json_real_value(v) < 4e9 &&
               (double)(uint32_t)json_real_value(v) == json_real_value(v);
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool is_name_lists(const json_t *v, bool or_schema)
{
    const char *key;
    json_t *x;
    json_object_foreach((json_t *)(uintptr_t)v, key,
                        x) if (!is_names(x) && !(or_schema && (json_is_object(x) || json_is_boolean(x)))) return false;
    return json_is_object(v);
}

/* What the keyword's value should have been; NULL when it is. */
static const char *value_need(enum kw_value kind, const json_t *v)
{
    switch (kind) {
    case KV_ANY:
    case KV_NONE:
    case KV_SCHEMA: /* walk() looks */
        return NULL;
    case KV_BOOL:
        return json_is_boolean(v) ? NULL : "true or false";
    case KV_STRING:
        return json_is_string(v) ? NULL : "a string";
    case KV_NUMBER:
        return json_is_number(v) ? NULL : "a number";
    case KV_BOUND:
        return json_is_number(v) || json_is_boolean(v) ? NULL : "a number";
    case KV_COUNT:
        return is_count(v) ? NULL : "a whole number from 0";
    case KV_LIST:
        return json_is_array(v) && json_array_size(v) ? NULL : "a list that is not empty";
    case KV_TYPE:
        return is_type(v) ? NULL : "null, boolean, number, integer, string, array, object or a list of them";
    case KV_NAMES:
        return is_names(v) ? NULL : "a list of names";
    case KV_NAME_LISTS:
        return is_name_lists(v, false) ? NULL : "an object of lists of names";
    case KV_SCHEMA_OR_NAMES:
        return is_name_lists(v, true) ? NULL : "an object of schemas or lists of names";
    case KV_SCHEMAS:
        return json_is_array(v) && json_array_size(v) ? NULL : "a list of schemas";
    case KV_SCHEMA_MAP:
        return json_is_object(v) ? NULL : "an object of schemas";
    case KV_SCHEMA_OR_LIST:
        return json_is_array(v) || json_is_object(v) || json_is_boolean(v) ? NULL : "a schema";
    }
    return NULL;
}

/* The schemas in a keyword's value. */
static glim_status walk_value(struct sch *s, const struct schema_keyword *k, json_t *v, struct str *path,
                              const struct resource *r, int depth)
{
    bool one = k->value == KV_SCHEMA || (k->value == KV_SCHEMA_OR_LIST && !json_is_array(v));
    const char *key;
    size_t i;
    json_t *x;
    if (one)
        return walk(s, v, path, r, depth);
    if (k->value == KV_SCHEMAS || k->value == KV_SCHEMA_OR_LIST)
        json_array_foreach(v, i, x) TRY(walk_child(s, x, path, r, NULL, i, depth));
    if (k->value == KV_SCHEMA_MAP || k->value == KV_SCHEMA_OR_NAMES)
        json_object_foreach(v, key, x) if (!json_is_array(x)) TRY(walk_child(s, x, path, r, key, 0, depth));
    return GLIM_OK;
}

static glim_status walk_keyword(struct sch *s, const json_t *node, const char *key, json_t *v, struct str *path,
                                const struct resource *r, int depth)
{
    const struct schema_keyword *k = schema_find_keyword(key);
    if (!k)
        return schema_refuse(s, node, key, "an unknown keyword", "one that can be enforced");
    if (k->level == SCHEMA_REFUSED)
        return schema_refuse(s, node, key, "a keyword that cannot be enforced exactly", "a schema without it");
    const char *need = value_need(k->value, v);
    if (need)
        return schema_refuse(s, node, key, "a value of another kind", need);
    size_t n = path->n;
    add_pointer(path, key);
    glim_status st = path->failed ? schema_starved(s) : walk_value(s, k, v, path, r, depth);
    path->n = n;
    path->s[n] = 0;
    return st;
}

/* Names and strings of a value, so that a document's size is known. */
static size_t text_bytes(const json_t *v, int depth)
{
    size_t n = 8, i;
    const char *key;
    json_t *x;
    if (json_is_string(v))
        return n + json_string_length(v);
    if (depth > SCHEMA_MAX_DEPTH)
        return SCHEMA_MAX_BYTES + 1;
    if (json_is_array(v))
        json_array_foreach((json_t *)(uintptr_t)v, i, x) n += text_bytes(x, depth + 1);
    if (json_is_object(v))
        json_object_foreach((json_t *)(uintptr_t)v, key, x) n += strlen(key) + 4 + text_bytes(x, depth + 1);
    return n;
}

static glim_status walk(struct sch *s, const json_t *node, struct str *path, const struct resource *r, int depth)
{
    const char *key;
    json_t *v;
    struct info *info = schema_take(s, sizeof *info);
    if (!info || !(info->path = schema_copy(s, path->s, path->n)))
        return schema_starved(s);
    if (json_is_boolean(node))
        return GLIM_OK;
    if (depth > SCHEMA_MAX_DEPTH)
        return err_set(s->e, GLIM_REFUSED, "schema refused: %.300s: have more than %d levels, need fewer", path->s,
                       SCHEMA_MAX_DEPTH);
    if (!json_is_object(node))
        return err_set(s->e, GLIM_REFUSED, "schema refused: %.300s: have no schema, need an object, true or false",
                       path->s);
    info->resource = r;
    TRY(map_put(s, &s->info, &node, sizeof node, info));
    TRY(note_names(s, node, &info->resource));
    s->bytes += path->n;
    if (s->bytes > (size_t)32 << 20)
        return schema_refuse(s, node, NULL, "too many schemas so deep", "a smaller document");
    json_object_foreach((json_t *)(uintptr_t)node, key, v)
        TRY(walk_keyword(s, node, key, v, path, info->resource, depth));
    return GLIM_OK;
}

/* ---- $ref ---- */

/* One part of a JSON pointer in a URI fragment: %XX, ~0 and ~1. */
static bool pointer_part(struct str *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (c == '%') {
            char hex[3] = {i + 1 < n ? p[i + 1] : 'x', i + 2 < n ? p[i + 2] : 'x', 0};
            if (strspn(hex, "0123456789abcdefABCDEF") != 2)
                return false;
            int hi = hex[0] <= '9' ? hex[0] - '0' : (hex[0] | 32) - 'a' + 10;
            int lo = hex[1] <= '9' ? hex[1] - '0' : (hex[1] | 32) - 'a' + 10;
            c = (char)(hi << 4 | lo);
            i += 2;
        } else if (c == '~') {
            if (++i >= n || (p[i] != '0' && p[i] != '1'))
                return false;
            c = p[i] == '0' ? '~' : '/';
        }
        str_putc(out, c);
    }
    return !out->failed;
}

static const json_t *follow_pointer(const json_t *at, const char *p, bool *no_memory)
{
    struct str part = {0};
    while (at && *p == '/') {
        size_t n = strcspn(++p, "/");
        str_clear(&part);
        if (!pointer_part(&part, p, n))
            at = NULL;
        const char *name = part.s ? part.s : "";
        uint64_t index;
        if (at && json_is_array(at))
            at = parse_u64(name, &index) ? json_array_get(at, (size_t)index) : NULL;
        else
            at = at ? json_object_get(at, name) : NULL;
        p += n;
    }
    *no_memory |= part.failed;
    str_fini(&part);
    return at && !*p ? at : NULL;
}

static const json_t *find_target(struct sch *s, const struct resource *r, const char *ref, bool *no_memory)
{
    size_t n = strcspn(ref, "#");
    const char *fragment = ref[n] ? ref + n + 1 : "";
    const json_t *root = r->root, *found = NULL;
    struct str key = {0};
    if (n) {
        resolve_uri(&key, r->base, ref, n);
        root = key.failed ? NULL : map_get(&s->target, key.s, key.n);
        const struct info *i = root ? schema_info(s, root) : NULL;
        r = i ? i->resource : NULL;
        *no_memory |= key.failed;
        str_clear(&key);
    }
    if (!root || !r)
        found = NULL;
    else if (!*fragment)
        found = root;
    else if (*fragment == '/')
        found = follow_pointer(root, fragment, no_memory);
    else {
        anchor_key(&key, r, fragment);
        found = key.failed ? NULL : map_get(&s->target, key.s, key.n);
    }
    *no_memory |= key.failed;
    str_fini(&key);
    return found && (json_is_boolean(found) || schema_info(s, found)) ? found : NULL;
}

glim_status schema_resolve(struct sch *s, const json_t *node, const json_t **target)
{
    const char *ref = json_string_value(json_object_get(node, "$ref"));
    const struct info *i = schema_info(s, node);
    char have[128];
    bool no_memory = false;
    *target = i ? find_target(s, i->resource, ref, &no_memory) : NULL;
    if (*target)
        return GLIM_OK;
    if (no_memory)
        return schema_starved(s);
    snprintf(have, sizeof have, "a reference to %.90s", ref);
    return schema_refuse(s, node, "$ref", have, "a schema inside this document");
}

/* ---- cycles ---- */

enum { OPEN = 1, DONE = 2 };
static const char open_mark, done_mark;

static glim_status check_cycle(struct sch *s, const json_t *node, int depth);

static glim_status check_list(struct sch *s, const json_t *node, const char *key, int depth)
{
    json_t *v = json_object_get(node, key), *x;
    const char *name;
    size_t i;
    if (json_is_array(v))
        json_array_foreach(v, i, x) TRY(check_cycle(s, x, depth));
    else if (strncmp(key, "dep", 3) == 0)
        json_object_foreach(v, name, x) TRY(check_cycle(s, x, depth));
    else if (v)
        TRY(check_cycle(s, v, depth));
    return GLIM_OK;
}

static glim_status check_cycle(struct sch *s, const json_t *node, int depth)
{
    static const char *const in_place[] = {
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"};
    const json_t *target;
    if (!json_is_object(node))
        return GLIM_OK;
    const char key[] = "mark";
    char name[sizeof key + sizeof node];
    memcpy(name, key, sizeof key);
    memcpy(name + sizeof key, &node, sizeof node);
    const char **state = map_get(&s->target, name, sizeof name);
    if (state && *state == &done_mark)
        return GLIM_OK;
    if (state)
        return schema_refuse(s, node, NULL, "a schema that is only a part of itself",
                             "a reference that makes progress");
    if (depth > CHAIN_MAX)
        return schema_refuse(s, node, NULL, "a chain of more than 1000 references", "a shorter one");
    if (!(state = schema_take(s, sizeof *state)))
        return schema_starved(s);
    *state = &open_mark;
    TRY(map_put(s, &s->target, name, sizeof name, (void *)(uintptr_t)state));
    if (json_object_get(node, "$ref")) {
        TRY(schema_resolve(s, node, &target));
        TRY(check_cycle(s, target, depth + 1));
    }
    for (size_t i = 0; i < sizeof in_place / sizeof *in_place; i++)
        TRY(check_list(s, node, in_place[i], depth + 1));
    *state = &done_mark;
    return GLIM_OK;
}

glim_status schema_walk(struct sch *s, const json_t *root)
{
    struct str path = {0};
    struct resource *r = schema_take(s, sizeof *r);
    if (!r)
        return schema_starved(s);
    *r = (struct resource){root, ""};
    if (text_bytes(root, 0) > SCHEMA_MAX_BYTES)
        return err_set(s->e, GLIM_REFUSED, "schema refused: #: have more than %d bytes or %d levels, need fewer",
                       SCHEMA_MAX_BYTES, SCHEMA_MAX_DEPTH);
    str_putc(&path, '#');
    glim_status st = path.failed ? schema_starved(s) : walk(s, root, &path, r, 0);
    str_fini(&path);
    for (size_t i = 0; st == GLIM_OK && i < s->info.cap; i++)
        if (s->info.slot[i].value)
            st = check_cycle(s, *(const json_t *const *)s->info.slot[i].key, 0);
    return st;
}

/* ---- automata and the end ---- */

struct dfa_box {
    struct dfa *d;
};

const struct dfa *schema_dfa_get(const struct sch *s, const struct str *key)
{
    const struct dfa_box *box = key->failed ? NULL : map_get(&s->dfa, key->s, key->n);
    return box ? box->d : NULL;
}

glim_status schema_dfa_put(struct sch *s, const struct str *key, struct dfa *d, const struct dfa **out)
{
    struct dfa_box *box = key->failed ? NULL : schema_take(s, sizeof *box);
    glim_status st = box ? map_put(s, &s->dfa, key->s, key->n, box) : schema_starved(s);
    *out = NULL;
    if (st != GLIM_OK) {
        dfa_free(d);
        return st;
    }
    *out = box->d = d;
    return schema_spend(s, 1);
}

void schema_fini(struct sch *s)
{
    for (size_t i = 0; i < s->dfa.cap; i++)
        if (s->dfa.slot[i].value)
            dfa_free(((struct dfa_box *)s->dfa.slot[i].value)->d);
    for (size_t i = 0; i < s->n_made; i++)
        json_decref(s->made[i]);
    struct map *maps[] = {&s->info, &s->conj, &s->dfa, &s->made_of, &s->target};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        mem_free(maps[i]->slot);
    mem_free(s->made);
    mem_free(s->due);
    for (struct chunk *c = s->pool, *next; c; c = next) {
        next = c->next;
        mem_free(c);
    }
    *s = (struct sch){0};
}
