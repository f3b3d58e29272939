/* The parser behind dialect.h.
 *
 * It is a machine of states over bytes (the input is made valid UTF-8 first). A state lists the marks it looks for;
 * dialect.c holds back bytes while they may still become one of them, and then tells the state either of the mark or of
 * a byte that is none. States that read calls have their bytes kept in `raw`, so that a call which turns out to be
 * malformed can be shown as it was. Nothing looks further back than that, so a byte costs a bounded number of steps.
 *
 *   dialect.c          input, marks, events; content and reasoning; the end
 *   dialect_call.c     what all calls share: begin, arguments, end, malformed ones, duplicate parameters
 *   dialect_channel.c  messages with headers (Harmony, ATEM)
 *   dialect_json.c     calls that are JSON, or a name followed by JSON
 *   dialect_params.c   calls of parameters between markers
 *   dialect_literal.c  calls as in a programming language
 *   dialect_scan.c     JSON, a byte at a time
 *   dialect_schema.c   which types a tool's parameter may have
 *   dialect_table.c    the rows */
#ifndef GLIM_TEXT_DIALECT_IMPL_H
#define GLIM_TEXT_DIALECT_IMPL_H

#include "base/str.h"
#include "text/dialect.h"
#include "text/stream.h"

enum {
    DIA_HELD = 128,   /* bytes of the longest mark, and some that were given back */
    DIA_MARKS = 16,   /* marks a state looks for */
    DIA_DEPTH = 256,  /* nesting of arguments */
    DIA_HEADER = 512, /* bytes of a message's header */
};

/* What a mark means to the state that asked for it. */
enum dia_what {
    DIA_OPEN,
    DIA_CLOSE,
    DIA_CALL,
    DIA_ID_END,
    DIA_NAME_END,
    DIA_ID,
    DIA_CALL_END,
    DIA_PARAM,
    DIA_KEY_END,
    DIA_TYPE_END,
    DIA_VALUE,
    DIA_PARAM_END,
    DIA_THINK,
    DIA_THINK_END,
    DIA_DROP,
    DIA_DROP_OPEN,
    DIA_DROP_CLOSE,
    DIA_MESSAGE,
    DIA_MESSAGE_END,
    DIA_START,
    DIA_HEADER_TEXT
};

struct dia_state {
    void (*enter)(struct dialect_parser *p); /* names the marks; NULL: none */
    void (*text)(struct dialect_parser *p, char c);
    void (*mark)(struct dialect_parser *p, enum dia_what what, const char *s, size_t n);
    void (*end)(struct dialect_parser *p, enum dialect_finish why);
    bool in_call; /* keep the bytes in raw */
};

/* ---- JSON, a byte at a time (dialect_scan.c) ---- */
enum {
    SCAN_BAD = 1,    /* not JSON, or nested deeper than DIA_DEPTH */
    SCAN_KEY = 2,    /* a key is complete: its decoded text is in `text` at depths up to 2 */
    SCAN_STRING = 4, /* a string value is complete: decoded text at depths up to 1 */
    SCAN_SCALAR = 8, /* the first byte of a number, true, false or null */
    SCAN_OPEN = 16,  /* { or [; depth counts it */
    SCAN_CLOSE = 32, /* } or ]; depth does not count it any more */
};
struct dia_scan {
    uint8_t state, left;
    bool key, keep;
    unsigned depth;
    uint32_t cp, high;
    const char *literal;
    uint8_t object[DIA_DEPTH / 8]; /* bit: this level is an object */
    struct str text;
};
void dia_scan_reset(struct dia_scan *m); /* keeps the memory of text */
int dia_scan_step(struct dia_scan *m, char c);
bool dia_scan_complete(const struct dia_scan *m); /* the bytes so far are one JSON value */
unsigned dia_hex(char c);                         /* 0..15; 16: no hexadecimal digit */
bool dia_scan_object(const struct dia_scan *m);   /* the innermost open level is an object */

/* ---- types of parameters (dialect_schema.c) ---- */
enum { DIA_STRING = 1, DIA_NUMBER = 2, DIA_BOOL = 4, DIA_NULL = 8, DIA_OBJECT = 16, DIA_ARRAY = 32, DIA_ANY = 63 };
/* The function object of a tool, or NULL. */
const json_t *dia_tool(const json_t *tools, const char *name);
/* Types that the schema of a parameter admits; DIA_ANY if it does not say. */
unsigned dia_param_types(const json_t *tool, const char *key);

/* ---- literals (dialect_literal.c) ---- */
struct dia_literal {
    uint8_t state, depth, left, matched;
    char close[64]; /* the byte that ends each open level; ')' or '}' at the bottom */
    bool first, in_key, string_typed;
    char quote;
    uint32_t cp, high;
    struct str token;
};

struct dia_key {
    uint64_t hash;
    size_t at, n; /* in keys_text */
};

struct dialect_parser {
    const struct dialect *d;
    json_t *tools;
    bool parse_tools, ended;

