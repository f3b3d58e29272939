/* Conjunctions: making them, expanding them into alternatives, and turning them into grammar rules. */
#include "text/schema.h"
#include "base/mem.h"
#include "text/schema_impl.h"

#include <string.h>

enum { PROOF_DEPTH = 24 };

glim_status nodes_add(struct sch *s, struct nodes *l, const json_t *node)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 2;
        const json_t **v = schema_take(s, cap * sizeof *v);
        if (!v)
            return schema_starved(s);
        if (l->n)
            memcpy(v, l->v, l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = node;
    return GLIM_OK;
}

static bool nodes_has(const struct nodes *l, const json_t *node)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i] == node)
            return true;
    return false;
}

static void sort_nodes(const json_t **v, size_t n)
{
    size_t gap = 1;
    while (gap < n / 3)
        gap = gap * 3 + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < n; i++) {
            const json_t *x = v[i];
            size_t j = i;
            for (; j >= gap && (uintptr_t)v[j - gap] > (uintptr_t)x; j -= gap)
                v[j] = v[j - gap];
            v[j] = x;
        }
}

/* The conjunction of these, true and repetitions left out. */
glim_status schema_conj(struct sch *s, const struct nodes *l, struct conj **out)
{
    const json_t **key = schema_take(s, (l->n + 1) * sizeof *key);
    struct nodes list = {0};
    if (!key)
        return schema_starved(s);
    TRY(schema_spend(s, l->n + 1));
    for (size_t i = 0; i < l->n; i++)
        key[i] = l->v[i];
    sort_nodes(key, l->n);
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (!json_is_true(key[i]) && (!n || key[n - 1] != key[i]))
            key[n++] = key[i];
    /* a key of at least one word, so that the empty conjunction has one too */
    if (!n)
        key[0] = NULL;
    if ((*out = map_get(&s->conj, key, (n ? n : 1) * sizeof *key)))
        return GLIM_OK;
    struct conj *c = *out = schema_take(s, sizeof *c);
    if (!c)
        return schema_starved(s);
    for (size_t i = 0; i < l->n; i++)
        if (!json_is_true(l->v[i]) && (n == l->n || !nodes_has(&list, l->v[i])))
            TRY(nodes_add(s, &list, l->v[i]));
    c->node = list.v;
    c->n = list.n;
    return map_put(s, &s->conj, key, (n ? n : 1) * sizeof *key, c);
}

/* ---- expansion ---- */

/* One of these branches must hold; exclusive: and no other. A branch is two schemas that must both hold. */
struct branch {
    const json_t *a, *b;
};
struct group {
    const json_t *node; /* whose keyword it is */
    struct branch *v;
    size_t n;
    bool exclusive;
};
struct partial {
    struct nodes set, pending;
    size_t at; /* pending[at ..) is left */
    struct group *group;
    size_t n_group, cap_group;
    bool dead;
};

static glim_status add_group(struct sch *s, struct partial *p, struct group g)
{
    if (p->n_group == p->cap_group) {
        size_t cap = p->cap_group ? p->cap_group * 2 : 4;
        struct group *v = schema_take(s, cap * sizeof *v);
        if (!v)
            return schema_starved(s);
        if (p->n_group)
            memcpy(v, p->group, p->n_group * sizeof *v);
        p->group = v;
        p->cap_group = cap;
    }
    p->group[p->n_group++] = g;
    return GLIM_OK;
}

static glim_status group_of_list(struct sch *s, struct partial *p, const json_t *node, const json_t *list,
                                 bool exclusive)
{
    struct group g = {.node = node, .n = json_array_size(list), .exclusive = exclusive};
    if (!(g.v = schema_take(s, (g.n + 1) * sizeof *g.v)))
        return schema_starved(s);
    for (size_t i = 0; i < g.n; i++)
        g.v[i] = (struct branch){json_array_get(list, i), NULL};
    return add_group(s, p, g);
}

/* That `child` does not hold, and `also` does; with_then: or that child and `then` hold. A negation that cannot be made
 * is left out of a loose expansion. */
