/* Tokens to statements, and what both parsers share. */
#include "text/jinja_impl.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- errors ---- */

glim_status jj_parse_fail_at(struct jj_parse *p, int line, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(p->e, GLIM_REFUSED, "chat template: %.100s line %d: %s", p->t->name, line, text);
}

glim_status jj_parse_fail(struct jj_parse *p, const char *need)
{
    const struct jj_tok *t = p->tok;
    switch ((enum jj_tok_type)t->type) {
    case JJ_T_NAME:
    case JJ_T_OP:
    case JJ_T_INT:
    case JJ_T_FLOAT:
        return jj_parse_fail_at(p, t->line, "have '%.*s', need %s", (int)(t->n < 60 ? t->n : 60), t->p, need);
    case JJ_T_STRING:
        return jj_parse_fail_at(p, t->line, "have a string, need %s", need);
    case JJ_T_EOF:
        return jj_parse_fail_at(p, t->line, "have the end of the template, need %s", need);
    case JJ_T_DATA:
    case JJ_T_VAR_BEGIN:
    case JJ_T_VAR_END:
    case JJ_T_BLOCK_BEGIN:
    case JJ_T_BLOCK_END:
        break;
    }
    return jj_parse_fail_at(p, t->line, "have the end of the tag, need %s", need);
}

glim_status jj_parse_nomem(struct jj_parse *p)
{
    return err_nomem(p->e, "chat template", sizeof(struct jj_node));
}

/* ---- building ---- */

void *jj_parse_take(struct jj_parse *p, size_t n)
{
    bool over;
    return jj_mem_take(&p->t->mem, n, &over);
}

glim_status jj_node_new(struct jj_parse *p, enum jj_kind k, struct jj_node **out)
{
    struct jj_node *n = jj_parse_take(p, sizeof *n);
    *out = n;
    if (!n)
        return jj_parse_nomem(p);
    *n = (struct jj_node){.kind = (uint8_t)k, .line = p->tok->line};
    return GLIM_OK;
}

glim_status jj_nodes_add(struct jj_parse *p, struct jj_nodes *l, struct jj_node *n)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 4;
        struct jj_node **v = jj_parse_take(p, cap * sizeof(struct jj_node *));
        if (!v)
            return jj_parse_nomem(p);
        if (l->n)
            memcpy(v, l->v, l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = n;
    return GLIM_OK;
}

static void deeper(struct jj_node *n, const struct jj_node *kid)
{
    if (kid && kid->depth >= n->depth)
        n->depth = (uint16_t)(kid->depth + 1);
}

glim_status jj_node_depth(struct jj_parse *p, struct jj_node *n)
{
    deeper(n, n->a);
    deeper(n, n->b);
    deeper(n, n->c);
    if (n->kids.n) /* called after each */
        deeper(n, n->kids.v[n->kids.n - 1]);
    if (n->args) {
        for (size_t i = 0; i < n->args->pos.n; i++)
            deeper(n, n->args->pos.v[i]);
        for (size_t i = 0; i < n->args->kw.n; i++)
            deeper(n, n->args->kw.v[i]);
        deeper(n, n->args->star);
        deeper(n, n->args->dstar);
    }
    if (n->depth > JJ_TREE)
        return jj_parse_fail_at(p, n->line, "have an expression nested deeper than %d, need a simpler one", JJ_TREE);
    return GLIM_OK;
}

glim_status jj_parse_str(struct jj_parse *p, const char *s, size_t n, struct jj_val *out)
{
    struct jj_str *v = jj_parse_take(p, sizeof *v);
    char *text = jj_parse_take(p, n + 1);
    if (!v || !text)
        return jj_parse_nomem(p);
    if (n)
        memcpy(text, s, n);
    text[n] = 0;
    *v = (struct jj_str){.p = text, .n = n, .n_cp = SIZE_MAX};
    jj_str_len(v); /* counted here: a parsed template is shared between threads */
    *out = (struct jj_val){.type = JJ_STR, .s = v};
    return GLIM_OK;
}

