/* Calls whose parameters stand between markers (DIALECT_PARAMS):
 *
 *   call NAME [id ID] name_end   param KEY key_end [TYPE type_end] [value] VALUE param_end …   call_end
 *
 * Values are text. Where the tool's schema admits nothing but strings, a value is taken as it is and goes out while it
 * comes. Elsewhere it waits, and is a JSON value if it reads as one that the schema may mean, else a string. */
#include "text/dialect_impl.h"

#include <string.h>

static const struct dia_state params_id, params_body, params_key, params_type, params_gap, params_value;

/* Marks that end a message end whatever stands in it. */
static void ends(struct dialect_parser *p)
{
    if (!p->d->message)
        return;
    dia_drop_marks(p, DIA_MESSAGE_END);
    dia_mark(p, p->d->start, DIA_START);
}

static bool ended(struct dialect_parser *p, enum dia_what what, size_t n)
{
    if (what != DIA_MESSAGE_END && what != DIA_START)
        return false;
    if (p->raw.n >= n)
        p->raw.n -= n;
    dia_bad(p, "a call: have the end of its message, need the call's end");
    dia_malformed(p);
    dia_message_mark(p, what);
    return true;
}

static void add_limited(struct dialect_parser *p, struct str *s, char c)
{
    str_putc(s, c);
    if (s->n > 2 * DIALECT_NAME_MAX)
        dia_bad(p, "a name: have more than %d bytes, need fewer", 2 * DIALECT_NAME_MAX);
}

/* &quot; and &amp; in an attribute. */
static void unescape(const struct dialect_parser *p, struct str *s)
{
    static const struct {
        const char *from;
        char to;
    } entity[] = {{"&quot;", '"'}, {"&amp;", '&'}};
    if (!(p->d->flags & DIALECT_ENTITIES) || s->n == 0)
        return;
    size_t to = 0;
    for (size_t i = 0; i < s->n;) {
        size_t skip = 0;
        for (size_t k = 0; k < 2 && !skip; k++)
            if (strncmp(s->s + i, entity[k].from, strlen(entity[k].from)) == 0) {
                s->s[to++] = entity[k].to;
                skip = strlen(entity[k].from);
            }
        if (!skip)
            s->s[to++] = s->s[i];
        i += skip ? skip : 1;
    }
    s->n = to;
    s->s[to] = 0;
}

static void strip(struct str *s)
{
    size_t from = 0;
    while (s->n && dia_blank(s->s[s->n - 1]))
        s->n--;
    while (from < s->n && dia_blank(s->s[from]))
        from++;
    if (from)
        memmove(s->s, s->s + from, s->n - from);
    s->n -= from;
    if (s->s)
        s->s[s->n] = 0;
}

/* ---- the group ---- */

static void group_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->call, DIA_CALL);
    dia_mark(p, p->d->close, DIA_CLOSE);
    ends(p);
}

static void group_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (what == DIA_CALL) {
        dia_call_reset(p);
        dia_go(p, &dia_params_call);
        return;
    }
    if (ended(p, what, n))
        return;
    if (p->n_group == 0) {
        dia_bad(p, "a group of calls: have none, need one");
        dia_malformed(p);
    }
    dia_leave(p);
}

const struct dia_state dia_params_group = {group_enter, dia_group_text, group_mark, dia_group_end, true};

/* ---- the name ---- */

static void call_enter(struct dialect_parser *p)
{
    const struct dialect *d = p->d;
    dia_mark(p, d->id, DIA_ID);
    dia_mark(p, d->name_end, DIA_NAME_END);
    if (!d->name_end)
        dia_mark(p, d->param, DIA_PARAM);
    dia_mark(p, d->call_end, DIA_CALL_END);
    ends(p);
}

static void call_text(struct dialect_parser *p, char c)
{
    add_limited(p, &p->name, c);
}

/* The message of a call names the tool, or the tool's namespace. */
static bool recipient_ok(const struct dialect_parser *p)
{
    const struct str *to = &p->recipient;
    if (!(p->d->flags & DIALECT_RECIPIENT))
        return true;
    size_t n = to->n > 2 && memcmp(to->s + to->n - 2, ".*", 2) == 0 ? to->n - 2 : to->n;
    return p->name.n >= n && memcmp(p->name.s, to->s, n) == 0 && (p->name.n == n || p->name.s[n] == '.');
}