static glim_status group_of_not(struct sch *s, struct partial *p, const json_t *node, const json_t *child,
                                const json_t *also, const json_t *then, bool with_then, enum expansion how)
{
    const struct negation * not ;
    glim_status st = schema_negate(s, child, &not );
    if (st == GLIM_REFUSED && how == LOOSE)
        return GLIM_OK;
    if (st != GLIM_OK)
        return st;
    struct group g = {.node = node, .v = schema_take(s, (not ->n + 1) * sizeof *g.v)};
    if (!g.v)
        return schema_starved(s);
    if (with_then)
        g.v[g.n++] = (struct branch){child, then};
    for (size_t i = 0; i < not ->n; i++)
        g.v[g.n++] = (struct branch){not ->v[i], also};
    return add_group(s, p, g);
}

static glim_status groups_of_dependencies(struct sch *s, struct partial *p, const json_t *node)
{
    struct dependency *d;
    size_t n;
    TRY(schema_dependencies(s, node, &d, &n));
    for (size_t i = 0; i < n; i++) {
        struct group g = {.node = node, .n = 2, .v = schema_take(s, 2 * sizeof *g.v)};
        if (!g.v)
            return schema_starved(s);
        g.v[0] = (struct branch){d[i].absent, NULL};
        g.v[1] = (struct branch){d[i].present, d[i].also};
        TRY(add_group(s, p, g));
    }
    return GLIM_OK;
}

/* Take one schema into the set, and queue what its keywords bring in. */
static glim_status absorb(struct sch *s, struct partial *p, const json_t *node, enum expansion how)
{
    const json_t *target, *v, *then = json_object_get(node, "then"), *otherwise = json_object_get(node, "else");
    TRY(nodes_add(s, &p->set, node));
    if (json_object_get(node, "$ref")) {
        TRY(schema_resolve(s, node, &target));
        TRY(nodes_add(s, &p->pending, target));
    }
    v = json_object_get(node, "allOf");
    for (size_t i = 0; i < json_array_size(v); i++)
        TRY(nodes_add(s, &p->pending, json_array_get(v, i)));
    if ((v = json_object_get(node, "anyOf")))
        TRY(group_of_list(s, p, node, v, false));
    if ((v = json_object_get(node, "oneOf")))
        TRY(group_of_list(s, p, node, v, how == STRICT));
    if ((v = json_object_get(node, "not")))
        TRY(group_of_not(s, p, node, v, NULL, NULL, false, how));
    if ((v = json_object_get(node, "if")) && (then || otherwise))
        TRY(group_of_not(s, p, node, v, otherwise, then, true, how));
    return groups_of_dependencies(s, p, node);
}

static glim_status absorb_all(struct sch *s, struct partial *p, enum expansion how)
{
    while (p->at < p->pending.n && !p->dead) {
        const json_t *node = p->pending.v[p->at++];
        TRY(schema_spend(s, p->set.n / 4 + 1));
        if (!node || json_is_true(node) || nodes_has(&p->set, node))
            continue;
        if (json_is_false(node))
            p->dead = true;
        else
            TRY(absorb(s, p, node, how));
    }
    return GLIM_OK;
}

static glim_status partial_copy(struct sch *s, const struct partial *from, struct partial *to)
{
    *to = (struct partial){0};
    for (size_t i = 0; i < from->set.n; i++)
        TRY(nodes_add(s, &to->set, from->set.v[i]));
    for (size_t i = 1; i < from->n_group; i++)
        TRY(add_group(s, to, from->group[i]));
    return schema_spend(s, from->set.n / 4 + from->n_group + 1);
}

/* Is it certain that the branches i and j of a oneOf cannot both hold here? */
static glim_status disjoint(struct sch *s, const struct partial *p, const struct group *g, size_t i, size_t j,
                            bool *yes)
{
    struct nodes l = {0};
    struct conj *c;
    TRY(nodes_add(s, &l, g->v[i].a));
    TRY(nodes_add(s, &l, g->v[j].a));
    for (size_t k = 0; k < p->set.n; k++) {
        const json_t *plain;
        TRY(schema_strip(s, p->set.v[k], &plain));
        TRY(nodes_add(s, &l, plain));
    }
    TRY(schema_conj(s, &l, &c));
    return schema_is_empty(s, c, yes);
}

