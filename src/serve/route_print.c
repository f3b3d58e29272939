/* The table of routes as OpenAPI 3.1 and as Markdown. */
#include "serve/route.h"

#include "base/mem.h"

#include <ctype.h>
#include <string.h>

static void quote(struct str *out, const char *s)
{
    str_json(out, s, strlen(s));
}

static const struct route *at(size_t i, const struct route_group **group)
{
    for (size_t g = 0; g < route_n_group; g++) {
        if (i < route_groups[g].n) {
            *group = &route_groups[g];
            return &route_groups[g].route[i];
        }
        i -= route_groups[g].n;
    }
    return NULL;
}

static const char *type_of(const struct route *r)
{
    return r->reply_type ? r->reply_type : "application/json";
}

/* ---- OpenAPI ---- */

static void print_parameters(struct str *out, const struct route *r)
{
    bool first = true;
    str_puts(out, ",\"parameters\":[");
    for (const char *p = strchr(r->path, '{'); p; p = strchr(p + 1, '{')) {
        str_puts(out, first ? "" : ",");
        first = false;
        str_puts(out, "{\"name\":");
        str_json(out, p + 1, strcspn(p + 1, "}"));
        str_puts(out, ",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":\"string\"}}");
    }
    for (const struct field_shape *s = r->query; s; s = s->also)
        for (size_t i = 0; i < s->n_field; i++) {
            str_puts(out, first ? "{\"name\":" : ",{\"name\":");
            first = false;
            quote(out, s->field[i].name);
            str_printf(out,
                       ",\"in\":\"query\",\"required\":%s,\"description\":", s->field[i].required ? "true" : "false");
            quote(out, s->field[i].doc ? s->field[i].doc : "");
            str_puts(out, ",\"schema\":");
            field_print_schema(out, s->field[i].shape);
            str_putc(out, '}');
        }
    str_putc(out, ']');
}

static void print_response(struct str *out, const char *status, const char *doc)
{
    quote(out, status);
    str_puts(out, ":{\"description\":");
    quote(out, doc);
    str_puts(out, ",\"content\":{");
}

static void print_responses(struct str *out, const struct route *r)
{
    str_puts(out, ",\"responses\":{");
    bool only_events = r->event && strcmp(type_of(r), "text/event-stream") == 0;
    print_response(out, "200", "Done.");
    if (!only_events) {
        quote(out, type_of(r));
        str_puts(out, ":{\"schema\":");
        if (r->reply)
            field_print_schema(out, r->reply);
        else
            str_puts(out, "{}");
        str_putc(out, '}');
    }
    if (r->event) {
        str_puts(out, only_events ? "" : ",");
        str_puts(out, "\"text/event-stream\":{\"schema\":{\"type\":\"string\"},\"x-event\":");
        field_print_schema(out, r->event);
        str_putc(out, '}');
    }
    str_puts(out, "}},");
    for (int i = 0; i < 2; i++) {
        print_response(out, i ? "5XX" : "4XX", i ? "The server could not do it." : "The request is refused.");
        str_puts(out, "\"application/json\":{\"schema\":");
        field_print_schema(out, route_error_shape(r->style));
        str_puts(out, i ? "}}}" : "}}},");
    }
    str_putc(out, '}');
}

/* "post_v1_chat_completions" */
static void print_operation_id(struct str *out, const struct route *r)
{
    str_puts(out, "\"operationId\":\"");
    for (const char *p = r->method; *p; p++)
        str_putc(out, (char)tolower((unsigned char)*p));
    for (const char *p = r->path; *p; p++)
        if (isalnum((unsigned char)*p))
            str_putc(out, *p);
        else if (out->s && out->s[out->n - 1] != '_')
            str_putc(out, '_');
    str_putc(out, '"');
}

static void print_operation(struct str *out, const struct route *r, const struct route_group *g)
{
    str_putc(out, '"');
    for (const char *p = r->method; *p; p++)
        str_putc(out, (char)tolower((unsigned char)*p));
    str_puts(out, "\":{");
    print_operation_id(out, r);
    str_puts(out, ",\"summary\":");
    quote(out, r->doc);
    str_puts(out, ",\"tags\":[");
    quote(out, g->name);
    str_putc(out, ']');
    print_parameters(out, r);
    if (r->request) {
        str_puts(out, ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":");
        field_print_schema(out, r->request);
        str_puts(out, "}}}");
    }
    print_responses(out, r);
    if (r->open)
        str_puts(out, ",\"security\":[]");
    str_putc(out, '}');
}

static bool told_before(size_t i)
{
    const struct route_group *g;
    const struct route *r = at(i, &g), *earlier;
    for (size_t k = 0; k < i; k++) {
        earlier = at(k, &g);
        if (!earlier->absent && strcmp(earlier->path, r->path) == 0)
            return true;
    }
    return false;
}

static void print_paths(struct str *out)
{
    const struct route_group *g;
    const struct route *r, *other;
    bool first = true;
    for (size_t i = 0; (r = at(i, &g)); i++) {
        if (r->absent || told_before(i))
            continue;
        str_puts(out, first ? "" : ",");
        first = false;
        quote(out, r->path);
        str_puts(out, ":{");
        print_operation(out, r, g);
        for (size_t k = i + 1; (other = at(k, &g)); k++)
            if (!other->absent && strcmp(other->path, r->path) == 0) {
                str_putc(out, ',');
                print_operation(out, other, g);
            }
        str_putc(out, '}');
    }
}