/* Ids of names: few (tens), so a list does. */
glim_status jj_name_id(struct jj_parse *p, const struct jj_tok *t, uint32_t *id)
{
    enum { MAX_NAMES = 4096 };
    struct jinja *j = p->t;
    for (size_t i = 0; i < j->n_var; i++)
        if (j->var[i].s->n == t->n && memcmp(j->var[i].s->p, t->p, t->n) == 0) {
            *id = (uint32_t)i;
            return GLIM_OK;
        }
    if (j->n_var == MAX_NAMES)
        return jj_parse_fail_at(p, t->line, "have more than %d names of variables, need fewer", MAX_NAMES);
    if (!mem_grow((void **)&j->var, &j->cap_var, j->n_var, sizeof *j->var))
        return jj_parse_nomem(p);
    TRY(jj_parse_str(p, t->p, t->n, &j->var[j->n_var]));
    *id = (uint32_t)j->n_var++;
    return GLIM_OK;
}

bool jj_tok_op(const struct jj_tok *t, const char *op)
{
    return t->type == JJ_T_OP && t->op[0] == op[0] && t->op[1] == op[1];
}

bool jj_tok_word(const struct jj_tok *t, const char *w)
{
    return t->type == JJ_T_NAME && t->n == strlen(w) && memcmp(t->p, w, t->n) == 0;
}

glim_status jj_expect_op(struct jj_parse *p, const char *op)
{
    if (!jj_tok_op(p->tok, op))
        return jj_parse_fail(p, op);
    p->tok++;
    return GLIM_OK;
}

static glim_status expect_word(struct jj_parse *p, const char *w)
{
    if (!jj_tok_word(p->tok, w))
        return jj_parse_fail(p, w);
    p->tok++;
    return GLIM_OK;
}

static glim_status expect_end(struct jj_parse *p)
{
    if (p->tok->type != JJ_T_BLOCK_END)
        return jj_parse_fail(p, "%}");
    p->tok++;
    return GLIM_OK;
}

/* ---- blocks ---- */

static glim_status statement(struct jj_parse *p, struct jj_node **out);

static bool one_of(const struct jj_tok *t, const char *const *words)
{
    for (; *words; words++)
        if (jj_tok_word(t, *words))
            return true;
    return false;
}

/* Text, {{ }} and statements up to a tag that begins with one of `ends` (NULL: the end of the template). Leaves the
 * parser at that word. */
static glim_status until(struct jj_parse *p, const char *const *ends, struct jj_nodes *body)
{
    struct jj_node *n;
    for (;;) {
        const struct jj_tok *t = p->tok;
        switch ((enum jj_tok_type)t->type) {
        case JJ_T_DATA:
            TRY(jj_node_new(p, JJ_S_DATA, &n));
            TRY(jj_parse_str(p, t->p, t->n, &n->value));
            p->tok++;
            break;
        case JJ_T_VAR_BEGIN: {
            struct jj_node *e;
            p->tok++;
            TRY(jj_node_new(p, JJ_S_PRINT, &n));
            TRY(jj_expr_tuple(p, true, false, NULL, &e));
            TRY(jj_nodes_add(p, &n->kids, e));
            if (p->tok->type != JJ_T_VAR_END)
                return jj_parse_fail(p, "}}");
            p->tok++;
            break;
        }
        case JJ_T_BLOCK_BEGIN:
            p->tok++;
            if (ends && one_of(p->tok, ends))
                return GLIM_OK;
            TRY(statement(p, &n));
            TRY(expect_end(p));
            break;
        case JJ_T_EOF:
            return ends ? jj_parse_fail(p, ends[0]) : GLIM_OK;
        case JJ_T_VAR_END:
        case JJ_T_BLOCK_END:
        case JJ_T_NAME:
        case JJ_T_STRING:
        case JJ_T_INT:
        case JJ_T_FLOAT:
        case JJ_T_OP:
            return jj_parse_fail(p, "text or a tag"); /* the lexer never gives this outside a tag */
        }
        if (p->unknown)
            return jj_parse_fail_at(p, p->unknown->line, "have the %s '%.60s', need one that is implemented",
                                    p->unknown->kind == JJ_E_TEST ? "test" : "filter", p->unknown->value.s->p);
        TRY(jj_nodes_add(p, body, n));
    }
}

/* The rest of an opening tag, then its body up to one of `ends`; the parser stands at that word. */
static glim_status block(struct jj_parse *p, const char *const *ends, struct jj_nodes *body)
{
    if (jj_tok_op(p->tok, ":"))
        p->tok++;
    TRY(expect_end(p));
    if (p->nest >= JJ_PARSE_NEST)
        return jj_parse_fail(p, "blocks nested less deeply");
    p->nest++;
    glim_status st = until(p, ends, body);
    p->nest--;
    return st;
}