/* Branch i of a oneOf: the others must not hold. */
static glim_status exclude_others(struct sch *s, struct partial *p, const struct partial *context,
                                  const struct group *g, size_t i)
{
    for (size_t j = 0; j < g->n; j++) {
        bool apart = false;
        if (j != i)
            TRY(disjoint(s, context, g, i, j, &apart));
        if (j == i || apart)
            continue;
        glim_status st = group_of_not(s, p, g->node, g->v[j].a, NULL, NULL, false, STRICT);
        if (st == GLIM_REFUSED) {
            char have[400];
            snprintf(have, sizeof have, "branches %zu and %zu that may both hold (%.240s)", i, j,
                     s->e ? s->e->message : "");
            return schema_refuse(s, g->node, "oneOf", have,
                                 "branches told apart by type, const or a required property");
        }
        if (st != GLIM_OK)
            return st;
    }
    return GLIM_OK;
}

static glim_status add_pure(struct sch *s, struct alternatives *a, const struct partial *p, enum expansion how)
{
    if (a->n >= SCHEMA_MAX_BRANCHES)
        return schema_refuse(s, p->set.n ? p->set.v[0] : s->root, NULL, "more than 512 combinations of alternatives",
                             "fewer");
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 1;
        struct pure *v = schema_take(s, cap * sizeof *v);
        if (!v)
            return schema_starved(s);
        if (a->n)
            memcpy(v, a->v, a->n * sizeof *v);
        a->v = v;
        a->cap = cap;
    }
    a->v[a->n++] = (struct pure){.node = p->set.v, .n = p->set.n, .loose = how == LOOSE};
    return GLIM_OK;
}

/* Recursion is as deep as there are groups; the cycle check bounds a chain of them to 1000. */
static glim_status expand(struct sch *s, struct partial *p, enum expansion how, struct alternatives *a)
{
    TRY(absorb_all(s, p, how));
    if (p->dead)
        return GLIM_OK;
    if (!p->n_group)
        return add_pure(s, a, p, how);
    const struct group *g = &p->group[0];
    for (size_t i = 0; i < g->n; i++) {
        struct partial next;
        TRY(partial_copy(s, p, &next));
        TRY(nodes_add(s, &next.pending, g->v[i].a));
        if (g->v[i].b)
            TRY(nodes_add(s, &next.pending, g->v[i].b));
        if (g->exclusive)
            TRY(exclude_others(s, &next, p, g, i));
        TRY(expand(s, &next, how, a));
    }
    return GLIM_OK;
}

glim_status schema_expand(struct sch *s, struct conj *c, enum expansion how)
{
    struct partial p = {0};
    struct alternatives a = {0};
    if (c->alt[how].done)
        return GLIM_OK;
    for (size_t i = 0; i < c->n; i++)
        TRY(nodes_add(s, &p.pending, c->node[i]));
    TRY(expand(s, &p, how, &a));
    a.done = true;
    c->alt[how] = a;
    return GLIM_OK;
}

static glim_status prove_empty(struct sch *s, struct conj *c, bool *empty)
{
    TRY(schema_expand(s, c, LOOSE));
    *empty = true;
    for (size_t i = 0; i < c->alt[LOOSE].n && *empty; i++) {
        TRY(pure_settle(s, &c->alt[LOOSE].v[i]));
        *empty = c->alt[LOOSE].v[i].live == 0;
    }
    return GLIM_OK;
}

