/* Finding a route, and the shapes of errors. */
#include "serve/route.h"

#include "serve/api.h"
#include "serve/http.h"

#include <string.h>

const struct route_group route_groups[] = {
    {"OpenAI", "The OpenAI API, as its clients speak it.", openai_routes, OPENAI_ROUTES},
    {"Responses", "OpenAI's API with a memory: items in, items out.", responses_routes, RESPONSES_ROUTES},
    {"Anthropic", "The Anthropic API, as its clients speak it.", anthropic_routes, ANTHROPIC_ROUTES},
    {"llama.cpp", "llama.cpp's own API, beside the OpenAI API that it speaks too.", llamacpp_routes, LLAMACPP_ROUTES},
    {"Ollama", "Ollama's API; errors are {\"error\": a sentence}.", ollama_routes, OLLAMA_ROUTES},
    {"Operations", "What operators, their programs and the page ask of a server.", ops_routes, OPS_ROUTES},
};
const size_t route_n_group = sizeof route_groups / sizeof *route_groups;

/* ---- finding ---- */

/* One segment, decoded; false when it is empty, too long or badly escaped. */
static bool take_param(const char *p, size_t n, char out[ROUTE_PARAM_MAX])
{
    if (n == 0 || n >= ROUTE_PARAM_MAX)
        return false;
    memcpy(out, p, n);
    out[n] = 0;
    return http_unescape(out);
}

static bool matches(const char *pattern, const char *path, char param[ROUTE_PARAMS][ROUTE_PARAM_MAX])
{
    size_t i = 0;
    while (*pattern && strcmp(pattern, "*") != 0) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t n = strcspn(path, "/");
        if (i == ROUTE_PARAMS || !take_param(path, n, param[i++]))
            return false;
        path += n;
        pattern += strcspn(pattern, "}") + 1;
    }
    return *pattern == '*' || *path == 0;
}

static void allow(struct route_match *m, const char *method)
{
    size_t n = strlen(m->allow_buffer);
    if (!strstr(m->allow_buffer, method))
        snprintf(m->allow_buffer + n, sizeof m->allow_buffer - n, "%s%s", n ? ", " : "", method);
}

int route_find(const char *method, const char *path, struct route_match *m)
{
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    memset(m, 0, sizeof *m);
    for (size_t g = 0; g < route_n_group; g++)
        for (size_t i = 0; i < route_groups[g].n; i++) {
            const struct route *r = &route_groups[g].route[i];
            if (!matches(r->path, path, m->param))
                continue;
            if (r->absent || strcmp(r->method, method) == 0) {
                m->route = r;
                return r->absent ? 501 : 200;
            }
            allow(m, r->method);
        }
    m->allow = m->allow_buffer;
    return m->allow_buffer[0] ? 405 : 404;
}

size_t route_body_max(const struct route *r)
{
    return r->body_max ? r->body_max : r->request ? ROUTE_BODY_MAX : 0;
}

enum route_style route_style_of(const char *path)
{
    if (strncmp(path, "/v1/messages", 12) == 0)
        return ROUTE_ANTHROPIC;
    return strncmp(path, "/api/", 5) == 0 ? ROUTE_OLLAMA : ROUTE_OPENAI;
}

/* ---- errors ---- */

static const struct {
    int http;
    const char *openai, *anthropic, *llamacpp;
} types[] = {
    {400, "invalid_request_error", "invalid_request_error", "invalid_request_error"},
    {401, "authentication_error", "authentication_error", "authentication_error"},
    {403, "permission_error", "permission_error", "permission_error"},
    {404, "not_found_error", "not_found_error", "not_found_error"},
    {413, "invalid_request_error", "request_too_large", "invalid_request_error"},
    {429, "rate_limit_exceeded", "rate_limit_error", "unavailable_error"},
    {500, "server_error", "api_error", "server_error"},
    {501, "not_supported_error", "api_error", "not_supported_error"},
    {503, "service_unavailable_error", "overloaded_error", "unavailable_error"},
};

static const char *type_of(enum route_style style, int http)
{
    size_t i = http < 500 ? 0 : 6;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (types[k].http == http)
            i = k;
    switch (style) {
    case ROUTE_ANTHROPIC:
        return types[i].anthropic;
    case ROUTE_LLAMACPP:
        return types[i].llamacpp;
    case ROUTE_OPENAI:
    case ROUTE_OLLAMA:
        break;
    }
    return types[i].openai;
}

static void quote(struct str *out, const char *s)
{
    if (s)
        str_json(out, s, strlen(s));
    else
        str_puts(out, "null");
}

void route_print_error(struct str *out, enum route_style style, int http, const char *message, const char *param,
                       const char *code)
{
    const char *type = type_of(style, http);
    switch (style) {
    case ROUTE_OPENAI:
        str_puts(out, "{\"error\":{\"message\":");
        quote(out, message);
        str_printf(out, ",\"type\":\"%s\",\"param\":", type);
        quote(out, param && param[0] ? param : NULL);
        str_puts(out, ",\"code\":");
        quote(out, code);
        str_puts(out, "}}");
        return;
    case ROUTE_ANTHROPIC:
        str_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
        quote(out, message);
        str_puts(out, "}}");
        return;
    case ROUTE_LLAMACPP:
        if (code && strcmp(code, "context_length_exceeded") == 0)
            type = "exceed_context_size_error";
        str_printf(out, "{\"error\":{\"code\":%d,\"message\":", http);
        quote(out, message);
        str_printf(out, ",\"type\":\"%s\"}}", type);
        return;
    case ROUTE_OLLAMA:
        str_puts(out, "{\"error\":");
        quote(out, message);
        str_putc(out, '}');
        return;
    }
}

#define TEXT_OR_NULL FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_NULL)
static const struct field openai_error[] = {
    {"message", &field_text, .required = true, .doc = "What failed, where, what there was and what it takes."},
    {"type", &field_text, .required = true, .doc = "The class of the error."},
    {"param", TEXT_OR_NULL, .required = true, .doc = "Path of the member that is wrong."},
    {"code", TEXT_OR_NULL, .required = true, .doc = "A word for programs."},
};
static const struct field openai_body[] = {{"error", FIELD_SHAPE(FIELD_MEMBERS(openai_error)), .required = true}};
static const struct field anthropic_error[] = {{"type", &field_text, .required = true},
                                               {"message", &field_text, .required = true}};
static const struct field anthropic_body[] = {{"type", FIELD_WORDS("error"), .required = true},
                                              {"error", FIELD_SHAPE(FIELD_MEMBERS(anthropic_error)), .required = true}};
static const struct field llamacpp_error[] = {{"code", &field_int, .required = true},
                                              {"message", &field_text, .required = true},
                                              {"type", &field_text, .required = true}};
static const struct field llamacpp_body[] = {{"error", FIELD_SHAPE(FIELD_MEMBERS(llamacpp_error)), .required = true}};
static const struct field ollama_body[] = {{"error", &field_text, .required = true}};

const struct field_shape *route_error_shape(enum route_style style)
{
    static const struct field_shape shape[] = {
        [ROUTE_OPENAI] = {.name = "Error", FIELD_MEMBERS(openai_body)},
        [ROUTE_ANTHROPIC] = {.name = "AnthropicError", FIELD_MEMBERS(anthropic_body)},
        [ROUTE_LLAMACPP] = {.name = "LlamaError", FIELD_MEMBERS(llamacpp_body)},
        [ROUTE_OLLAMA] = {.name = "OllamaError", FIELD_MEMBERS(ollama_body)}};
    return &shape[style];
}
