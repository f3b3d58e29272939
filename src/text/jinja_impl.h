/* Inside the Jinja engine: values, tree, and the functions its files share. See jinja.h for what it is.
 *
 *   jinja_lex.c     text to tokens                   jinja_filter.c      filters of one value
 *   jinja_parse.c   tokens to statements             jinja_filter_seq.c  filters of sequences
 *   jinja_expr.c    tokens to expressions            jinja_test.c        tests
 *   jinja_value.c   memory, strings, lists, dicts    jinja_str.c         methods of strings
 *   jinja_op.c      operators, comparison            jinja_method.c      attributes, other methods, globals
 *   jinja_print.c   str(), repr(), JSON              jinja_format.c      %, str.format, strftime
 *   jinja_eval.c    expressions and calls            jinja_case.c        upper and lower case
 *   jinja_exec.c    statements                       jinja.c             open, render, tables
 *
 * Everything of a render lies in one growing block list (struct jj_mem) that is freed whole, so values are plain
 * structs without owners. Containers never change once they are visible to a template, except namespaces, cyclers,
 * joiners and loops. Strings are valid UTF-8 throughout. */
#ifndef GLIM_TEXT_JINJA_IMPL_H
#define GLIM_TEXT_JINJA_IMPL_H

#include "base/arith.h"
#include "base/mem.h"
#include "text/jinja.h"

#include <limits.h>
#include <string.h>

enum {
    JJ_DEPTH = 900,           /* nested evaluations of a render: a few hundred bytes of stack each */
    JJ_NEST = 200,            /* nested values that are compared or printed */
    JJ_PARSE_NEST = 100,      /* nested parentheses and blocks of a template */
    JJ_TREE = 400,            /* depth of the parsed tree (a chain of operators is one level each) */
    JJ_TEMPLATE = 4 << 20,    /* bytes of a template */
    JJ_BASE_STEPS = 1 << 20,  /* budget of a render with no input */
    JJ_BASE_BYTES = 32 << 20, /* memory of a render with no input */
    JJ_STEPS_PER_BYTE = 4,    /* more for each byte of input */
    JJ_BYTES_PER_BYTE = 64,
    JJ_ARGS = 8 /* most named parameters of a builtin */
};

/* ---- memory ---- */
struct jj_block;
struct jj_mem {
    struct jj_block *block;
    char *at, *end;
    size_t left; /* bytes that may still be taken */
};
void *jj_mem_take(struct jj_mem *m, size_t n, bool *over); /* 16-byte aligned; NULL: *over says limit or lack */
void jj_mem_fini(struct jj_mem *m);

/* ---- values ---- */
enum jj_type {
    JJ_MISSING, /* no value: an argument not given */
    JJ_UNDEF,
    JJ_NONE,
    JJ_BOOL,
    JJ_INT,
    JJ_FLOAT,
    JJ_STR,
    JJ_LIST,
    JJ_TUPLE,
    JJ_RANGE,
    JJ_VIEW, /* dict.keys(), .values(), .items() */
    JJ_ITER, /* what filters like map and select give: can be walked once */
    JJ_DICT,
    JJ_NS,
    JJ_LOOP,
    JJ_MACRO,
    JJ_FUNC,   /* a global function */
    JJ_METHOD, /* a method with its object */
    JJ_CYCLER,
    JJ_JOINER
};

struct jj_run {
    uint32_t n; /* bytes */
    bool data;
};

struct jj_str {
    const char *p;
    size_t n;                 /* bytes */
    size_t n_cp;              /* code points; SIZE_MAX: not counted yet (never so in a parsed tree) */
    const struct jj_run *run; /* NULL: uniform */
    size_t n_run;
    bool data;   /* of a uniform string; of a mixed one: true */
    bool markup; /* came from `safe` or `escape`: `+` escapes what is joined to it */
};

struct jj_val {
    uint8_t type;
    bool data; /* a number, bool or None that came from a client */
    union {
        bool b;
        int64_t i;
        double f;
        struct jj_str *s;
        struct jj_list *l;
        struct jj_dict *d; /* JJ_DICT, JJ_NS */
        struct jj_undef *u;
        struct jj_loop *loop;
        struct jj_macro *m;
        const struct jj_fn *fn;
        struct jj_method *method;
        struct jj_cycle *cycle;
    };
};