static bool begin(struct dialect_parser *p)
{
    strip(&p->name);
    unescape(p, &p->name);
    unescape(p, &p->id);
    if (dia_name_ok(&p->name) && !recipient_ok(p)) {
        dia_bad(p, "a call: have a tool that its message is not for, need the recipient");
        return false;
    }
    if (!dia_call_begin(p))
        return false;
    dia_args(p, "{", 1);
    return true;
}

static void finish(struct dialect_parser *p)
{
    dia_args(p, "}", 1);
    dia_call_end(p);
    dia_group(p);
}

static void call_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (ended(p, what, n))
        return;
    if (what == DIA_ID) {
        dia_go(p, &params_id);
        return;
    }
    bool whole = what == DIA_CALL_END;
    if (whole && p->d->name_end) {
        dia_bad(p, "a call: have its end in its name, need the name's end");
        dia_malformed(p);
        dia_group(p);
    } else if (!begin(p)) {
        if (!whole)
            return;
        dia_malformed(p);
        dia_group(p);
    } else if (whole) {
        finish(p);
    } else {
        dia_go(p, what == DIA_PARAM ? &params_key : &params_body);
        p->value.n = 0;
    }
}

const struct dia_state dia_params_call = {call_enter, call_text, call_mark, dia_incomplete, true};

static void id_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->name_end, DIA_NAME_END);
    dia_mark(p, p->d->call_end, DIA_CALL_END);
    ends(p);
}

static void id_text(struct dialect_parser *p, char c)
{
    if (c)
        add_limited(p, &p->id, c);
}

static const struct dia_state params_id = {id_enter, id_text, call_mark, dia_incomplete, true};

/* ---- between parameters ---- */

static void body_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->param, DIA_PARAM);
    dia_mark(p, p->d->call_end, DIA_CALL_END);
    ends(p);
}

static void body_text(struct dialect_parser *p, char c)
{
    if (!dia_blank(c))
        dia_bad_at(p, c, "a call: have text between parameters, need a parameter or the call's end");
}

static void body_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (ended(p, what, n))
        return;
    if (what == DIA_CALL_END) {
        finish(p);
        return;
    }
    p->value.n = 0;
    dia_go(p, &params_key);
}

static const struct dia_state params_body = {body_enter, body_text, body_mark, dia_incomplete, true};

/* ---- a parameter's key and type ---- */

static void key_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->key_end, DIA_KEY_END);
    dia_mark(p, p->d->call_end, DIA_CALL_END);
    ends(p);
}

static void key_text(struct dialect_parser *p, char c)
{
    add_limited(p, &p->value, c);
}

/* The call's end where a parameter is not complete. */
static bool call_ended(struct dialect_parser *p, enum dia_what what)
{
    if (what != DIA_CALL_END)
        return false;
    dia_bad(p, "a call: have its end inside a parameter, need the parameter's end");
    dia_malformed(p);
    dia_group(p);
    return true;
}

static void value_begin(struct dialect_parser *p)
{
    p->value.n = 0;
    p->streaming = p->types == DIA_STRING;
    p->newline = p->value_begun = false;
    if (p->streaming)
        dia_args(p, "\"", 1);
    dia_go(p, &params_value);
}

static void key_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (ended(p, what, n) || call_ended(p, what))
        return;
    struct str json = {0};
    strip(&p->value);
    unescape(p, &p->value);
    if (p->value.n == 0) {
        dia_bad(p, "a parameter: have no name, need one");
        return;
    }
    bool more = p->n_key > 0;
    if (!dia_key_add(p, p->value.s, p->value.n))
        return;
    str_json(&json, p->value.s, p->value.n);
    if (json.failed)
        p->value.failed = true;
    if (more)
        dia_args(p, ", ", 2);
    dia_args(p, json.s, json.n);
    dia_args(p, ": ", 2);
    str_fini(&json);
    p->types = p->tool ? dia_param_types(p->tool, p->value.s) : DIA_ANY;
    p->value.n = 0;
    if (p->d->type_end)
        dia_go(p, &params_type);
    else if (p->d->value)
        dia_go(p, &params_gap);
    else
        value_begin(p);
}

