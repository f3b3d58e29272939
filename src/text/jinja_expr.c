/* Tokens to expressions: Jinja2's grammar, one function per level of precedence, from the loosest (a if b else c) to
 * names and literals. Differences to Python that templates rely on are kept: `**` groups to the left, a sign binds
 * tighter than `**`, filters and tests bind tighter than every operator. */
#include "text/jinja_impl.h"

static glim_status or_level(struct jj_parse *p, struct jj_node **out);
static glim_status unary(struct jj_parse *p, bool with_filter, struct jj_node **out);
static glim_status primary(struct jj_parse *p, bool with_ns, struct jj_node **out);

static glim_status node2(struct jj_parse *p, enum jj_kind k, struct jj_node *a, struct jj_node *b, struct jj_node **out)
{
    TRY(jj_node_new(p, k, out));
    (*out)->a = a;
    (*out)->b = b;
    if (a)
        (*out)->line = a->line;
    return jj_node_depth(p, *out);
}

static glim_status add_kid(struct jj_parse *p, struct jj_node *n, struct jj_node *kid)
{
    TRY(jj_nodes_add(p, &n->kids, kid));
    return jj_node_depth(p, n);
}

static bool skip_op(struct jj_parse *p, const char *op)
{
    bool is = jj_tok_op(p->tok, op);
    p->tok += is;
    return is;
}

static bool skip_word(struct jj_parse *p, const char *w)
{
    bool is = jj_tok_word(p->tok, w);
    p->tok += is;
    return is;
}

/* ---- operators ---- */

static glim_status conditional(struct jj_parse *p, struct jj_node **out)
{
    const struct jj_node *unknown = p->unknown;
    TRY(or_level(p, out));
    while (skip_word(p, "if")) {
        struct jj_node *n, *test, *other = NULL;
        TRY(or_level(p, &test));
        if (skip_word(p, "else"))
            TRY(jj_expr(p, &other));
        TRY(jj_node_new(p, JJ_E_COND, &n));
        n->line = (*out)->line;
        n->a = *out;
        n->b = test;
        n->c = other;
        TRY(jj_node_depth(p, n));
        *out = n;
        p->unknown = unknown;
    }
    return GLIM_OK;
}

glim_status jj_expr(struct jj_parse *p, struct jj_node **out)
{
    if (p->nest >= JJ_PARSE_NEST)
        return jj_parse_fail_at(p, p->tok->line, "have more than %d nested expressions or blocks, need fewer",
                                JJ_PARSE_NEST);
    p->nest++;
    glim_status st = conditional(p, out);
    p->nest--;
    return st;
}

static glim_status compare(struct jj_parse *p, struct jj_node **out);

static glim_status not_level(struct jj_parse *p, struct jj_node **out)
{
    bool odd = false, any = false;
    int line = p->tok->line;
    while (skip_word(p, "not")) {
        odd = !odd;
        any = true;
    }
    TRY(compare(p, out));
    for (int i = 0; any && i < (odd ? 1 : 2); i++) {
        TRY(node2(p, JJ_E_NOT, *out, NULL, out));
        (*out)->line = line;
    }
    return GLIM_OK;
}

static glim_status and_level(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *right;
    TRY(not_level(p, out));
    while (skip_word(p, "and")) {
        TRY(not_level(p, &right));
        TRY(node2(p, JJ_E_AND, *out, right, out));
    }
    return GLIM_OK;
}

static glim_status or_level(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *right;
    TRY(and_level(p, out));
    while (skip_word(p, "or")) {
        TRY(and_level(p, &right));
        TRY(node2(p, JJ_E_OR, *out, right, out));
    }
    return GLIM_OK;
}

static glim_status pow_level(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *right;
    TRY(unary(p, true, out));
    while (skip_op(p, "**")) {
        TRY(unary(p, true, &right));
        TRY(node2(p, JJ_E_BIN, *out, right, out));
        (*out)->op = JJ_POW;
    }
    return GLIM_OK;
}

/* Which of the operators (two bytes each, blank padded) stands here: its index, else -1. */
static int which_op(struct jj_parse *p, const char *const *ops, int n)
{
    for (int i = 0; i < n; i++)
        if (skip_op(p, ops[i]))
            return i;
    return -1;
}

