/* Calls that are JSON objects (DIALECT_JSON), and names followed by JSON arguments (DIALECT_NAMED).
 *
 * Arguments pass as the model wrote them, byte by byte, as long as they are JSON. A JSON call is complete with its
 * closing brace; the mark after it is not waited for. Members that are neither name, arguments nor id are skipped. */
#include "text/dialect_impl.h"

#include <string.h>

enum { FIELD_OTHER, FIELD_NAME, FIELD_ARGS, FIELD_ID };

static const struct dia_state object_state, json_tail, named_name, named_id, named_first_id, named_after;

/* ---- a member's value, shared ---- */

/* Arguments that came before the name wait in `early`. */
static void args_bytes(struct dialect_parser *p, const char *s, size_t n)
{
    if (p->begun)
        dia_args(p, s, n);
    else
        str_add(&p->early, s, n);
}

/* A JSON object inside a string, as some models write their arguments. False: the state is "bad". */
static bool args_from_string(struct dialect_parser *p, const char *s, size_t n)
{
    struct dia_scan m = {0};
    int got = 0;
    bool object = false, ok = true;
    dia_scan_reset(&m);
    for (size_t i = 0; i < n && ok && !(got & SCAN_BAD); i++) {
        got = dia_scan_step(&m, s[i]);
        object |= (got & SCAN_OPEN) && m.depth == 1 && dia_scan_object(&m);
        if ((got & SCAN_KEY) && m.depth == 1)
            ok = dia_key_add(p, m.text.s, m.text.n);
    }
    if (ok && ((got & SCAN_BAD) || !object || !dia_scan_complete(&m))) {
        dia_bad(p, "arguments: have a string, need an object");
        ok = false;
    }
    if (m.text.failed)
        p->scan.text.failed = true;
    str_fini(&m.text);
    if (ok)
        args_bytes(p, s, n);
    return ok;
}

/* ---- a JSON call ---- */

static void object_begin(struct dialect_parser *p, char c)
{
    dia_call_reset(p);
    dia_scan_reset(&p->scan);
    dia_scan_step(&p->scan, c);
    p->field = FIELD_OTHER;
    dia_go(p, &object_state);
}

void dia_json_bare(struct dialect_parser *p, char c)
{
    p->tentative = true;
    p->grouped = p->alone = p->list = p->listed = false;
    p->n_group = 0;
    object_begin(p, c);
}

static unsigned field_of(const struct dialect *d, const struct str *key)
{
    static const unsigned field[] = {FIELD_NAME, FIELD_ARGS, FIELD_ARGS, FIELD_ID};
    const char *name[] = {d->name_key ? d->name_key : "name", d->args_key ? d->args_key : "arguments",
                          d->args_key2 ? d->args_key2 : "parameters", d->id_key ? d->id_key : "id"};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (strlen(name[i]) == key->n && memcmp(name[i], key->s, key->n) == 0)
            return field[i];
    return FIELD_OTHER;
}

static bool call_key(struct dialect_parser *p)
{
    const struct str *key = &p->scan.text;
    if (p->d->flags & DIALECT_KEY_IS_NAME) {
        p->field = FIELD_ARGS;
        p->name.n = 0;
        str_add(&p->name, key->s, key->n);
        return true;
    }
    p->field = field_of(p->d, key);
    bool twice = (p->field == FIELD_NAME && p->name.n) || (p->field == FIELD_ARGS && p->have_args);
    if (twice)
        dia_bad(p, "a call: have \"%s\" twice, need it once", p->field == FIELD_NAME ? "name" : "arguments");
    else if (p->tentative && p->field == FIELD_OTHER && !(key->n == 4 && memcmp(key->s, "type", 4) == 0))
        dia_bad(p, "not a call");
    else
        return true;
    return false;
}

/* The name is known: what waited for it goes out. */
static bool begin_early(struct dialect_parser *p)
{
    if (p->early.n == 0)
        return true;
    if (!dia_call_begin(p))
        return false;
    dia_args(p, p->early.s, p->early.n);
    return true;
}

/* {"NAME": arguments}: the call ends with its arguments, and another key may follow. */
static bool whole_call(struct dialect_parser *p, const char *args, size_t n)
{
    if (!p->begun && !dia_call_begin(p))
        return false;
    dia_args(p, args, n);
    dia_call_end(p);
    p->have_args = true;
    return true;
}

