/* Values of levers as text: the one grammar of the levers themselves, and the rules by which an alias was read where it
 * comes from. Both end in the canonical spelling of a value, so that two spellings agree exactly when their texts are
 * equal. */
#include "base/lever_row.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *lever_quote(const char *value, char out[LEVER_QUOTE_MAX])
{
    size_t n = 0;
    out[n++] = '"';
    for (const char *p = value; *p; p++) {
        if (n + 5 >= LEVER_QUOTE_MAX) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        out[n++] = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
    }
    out[n++] = '"';
    out[n] = 0;
    return out;
}

int lever_enum_index(const char *values, const char *value)
{
    size_t n = strlen(value);
    int i = 0;
    for (const char *p = values; n; i++) {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, value, n) == 0)
            return i;
        if (p[len] == 0)
            break;
        p += len + 1;
    }
    return -1;
}

void lever_range_text(const struct lever_row *r, struct str *out)
{
    bool bounded = r->min != 0 || r->max != 0;
    switch (r->type) {
    case TYPE_BOOL:
        str_puts(out, "on|off");
        break;
    case TYPE_INT:
    case TYPE_FLOAT:
        str_puts(out, r->type == TYPE_INT ? "whole number" : "number");
        if (bounded && r->max == INT64_MAX)
            str_printf(out, " from %lld", (long long)r->min);
        else if (bounded)
            str_printf(out, " %lld..%lld", (long long)r->min, (long long)r->max);
        break;
    case TYPE_TEXT:
        str_puts(out, "text");
        break;
    case TYPE_PATH:
        str_puts(out, "path");
        break;
    case TYPE_ENUM:
        str_puts(out, r->values);
        break;
    }
}

/* What a value of this row has to look like, for messages. */
static const char *needed(const struct lever_row *r, char *buf, size_t n)
{
    struct str s = {0};
    lever_range_text(r, &s);
    snprintf(buf, n, "%s%s", s.failed || !s.s ? "a value within its bounds" : s.s,
             r->type == TYPE_BOOL ? " (or 1|0|true|false)" : "");
    str_fini(&s);
    return buf;
}

static glim_status refuse(const struct lever_row *r, const char *who, const char *value, struct glim_err *e)
{
    char quoted[LEVER_QUOTE_MAX], need[160];
    return err_set(e, GLIM_REFUSED, "lever %s: value: have %s, need %s", who, lever_quote(value, quoted),
                   needed(r, need, sizeof need));
}

static glim_status give(const char *text, char **out, struct glim_err *e)
{
    *out = mem_strdup(text);
    return *out ? GLIM_OK : err_nomem(e, "lever value", strlen(text) + 1);
}

/* "on", "off", or NULL when it is neither. */
static const char *as_bool(const char *v)
{
    static const char *const on[] = {"on", "1", "true"}, *const off[] = {"off", "0", "false"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(v, on[i]) == 0)
            return "on";
        if (strcmp(v, off[i]) == 0)
            return "off";
    }
    return NULL;
}

static bool in_bounds(const struct lever_row *r, double v)
{
    return (r->min == 0 && r->max == 0) || (v >= (double)r->min && v <= (double)r->max);
}

glim_status lever_parse(const struct lever_row *r, const char *who, const char *value, char **out, struct glim_err *e)
{
    char buf[40];
    const char *text = NULL;
    int64_t i;
    double f;
    *out = NULL;
    switch (r->type) {
    case TYPE_BOOL:
        text = as_bool(value);
        break;
    case TYPE_INT:
        if (parse_i64(value, &i) && ((r->min == 0 && r->max == 0) || (i >= r->min && i <= r->max))) {
            snprintf(buf, sizeof buf, "%lld", (long long)i);
            text = buf;
        }
        break;
    case TYPE_FLOAT:
        if (parse_f64(value, &f) && in_bounds(r, f)) {
            snprintf(buf, sizeof buf, "%.15g", f == 0 ? 0.0 : f);
            text = buf;
        }
        break;
    case TYPE_TEXT:
    case TYPE_PATH:
        text = *value ? value : NULL;
        break;
    case TYPE_ENUM:
        text = lever_enum_index(r->values, value) >= 0 ? value : NULL;
        break;
    }
    return text ? give(text, out, e) : refuse(r, who, value, e);
}

/* ---- aliases ---- */

static bool is_1(const char *v)
{
    return strcmp(v, "1") == 0;
}

static bool is_0(const char *v)
{
    return strcmp(v, "0") == 0;
}

/* An unsigned number as the originals read one: digits, perhaps after a plus. */
static bool as_count(const char *v, uint64_t *out)
{
    return parse_u64(v + (*v == '+'), out);
}

