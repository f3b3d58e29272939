/* What a model wrote, taken apart: reasoning, content and tool calls, while it is being generated.
 *
 * Every family of models marks these in its own way. A way is a dialect: one row of a table (dialect_table.c) with its
 * markers, the syntax of its calls and a few flags. One incremental parser reads them all:
 *
 *   - The joined deltas are the same however the text is cut into pieces.
 *   - A marker, or what may still become one, is never part of a delta. What is held back is the longest beginning of a
 *     marker that the text ends with, and blanks that a marker would take with it.
 *   - The joined arguments of a call are one JSON object; what was given out so far is a prefix of it.
 *   - What is not a well-formed call is reported as malformed with its raw text; it becomes neither content nor a call.
 *   - Reasoning is never searched for calls (but see DIALECT_THINK_FIRST).
 *   - Time is linear in the text.
 *
 * Special tokens must reach the parser as their text. */
#ifndef GLIM_TEXT_DIALECT_H
#define GLIM_TEXT_DIALECT_H

#include "base/json.h"

/* How a call is written. */
enum dialect_syntax {
    DIALECT_NO_CALLS, /* content and reasoning only: tools have to be refused */
    DIALECT_JSON,     /* {"name": …, "arguments": {…}}: one, several, or a list */
    DIALECT_NAMED,    /* name between markers, then the arguments as a JSON object */
    DIALECT_PARAMS,   /* name and each parameter between markers, values as text */
    DIALECT_LITERAL,  /* f(a=1, b="x") or f{a:1,b:…}: literals of a programming language */
};

/* How arguments are spelled, for a grammar of calls. */
enum dialect_args {
    DIALECT_ARGS_NONE,
    DIALECT_ARGS_JSON,
    DIALECT_ARGS_PARAMS,
    DIALECT_ARGS_PYTHON,
    DIALECT_ARGS_BRACE
};

/* The text around the parts of calls, as the family's template writes them. A turn with n calls is
 *
 *   begin  (before_name NAME [again_name NAME] after_name ARGUMENTS after_args) joined by `between`  end
 *
 * where again_name is not "" only in a dialect that names a call twice. ARGUMENTS is a JSON object, or each parameter
 * as  before_key KEY after_key [TYPE after_type] VALUE after_value  (TYPE where after_type is not NULL: string_type,
 * else other_type, or if that is NULL the name of the value's JSON type), or `k=literal` or `k:value` joined by commas.
 * An id or index inside these texts is an example. */
struct dialect_frame {
    const char *begin, *before_name, *again_name, *after_name, *after_args, *between, *end;
    const char *before_key, *after_key, *after_type, *after_value, *string_type, *other_type;
    enum dialect_args args;
};

enum {
    DIALECT_MAX_DROP = 6,
    DIALECT_MAX_STOP = 4,
    DIALECT_NAME_MAX = 256,   /* bytes of a tool's or a parameter's name */
    DIALECT_PARAMS_MAX = 1024 /* parameters of a call */
};

/* Flags of a row. */
enum {
    DIALECT_THINK_ANYWHERE = 1, /* the reasoning marker counts wherever it stands, not only before content */
    DIALECT_THINK_FIRST = 2,    /* the output begins with reasoning, without a marker; a call ends it as well */
    DIALECT_VERBATIM = 4,       /* blanks next to markers belong to the text */
    DIALECT_BARE = 8,           /* a call may begin the output without any marker */
    DIALECT_CALL_ALONE = 16,    /* `call` also counts where `open` is missing */
    DIALECT_KEY_IS_NAME = 32,   /* JSON: {"NAME": {arguments}} */
    DIALECT_KIMI_ID = 64,       /* the name is `functions.NAME:INDEX`, and is the id as well */
    DIALECT_OR_JSON = 128,      /* NAMED: a `[` or `{` instead of a name begins calls in JSON syntax */
    DIALECT_BUILTIN = 256,      /* JSON: after `open`, `name.call(k="v")` is a call as well */
    DIALECT_LINE_VALUE = 512,   /* PARAMS: a value stands on lines of its own; one newline at each end is not its */
    DIALECT_ENTITIES = 1024,    /* PARAMS: &quot; and &amp; in names */
    DIALECT_PRINT = 2048,       /* LITERAL: print(f(…)) is f(…) */
    DIALECT_WORDS = 4096,       /* LITERAL: a bare word is a string */
    DIALECT_LIST = 8192,        /* LITERAL: calls stand in a list */
    DIALECT_RECIPIENT = 16384,  /* PARAMS in messages: the tool has to be the message's recipient */
    DIALECT_LIST_OPEN = 32768,  /* JSON: `open` ends with the list's [ */
    DIALECT_DROP_PAIR = 65536   /* drop[0] counts before content only, and drop[1] only after drop[0] */
};