/* A conjunction that is met again inside its own proof counts as not empty. */
glim_status schema_is_empty(struct sch *s, struct conj *c, bool *empty)
{
    *empty = c->empty == EMPTY;
    if (c->empty != UNKNOWN || s->depth >= PROOF_DEPTH)
        return GLIM_OK;
    c->empty = BUSY;
    s->depth++;
    glim_status st = prove_empty(s, c, empty);
    s->depth--;
    c->empty = st != GLIM_OK ? UNKNOWN : *empty ? EMPTY : MAYBE;
    return st;
}

glim_status schema_validates(struct sch *s, struct conj *c, enum expansion how, const json_t *value, int depth,
                             bool *ok)
{
    *ok = false;
    if (depth > SCHEMA_MAX_DEPTH)
        return schema_refuse(s, s->root, NULL, "values in enum nested too deeply", "at most 128 levels");
    TRY(schema_expand(s, c, how));
    for (size_t i = 0; i < c->alt[how].n && !*ok; i++) {
        TRY(schema_spend(s, 1));
        TRY(pure_validates(s, &c->alt[how].v[i], value, depth, ok));
    }
    return GLIM_OK;
}

/* ---- rules ---- */

static uint32_t new_rule(struct sch *s)
{
    char name[48];
    int n = snprintf(name, sizeof name, "%s.%u", s->name, s->n_rule++);
    return grammar_rule(s->b, name, (size_t)n);
}

static glim_status build_now(struct sch *s, struct conj *c, grammar_node *out)
{
    struct alternatives *a = &c->alt[STRICT];
    grammar_node *v = schema_take(s, (a->n + 1) * sizeof *v);
    size_t n = 0;
    if (!v)
        return schema_starved(s);
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].live)
            TRY(pure_build(s, &a->v[i], &v[n++]));
    *out = n == 1 ? v[0] : grammar_alt(s->b, v, n);
    return GLIM_OK;
}

/* Conjunctions of arrays and objects become rules, defined when their turn comes; others are built at once. */
glim_status schema_build(struct sch *s, struct conj *c, grammar_node *out)
{
    unsigned live = 0;
    if (c->done || c->rule) {
        *out = c->done ? c->done : grammar_ref(s->b, c->rule - 1);
        return GLIM_OK;
    }
    TRY(schema_expand(s, c, STRICT));
    for (size_t i = 0; i < c->alt[STRICT].n; i++) {
        TRY(pure_settle(s, &c->alt[STRICT].v[i]));
        live |= c->alt[STRICT].v[i].live;
    }
    if (!(live & (T_ARRAY | T_OBJECT))) {
        TRY(build_now(s, c, &c->done));
        *out = c->done;
        return GLIM_OK;
    }
    if (!mem_grow((void **)&s->due, &s->cap_due, s->n_due, sizeof *s->due))
        return schema_starved(s);
    s->due[s->n_due++] = c;
    uint32_t rule = new_rule(s);
    c->rule = rule + 1;
    *out = grammar_ref(s->b, rule);
    return GLIM_OK;
}

static glim_status define_rules(struct sch *s)
{
    while (s->n_due) {
        struct conj *c = s->due[--s->n_due];
        grammar_node node;
        TRY(build_now(s, c, &node));
        grammar_define(s->b, c->rule - 1, node);
        TRY(schema_spend(s, 1));
    }
    return GLIM_OK;
}

/* ---- entry points ---- */

static void spaces(struct sch *s)
{
    static const struct code_range space[] = {{' ', ' '}}, blank[] = {{'\t', '\t'}, {' ', ' '}};
    grammar_node one = grammar_text(s->b, " ", 1), none = grammar_text(s->b, "", 0);
    grammar_node maybe = grammar_repeat(s->b, grammar_class(s->b, space, 1, false), 0, 1);
    grammar_node line[2] = {grammar_repeat(s->b, grammar_text(s->b, "\n", 1), 0, 1),
                            grammar_repeat(s->b, grammar_class(s->b, blank, 2, false), 0, 32)};
    s->sp_open = s->sp_close = none;
    switch (s->opts.space) {
    case SCHEMA_SPACE_MAYBE:
        s->sp_colon = s->sp_comma = maybe;
        break;
    case SCHEMA_SPACE_ALWAYS:
        s->sp_colon = s->sp_comma = one;
        break;
    case SCHEMA_SPACE_NONE:
        s->sp_colon = s->sp_comma = none;
        break;
    case SCHEMA_SPACE_FREE:
        s->sp_colon = maybe;
        s->sp_comma = s->sp_open = s->sp_close = grammar_seq(s->b, line, 2);
        break;
    }
}