static glim_status parse_capped(const struct lever_row *r, const char *v, char **out, struct glim_err *e)
{
    uint64_t n = 0;
    char buf[24];
    if (!as_count(v, &n))
        n = 0;
    snprintf(buf, sizeof buf, "%lld", n > (uint64_t)r->max ? (long long)r->max : (long long)n);
    return give(buf, out, e);
}

static glim_status need_exactly(const struct lever_alias *a, const char *v, const char *need, struct glim_err *e)
{
    char quoted[LEVER_QUOTE_MAX];
    return err_set(e, GLIM_REFUSED, "lever %s: value: have %s, need %s", a->name, lever_quote(v, quoted), need);
}

glim_status lever_parse_alias(const struct lever_row *r, const struct lever_alias *a, const char *v, char **out,
                              struct glim_err *e)
{
    uint64_t n;
    bool holds = false;
    *out = NULL;
    switch (a->rule) {
    case PRESENT:
        holds = true;
        break;
    case IS_1:
        holds = is_1(v);
        break;
    case IS_0:
        holds = is_0(v);
        break;
    case IS_OFF:
        holds = strcmp(v, "off") == 0;
        break;
    case IS_TRUE:
        holds = is_1(v) || strcasecmp(v, "true") == 0;
        break;
    case IS_TRUE_LOW:
        holds = is_1(v) || strcmp(v, "true") == 0;
        break;
    case NOT_EMPTY_0:
        holds = *v && !is_0(v);
        break;
    case ONLY_1:
        return is_1(v) ? give("on", out, e) : need_exactly(a, v, "exactly 1, or the name unset", e);
    case ZERO_OR_ONE:
        return is_1(v) || is_0(v) ? give(is_1(v) ? "on" : "off", out, e) : need_exactly(a, v, "0 or 1", e);
    case ONE_0_AUTO:
        return is_1(v) || is_0(v) ? give(is_1(v) ? "on" : "off", out, e) : GLIM_OK;
    case ONE_OR_ALL:
        return is_1(v) ? give("exact", out, e) : strcmp(v, "all") == 0 ? give("all", out, e) : GLIM_OK;
    case POSITIVE:
        return as_count(v, &n) && n > 0 ? lever_parse(r, a->name, v + (*v == '+'), out, e) : GLIM_OK;
    case CAPPED:
        return parse_capped(r, v, out, e);
    case SPLITS:
        if (strcmp(v, "auto") == 0)
            return give("0", out, e);
        return strcmp(v, "off") == 0 || is_0(v) ? give("1", out, e) : lever_parse(r, a->name, v, out, e);
    case SAME:
        return lever_parse(r, a->name, v, out, e);
    }
    return holds ? give(a->to, out, e) : GLIM_OK;
}

const char *lever_rule_name(enum lever_rule rule)
{
    static const char *const name[] = {
        [PRESENT] = "present",
        [IS_1] = "is_1",
        [IS_0] = "is_0",
        [IS_OFF] = "is_off",
        [IS_TRUE] = "is_true",
        [IS_TRUE_LOW] = "is_true_lower_case",
        [NOT_EMPTY_0] = "not_empty_0",
        [ONLY_1] = "only_1",
        [ZERO_OR_ONE] = "zero_or_one",
        [ONE_0_AUTO] = "one_0_auto",
        [ONE_OR_ALL] = "one_or_all",
        [POSITIVE] = "positive",
        [CAPPED] = "capped",
        [SPLITS] = "splits",
        [SAME] = "same",
    };
    return name[rule];
}

void lever_rule_text(const struct lever_alias *a, struct str *out)
{
    static const char *const when[] = {
        [PRESENT] = "any value",
        [IS_1] = "1",
        [IS_0] = "0",
        [IS_OFF] = "off",
        [IS_TRUE] = "1 or true in any case",
        [IS_TRUE_LOW] = "1 or true",
        [NOT_EMPTY_0] = "anything but empty or 0",
        [ONLY_1] = "1 = on, else refused",
        [ZERO_OR_ONE] = "0 = off, 1 = on, else refused",
        [ONE_0_AUTO] = "0 = off, 1 = on, else nothing",
        [ONE_OR_ALL] = "1 = exact, all = all, else nothing",
        [POSITIVE] = "a number above 0, else nothing",
        [CAPPED] = "a number, capped; 0 when it is none",
        [SPLITS] = "auto = 0, off and 0 = 1, a number",
        [SAME] = "same values",
    };
    str_puts(out, when[a->rule]);
    if (a->to)
        str_printf(out, " = %s", a->to);
}