static bool string_value(struct dialect_parser *p)
{
    const struct str *text = &p->scan.text;
    if (p->field == FIELD_NAME) {
        str_add(&p->name, text->s, text->n);
        if (!dia_name_ok(&p->name) || (p->tentative && !dia_tool_known(p, &p->name))) {
            dia_bad(p, "a tool's name: have %zu bytes, need 1 to %d without blanks or markup", text->n,
                    DIALECT_NAME_MAX);
            return false;
        }
        return begin_early(p);
    }
    if (p->field == FIELD_ID && p->id.n == 0 && text->n && memchr(text->s, 0, text->n) == NULL)
        str_add(&p->id, text->s, text->n);
    if (p->field != FIELD_ARGS)
        return true;
    p->have_args = true;
    if (p->name.n && !p->tentative && !dia_call_begin(p))
        return false;
    if (p->tentative) {
        dia_bad(p, "not a call");
        return false;
    }
    struct str copy = p->scan.text;
    p->scan.text = (struct str){0};
    bool ok = args_from_string(p, copy.s, copy.n);
    str_fini(&copy);
    return ok && (!(p->d->flags & DIALECT_KEY_IS_NAME) || whole_call(p, "", 0));
}

/* The arguments' first byte. */
static bool args_open(struct dialect_parser *p)
{
    if (!dia_scan_object(&p->scan)) {
        dia_bad(p, "arguments: have a list, need an object");
        return false;
    }
    if (p->tentative && (p->name.n == 0 || !dia_tool_known(p, &p->name))) {
        dia_bad(p, "not a call");
        return false;
    }
    p->tentative = false;
    p->in_args = p->have_args = true;
    return p->name.n == 0 || dia_call_begin(p);
}

/* A value that is neither string, object nor list. */
static bool scalar_value(struct dialect_parser *p, char c)
{
    if (p->field == FIELD_NAME) {
        dia_bad(p, "a tool's name: have another type, need a string");
        return false;
    }
    if (p->field != FIELD_ARGS)
        return true;
    p->have_args = p->args_null = true;
    if (c == 'n' && (p->d->flags & DIALECT_KEY_IS_NAME))
        return whole_call(p, "{}", 2);
    if (c == 'n' && !p->tentative)
        return true;
    dia_bad(p, "arguments: have another type, need an object");
    return false;
}

static void object_end(struct dialect_parser *p)
{
    if (p->d->flags & DIALECT_KEY_IS_NAME) {
        if (!p->have_args) {
            dia_bad(p, "a call: have no name, need one");
            return;
        }
    } else {
        if (p->tentative || p->name.n == 0) {
            dia_bad(p, "a call: have no name, need one");
            return;
        }
        if (!p->begun && !dia_call_begin(p))
            return;
        if (!p->have_args || p->args_null)
            dia_args(p, "{}", 2);
        dia_call_end(p);
    }
    if (p->list || p->d->close)
        dia_go(p, &dia_json_group);
    else if (p->d->flags & DIALECT_BARE)
        dia_go(p, &json_tail);
    else
        dia_leave(p);
}

/* What the byte completed; false when the state has changed. */
static bool object_step(struct dialect_parser *p, int got, char c)
{
    unsigned depth = p->scan.depth;
    if ((got & SCAN_KEY) && depth == 1)
        return call_key(p);
    if ((got & SCAN_KEY) && depth == 2 && p->in_args)
        return dia_key_add(p, p->scan.text.s, p->scan.text.n);
    if ((got & SCAN_STRING) && depth == 1)
        return string_value(p);
    if ((got & SCAN_SCALAR) && depth == 1)
        return scalar_value(p, c);
    if ((got & SCAN_OPEN) && depth == 2 && p->field == FIELD_ARGS)
        return args_open(p);
    if ((got & SCAN_OPEN) && depth == 2 && (p->field == FIELD_NAME || p->tentative)) {
        dia_bad(p, "a tool's name: have another type, need a string");
        return false;
    }
    return true;
}

static void object_text(struct dialect_parser *p, char c)
{
    int got = dia_scan_step(&p->scan, c);
    if (got & SCAN_BAD) {
        dia_bad_at(p, c, "a call: have text that is not JSON, need JSON");
        return;
    }
    if (!object_step(p, got, c))
        return;
    if (p->in_args)
        args_bytes(p, &c, 1);
    if ((got & SCAN_CLOSE) && p->scan.depth == 1 && p->in_args) {
        p->in_args = false;
        if (p->d->flags & DIALECT_KEY_IS_NAME)
            whole_call(p, "", 0);
    }
    if ((got & SCAN_CLOSE) && p->scan.depth == 0)
        object_end(p);
}