/* One dialect. A NULL string means that the dialect has no such part. */
struct dialect {
    const char *name, *families, *doc;
    enum dialect_syntax syntax;
    unsigned flags;
    const char *think, *think_end;
    /* around a group of calls; JSON: `call` is another spelling of `open` */
    const char *open, *close;
    /* a call: call [ID id_end] NAME [id ID] name_end … call_end */
    const char *call, *id_end, *name_end, *id, *call_end;
    /* PARAMS: param KEY key_end [TYPE type_end] [value] VALUE param_end */
    const char *param, *key_end, *type_end, *value, *param_end;
    /* JSON members, where they are not name, arguments (or parameters) and id */
    const char *name_key, *args_key, *args_key2, *id_key;
    /* LITERAL: around a string, instead of ' and " */
    const char *quote;
    /* messages with headers: start HEADER message BODY end; channel precedes a channel's name, self is the recipient of
     * reasoning */
    const char *start, *channel, *message, *self;
    /* markers without meaning here; of messages, their ends */
    const char *drop[DIALECT_MAX_DROP];
    /* tokens at which generation has to stop, beside the model's end of text */
    const char *stop[DIALECT_MAX_STOP];
    struct dialect_frame frame;
};

/* The dialect of a chat template, by the markers in its text. A template that knows no tools, or none of the rows'
 * calls, gives a row with DIALECT_NO_CALLS. Never NULL. */
const struct dialect *dialect_find(const char *tmpl, size_t n);
const struct dialect *dialect_by_name(const char *name); /* NULL: no such dialect */
size_t dialect_count(void);
const struct dialect *dialect_at(size_t i);
/* The text after which a grammar of calls takes over; NULL where a call may begin without a marker, or never does. It
 * is part of the frame's begin, before_name and again_name; what follows it there is the grammar's beginning. */
const char *dialect_trigger(const struct dialect *d);
const char *dialect_syntax_name(enum dialect_syntax syntax);
/* How a prompt ends, blanks aside: with the marker that opens reasoning, with the one that closes it, or otherwise. */
enum dialect_prompt { DIALECT_PROMPT_PLAIN, DIALECT_PROMPT_THINKS, DIALECT_PROMPT_HAS_THOUGHT };
enum dialect_prompt dialect_prompt_end(const struct dialect *d, const char *prompt, size_t n);

enum dialect_event_kind {
    DIALECT_REASONING,  /* text */
    DIALECT_CONTENT,    /* text */
    DIALECT_CALL_BEGIN, /* index, name, id (NULL: none so far), unknown_tool */
    DIALECT_ARGUMENTS,  /* index, text */
    DIALECT_CALL_END,   /* index, id where it came after the arguments: the call is complete */
    DIALECT_MALFORMED   /* reason, text (raw); index: the call it was, or DIALECT_NO_INDEX if none had begun */
};
#define DIALECT_NO_INDEX SIZE_MAX

/* Pointers are valid during the callback. Between a CALL_BEGIN and its CALL_END or MALFORMED come only ARGUMENTS of the
 * same index; indices count up from 0 over all calls that began. A call of a name that is not among the tools is
 * reported like any other, with unknown_tool set: a server then tells the model, or the client, by name. */
struct dialect_event {
    enum dialect_event_kind kind;
    const char *text; /* n bytes of valid UTF-8 */
    size_t n, index;
    const char *name, *id, *reason;
    bool unknown_tool;
};

struct dialect_sink {
    glim_status (*event)(void *ctx, const struct dialect_event *ev, struct glim_err *e);
    void *ctx;
};

struct dialect_opts {
    const json_t *tools; /* NULL, or an array of {"type": "function", "function": {…}} or of bare {"name": …} */
    bool parse_tools;    /* false: what would be a call is content (in messages with headers: malformed) */
    enum dialect_prompt prompt; /* reasoning is open already; or just closed: blanks that come first are no content */
};

enum dialect_finish { DIALECT_STOPPED, DIALECT_CUT_BY_LENGTH };

struct dialect_parser;
/* Keeps d, and a reference to the tools, until dialect_parser_free. */
glim_status dialect_parser_create(struct dialect_parser **out, const struct dialect *d, const struct dialect_opts *o,
                                  struct glim_err *e);
void dialect_parser_free(struct dialect_parser *p);
/* More text. Invalid UTF-8 becomes U+FFFD. After an error, of the sink as well, every later call fails with it. */
glim_status dialect_push(struct dialect_parser *p, const char *text, size_t n, const struct dialect_sink *sink,
                         struct glim_err *e);
/* The end of the text, once. What was held back becomes text, except that at a cut by length the beginning of a marker
 * is left out. A call that is not complete is reported as malformed. */
glim_status dialect_end(struct dialect_parser *p, enum dialect_finish why, const struct dialect_sink *sink,
                        struct glim_err *e);

#endif
