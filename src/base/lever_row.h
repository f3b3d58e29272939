/* A row of the lever table, as lever*.c see it; everybody else uses lever.h.
 *
 * lever_table.def holds glim's own rows, lever_table_muser.def and lever_table_metrale.def those of the names people
 * bring along from these two engines. A row is either
 *
 *   LEVER(key, TYPE, …)        built: its value is the field `key` of struct levers
 *   LEVER_LATER(key, TYPE, …)  known but not built: setting it to anything but its default is refused in the words of
 * `.need`
 *                              ("this build has no <need>"), or of `.why` where the program lacks nothing
 *
 * The rest is written with designated initialisers; what a row leaves out is the first value of its enum. */
#ifndef GLIM_BASE_LEVER_ROW_H
#define GLIM_BASE_LEVER_ROW_H

#include "base/lever.h"

enum lever_type { TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_TEXT, TYPE_PATH, TYPE_ENUM };

/* What one value holds for. */
enum lever_scope { PROCESS, MODEL, REQUEST };
enum lever_phase { ANY_PHASE, LOAD, PREFILL, DECODE, DRAFT, VERIFY, SERVE };
/* Where it applies. NODE: a prefill producer; TOOL: a benchmark, test or qualification program. */
enum lever_on { ANY, CPU, CUDA, METAL, COREML, NODE, TOOL };
enum lever_bits { KEEPS_BITS, CHANGES_BITS };

/* How an alias is read. First the conditions: when one holds, the lever becomes `.to`; else the alias says nothing. */
enum lever_rule {
    PRESENT,     /* set to anything, "" included */
    IS_1,        /* exactly 1 */
    IS_0,        /* exactly 0 */
    IS_OFF,      /* exactly off */
    IS_TRUE,     /* 1, or true in any case */
    IS_TRUE_LOW, /* 1, or true in lower case */
    NOT_EMPTY_0, /* neither empty nor 0 */
    /* Then the values. */
    ONLY_1,      /* 1 = on, else refused */
    ZERO_OR_ONE, /* 0 = off, 1 = on, else refused */
    ONE_0_AUTO,  /* 0 = off, 1 = on, else says nothing */
    ONE_OR_ALL,  /* 1 = exact, all = all, else says nothing */
    POSITIVE,    /* a whole number above 0, else says nothing */
    CAPPED,      /* a whole number, at most the row's maximum; 0 when it is not a number */
    SPLITS,      /* auto = 0, off and 0 = 1, else as the lever itself */
    SAME,        /* as the lever itself */
};

struct lever_alias {
    const char *name; /* a last '*' stands for any ending: a family of names */
    enum lever_rule rule;
    const char *to;
};

enum { LEVER_ALIAS_MAX = 2, LEVER_NAME_MAX = 64, LEVER_QUOTE_MAX = 64 };

struct lever_row {
    const char *key;
    const char *group;
    enum lever_type type;
    const char *def;    /* canonical text; NULL = unset */
    const char *values; /* ENUM: "auto|on|off", in the order of its C enum */
    int64_t min, max;   /* INT and FLOAT; both 0 = what the type holds */
    enum lever_scope scope;
    enum lever_phase phase;
    enum lever_on on;
    enum lever_bits bits;
    bool built;
    size_t field;                              /* built: offset in struct levers */
    struct lever_alias alias[LEVER_ALIAS_MAX]; /* the first that says something wins */
    const char *theirs;                        /* the field of Metrale's ModelLevers, where it is not the key */
    const char *need, *why;
    const char *doc;
};

extern const struct lever_row lever_rows[];
extern const size_t lever_n_row;

/* "GLIM_" and the key in capitals. */
void lever_env_name(const struct lever_row *r, char out[LEVER_NAME_MAX]);
/* The row that has this canonical name or alias; *alias gets the alias, NULL for the canonical name. A name that only a
 * family covers finds the family's row. */
const struct lever_row *lever_find(const char *name, const struct lever_alias **alias);
/* The row of a config key ("prefill_chunk"). */
const struct lever_row *lever_find_key(const char *key);
bool lever_is_family(const struct lever_alias *a);
/* "; nearest known: X" into out, "" when nothing is near. keys: among config keys, else among environment names. */
void lever_hint(const char *name, bool keys, char out[LEVER_NAME_MAX + 24]);

/* A value's one canonical spelling, in fresh memory. `who` is the name it was given under. */
glim_status lever_parse(const struct lever_row *r, const char *who, const char *value, char **out, struct glim_err *e);
/* The same by an alias's rule; *out is NULL when the alias says nothing. */
glim_status lever_parse_alias(const struct lever_row *r, const struct lever_alias *a, const char *value, char **out,
                              struct glim_err *e);
/* The rule for people: "1 = on". */
void lever_rule_text(const struct lever_alias *a, struct str *out);
const char *lever_rule_name(enum lever_rule rule);
/* Position of a value in "a|b|c"; -1 when it is none of them. */
int lever_enum_index(const char *values, const char *value);
/* The value in quotes, cut short and without control characters, for one-line messages. */
const char *lever_quote(const char *value, char out[LEVER_QUOTE_MAX]);
/* The bounds of a row, whatever its type: "on|off", "0..256". */
void lever_range_text(const struct lever_row *r, struct str *out);

/* Where a value came from, weakest first. */
enum lever_origin { FROM_DEFAULT, FROM_FILE, FROM_ENV, FROM_FLAG };

struct lever_cell {
    enum lever_origin origin;
    char *text;  /* canonical text, owned; NULL = the row's default */
    char *path;  /* PATH: text with ~/ expanded, owned */
    char *where; /* "glim.toml:3" or the name it was given under, owned */
};

struct lever_set {
    struct levers v;
    struct lever_cell cell[]; /* [lever_n_row] */
};

/* Put a canonical text into the set. Refused when the row is not built and this is not its default. */
glim_status lever_store(struct lever_set *s, const struct lever_row *r, const char *text, enum lever_origin origin,
                        const char *where, struct glim_err *e);
/* Read the environment into the set. */
glim_status lever_load_env(struct lever_set *s, struct glim_err *e);
/* Read glim.toml into the set: the working folder's, else the home folder's, else nothing. */
glim_status lever_load_file(struct lever_set *s, struct glim_err *e);

#endif