static glim_status blocks(struct jj_parse *p, struct jj_node *n, size_t n_block)
{
    n->block = jj_parse_take(p, n_block * sizeof *n->block);
    if (!n->block)
        return jj_parse_nomem(p);
    memset(n->block, 0, n_block * sizeof *n->block);
    n->n_block = n_block;
    return GLIM_OK;
}

/* A body that ends with `end`, which is read too. hard: unknown filters in it are errors at once. */
static glim_status whole_block(struct jj_parse *p, const char *end, struct jj_node *n)
{
    const char *const ends[] = {end, NULL};
    bool soft = p->soft;
    TRY(blocks(p, n, 1));
    p->soft = false;
    TRY(block(p, ends, &n->block[0]));
    p->soft = soft;
    p->tok++;
    return GLIM_OK;
}

/* ---- statements ---- */

static glim_status add_block(struct jj_parse *p, struct jj_node *n, const char *const *ends)
{
    struct jj_nodes body = {0}, *all = n->block;
    if (n->n_block >= JJ_TREE)
        return jj_parse_fail(p, "fewer branches of one if");
    if ((n->n_block & (n->n_block - 1)) == 0) { /* room for 2 at first, then doubled at each power of two */
        all = jj_parse_take(p, 2 * (n->n_block + 1) * sizeof *all);
        if (!all)
            return jj_parse_nomem(p);
        if (n->n_block)
            memcpy(all, n->block, n->n_block * sizeof *all);
        n->block = all;
    }
    TRY(block(p, ends, &body));
    n->block[n->n_block++] = body;
    return GLIM_OK;
}

static glim_status if_block(struct jj_parse *p, struct jj_node **out)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL}, *const end[] = {"endif", NULL};
    bool soft = p->soft, more = true;
    struct jj_node *n, *test;
    TRY(jj_node_new(p, JJ_S_IF, &n));
    p->soft = true;
    while (more) {
        TRY(jj_expr_tuple(p, false, false, NULL, &test));
        TRY(jj_nodes_add(p, &n->kids, test));
        TRY(add_block(p, n, ends));
        more = jj_tok_word(p->tok, "elif");
        p->tok += more;
    }
    if (jj_tok_word(p->tok, "else")) {
        p->tok++;
        TRY(add_block(p, n, end));
    }
    p->tok++;
    p->soft = soft;
    *out = n;
    return GLIM_OK;
}

/* Inside a for (its target too) nothing may assign to `loop`. */
static glim_status not_loop(struct jj_parse *p, const struct jj_node *target)
{
    if (target->kind == JJ_E_NAME && p->fors && jj_is(p->t->var[target->name], "loop"))
        return jj_parse_fail_at(p, target->line, "have an assignment to 'loop' inside a for, need another name");
    for (size_t i = 0; i < target->kids.n; i++)
        TRY(not_loop(p, target->kids.v[i]));
    return GLIM_OK;
}

static glim_status for_block(struct jj_parse *p, struct jj_node **out)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const end[] = {"endfor", NULL};
    struct jj_node *n;
    bool soft = p->soft;
    TRY(jj_node_new(p, JJ_S_FOR, &n));
    p->fors++;
    TRY(jj_expr_target(p, false, "in", &n->a));
    TRY(not_loop(p, n->a));
    TRY(expect_word(p, "in"));
    TRY(jj_expr_tuple(p, false, false, "recursive", &n->b));
    p->soft = false;
    if (jj_tok_word(p->tok, "if")) {
        p->tok++;
        TRY(jj_expr(p, &n->c));
    }
    if (jj_tok_word(p->tok, "recursive")) {
        p->tok++;
        n->flag = true;
    }
    TRY(blocks(p, n, 2));
    p->loops++;
    TRY(block(p, ends, &n->block[0]));
    p->loops--;
    if (jj_tok_word(p->tok, "else")) {
        p->tok++;
        TRY(block(p, end, &n->block[1]));
    }
    p->tok++;
    p->fors--;
    p->soft = soft;
    *out = n;
    return GLIM_OK;
}

static glim_status set(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *n;
    TRY(jj_node_new(p, JJ_S_SET, &n));
    TRY(jj_expr_target(p, true, NULL, &n->a));
    TRY(not_loop(p, n->a));
    *out = n;
    if (jj_tok_op(p->tok, "=")) {
        p->tok++;
        return jj_expr_tuple(p, true, false, NULL, &n->b);
    }
    n->kind = JJ_S_SETBLOCK;
    TRY(jj_expr_filter(p, false, NULL, &n->b));
    return whole_block(p, "endset", n);
}