static glim_status product(struct jj_parse *p, struct jj_node **out)
{
    static const char *const ops[] = {"*", "/", "//", "%"};
    static const uint8_t code[] = {JJ_MUL, JJ_DIV, JJ_FLOORDIV, JJ_MOD};
    struct jj_node *right;
    TRY(pow_level(p, out));
    for (int i; (i = which_op(p, ops, 4)) >= 0;) {
        TRY(pow_level(p, &right));
        TRY(node2(p, JJ_E_BIN, *out, right, out));
        (*out)->op = code[i];
    }
    return GLIM_OK;
}

static glim_status concat(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *all = NULL, *right;
    TRY(product(p, out));
    while (skip_op(p, "~")) {
        if (!all) {
            TRY(jj_node_new(p, JJ_E_CONCAT, &all));
            all->line = (*out)->line;
            TRY(add_kid(p, all, *out));
        }
        TRY(product(p, &right));
        TRY(add_kid(p, all, right));
        *out = all;
    }
    return GLIM_OK;
}

static glim_status sum(struct jj_parse *p, struct jj_node **out)
{
    static const char *const ops[] = {"+", "-"};
    struct jj_node *right;
    TRY(concat(p, out));
    for (int i; (i = which_op(p, ops, 2)) >= 0;) {
        TRY(concat(p, &right));
        TRY(node2(p, JJ_E_BIN, *out, right, out));
        (*out)->op = i ? JJ_SUB : JJ_ADD;
    }
    return GLIM_OK;
}

/* A comparison operator here: its enum jj_cmp, else -1. */
static int which_cmp(struct jj_parse *p)
{
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
    int i = which_op(p, ops, 6);
    if (i >= 0)
        return i;
    if (skip_word(p, "in"))
        return JJ_IN;
    if (jj_tok_word(p->tok, "not") && jj_tok_word(p->tok + 1, "in")) {
        p->tok += 2;
        return JJ_NOTIN;
    }
    return -1;
}

/* a < b <= c: one node; the operators are the bytes of its value. */
static glim_status compare(struct jj_parse *p, struct jj_node **out)
{
    char op[64];
    size_t n = 0;
    struct jj_node *all = NULL, *right;
    TRY(sum(p, out));
    for (int i; (i = which_cmp(p)) >= 0;) {
        if (!all) {
            TRY(node2(p, JJ_E_CMP, *out, NULL, &all));
            *out = all;
        }
        if (n == sizeof op)
            return jj_parse_fail_at(p, p->tok->line, "have more than %zu chained comparisons, need fewer", sizeof op);
        op[n++] = (char)i;
        TRY(sum(p, &right));
        TRY(add_kid(p, all, right));
    }
    return all ? jj_parse_str(p, op, n, &all->value) : GLIM_OK;
}

/* ---- what follows a primary ---- */

/* Part of a subscript: an expression, or a slice. */
static glim_status subscribed(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *part[3] = {NULL, NULL, NULL};
    if (!jj_tok_op(p->tok, ":")) {
        TRY(jj_expr(p, &part[0]));
        *out = part[0];
        if (!jj_tok_op(p->tok, ":"))
            return GLIM_OK;
    }
    p->tok++;
    for (int i = 1; i < 3; i++) {
        if (!jj_tok_op(p->tok, ":") && !jj_tok_op(p->tok, "]") && !jj_tok_op(p->tok, ","))
            TRY(jj_expr(p, &part[i]));
        if (i == 1 && !skip_op(p, ":"))
            break;
    }
    TRY(jj_node_new(p, JJ_E_SLICE, out));
    for (int i = 0; i < 3; i++)
        TRY(add_kid(p, *out, part[i]));
    return GLIM_OK;
}

/* Remember the names that a template asks for, for jinja_mentions. */
static glim_status note_attr(struct jj_parse *p, struct jj_val name)
{
    struct jinja *t = p->t;
    if (!mem_grow((void **)&t->attr, &t->cap_attr, t->n_attr, sizeof *t->attr))
        return jj_parse_nomem(p);
    t->attr[t->n_attr++] = name;
    return GLIM_OK;
}