struct jj_list {
    struct jj_val *v;
    size_t n, cap;
    size_t at;                 /* JJ_ITER: next to give */
    int64_t start, stop, step; /* JJ_RANGE */
    const char *name;          /* JJ_VIEW: "dict_keys"; JJ_TUPLE: "group" for the tuples of groupby */
};

struct jj_pair {
    struct jj_val key, v;
};

struct jj_dict {
    struct jj_pair *p;
    size_t n, cap;
    uint32_t *slot; /* hash index once n is large: position + 1, 0 = free */
    size_t n_slot;
};

/* Why a value is undefined. The sentence is made when somebody needs it. */
struct jj_undef {
    enum { JJ_U_NAME, JJ_U_ATTR, JJ_U_ELEMENT, JJ_U_UNSAFE, JJ_U_HINT, JJ_U_ARG } why;
    const char *hint;      /* JJ_U_HINT */
    const char *type;      /* of the object asked */
    struct jj_val element; /* name, attribute or index */
};

struct jj_method {
    struct jj_val self;
    const struct jj_fn *fn;
};

struct jj_cycle { /* cycler and joiner */
    struct jj_list *items;
    size_t at;
};

/* ---- the tree ---- */
enum jj_kind {
    /* expressions */
    JJ_E_CONST,
    JJ_E_NAME,
    JJ_E_TUPLE,
    JJ_E_LIST,
    JJ_E_DICT, /* kids: key, value, key, value, … */
    JJ_E_COND, /* a if b else c; c may be NULL */
    JJ_E_AND,
    JJ_E_OR,
    JJ_E_NOT,
    JJ_E_NEG,
    JJ_E_POS,
    JJ_E_BIN,    /* a op b */
    JJ_E_CONCAT, /* kids joined as text */
    JJ_E_CMP,    /* a, then kids[i] compared by value.s->p[i] (enum jj_cmp) */
    JJ_E_ATTR,   /* a.value */
    JJ_E_ITEM,   /* a[b] */
    JJ_E_SLICE,  /* kids: start, stop, step, each may be NULL */
    JJ_E_CALL,   /* a(args) */
    JJ_E_FILTER, /* a | fn(args); a = NULL in a block */
    JJ_E_TEST,   /* a is fn(args) */
    JJ_E_NSREF,  /* target name.value */
    /* statements */
    JJ_S_DATA,
    JJ_S_PRINT, /* kids */
    JJ_S_IF,    /* kids[i]: tests, block[i]: what to do; one more block: else */
    JJ_S_FOR,   /* for a in b if c; block[0], block[1]: else */
    JJ_S_SET,   /* a = b */
    JJ_S_SETBLOCK,
    JJ_S_WITH, /* kids: target, value, … */
    JJ_S_MACRO,
    JJ_S_CALL, /* a: the call; sig, block[0] */
    JJ_S_FILTER,
    JJ_S_GENERATION,
    JJ_S_BREAK,
    JJ_S_CONTINUE
};

enum jj_op { JJ_ADD, JJ_SUB, JJ_MUL, JJ_DIV, JJ_FLOORDIV, JJ_MOD, JJ_POW };
enum jj_cmp { JJ_EQ, JJ_NE, JJ_LT, JJ_LE, JJ_GT, JJ_GE, JJ_IN, JJ_NOTIN };

struct jj_nodes {
    struct jj_node **v;
    size_t n, cap;
};

struct jj_args {
    struct jj_nodes pos, kw;
    struct jj_val *kw_name; /* [kw.n] */
    struct jj_node *star, *dstar;
};

/* Parameters of a macro or call block; defaults belong to the last ones. */
struct jj_sig {
    uint32_t *name;
    struct jj_val *name_str;
    size_t n;
    struct jj_nodes def;
    bool uses_caller, uses_kwargs, uses_varargs; /* the body reads that name and no parameter has it */
    bool explicit_caller;
};

