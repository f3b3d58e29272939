/* Reading one request. llhttp knows the grammar; the checks here are those it leaves to its user or is lax about:
 * distributions build it in its loose mode, with blanks in names, empty names, several blanks in the first line, bare
 * CR at the end of the header section. */
#include "serve/http_parse.h"
#include "base/mem.h"

#include <string.h>
#include <strings.h>

static int refuse(struct http_parse *p, int status, const char *sentence)
{
    if (!p->status) {
        p->status = status;
        p->sentence = sentence;
    }
    return -1;
}

static int no_memory(struct http_parse *p)
{
    return refuse(p, 503, "request: out of memory");
}

/* ---- what llhttp tells: bytes of a part, then its end ---- */

static int on_text(llhttp_t *ll, const char *at, size_t n)
{
    struct http_parse *p = ll->data;
    if (p->head_done)
        return 0; /* trailers: read over */
    str_add(&p->text, at, n);
    return p->text.failed ? no_memory(p) : 0;
}

static int on_text_end(llhttp_t *ll)
{
    return on_text(ll, "", 1);
}

static int on_target(llhttp_t *ll, const char *at, size_t n)
{
    struct http_parse *p = ll->data;
    p->target += (uint32_t)n;
    if (p->target > p->config->max_target)
        return refuse(p, 414, "request: target: too long");
    for (size_t i = 0; i < n; i++)
        if (at[i] < 0x21 || at[i] > 0x7e || at[i] == '#')
            return refuse(p, 400,
                          "request: target: have a control, a fragment or a byte over 126, need an escaped one");
    return on_text(ll, at, n);
}

/* RFC 9110 5.6.2; llhttp may have been built to let blanks through. */
static bool is_token(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int on_name(llhttp_t *ll, const char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_token(at[i]))
            return refuse(ll->data, 400, "request: header field: have a character in its name that may not be there");
    return on_text(ll, at, n);
}

static int on_name_end(llhttp_t *ll)
{
    struct http_parse *p = ll->data;
    if (!p->head_done && p->text.s[p->text.n - 1] == 0)
        return refuse(p, 400, "request: header field: have one without a name");
    return on_text_end(ll);
}

static int on_value(llhttp_t *ll, const char *at, size_t n)
{
    struct http_parse *p = ll->data;
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)at[i] < 0x20 && at[i] != '\t') || at[i] == 0x7f)
            return refuse(p, 400, "request: header field: have a control character in its value");
    return on_text(ll, at, n);
}

static int on_value_end(llhttp_t *ll)
{
    struct http_parse *p = ll->data;
    if (p->head_done)
        return 0;
    struct str *t = &p->text;
    while (t->n && (t->s[t->n - 1] == ' ' || t->s[t->n - 1] == '\t'))
        t->n--; /* ends at the NUL behind the name at the latest */
    if (++p->n_field > p->config->max_field)
        return refuse(p, 431, "request: header section: too many fields");
    return on_text_end(ll);
}

static int on_head(llhttp_t *ll)
{
    struct http_parse *p = ll->data;
    p->head_done = true;
    p->keep_alive = llhttp_should_keep_alive(ll) != 0;
    p->http10 = ll->http_minor == 0;
    return 0;
}

static int on_chunk(llhttp_t *ll)
{
    struct http_parse *p = ll->data;
    if (ll->content_length > p->max_body - p->body.n)
        return refuse(p, 413, "request: body: too large");
    p->data = ll->content_length;
    return 0;
}

static int on_body(llhttp_t *ll, const char *at, size_t n)
{
    struct http_parse *p = ll->data;
    str_add(&p->body, at, n);
    return p->body.failed ? no_memory(p) : 0;
}

static int on_done(llhttp_t *ll)
{
    struct http_parse *p = ll->data;
    p->done = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_method = on_text,
    .on_method_complete = on_text_end,
    .on_url = on_target,
    .on_url_complete = on_text_end,
    .on_header_field = on_name,
    .on_header_field_complete = on_name_end,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_end,
    .on_headers_complete = on_head,
    .on_chunk_header = on_chunk,
    .on_body = on_body,
    .on_message_complete = on_done,
};

/* ---- the header section ---- */