static glim_status with(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *n, *e;
    TRY(jj_node_new(p, JJ_S_WITH, &n));
    *out = n;
    while (p->tok->type != JJ_T_BLOCK_END) {
        if (n->kids.n)
            TRY(jj_expect_op(p, ","));
        TRY(jj_expr_target(p, false, NULL, &e));
        TRY(jj_nodes_add(p, &n->kids, e));
        TRY(jj_expect_op(p, "="));
        TRY(jj_expr(p, &e));
        TRY(jj_nodes_add(p, &n->kids, e));
    }
    return whole_block(p, "endwith", n);
}

static glim_status add_param(struct jj_parse *p, struct jj_sig *s, size_t *cap)
{
    const struct jj_tok *t = p->tok;
    if (t->type != JJ_T_NAME)
        return jj_parse_fail(p, "a parameter's name");
    if (s->n == *cap) {
        *cap = *cap ? 2 * *cap : 4;
        uint32_t *ids = jj_parse_take(p, *cap * sizeof *ids);
        struct jj_val *names = jj_parse_take(p, *cap * sizeof *names);
        if (!ids || !names)
            return jj_parse_nomem(p);
        if (s->n) {
            memcpy(ids, s->name, s->n * sizeof *ids);
            memcpy(names, s->name_str, s->n * sizeof *names);
        }
        s->name = ids;
        s->name_str = names;
    }
    TRY(jj_name_id(p, t, &s->name[s->n]));
    for (size_t i = 0; i < s->n; i++)
        if (s->name[i] == s->name[s->n])
            return jj_parse_fail(p, "each parameter once");
    TRY(jj_parse_str(p, t->p, t->n, &s->name_str[s->n]));
    s->n++;
    p->tok++;
    return GLIM_OK;
}

static glim_status new_sig(struct jj_parse *p, struct jj_sig **out)
{
    *out = jj_parse_take(p, sizeof **out);
    if (!*out)
        return jj_parse_nomem(p);
    **out = (struct jj_sig){0};
    return GLIM_OK;
}

static glim_status signature(struct jj_parse *p, struct jj_sig *s)
{
    size_t cap = 0;
    TRY(jj_expect_op(p, "("));
    while (!jj_tok_op(p->tok, ")")) {
        struct jj_node *e;
        if (s->n)
            TRY(jj_expect_op(p, ","));
        TRY(add_param(p, s, &cap));
        if (jj_tok_op(p->tok, "=")) {
            p->tok++;
            TRY(jj_expr(p, &e));
            TRY(jj_nodes_add(p, &s->def, e));
        } else if (s->def.n) {
            return jj_parse_fail(p, "a default for every parameter after the first with one");
        }
    }
    p->tok++;
    return GLIM_OK;
}

static bool has_param(const struct jj_sig *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (jj_is(s->name_str[i], name))
            return true;
    return false;
}

/* Body of a macro: which of caller, kwargs and varargs it reads decides what may be passed. break and continue do not
 * reach out of it. */
static glim_status macro_body(struct jj_parse *p, const char *end, struct jj_node *n)
{
    bool caller = p->seen_caller, kwargs = p->seen_kwargs, varargs = p->seen_varargs;
    int loops = p->loops;
    struct jj_sig *s = n->sig;
    p->seen_caller = p->seen_kwargs = p->seen_varargs = false;
    p->loops = 0;
    TRY(whole_block(p, end, n));
    p->loops = loops;
    s->explicit_caller = has_param(s, "caller");
    if (s->explicit_caller && p->seen_caller) {
        size_t first_default = s->n - s->def.n, at = 0;
        while (!jj_is(s->name_str[at], "caller"))
            at++;
        if (at < first_default)
            return jj_parse_fail_at(p, n->line, "have a parameter 'caller', need it left out or with a default");
    }
    s->uses_caller = p->seen_caller;
    s->uses_kwargs = p->seen_kwargs && !has_param(s, "kwargs");
    s->uses_varargs = p->seen_varargs && !has_param(s, "varargs");
    p->seen_caller |= caller; /* an outer macro sees what its inner ones read */
    p->seen_kwargs |= kwargs;
    p->seen_varargs |= varargs;
    return GLIM_OK;
}

static glim_status macro(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *n;
    TRY(jj_node_new(p, JJ_S_MACRO, &n));
    *out = n;
    if (p->tok->type != JJ_T_NAME)
        return jj_parse_fail(p, "the macro's name");
    TRY(jj_name_id(p, p->tok, &n->name));
    TRY(jj_parse_str(p, p->tok->p, p->tok->n, &n->value));
    p->tok++;
    TRY(new_sig(p, &n->sig));
    TRY(signature(p, n->sig));
    return macro_body(p, "endmacro", n);
}