static void print_components(struct str *out)
{
    struct field_seen seen = {0};
    struct str own = {0};
    const struct route_group *g;
    const struct route *r;
    str_putc(&own, '{');
    for (size_t i = 0; (r = at(i, &g)); i++) {
        if (r->absent)
            continue;
        field_print_components(&own, r->request, &seen);
        field_print_components(&own, r->reply, &seen);
        field_print_components(&own, r->event, &seen);
        field_print_components(&own, r->query, &seen);
        field_print_components(&own, route_error_shape(r->style), &seen);
    }
    str_putc(&own, '}');
    out->failed |= own.failed;
    str_add(out, own.s ? own.s : "", own.n);
    str_fini(&own);
    field_seen_fini(&seen);
}

void route_print_openapi(struct str *out)
{
    str_puts(out, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"glim\",\"version\":");
    quote(out, glim_version());
    str_puts(out, ",\"description\":\"One language model, served.\"},\"security\":[{},{\"key\":[]}],\"paths\":{");
    print_paths(out);
    str_puts(out,
             "},\"components\":{\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}},\"schemas\":");
    print_components(out);
    str_puts(out, "}}\n");
}

/* ---- Markdown ---- */

static void print_fields(struct str *out, const struct field_shape *s)
{
    str_puts(out, "\n| member | is | |\n|---|---|---|\n");
    for (; s; s = s->also)
        for (size_t i = 0; i < s->n_field; i++) {
            const struct field *f = &s->field[i];
            str_printf(out, "| `%s` | ", f->name);
            if (f->refused) {
                str_printf(out, "refused | %s |\n", f->refused);
                continue;
            }
            field_print_kind(out, f->shape);
            str_puts(out, f->nullable ? " or null" : "");
            str_puts(out, f->required ? ", required | " : " | ");
            str_printf(out, "%s |\n", f->doc ? f->doc : "");
        }
}

static void print_variant_list(struct str *out, const struct field_shape *s)
{
    str_printf(out, "\nBy its `%s`:", s->tag);
    for (size_t i = 0; i < s->n_variant; i++) {
        const struct field_variant *v = &s->variant[i];
        str_printf(out, "%s `%s` ", i ? "," : "", v->word);
        if (v->refused)
            str_printf(out, "(refused: %s)", v->refused);
        else
            field_print_kind(out, v->shape);
    }
    str_puts(out, "\n");
}

static void print_shape(struct str *out, const struct field_shape *s)
{
    str_printf(out, "\n### %s\n\n%s\n", s->name, s->doc ? s->doc : "");
    if (s->tag)
        print_variant_list(out, s);
    else if (s->n_field || s->also)
        print_fields(out, s);
}

static void print_route(struct str *out, const struct route *r)
{
    if (r->absent) {
        str_printf(out, "| `%s` | not there: %s |\n", r->path, r->absent);
        return;
    }
    str_printf(out, "| `%s %s` | %s", r->method, r->path, r->doc);
    for (int i = 0; i < 3; i++) {
        static const char *const what[] = {"Takes", "Gives", "Streams"};
        const struct field_shape *s = i == 0 ? r->request : i == 1 ? r->reply : r->event;
        if (s && s->name)
            str_printf(out, " %s [%s](#%s).", what[i], s->name, s->name);
    }
    str_puts(out, " |\n");
}

/* Shapes that have names, in the order in which routes come to them. */
static void print_shapes(struct str *out)
{
    struct field_seen seen = {0};
    struct str components = {0};
    const struct route_group *g;
    const struct route *r;
    for (size_t i = 0; (r = at(i, &g)); i++) {
        field_print_components(&components, r->absent ? NULL : r->request, &seen);
        field_print_components(&components, r->absent ? NULL : r->reply, &seen);
        field_print_components(&components, r->absent ? NULL : r->event, &seen);
    }
    for (int i = ROUTE_OPENAI; i <= ROUTE_OLLAMA; i++)
        field_print_components(&components, route_error_shape((enum route_style)i), &seen);
    for (size_t i = 0; i < seen.n; i++)
        if (seen.shape[i]->name)
            print_shape(out, seen.shape[i]);
    out->failed |= components.failed;
    str_fini(&components);
    field_seen_fini(&seen);
}

void route_print_markdown(struct str *out)
{
    str_puts(
        out,
        "# Server\n\nWhat `glim serve` answers to. This page is made from the table of routes "
        "(`glim serve --markdown`), and so is `GET /openapi.json`, which says the same to programs.\n\n"
        "Members that are not listed are refused by their path, unless the lever `unknown_fields` is `ignore`: then "
        "the reply's header `x-ignored-fields` names them. A member whose table says `or null` may be null, which "
        "means the same as leaving it out.\n");
    for (size_t g = 0; g < route_n_group; g++) {
        str_printf(out, "\n## %s\n\n%s\n\n| route | |\n|---|---|\n", route_groups[g].name, route_groups[g].doc);
        for (size_t i = 0; i < route_groups[g].n; i++)
            print_route(out, &route_groups[g].route[i]);
    }
    str_puts(out, "\n## Shapes\n");
    print_shapes(out);
}