static glim_status dot(struct jj_parse *p, struct jj_node **out)
{
    const struct jj_tok *t = p->tok++;
    if (t->type == JJ_T_NAME) {
        TRY(node2(p, JJ_E_ATTR, *out, NULL, out));
        TRY(jj_parse_str(p, t->p, t->n, &(*out)->value));
        return note_attr(p, (*out)->value);
    }
    p->tok--;
    if (t->type != JJ_T_INT)
        return jj_parse_fail(p, "a name or number after the dot");
    struct jj_node *k;
    p->tok++;
    TRY(jj_node_new(p, JJ_E_CONST, &k));
    k->value = jj_int(t->i);
    return node2(p, JJ_E_ITEM, *out, k, out);
}

static glim_status subscript(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *key = NULL, *tuple = NULL, *part;
    p->tok++;
    while (!jj_tok_op(p->tok, "]")) {
        if (key)
            TRY(jj_expect_op(p, ","));
        TRY(subscribed(p, &part));
        if (key && !tuple) {
            TRY(jj_node_new(p, JJ_E_TUPLE, &tuple));
            TRY(add_kid(p, tuple, key));
        }
        if (tuple)
            TRY(add_kid(p, tuple, part));
        key = part;
    }
    p->tok++;
    if (!key)
        return jj_parse_fail(p, "a subscript before ]");
    if (key->kind == JJ_E_CONST && key->value.type == JJ_STR)
        TRY(note_attr(p, key->value));
    return node2(p, JJ_E_ITEM, *out, tuple ? tuple : key, out);
}

glim_status jj_expr_call_args(struct jj_parse *p, struct jj_args **out)
{
    struct jj_args *a = jj_parse_take(p, sizeof *a);
    if (!a)
        return jj_parse_nomem(p);
    *a = (struct jj_args){0};
    *out = a;
    size_t cap = 0;
    TRY(jj_expect_op(p, "("));
    for (bool first = true; !jj_tok_op(p->tok, ")"); first = false) {
        struct jj_node *n;
        if (!first) {
            TRY(jj_expect_op(p, ","));
            if (jj_tok_op(p->tok, ")"))
                break;
        }
        const struct jj_tok *t = p->tok;
        bool star = skip_op(p, "*"), dstar = !star && skip_op(p, "**");
        bool kw = !star && !dstar && t->type == JJ_T_NAME && jj_tok_op(t + 1, "=");
        if (a->dstar || (star && a->star) || (!star && !dstar && !kw && (a->star || a->kw.n)))
            return jj_parse_fail(p, "arguments in the order: positional, *list, keywords, **dict");
        p->tok += kw ? 2 : 0;
        TRY(jj_expr(p, &n));
        if (star) {
            a->star = n;
        } else if (dstar) {
            a->dstar = n;
        } else if (kw) {
            if (a->kw.n == cap) {
                cap = cap ? 2 * cap : 4;
                struct jj_val *names = jj_parse_take(p, cap * sizeof *names);
                if (!names)
                    return jj_parse_nomem(p);
                if (a->kw.n)
                    memcpy(names, a->kw_name, a->kw.n * sizeof *names);
                a->kw_name = names;
            }
            TRY(jj_parse_str(p, t->p, t->n, &a->kw_name[a->kw.n]));
            for (size_t i = 0; i < a->kw.n; i++)
                if (a->kw_name[i].s->n == t->n && memcmp(a->kw_name[i].s->p, t->p, t->n) == 0)
                    return jj_parse_fail(p, "each keyword once");
            TRY(jj_nodes_add(p, &a->kw, n));
        } else {
            TRY(jj_nodes_add(p, &a->pos, n));
        }
    }
    return jj_expect_op(p, ")");
}

static glim_status call(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *n;
    TRY(jj_node_new(p, JJ_E_CALL, &n));
    n->a = *out;
    n->line = (*out)->line;
    TRY(jj_expr_call_args(p, &n->args));
    *out = n;
    return jj_node_depth(p, n);
}

static glim_status postfix(struct jj_parse *p, struct jj_node **out)
{
    for (;;) {
        if (skip_op(p, "."))
            TRY(dot(p, out));
        else if (jj_tok_op(p->tok, "["))
            TRY(subscript(p, out));
        else if (jj_tok_op(p->tok, "("))
            TRY(call(p, out));
        else
            return GLIM_OK;
    }
}