    /* input and marks */
    struct text_stream *utf8;
    struct str clean;
    char held[DIA_HELD];
    size_t n_held;
    struct {
        const char *s;
        size_t n;
        enum dia_what what;
    } mark[DIA_MARKS];
    size_t n_mark;
    const struct dia_state *st;
    bool raw_last; /* the byte being handled was added to raw */

    /* output */
    const struct dialect_sink *sink;
    struct glim_err err;
    glim_status status;
    struct str out; /* a delta that grows */
    enum dialect_event_kind out_kind;

    /* content and reasoning */
    struct str blanks; /* blanks that a mark may take away */
    bool drop_lead;    /* blanks that come next are not text */
    bool at_start;     /* no content since the start or the last call */
    bool wrapped;      /* drop[0] was met */

    /* messages */
    struct str header, recipient;
    bool after_start; /* the header begins with a role */

    /* calls */
    struct str raw, name, id, value, early;
    char reason[200];
    size_t n_call;       /* calls that began */
    bool begun;          /* the present one did */
    bool id_told;        /* with its CALL_BEGIN */
    bool tentative;      /* may turn out to be content */
    bool no_bare;        /* it did */
    bool grouped, alone; /* inside open … close; a call whose open was missing */
    bool list, listed;   /* JSON, literals: inside [ ]; after it */
    size_t n_group;      /* calls met in this group */
    const json_t *tool;
    struct str keys_text;
    struct dia_key *key;
    size_t n_key, cap_key;
    struct dia_scan scan;
    unsigned field; /* JSON: which member's value comes */
    bool have_args, in_args, args_null;
    unsigned types;   /* PARAMS: of the present parameter */
    bool streaming;   /* PARAMS: its value goes out as it comes */
    bool newline;     /* PARAMS: a newline that may be the last */
    bool value_begun; /* PARAMS: bytes of it were seen */
    bool printed;     /* LITERAL: inside print( */
    struct dia_literal lit;
};

/* ---- dialect.c ---- */
void dia_go(struct dialect_parser *p, const struct dia_state *st);
/* NULL: none. A text that is a mark already keeps its meaning. */
void dia_mark(struct dialect_parser *p, const char *s, enum dia_what what);
void dia_drop_marks(struct dialect_parser *p, enum dia_what what); /* all of d->drop */
void dia_unread(struct dialect_parser *p, char c);                 /* the byte that is being handled */
void dia_replay(struct dialect_parser *p);                         /* raw becomes content */
void dia_fail(struct dialect_parser *p, glim_status st);
void dia_emit(struct dialect_parser *p, const struct dialect_event *ev);
void dia_delta(struct dialect_parser *p, enum dialect_event_kind kind, const char *s, size_t n);
bool dia_blank(char c);
extern const struct dia_state dia_content, dia_reasoning;

/* ---- dialect_call.c ---- */
/* A group or a call begins: raw starts with the mark. */
void dia_trigger(struct dialect_parser *p, enum dia_what what, const char *s, size_t n);
void dia_call_reset(struct dialect_parser *p);
bool dia_name_ok(const struct str *name);
bool dia_tool_known(const struct dialect_parser *p, const struct str *name); /* or no tools are given */
/* CALL_BEGIN with p->name and p->id; false when the name will not do (the state is then "bad"). */
bool dia_call_begin(struct dialect_parser *p);
void dia_args(struct dialect_parser *p, const char *s, size_t n);
/* A parameter's name; false when it is a duplicate or one too many (the state is then "bad"). */
bool dia_key_add(struct dialect_parser *p, const char *s, size_t n);
void dia_call_end(struct dialect_parser *p);
/* From here to where the next call may begin is malformed. */
void dia_bad(struct dialect_parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dia_bad_at(struct dialect_parser *p, char c, const char *why); /* c may begin a mark */
void dia_malformed(struct dialect_parser *p);                       /* the event, with p->reason and raw */
void dia_incomplete(struct dialect_parser *p, enum dialect_finish why);
void dia_leave(struct dialect_parser *p); /* the group, or the call without one, is over */
void dia_group(struct dialect_parser *p); /* after a call: on with its group, or leave */
void dia_group_end(struct dialect_parser *p, enum dialect_finish why);
void dia_group_text(struct dialect_parser *p, char c);

/* ---- the syntaxes: a group begins, a call begins ---- */
extern const struct dia_state dia_json_group, dia_named_group, dia_named_call, dia_named_args, dia_params_group,
    dia_params_call, dia_literal_group, dia_literal_call;
void dia_json_bare(struct dialect_parser *p, char c);    /* a `{` where a call may begin without a marker */
void dia_literal_bare(struct dialect_parser *p, char c); /* a `[` */

/* ---- dialect_channel.c ---- */
extern const struct dia_state dia_message_start, dia_message_tail;
void dia_message_mark(struct dialect_parser *p, enum dia_what what); /* DIA_MESSAGE_END or DIA_START in a body */

#endif