/* The fields, from the text they were collected in. */
static int collect(struct http_parse *p)
{
    struct http_request *r = &p->request;
    p->field = mem_alloc((p->n_field + 1) * sizeof *p->field);
    if (!p->field)
        return no_memory(p);
    char *t = p->text.s;
    r->method = t;
    t += strlen(t) + 1;
    r->path = t;
    t += strlen(t) + 1;
    for (uint32_t i = 0; i < p->n_field; i++) {
        p->field[i].name = t;
        for (; *t; t++)
            *t = *t >= 'A' && *t <= 'Z' ? (char)(*t + 32) : *t;
        p->field[i].value = ++t;
        t += strlen(t) + 1;
    }
    r->field = p->field;
    r->n_field = p->n_field;
    return 0;
}

/* "/path?query", "http://host/path?query" or "*"; cuts the text at the '?'. */
static int split_target(struct http_parse *p)
{
    struct http_request *r = &p->request;
    char *t = p->text.s + strlen(p->text.s) + 1;
    size_t scheme = !strncasecmp(t, "http://", 7) ? 7 : !strncasecmp(t, "https://", 8) ? 8 : 0;
    if (scheme) {
        size_t n = strcspn(t + scheme, "/?");
        if (n == 0 || memchr(t + scheme, '@', n))
            return refuse(p, 400, "request: target: have no plain host after the scheme");
        memmove(t, t + scheme, n); /* the scheme made room for a NUL */
        t[n] = 0;
        p->target_authority = t;
        t += scheme + n;
        if (*t != '/') { /* no path means the root; one byte of the scheme's room is left for its slash */
            *--t = '/';
        }
    }
    bool star = !strcmp(t, "*") && !strcmp(r->method, "OPTIONS");
    if (*t != '/' && !star)
        return refuse(p, 400, "request: target: have neither a path nor an address with one");
    r->path = t;
    r->query = t + strlen(t);
    char *q = strchr(t, '?');
    if (q) {
        *q = 0;
        r->query = q + 1;
    }
    return 0;
}

static int check_once(struct http_parse *p)
{
    static const char *const once[] = {"host",           "authorization",     "content-type", "x-api-key",
                                       "content-length", "transfer-encoding", "expect"};
    for (size_t k = 0; k < sizeof once / sizeof *once; k++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < p->n_field; i++)
            n += !strcmp(p->field[i].name, once[k]);
        if (n > 1)
            return refuse(p, 400,
                          k == 0 ? "request: Host: have several, need exactly one"
                                 : "request: header section: have a field twice that may occur once");
    }
    return 0;
}

static int check_framing(struct http_parse *p)
{
    const char *length = http_header(&p->request, "content-length");
    const char *coding = http_header(&p->request, "transfer-encoding");
    const char *expect = http_header(&p->request, "expect");
    if (length && (!*length || length[strspn(length, "0123456789")]))
        return refuse(p, 400, "request: Content-Length: need digits");
    if (coding && (length || p->http10))
        return refuse(p, 400, "request: Transfer-Encoding: have it in HTTP/1.0 or beside Content-Length");
    if (coding && strcasecmp(coding, "chunked"))
        return refuse(p, 400, "request: Transfer-Encoding: need chunked and nothing else");
    if (expect && strcasecmp(expect, "100-continue"))
        return refuse(p, 417, "request: Expect: need 100-continue");
    p->chunked = coding != NULL;
    p->length = length ? p->ll.content_length : 0;
    p->expects = expect && !p->http10 && (p->chunked || p->length);
    return 0;
}

static int check_head(struct http_parse *p)
{
    if (p->ll.http_major != 1 || p->ll.http_minor > 1)
        return refuse(p, 505, "request: version: need HTTP/1.1 or HTTP/1.0");
    if (collect(p))
        return -1;
    if (p->ll.method == HTTP_CONNECT)
        return refuse(p, 501, "request: method: have CONNECT, and this is no proxy");
    if (split_target(p) || check_once(p) || check_framing(p))
        return -1;
    const char *host = http_header(&p->request, "host");
    if (!host && !p->http10)
        return refuse(p, 400, "request: Host: have none, need exactly one");
    p->authority = host ? host : "";
    return 0;
}

/* ---- bytes ---- */

/* "METHOD target HTTP/1.1": one blank each, no other protocol. llhttp lets blanks be many, and knows RTSP. */
static int check_first_line(struct http_parse *p, unsigned char c)
{
    if (c == '\n' && p->began)
        p->line_read = true;
    if (c == ' ' && (++p->n_blank > 2 || p->last == ' '))
        return refuse(p, 400, "request: first line: have a blank too many");
    if (p->n_blank == 2 && p->last == ' ' && c != 'H')
        return refuse(p, 400, "request: version: need HTTP/1.1 or HTTP/1.0");
    return 0;
}