/* ---- around JSON calls ---- */

static void group_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->close, DIA_CLOSE);
}

static void group_text(struct dialect_parser *p, char c)
{
    if (c == '{' && !p->listed) {
        object_begin(p, c);
    } else if (c == '[' && !p->list && !p->listed && p->n_group == 0) {
        p->list = true;
    } else if (c == ']' && p->list) {
        p->list = false;
        p->listed = true;
        p->raw.n = 0;
        if (!p->d->close)
            dia_leave(p);
    } else if ((c == ',' || c == ';') && p->n_group && !p->listed) {
        p->raw.n = 0;
    } else if ((p->d->flags & DIALECT_BUILTIN) && p->n_group == 0 && !p->list && !dia_blank(c)) {
        dia_unread(p, c);
        dia_go(p, &dia_literal_call);
    } else {
        dia_group_text(p, c);
    }
}

static void group_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)what, (void)s, (void)n;
    if (p->n_group == 0 && !p->listed) {
        dia_bad(p, "a group of calls: have none, need one");
        dia_malformed(p);
    }
    dia_leave(p);
}

const struct dia_state dia_json_group = {group_enter, group_text, group_mark, dia_group_end, true};

static const struct dia_state object_state = {NULL, object_text, NULL, dia_group_end, true};

/* After a call without a marker: another one, or content. */
static void tail_text(struct dialect_parser *p, char c)
{
    if (c == '{') {
        object_begin(p, c);
    } else if (!dia_blank(c) && c != ';') {
        dia_unread(p, c);
        dia_leave(p);
    }
}

static void tail_end(struct dialect_parser *p, enum dialect_finish why)
{
    (void)p, (void)why;
}

static const struct dia_state json_tail = {NULL, tail_text, NULL, tail_end, true};

/* ---- a name, then JSON ---- */

static void named_group_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->call, DIA_CALL);
    dia_mark(p, p->d->close, DIA_CLOSE);
}

static void named_group_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    if (what == DIA_CLOSE) {
        group_mark(p, what, s, n);
        return;
    }
    dia_call_reset(p);
    dia_go(p, &dia_named_call);
}

const struct dia_state dia_named_group = {named_group_enter, dia_group_text, named_group_mark, dia_group_end, true};

static void too_long(struct dialect_parser *p, const struct str *s)
{
    if (s->n > DIALECT_NAME_MAX)
        dia_bad(p, "a tool's name: have more than %d bytes, need fewer", DIALECT_NAME_MAX);
}

/* The first byte of a name decides whether calls in JSON syntax follow instead. */
static void named_call_text(struct dialect_parser *p, char c)
{
    bool json = (p->d->flags & DIALECT_OR_JSON) && (c == '[' || c == '{');
    if (dia_blank(c))
        return;
    dia_unread(p, c);
    if (json)
        dia_go(p, &dia_json_group);
    else
        dia_go(p, p->d->id_end ? &named_first_id : &named_name);
}

static void named_call_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s, (void)n;
    dia_bad(p, "a call: have no name, need one");
    if (what == DIA_CALL_END) {
        dia_malformed(p);
        dia_group(p);
    }
}

static void named_call_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->name_end, DIA_NAME_END);
    dia_mark(p, p->d->call_end, DIA_CALL_END);
}

const struct dia_state dia_named_call = {named_call_enter, named_call_text, named_call_mark, dia_incomplete, true};

static void args_begin(struct dialect_parser *p)
{
    dia_scan_reset(&p->scan);
    dia_go(p, &dia_named_args);
}

static void first_id_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->id_end, DIA_ID_END);
    dia_mark(p, p->d->call_end, DIA_CALL_END);
}

static void id_text(struct dialect_parser *p, char c)
{
    if (c)
        str_putc(&p->id, c);
    too_long(p, &p->id);
}

static void first_id_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    if (what == DIA_ID_END)
        dia_go(p, &named_name);
    else
        named_call_mark(p, what, s, n);
}

static const struct dia_state named_first_id = {first_id_enter, id_text, first_id_mark, dia_incomplete, true};

static void name_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->name_end, DIA_NAME_END);
    dia_mark(p, p->d->id, DIA_ID);
    dia_mark(p, p->d->call_end, DIA_CALL_END);
}