struct jj_node {
    uint8_t kind, op; /* op: enum jj_op */
    bool flag;        /* JJ_S_FOR: recursive */
    uint16_t depth;   /* of the tree below */
    int line;
    uint32_t name; /* id of a variable */
    struct jj_node *a, *b, *c;
    struct jj_nodes kids;
    struct jj_nodes *block;
    size_t n_block;
    struct jj_val value;
    const struct jj_fn *fn; /* NULL: unknown, an error when reached; `value` has the name */
    struct jj_args *args;
    struct jj_sig *sig;
};

struct jinja {
    struct jj_mem mem;
    char *name; /* for sentences */
    struct jj_nodes body;
    struct jj_val *var; /* names of variables by id */
    size_t n_var, cap_var;
    uint32_t id_loop, id_caller, id_kwargs, id_varargs; /* names that the language itself sets */
    struct jj_val *attr;                                /* names of attributes and constant subscripts */
    size_t n_attr, cap_attr;
};

/* ---- tokens ---- */
enum jj_tok_type {
    JJ_T_DATA,
    JJ_T_VAR_BEGIN,
    JJ_T_VAR_END,
    JJ_T_BLOCK_BEGIN,
    JJ_T_BLOCK_END,
    JJ_T_NAME,
    JJ_T_STRING,
    JJ_T_INT,
    JJ_T_FLOAT,
    JJ_T_OP,
    JJ_T_EOF
};

/* Operators of one and two bytes are told apart by their text: op[0], op[1] (0 for one byte). */
struct jj_tok {
    uint8_t type;
    char op[2];
    int line;
    const char *p; /* text: of a string after its escapes */
    size_t n;
    int64_t i;
    double f;
};

struct jj_lex {
    struct jinja *t;
    struct glim_err *e;
    struct jj_tok *tok;
    size_t n, cap;
    char *src; /* with normal newlines */
    size_t n_src;
};
glim_status jj_lex_all(struct jj_lex *l, const char *text, size_t n);