/* Name of a filter or test, with dots: Jinja2 allows them, though none of its own has one. */
static glim_status dotted(struct jj_parse *p, struct jj_val *out)
{
    const struct jj_tok *t = p->tok;
    if (t->type != JJ_T_NAME)
        return jj_parse_fail(p, "a name");
    p->tok++;
    if (jj_tok_op(p->tok, "."))
        return jj_parse_fail(p, "a filter or test without a dot in its name");
    return jj_parse_str(p, t->p, t->n, out);
}

/* Jinja2 looks names of filters and tests up when it compiles, but inside an `if` only when they are reached. */
static void known(struct jj_parse *p, const struct jj_node *n)
{
    if (!(n->fn && n->fn->fn) && !p->soft && !p->unknown)
        p->unknown = n;
}

glim_status jj_expr_filter(struct jj_parse *p, bool inline_start, struct jj_node *a, struct jj_node **out)
{
    *out = a;
    while (inline_start || skip_op(p, "|")) {
        inline_start = false;
        int line = p->tok->line;
        TRY(node2(p, JJ_E_FILTER, *out, NULL, out));
        (*out)->line = line;
        TRY(dotted(p, &(*out)->value));
        (*out)->fn = jj_filter_find((*out)->value.s->p, (*out)->value.s->n);
        known(p, *out);
        if (jj_tok_op(p->tok, "("))
            TRY(jj_expr_call_args(p, &(*out)->args));
        TRY(jj_node_depth(p, *out));
    }
    return GLIM_OK;
}

/* Can the token begin the argument of a test written without parentheses? */
static bool begins_test_arg(const struct jj_tok *t)
{
    switch ((enum jj_tok_type)t->type) {
    case JJ_T_NAME:
        return !jj_tok_word(t, "else") && !jj_tok_word(t, "or") && !jj_tok_word(t, "and");
    case JJ_T_STRING:
    case JJ_T_INT:
    case JJ_T_FLOAT:
        return true;
    case JJ_T_OP:
        return jj_tok_op(t, "[") || jj_tok_op(t, "{");
    case JJ_T_DATA:
    case JJ_T_VAR_BEGIN:
    case JJ_T_VAR_END:
    case JJ_T_BLOCK_BEGIN:
    case JJ_T_BLOCK_END:
    case JJ_T_EOF:
        break;
    }
    return false;
}

static glim_status test(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *arg, *n;
    bool negated = skip_word(p, "not");
    TRY(node2(p, JJ_E_TEST, *out, NULL, &n));
    n->line = p->tok->line;
    TRY(dotted(p, &n->value));
    n->fn = jj_fn_find(jj_tests, n->value.s->p, n->value.s->n);
    if (jj_tok_op(p->tok, "(")) {
        TRY(jj_expr_call_args(p, &n->args));
    } else if (begins_test_arg(p->tok)) {
        if (jj_tok_word(p->tok, "is"))
            return jj_parse_fail(p, "tests that are not chained");
        TRY(primary(p, false, &arg));
        TRY(postfix(p, &arg));
        n->args = jj_parse_take(p, sizeof *n->args);
        if (!n->args)
            return jj_parse_nomem(p);
        *n->args = (struct jj_args){0};
        TRY(jj_nodes_add(p, &n->args->pos, arg));
    }
    known(p, n);
    TRY(jj_node_depth(p, n));
    *out = n;
    return negated ? node2(p, JJ_E_NOT, n, NULL, out) : GLIM_OK;
}

static glim_status filters_and_tests(struct jj_parse *p, struct jj_node **out)
{
    for (;;) {
        if (jj_tok_op(p->tok, "|"))
            TRY(jj_expr_filter(p, false, *out, out));
        else if (skip_word(p, "is"))
            TRY(test(p, out));
        else if (jj_tok_op(p->tok, "("))
            TRY(call(p, out));
        else
            return GLIM_OK;
    }
}