/* One byte that is not body, before llhttp sees it. */
static int check_byte(struct http_parse *p, unsigned char c)
{
    uint64_t most = p->config->max_head + (p->head_done ? 16 * (uint64_t)p->body.n : 0);
    if (++p->framing > most)
        return p->head_done ? refuse(p, 400, "request: body: have more bytes of framing than it is worth")
                            : refuse(p, 431, "request: header section: too large");
    if ((p->last == '\r') != (c == '\n'))
        return refuse(p, 400, "request: have CR without LF or LF without CR");
    if (p->last == '\n' && (c == ' ' || c == '\t'))
        return refuse(p, 400, "request: have a continued line");
    if (!p->line_read && check_first_line(p, c))
        return -1;
    p->last = c;
    return 0;
}

static const char *reason(llhttp_errno_t error)
{
    switch ((int)error) {
    case HPE_INVALID_METHOD:
        return "request: method: unknown";
    case HPE_INVALID_URL:
        return "request: target: malformed";
    case HPE_INVALID_HEADER_TOKEN:
        return "request: header field: malformed";
    case HPE_INVALID_CONTENT_LENGTH:
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return "request: Content-Length: malformed or ambiguous";
    case HPE_INVALID_TRANSFER_ENCODING:
        return "request: Transfer-Encoding: need chunked and nothing else";
    case HPE_INVALID_CHUNK_SIZE:
        return "request: body: have a malformed chunk";
    default:
        return "request: malformed";
    }
}

/* llhttp's word on n bytes: 0 or a refusal. A pause is the end of the request. */
static int execute(struct http_parse *p, const char *data, size_t n)
{
    llhttp_errno_t error = llhttp_execute(&p->ll, data, n);
    if (error == HPE_OK || (error == HPE_PAUSED && p->done))
        return 0;
    bool version = error == HPE_INVALID_VERSION || error == HPE_PAUSED_H2_UPGRADE;
    return version ? refuse(p, 505, "request: version: need HTTP/1.1 or HTTP/1.0") : refuse(p, 400, reason(error));
}

/* Some bytes of body, or one of framing. */
static int step(struct http_parse *p, const char *data, size_t n, size_t *took)
{
    if (p->data) {
        *took = n < p->data ? n : (size_t)p->data;
        p->data -= *took;
        p->last = 0;
    } else {
        *took = 1;
        p->began |= *data != '\r' && *data != '\n';
        if (check_byte(p, (unsigned char)*data))
            return -1;
    }
    return execute(p, data, *took);
}

/* The header section has just ended: judge it, and learn how long the body is. */
static int begin_body(struct http_parse *p)
{
    p->framing = 0;
    if (check_head(p))
        return -1;
    p->data = p->length;
    return 0;
}

static int finish(struct http_parse *p)
{
    str_add(&p->body, "", 0); /* an empty one is a string too */
    if (p->body.failed)
        return no_memory(p);
    p->request.body = p->body.s;
    p->request.n_body = p->body.n;
    return 0;
}

enum http_parsed http_parse_feed(struct http_parse *p, const char *data, size_t n, size_t *used)
{
    *used = 0;
    if (p->head_done && p->length > p->max_body)
        refuse(p, 413, "request: body: too large");
    while (!p->status && !p->done && *used < n) {
        size_t took;
        bool in_head = !p->head_done;
        if (step(p, data + *used, n - *used, &took))
            break;
        *used += took;
        if (in_head && p->head_done)
            return begin_body(p) ? HTTP_PARSED_BAD : HTTP_PARSED_HEAD;
    }
    if (p->done && !p->status)
        finish(p);
    if (p->status)
        return HTTP_PARSED_BAD;
    return p->done ? HTTP_PARSED_DONE : HTTP_PARSED_ALL;
}

void http_parse_init(struct http_parse *p, const struct http_config *c)
{
    *p = (struct http_parse){.config = c, .max_body = c->max_body};
    llhttp_init(&p->ll, HTTP_REQUEST, &settings);
    p->ll.data = p;
}

void http_parse_reset(struct http_parse *p)
{
    str_fini(&p->text);
    str_fini(&p->body);
    mem_free(p->field);
    http_parse_init(p, p->config);
}