static glim_status call_block(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *n;
    TRY(jj_node_new(p, JJ_S_CALL, &n));
    *out = n;
    TRY(jj_parse_str(p, "caller", 6, &n->value));
    TRY(new_sig(p, &n->sig));
    if (jj_tok_op(p->tok, "("))
        TRY(signature(p, n->sig));
    TRY(jj_expr(p, &n->a));
    if (n->a->kind != JJ_E_CALL)
        return jj_parse_fail_at(p, n->line, "have an expression, need the call of a macro");
    return macro_body(p, "endcall", n);
}

static glim_status filter_block(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *n;
    TRY(jj_node_new(p, JJ_S_FILTER, &n));
    *out = n;
    TRY(jj_expr_filter(p, true, NULL, &n->b));
    return whole_block(p, "endfilter", n);
}

/* What a model generated, for masks in training: printed as it is, in a scope of its own. */
static glim_status generation(struct jj_parse *p, struct jj_node **out)
{
    TRY(jj_node_new(p, JJ_S_GENERATION, out));
    TRY(new_sig(p, &(*out)->sig));
    return macro_body(p, "endgeneration", *out);
}

static glim_status print(struct jj_parse *p, struct jj_node **out)
{
    struct jj_node *e;
    TRY(jj_node_new(p, JJ_S_PRINT, out));
    while (p->tok->type != JJ_T_BLOCK_END) {
        if ((*out)->kids.n)
            TRY(jj_expect_op(p, ","));
        TRY(jj_expr(p, &e));
        TRY(jj_nodes_add(p, &(*out)->kids, e));
    }
    return GLIM_OK;
}

static glim_status jump(struct jj_parse *p, enum jj_kind k, struct jj_node **out)
{
    if (p->loops == 0)
        return jj_parse_fail_at(p, p->tok->line, "have break or continue outside a loop, need it inside one");
    return jj_node_new(p, k, out);
}

static glim_status break_loop(struct jj_parse *p, struct jj_node **out)
{
    return jump(p, JJ_S_BREAK, out);
}

static glim_status continue_loop(struct jj_parse *p, struct jj_node **out)
{
    return jump(p, JJ_S_CONTINUE, out);
}

static const struct {
    const char *word;
    glim_status (*parse)(struct jj_parse *p, struct jj_node **out);
} statements[] = {
    {"if", if_block},      {"for", for_block},          {"set", set},     {"macro", macro},
    {"call", call_block},  {"filter", filter_block},    {"with", with},   {"generation", generation},
    {"break", break_loop}, {"continue", continue_loop}, {"print", print}, {"raw", NULL}, /* the lexer's */
    {NULL, NULL},
};

const char *jj_statement_name(size_t i)
{
    return i < sizeof statements / sizeof *statements ? statements[i].word : NULL;
}

static glim_status statement(struct jj_parse *p, struct jj_node **out)
{
    if (p->tok->type != JJ_T_NAME)
        return jj_parse_fail(p, "a statement's name");
    for (size_t i = 0; statements[i].word; i++)
        if (statements[i].parse && jj_tok_word(p->tok, statements[i].word)) {
            p->tok++;
            return statements[i].parse(p, out);
        }
    return jj_parse_fail(p, "a statement that is implemented, or the end of the block before");
}

static glim_status special_names(struct jj_parse *p)
{
    const struct {
        const char *name;
        uint32_t *id;
    } all[] = {{"loop", &p->t->id_loop},
               {"caller", &p->t->id_caller},
               {"kwargs", &p->t->id_kwargs},
               {"varargs", &p->t->id_varargs}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct jj_tok t = {.type = JJ_T_NAME, .p = all[i].name, .n = strlen(all[i].name)};
        TRY(jj_name_id(p, &t, all[i].id));
    }
    return GLIM_OK;
}

glim_status jj_parse_all(struct jinja *t, const char *text, size_t n, struct glim_err *e)
{
    struct jj_lex l = {.t = t, .e = e};
    struct jj_parse p = {.t = t, .e = e};
    glim_status st = jj_lex_all(&l, text, n);
    p.tok = l.tok;
    if (st == GLIM_OK)
        st = special_names(&p);
    if (st == GLIM_OK)
        st = until(&p, NULL, &t->body);
    mem_free(l.tok);
    return st;
}