static glim_status unary(struct jj_parse *p, bool with_filter, struct jj_node **out)
{
    bool minus = jj_tok_op(p->tok, "-");
    if (minus || jj_tok_op(p->tok, "+")) {
        if (p->nest >= JJ_PARSE_NEST)
            return jj_parse_fail(p, "fewer signs in a row");
        p->tok++;
        p->nest++;
        glim_status st = unary(p, false, out);
        p->nest--;
        TRY(st);
        TRY(node2(p, minus ? JJ_E_NEG : JJ_E_POS, *out, NULL, out));
    } else {
        TRY(primary(p, false, out));
    }
    TRY(postfix(p, out));
    return with_filter ? filters_and_tests(p, out) : GLIM_OK;
}

/* ---- names and literals ---- */

/* The names that are constants. */
static bool constant_name(const struct jj_tok *t, struct jj_val *v)
{
    if (jj_tok_word(t, "true") || jj_tok_word(t, "True"))
        *v = jj_bool(true);
    else if (jj_tok_word(t, "false") || jj_tok_word(t, "False"))
        *v = jj_bool(false);
    else if (jj_tok_word(t, "none") || jj_tok_word(t, "None"))
        *v = jj_none();
    else
        return false;
    return true;
}

static void note_special(struct jj_parse *p, const struct jj_tok *t)
{
    p->seen_caller |= jj_tok_word(t, "caller");
    p->seen_kwargs |= jj_tok_word(t, "kwargs");
    p->seen_varargs |= jj_tok_word(t, "varargs");
}

static glim_status name(struct jj_parse *p, bool with_ns, struct jj_node **out)
{
    const struct jj_tok *t = p->tok++;
    struct jj_val v;
    if (constant_name(t, &v)) {
        TRY(jj_node_new(p, JJ_E_CONST, out));
        (*out)->value = v;
    } else if (with_ns && jj_tok_op(p->tok, ".")) {
        TRY(jj_node_new(p, JJ_E_NSREF, out));
        TRY(jj_name_id(p, t, &(*out)->name));
        p->tok++;
        if (p->tok->type != JJ_T_NAME)
            return jj_parse_fail(p, "an attribute's name");
        TRY(jj_parse_str(p, p->tok->p, p->tok->n, &(*out)->value));
        p->tok++;
    } else {
        if (jj_tok_word(t, "self"))
            return jj_parse_fail_at(p, t->line, "have the variable 'self', need one that is implemented");
        TRY(jj_node_new(p, JJ_E_NAME, out));
        TRY(jj_name_id(p, t, &(*out)->name));
        note_special(p, t);
    }
    (*out)->line = t->line;
    return GLIM_OK;
}

/* Neighbouring literals are one string. */
static glim_status strings(struct jj_parse *p, struct jj_node **out)
{
    const struct jj_tok *t = p->tok;
    size_t n = 0, at = 0;
    TRY(jj_node_new(p, JJ_E_CONST, out));
    for (; p->tok->type == JJ_T_STRING; p->tok++)
        n += p->tok->n;
    char *text = jj_parse_take(p, n);
    if (!text)
        return jj_parse_nomem(p);
    for (; t < p->tok; at += t++->n)
        memcpy(text + at, t->p, t->n);
    return jj_parse_str(p, text, n, &(*out)->value);
}

static glim_status list(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *e;
    TRY(jj_node_new(p, JJ_E_LIST, out));
    p->tok++;
    while (!jj_tok_op(p->tok, "]")) {
        if ((*out)->kids.n) {
            TRY(jj_expect_op(p, ","));
            if (jj_tok_op(p->tok, "]"))
                break;
        }
        TRY(jj_expr(p, &e));
        TRY(add_kid(p, *out, e));
    }
    return jj_expect_op(p, "]");
}

static glim_status dict(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *k, *v;
    TRY(jj_node_new(p, JJ_E_DICT, out));
    p->tok++;
    while (!jj_tok_op(p->tok, "}")) {
        if ((*out)->kids.n) {
            TRY(jj_expect_op(p, ","));
            if (jj_tok_op(p->tok, "}"))
                break;
        }
        TRY(jj_expr(p, &k));
        TRY(jj_expect_op(p, ":"));
        TRY(jj_expr(p, &v));
        TRY(add_kid(p, *out, k));
        TRY(add_kid(p, *out, v));
    }
    return jj_expect_op(p, "}");
}