/* A brace ends the name where the mark between was left out. */
static void name_text(struct dialect_parser *p, char c)
{
    if (c == '{') {
        dia_unread(p, c);
        args_begin(p);
        return;
    }
    if (!dia_blank(c) || p->name.n)
        str_putc(&p->name, c);
    too_long(p, &p->name);
}

static void name_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    if (what == DIA_NAME_END)
        args_begin(p);
    else if (what == DIA_ID)
        dia_go(p, &named_id);
    else
        named_call_mark(p, what, s, n);
}

static const struct dia_state named_name = {name_enter, name_text, name_mark, dia_incomplete, true};

static void id_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->name_end, DIA_NAME_END);
}

static const struct dia_state named_id = {id_enter, id_text, name_mark, dia_incomplete, true};

/* `functions.NAME:INDEX` is the id, NAME the name. */
static void name_from_id(struct dialect_parser *p)
{
    static const char prefix[] = "functions.";
    size_t from = 0, to = p->name.n;
    p->id.n = 0;
    str_add(&p->id, p->name.s, p->name.n);
    if (p->id.failed)
        return;
    if (to > sizeof prefix - 1 && memcmp(p->name.s, prefix, sizeof prefix - 1) == 0)
        from = sizeof prefix - 1;
    while (to > from && p->name.s[to - 1] >= '0' && p->name.s[to - 1] <= '9')
        to--;
    to = to > from && to < p->name.n && p->name.s[to - 1] == ':' ? to - 1 : p->name.n;
    p->name.n = 0;
    str_add(&p->name, p->id.s + from, to - from);
}

static bool named_begin(struct dialect_parser *p)
{
    while (p->name.n && dia_blank(p->name.s[p->name.n - 1]))
        p->name.s[--p->name.n] = 0;
    if ((p->d->flags & DIALECT_KIMI_ID) && p->name.n)
        name_from_id(p);
    return dia_call_begin(p);
}

static void named_args_enter(struct dialect_parser *p)
{
    if (p->begun)
        return;
    if (p->d->message) {
        dia_drop_marks(p, DIA_MESSAGE_END);
        dia_mark(p, p->d->start, DIA_START);
    }
    dia_mark(p, p->d->call_end, DIA_CALL_END);
}

static void named_args_text(struct dialect_parser *p, char c)
{
    if (!p->begun && dia_blank(c))
        return;
    if (!p->begun && c != '{') {
        dia_bad_at(p, c, "arguments: have no object, need one");
        return;
    }
    if (!p->begun) {
        if (!named_begin(p))
            return;
        dia_go(p, &dia_named_args); /* no marks inside JSON */
    }
    int got = dia_scan_step(&p->scan, c);
    if (got & SCAN_BAD) {
        dia_bad_at(p, c, "arguments: have text that is not JSON, need JSON");
        return;
    }
    if ((got & SCAN_KEY) && p->scan.depth == 1 && !dia_key_add(p, p->scan.text.s, p->scan.text.n))
        return;
    dia_args(p, &c, 1);
    if (!(got & SCAN_CLOSE) || p->scan.depth > 0)
        return;
    dia_call_end(p);
    if (p->d->message || p->d->call_end)
        dia_go(p, p->d->message ? &dia_message_tail : &named_after);
    else
        dia_group(p);
}

/* The call ends before any arguments: it has none. */
static void named_args_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    if (p->d->message && p->raw.n >= n)
        p->raw.n -= n;
    if (named_begin(p)) {
        dia_args(p, "{}", 2);
        dia_call_end(p);
    } else {
        dia_malformed(p);
    }
    (void)s;
    if (p->d->message)
        dia_message_mark(p, what);
    else
        dia_group(p);
}

const struct dia_state dia_named_args = {named_args_enter, named_args_text, named_args_mark, dia_incomplete, true};

static void named_after_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->call_end, DIA_CALL_END);
    if (p->grouped)
        dia_mark(p, p->d->close, DIA_CLOSE);
}

static void named_after_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s, (void)n;
    p->raw.n = 0;
    if (what == DIA_CLOSE)
        dia_leave(p);
    else
        dia_group(p);
}

static void named_after_text(struct dialect_parser *p, char c)
{
    if (!dia_blank(c))
        dia_bad_at(p, c, "a call: have text after its arguments, need its end");
}

static const struct dia_state named_after = {named_after_enter, named_after_text, named_after_mark, tail_end, true};