grammar_node schema_seq(struct sch *s, const grammar_node *v, size_t n)
{
    return grammar_seq(s->b, v, n);
}

grammar_node schema_maybe(struct sch *s, grammar_node v)
{
    return grammar_repeat(s->b, v, 0, 1);
}

grammar_node schema_rule(struct sch *s, grammar_node v)
{
    uint32_t rule = new_rule(s);
    grammar_define(s->b, rule, v);
    return grammar_ref(s->b, rule);
}

/* A name that no schema of this builder has used. */
static uint32_t base_rule(struct sch *s)
{
    uint32_t rule;
    unsigned i = 0;
    do {
        snprintf(s->name, sizeof s->name, "json%u", i++);
        rule = grammar_rule(s->b, s->name, strlen(s->name));
    } while (grammar_defined(s->b, rule));
    return rule;
}

static glim_status whole(struct sch *s, const json_t *schema, grammar_node *out)
{
    struct nodes l = {0};
    struct conj *c;
    bool empty;
    grammar_node node;
    uint32_t rule = base_rule(s);
    spaces(s);
    TRY(schema_walk(s, schema));
    TRY(nodes_add(s, &l, schema));
    TRY(schema_conj(s, &l, &c));
    TRY(schema_is_empty(s, c, &empty));
    TRY(schema_expand(s, c, STRICT));
    unsigned live = 0;
    for (size_t i = 0; i < c->alt[STRICT].n; i++) {
        TRY(pure_settle(s, &c->alt[STRICT].v[i]));
        live |= c->alt[STRICT].v[i].live;
    }
    if (empty || !live)
        return err_set(s->e, GLIM_REFUSED,
                       "schema refused: #: have one that no value satisfies, need one that some do");
    TRY(schema_build(s, c, &node));
    TRY(define_rules(s));
    grammar_define(s->b, rule, node);
    *out = grammar_ref(s->b, rule);
    return GLIM_OK;
}

glim_status schema_node(struct grammar_builder *b, const json_t *schema, const struct schema_opts *opts,
                        grammar_node *out, struct glim_err *e)
{
    struct glim_err own = {0};
    struct sch s = {.b = b, .e = e ? e : &own, .root = schema, .dfa_work = dfa_work()};
    if (opts)
        s.opts = *opts;
    json_setup();
    *out = 0;
    glim_status st = whole(&s, schema, out);
    schema_fini(&s);
    return st;
}

glim_status schema_any(struct grammar_builder *b, const struct schema_opts *opts, grammar_node *out, struct glim_err *e)
{
    return schema_node(b, json_true(), opts, out, e);
}

glim_status schema_any_object(struct grammar_builder *b, const struct schema_opts *opts, grammar_node *out,
                              struct glim_err *e)
{
    json_setup();
    json_t *schema = json_pack("{s:s}", "type", "object");
    *out = 0;
    if (!schema)
        return err_nomem(e, "JSON schema", 0);
    glim_status st = schema_node(b, schema, opts, out, e);
    json_decref(schema);
    return st;
}

glim_status schema_compile(struct grammar **out, const json_t *schema, const struct schema_opts *opts,
                           struct glim_err *e)
{
    struct grammar_builder *b;
    grammar_node node;
    *out = NULL;
    TRY(grammar_builder_create(&b, NULL, e));
    glim_status st = schema_node(b, schema, opts, &node, e);
    if (st == GLIM_OK) {
        uint32_t root = grammar_rule(b, "root", 4);
        grammar_define(b, root, node);
        st = grammar_compile(out, b, root, e);
    }
    grammar_builder_free(b);
    return st;
}