static glim_status number(struct jj_parse *p, struct jj_node **out)
{
    const struct jj_tok *t = p->tok++;
    TRY(jj_node_new(p, JJ_E_CONST, out));
    (*out)->value = t->type == JJ_T_INT ? jj_int(t->i) : jj_float(t->f);
    (*out)->line = t->line;
    return GLIM_OK;
}

static glim_status primary(struct jj_parse *p, bool with_ns, struct jj_node **out)
{
    if (p->tok->type == JJ_T_NAME)
        return name(p, with_ns, out);
    if (p->tok->type == JJ_T_STRING)
        return strings(p, out);
    if (p->tok->type == JJ_T_INT || p->tok->type == JJ_T_FLOAT)
        return number(p, out);
    if (skip_op(p, "(")) {
        TRY(jj_expr_tuple(p, true, true, NULL, out));
        return jj_expect_op(p, ")");
    }
    if (jj_tok_op(p->tok, "["))
        return list(p, out);
    if (jj_tok_op(p->tok, "{"))
        return dict(p, out);
    return jj_parse_fail(p, "an expression");
}

/* ---- tuples and targets ---- */

static bool tuple_end(const struct jj_parse *p, const char *end)
{
    return p->tok->type == JJ_T_VAR_END || p->tok->type == JJ_T_BLOCK_END || jj_tok_op(p->tok, ")") ||
           (end && jj_tok_word(p->tok, end));
}

enum part { WITH_COND, WITHOUT_COND, TARGET, NS_TARGET };

static glim_status part_of_tuple(struct jj_parse *p, enum part kind, struct jj_node **out)
{
    if (kind == WITH_COND)
        return jj_expr(p, out);
    if (kind == WITHOUT_COND)
        return or_level(p, out);
    if (p->nest >= JJ_PARSE_NEST)
        return jj_parse_fail(p, "targets nested less deeply");
    p->nest++;
    glim_status st = primary(p, kind == NS_TARGET, out);
    p->nest--;
    return st;
}

static glim_status tuple(struct jj_parse *p, enum part kind, bool parens, const char *end, struct jj_node **out)
{
    struct jj_node *first = NULL, *all = NULL, *e;
    int line = p->tok->line;
    bool comma = false;
    for (;;) {
        if (first)
            TRY(jj_expect_op(p, ","));
        if (tuple_end(p, end))
            break;
        TRY(part_of_tuple(p, kind, &e));
        if (first && !all) {
            TRY(jj_node_new(p, JJ_E_TUPLE, &all));
            TRY(add_kid(p, all, first));
        }
        if (all)
            TRY(add_kid(p, all, e));
        first = first ? first : e;
        if (!jj_tok_op(p->tok, ","))
            break;
        comma = true;
    }
    *out = all ? all : first;
    if (all || (first && !comma))
        return GLIM_OK;
    if (!first && !parens)
        return jj_parse_fail(p, "an expression");
    TRY(jj_node_new(p, JJ_E_TUPLE, out)); /* () or (a,) */
    (*out)->line = line;
    return first ? add_kid(p, *out, first) : GLIM_OK;
}

glim_status jj_expr_tuple(struct jj_parse *p, bool with_cond, bool parens, const char *end, struct jj_node **out)
{
    return tuple(p, with_cond ? WITH_COND : WITHOUT_COND, parens, end, out);
}

static glim_status check_target(struct jj_parse *p, const struct jj_node *n)
{
    if (n->kind == JJ_E_NAME || n->kind == JJ_E_NSREF)
        return GLIM_OK;
    if (n->kind != JJ_E_TUPLE)
        return jj_parse_fail_at(p, n->line, "have an assignment to an expression, need a name");
    for (size_t i = 0; i < n->kids.n; i++)
        TRY(check_target(p, n->kids.v[i]));
    return GLIM_OK;
}

glim_status jj_expr_target(struct jj_parse *p, bool with_ns, const char *end, struct jj_node **out)
{
    bool c = p->seen_caller, k = p->seen_kwargs, v = p->seen_varargs;
    TRY(tuple(p, with_ns ? NS_TARGET : TARGET, false, end, out));
    p->seen_caller = c; /* a target is no use of the name */
    p->seen_kwargs = k;
    p->seen_varargs = v;
    return check_target(p, *out);
}