static const struct dia_state params_key = {key_enter, key_text, key_mark, dia_incomplete, true};

static void type_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->type_end, DIA_TYPE_END);
    dia_mark(p, p->d->call_end, DIA_CALL_END);
    ends(p);
}

/* The dialect itself says whether a value is a string: string="true", type="number". */
static void type_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (ended(p, what, n) || call_ended(p, what))
        return;
    bool string = p->value.n == 4 && memcmp(p->value.s, "true", 4) == 0;
    string |= p->value.n == 6 && memcmp(p->value.s, "string", 6) == 0;
    p->types = string ? DIA_STRING : DIA_ANY & ~DIA_STRING;
    value_begin(p);
}

static const struct dia_state params_type = {type_enter, key_text, type_mark, dia_incomplete, true};

static void gap_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->value, DIA_VALUE);
    dia_mark(p, p->d->call_end, DIA_CALL_END);
    ends(p);
}

static void gap_text(struct dialect_parser *p, char c)
{
    if (!dia_blank(c))
        dia_bad_at(p, c, "a parameter: have text before its value, need the value");
}

static void gap_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (!ended(p, what, n) && !call_ended(p, what))
        value_begin(p);
}

static const struct dia_state params_gap = {gap_enter, gap_text, gap_mark, dia_incomplete, true};

/* ---- a parameter's value ---- */

static void value_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->param_end, DIA_PARAM_END);
    ends(p);
}

static void value_byte(struct dialect_parser *p, char c)
{
    if (!p->streaming) {
        str_putc(&p->value, c);
        return;
    }
    unsigned char u = (unsigned char)c;
    if (c == '"' || c == '\\' || u < 0x20) {
        struct str json = {0};
        str_json(&json, &c, 1);
        if (json.failed)
            p->value.failed = true;
        else
            dia_args(p, json.s + 1, json.n - 2);
        str_fini(&json);
    } else {
        dia_args(p, &c, 1);
    }
}

/* One newline at each end belongs to the markup of DIALECT_LINE_VALUE. */
static void value_text(struct dialect_parser *p, char c)
{
    bool lines = p->d->flags & DIALECT_LINE_VALUE;
    bool first = lines && !p->value_begun && c == '\n';
    p->value_begun = true;
    if (first)
        return;
    if (p->newline)
        value_byte(p, '\n');
    p->newline = lines && c == '\n';
    if (!p->newline)
        value_byte(p, c);
}

static unsigned type_read(const char *s, size_t n, struct dialect_parser *p)
{
    struct dia_scan m = {0};
    bool ok = n > 0;
    dia_scan_reset(&m);
    for (size_t i = 0; i < n && ok; i++)
        ok = !(dia_scan_step(&m, s[i]) & SCAN_BAD);
    ok = ok && dia_scan_complete(&m);
    if (m.text.failed)
        p->value.failed = true;
    str_fini(&m.text);
    if (!ok)
        return 0;
    switch (s[0]) {
    case '{':
        return DIA_OBJECT;
    case '[':
        return DIA_ARRAY;
    case '"':
        return DIA_STRING;
    case 't':
    case 'f':
        return DIA_BOOL;
    case 'n':
        return DIA_NULL;
    default:
        return DIA_NUMBER;
    }
}

/* A value that waited. */
static void value_whole(struct dialect_parser *p)
{
    const char *s = p->value.s ? p->value.s : "";
    size_t from = 0, to = p->value.n;
    while (from < to && dia_blank(s[from]))
        from++;
    while (to > from && dia_blank(s[to - 1]))
        to--;
    unsigned type = type_read(s + from, to - from, p);
    bool may_be_string = p->types & DIA_STRING;
    if (type && (!may_be_string || (type != DIA_STRING && (type & p->types)))) {
        dia_args(p, s + from, to - from);
        return;
    }
    struct str json = {0};
    str_json(&json, s, p->value.n);
    if (json.failed)
        p->value.failed = true;
    dia_args(p, json.s, json.n);
    str_fini(&json);
}

static void value_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (ended(p, what, n))
        return;
    if (p->streaming)
        dia_args(p, "\"", 1);
    else
        value_whole(p);
    p->value.n = 0;
    dia_go(p, &params_body);
}

static const struct dia_state params_value = {value_enter, value_text, value_mark, dia_incomplete, true};