/* ---- parsing ---- */
struct jj_parse {
    struct jinja *t;
    struct glim_err *e;
    const struct jj_tok *tok; /* the current one; the last is JJ_T_EOF for ever */
    int nest;
    int fors;  /* for loops around, also through macros */
    int loops; /* for loops around that break and continue can reach */
    bool soft; /* inside an if: unknown filters and tests are errors only when reached */
    bool seen_caller, seen_kwargs, seen_varargs;
    const struct jj_node *unknown; /* an unknown filter or test that no conditional has made harmless */
};
glim_status jj_parse_all(struct jinja *t, const char *text, size_t n, struct glim_err *e);
glim_status jj_expr(struct jj_parse *p, struct jj_node **out); /* with the conditional */
glim_status jj_expr_call_args(struct jj_parse *p, struct jj_args **out);
glim_status jj_expr_filter(struct jj_parse *p, bool inline_start, struct jj_node *a, struct jj_node **out);
/* An expression, or a tuple without parentheses. end: a word that ends it, or NULL. */
glim_status jj_expr_tuple(struct jj_parse *p, bool with_cond, bool parens, const char *end, struct jj_node **out);
glim_status jj_expr_target(struct jj_parse *p, bool with_ns, const char *end, struct jj_node **out);
glim_status jj_parse_fail(struct jj_parse *p, const char *need);
glim_status jj_parse_fail_at(struct jj_parse *p, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
glim_status jj_node_new(struct jj_parse *p, enum jj_kind k, struct jj_node **out);
glim_status jj_nodes_add(struct jj_parse *p, struct jj_nodes *l, struct jj_node *n);
glim_status jj_node_depth(struct jj_parse *p, struct jj_node *n); /* from its children; too deep is refused */
glim_status jj_name_id(struct jj_parse *p, const struct jj_tok *t, uint32_t *id);
const char *jj_statement_name(size_t i);
glim_status jj_parse_str(struct jj_parse *p, const char *s, size_t n, struct jj_val *out);
void *jj_parse_take(struct jj_parse *p, size_t n);
bool jj_tok_op(const struct jj_tok *t, const char *op);
bool jj_tok_word(const struct jj_tok *t, const char *w);
glim_status jj_expect_op(struct jj_parse *p, const char *op);
glim_status jj_parse_nomem(struct jj_parse *p);

/* ---- rendering ---- */
struct jj_var {
    uint32_t name;
    struct jj_val v;
};

/* Variables of a block. The root has one value per name id; others a short list, searched from the end. */
struct jj_scope {
    struct jj_scope *parent;
    struct jj_var *var;
    size_t n, cap;
    struct jj_val *root;
};

/* Text in the making. */
struct jj_buf {
    char *p;
    size_t n, cap;
    struct jj_run *run;
    size_t n_run, cap_run;
};

enum jj_flow { JJ_NEXT, JJ_BREAK, JJ_CONTINUE };

struct jj {
    const struct jinja *t;
    struct jj_mem mem;
    struct glim_err *e;
    size_t steps, limit_steps, limit_bytes;
    int depth;
    int line; /* of the statement or expression at work */
    struct jj_scope *scope;
    struct jj_buf *out;
    enum jj_flow flow;
    const struct tm *now;
    struct jj_val block_text; /* what the filters of a block are applied to */
    struct jj_str *ascii;     /* [256]: one-byte strings, trusted then data; made when first needed */
};

struct jj_macro {
    const struct jj_sig *sig;
    const struct jj_nodes *body;
    struct jj_scope *scope; /* where it was written */
    struct jj_val name;
};

/* Walk over any iterable. */
struct jj_iter {
    struct jj_val of;
    size_t at;
};

struct jj_loop {
    struct jj_iter it;
    const struct jj_node *node; /* JJ_S_FOR */
    struct jj_scope *scope;     /* around the loop */
    struct jj_val before, current, after;
    bool has_after;
    int64_t index0, length; /* length -1: not known yet */
    int depth0;
    bool drained; /* `it` walks what has passed the filter already */
    struct jj_val changed;
};

/* Arguments of one call. */
struct jj_call {
    struct jj_val self; /* filters, tests: the value; methods: the object */
    struct jj_val *pos;
    size_t n_pos;
    struct jj_pair *kw;
    size_t n_kw;
    struct jj_val arg[JJ_ARGS]; /* by parameter, JJ_MISSING when not given */
};

typedef glim_status jj_fn_impl(struct jj *x, struct jj_call *c, struct jj_val *out);

/* A builtin. params: names separated by blanks; "/" first: positional only; "*": as they come, not bound. A NULL fn is
 * a name that exists in Jinja2 or Python and is refused here. */
struct jj_fn {
    const char *name;
    jj_fn_impl *fn;
    const char *params;
    int min;
};
#define JJ_REFUSE(name)                                                                                                \
    {                                                                                                                  \
        name, NULL, "*", 0                                                                                             \
    }

extern const struct jj_fn jj_filters[], jj_filters_seq[], jj_tests[], jj_globals[], jj_str_methods[], jj_list_methods[],
    jj_tuple_methods[], jj_dict_methods[], jj_loop_methods[], jj_cycler_methods[], jj_other_attrs[];
const struct jj_fn *jj_fn_find(const struct jj_fn *table, const char *p, size_t n);
const struct jj_fn *jj_filter_find(const char *p, size_t n);

/* errors and budgets */
glim_status jj_fail(struct jj *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
glim_status jj_work(struct jj *x, size_t n);
void *jj_take(struct jj *x, size_t n); /* NULL: jj_out_of(x) has the status and the sentence is in place */
glim_status jj_out_of(struct jj *x);
glim_status jj_enter(struct jj *x); /* one level deeper; leave with x->depth-- */

/* strings */
glim_status jj_str_ref(struct jj *x, const char *p, size_t n, bool data, struct jj_val *out); /* no copy */
glim_status jj_str_z(struct jj *x, const char *s, struct jj_val *out);                        /* trusted literal */
glim_status jj_str_sub(struct jj *x, const struct jj_str *s, size_t from, size_t to, struct jj_val *out);
size_t jj_str_len(struct jj_str *s);                  /* code points */
size_t jj_str_byte(const struct jj_str *s, size_t i); /* byte offset of code point i <= length */
glim_status jj_str_char(struct jj *x, const struct jj_str *s, size_t byte, size_t n, struct jj_val *out);
bool jj_str_data_in(const struct jj_str *s, size_t from, size_t to);
bool jj_is(struct jj_val v, const char *s);
bool jj_space(uint32_t cp); /* str.isspace */
glim_status jj_buf_add(struct jj *x, struct jj_buf *b, const char *p, size_t n, bool data);
glim_status jj_buf_z(struct jj *x, struct jj_buf *b, const char *s, bool data);
glim_status jj_buf_sub(struct jj *x, struct jj_buf *b, const struct jj_str *s, size_t from, size_t to);
glim_status jj_buf_str(struct jj *x, struct jj_buf *b, const struct jj_str *s);
glim_status jj_buf_fill(struct jj *x, struct jj_buf *b, const char *p, size_t n, size_t times, bool data);
glim_status jj_buf_done(struct jj *x, struct jj_buf *b, struct jj_val *out);
size_t jj_find(const char *p, size_t n, const char *sub, size_t n_sub, size_t from); /* SIZE_MAX: none */

/* containers */
glim_status jj_list_new(struct jj *x, enum jj_type t, size_t cap, struct jj_val *out);
glim_status jj_list_add(struct jj *x, struct jj_val l, struct jj_val v);
glim_status jj_tuple2(struct jj *x, struct jj_val a, struct jj_val b, struct jj_val *out);
glim_status jj_dict_new(struct jj *x, size_t cap, struct jj_val *out);
glim_status jj_dict_set(struct jj *x, struct jj_dict *d, struct jj_val k, struct jj_val v);
glim_status jj_dict_get(struct jj *x, struct jj_dict *d, struct jj_val k, struct jj_val **out); /* NULL: not there */
glim_status jj_from_json(struct jj *x, const json_t *j, bool data, int depth, struct jj_val *out);
glim_status jj_iter_open(struct jj *x, struct jj_val v, struct jj_iter *it);
glim_status jj_iter_next(struct jj *x, struct jj_iter *it, bool *got, struct jj_val *out);
glim_status jj_to_list(struct jj *x, struct jj_val v, struct jj_val *out);

static inline struct jj_val jj_none(void)
{
    return (struct jj_val){.type = JJ_NONE};
}
static inline struct jj_val jj_bool(bool b)
{
    return (struct jj_val){.type = JJ_BOOL, .b = b};
}
static inline struct jj_val jj_int(int64_t i)
{
    return (struct jj_val){.type = JJ_INT, .i = i};
}
static inline struct jj_val jj_float(double f)
{
    return (struct jj_val){.type = JJ_FLOAT, .f = f};
}
static inline bool jj_is_num(struct jj_val v)
{
    return v.type == JJ_BOOL || v.type == JJ_INT || v.type == JJ_FLOAT;
}
static inline int64_t jj_as_int(struct jj_val v) /* of a JJ_BOOL or JJ_INT */
{
    return v.type == JJ_BOOL ? v.b : v.i;
}
static inline double jj_as_float(struct jj_val v) /* of a number */
{
    return v.type == JJ_FLOAT ? v.f : (double)jj_as_int(v);
}
static inline bool jj_is_seq(struct jj_val v) /* has a jj_list with random access */
{
    return v.type == JJ_LIST || v.type == JJ_TUPLE || v.type == JJ_RANGE;
}

/* undefined */
glim_status jj_undef_name(struct jj *x, struct jj_val name, struct jj_val *out);
glim_status jj_undef_attr(struct jj *x, struct jj_val obj, struct jj_val name, struct jj_val *out);
glim_status jj_undef_hint(struct jj *x, const char *hint, struct jj_val *out);
glim_status jj_undef_fail(struct jj *x, struct jj_val u);
const char *jj_type_name(struct jj_val v); /* as Python names it */

/* operators */
bool jj_true(struct jj_val v);
glim_status jj_len(struct jj *x, struct jj_val v, size_t *n);
glim_status jj_eq(struct jj *x, struct jj_val a, struct jj_val b, bool *out);
glim_status jj_order(struct jj *x, enum jj_cmp op, struct jj_val a, struct jj_val b, bool *out); /* < <= > >= */
glim_status jj_in(struct jj *x, struct jj_val needle, struct jj_val in, bool *out);
glim_status jj_compare(struct jj *x, enum jj_cmp op, struct jj_val a, struct jj_val b, bool *out);
glim_status jj_binary(struct jj *x, enum jj_op op, struct jj_val a, struct jj_val b, struct jj_val *out);
glim_status jj_negate(struct jj *x, struct jj_val v, bool minus, struct jj_val *out);
glim_status jj_slice(struct jj *x, struct jj_val v, const struct jj_val part[3], struct jj_val *out);
glim_status jj_getattr(struct jj *x, struct jj_val obj, struct jj_val name, struct jj_val *out);
glim_status jj_getitem(struct jj *x, struct jj_val obj, struct jj_val key, struct jj_val *out);
/* A method or property of Python's, or *found = false. */
glim_status jj_pyattr(struct jj *x, struct jj_val obj, const char *name, size_t n, bool *found, struct jj_val *out);

/* printing */
glim_status jj_print(struct jj *x, struct jj_buf *b, struct jj_val v); /* str() */
glim_status jj_repr(struct jj *x, struct jj_val v, struct jj_buf *b);
glim_status jj_string(struct jj *x, struct jj_val v, struct jj_val *out); /* str() as a value */
bool jj_has_data(struct jj_val v, int depth);
void jj_float_repr(double f, char out[32]);
void jj_float_fmt(double f, char conv, int prec, bool alt, char *out, size_t n); /* as C's printf, '.' in any locale */
struct jj_json {
    bool ascii, sort;
    bool pretty;
    const struct jj_str *indent, *item_sep, *key_sep; /* NULL: the default */
};
glim_status jj_to_json(struct jj *x, struct jj_val v, const struct jj_json *how, struct jj_val *out);
glim_status jj_escape(struct jj *x, struct jj_val v, struct jj_val *out);

/* formats */
glim_status jj_percent(struct jj *x, struct jj_str *f, struct jj_val args, struct jj_val *out);
glim_status jj_str_format(struct jj *x, struct jj_str *f, struct jj_call *c, struct jj_val *out);
glim_status jj_strftime(struct jj *x, struct jj_str *f, struct jj_val *out);

/* case: both append */
enum jj_casing { JJ_UPPER, JJ_LOWER, JJ_TITLE, JJ_SWAP, JJ_FOLD, JJ_CAPITAL };
glim_status jj_recase(struct jj *x, const struct jj_str *s, enum jj_casing how, struct jj_val *out);
bool jj_cased(uint32_t cp, bool *upper, bool *lower);
bool jj_digit(uint32_t cp, bool decimal_only);
int jj_digit_value(uint32_t cp); /* of a decimal digit */
bool jj_numeric(uint32_t cp);

/* evaluation */
glim_status jj_eval(struct jj *x, const struct jj_node *n, struct jj_val *out);
glim_status jj_exec(struct jj *x, const struct jj_nodes *body);
glim_status jj_call_value(struct jj *x, struct jj_val f, struct jj_call *c, struct jj_val *out);
glim_status jj_call_fn(struct jj *x, const struct jj_fn *fn, const char *what, struct jj_call *c, struct jj_val *out);
glim_status jj_args_eval(struct jj *x, const struct jj_args *a, size_t room, struct jj_call *c);
glim_status jj_call_macro(struct jj *x, struct jj_macro *m, struct jj_call *c, struct jj_val *out);
glim_status jj_loop_run(struct jj *x, const struct jj_node *n, struct jj_scope *around, struct jj_val of, int depth0);
glim_status jj_loop_peek(struct jj *x, struct jj_loop *l);
glim_status jj_loop_length(struct jj *x, struct jj_loop *l);
glim_status jj_assign(struct jj *x, const struct jj_node *target, struct jj_val v);
glim_status jj_scope_push(struct jj *x, struct jj_scope *parent);
glim_status jj_scope_set(struct jj *x, uint32_t name, struct jj_val v);

/* arguments of builtins: the given one or the default; a value of another type fails with the function's name */
glim_status jj_arg_int(struct jj *x, struct jj_val v, int64_t def, int64_t *out);
bool jj_arg_true(struct jj_val v, bool def);
glim_status jj_text_arg(struct jj *x, struct jj_val v, struct jj_str **out); /* str() of anything */

#endif
