/* Any bytes from a client, cut anywhere: the parser makes the same requests of them as when they come whole, refuses
 * with a status and a sentence, never takes a byte of the next request, and lets no field, path or name through that
 * could be read in two ways. The first two bytes choose the cuts. */
#include "base/mem.h"
#include "serve/http_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void check_text(const char *s, const char *what)
{
    for (; *s; s++)
        check((unsigned char)*s >= 0x20 || *s == '\t', what);
}

static void check_request(const struct http_parse *p)
{
    const struct http_request *r = &p->request;
    static const struct http_names names = {NULL, 0, "127.0.0.1"};
    uint32_t n_length = 0, n_coding = 0, n_host = 0;
    char value[64], path[9000];
    check(r->path[0] == '/' || !strcmp(r->path, "*"), "a path without a slash");
    check(!strpbrk(r->path, " ?#") && !strpbrk(r->query, " #"), "a target with what ends it");
    check_text(r->path, "a control in the path");
    for (size_t i = 0; i < r->n_field; i++) {
        check(r->field[i].name[0] && !strpbrk(r->field[i].name, " \t:ABCDEFGHIJKLMNOPQRSTUVWXYZ"), "a field's name");
        check_text(r->field[i].name, "a control in a field's name");
        check_text(r->field[i].value, "a control in a field's value");
        n_length += !strcmp(r->field[i].name, "content-length");
        n_coding += !strcmp(r->field[i].name, "transfer-encoding");
        n_host += !strcmp(r->field[i].name, "host");
    }
    check(n_length + n_coding <= 1 && n_host <= 1, "an ambiguous request");
    check(n_host == 1 || p->http10, "no host");
    check(!p->chunked || !p->http10, "chunks in HTTP/1.0");
    http_names_have(&names, p->authority);
    http_query(r, "a", value, sizeof value);
    check(strlen(r->path) < sizeof path, "a path over the limit");
    http_unescape(strcpy(path, r->path));
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* What becomes of the bytes; pieces of [1, most] bytes, whole when most is 0. */
static void run(struct str *out, const uint8_t *data, size_t size, uint32_t most, uint32_t seed)
{
    struct http_config c = http_config_default();
    c.max_body = 300;
    c.max_head = 600;
    c.max_target = 100;
    c.max_field = 8;
    struct http_parse p;
    http_parse_init(&p, &c);
    const char *bytes = (const char *)data;
    for (size_t at = 0, used; at < size; at += used) {
        size_t n = most ? 1 + next(&seed) % most : size - at;
        enum http_parsed what = http_parse_feed(&p, bytes + at, n < size - at ? n : size - at, &used);
        check(used <= size - at, "more bytes used than given");
        if (what == HTTP_PARSED_HEAD) {
            size_t none;
            check_request(&p);
            what = http_parse_feed(&p, "", 0, &none);
            check(none == 0, "bytes used of none");
        }
        if (what == HTTP_PARSED_DONE) {
            check(p.request.body && strlen(p.request.body) <= p.request.n_body && p.request.n_body <= c.max_body,
                  "a body");
            check(p.chunked || p.request.n_body == p.length, "a body of another length");
            str_printf(out, "%s %s?%s %u %zu at %zu\n", p.request.method, p.request.path, p.request.query, p.n_field,
                       p.request.n_body, at + used);
            str_add(out, p.request.body, p.request.n_body);
            http_parse_reset(&p);
        } else if (what == HTTP_PARSED_BAD) {
            check(p.status >= 400 && p.status < 600 && p.sentence, "refused without a reason");
            str_printf(out, "%d %s", p.status, p.sentence);
            break;
        }
    }
    str_printf(out, "%d", p.began);
    http_parse_reset(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str whole = {0}, parts = {0};
    if (size < 2 || size > 10000)
        return 0;
    run(&whole, data + 2, size - 2, 0, 0);
    run(&parts, data + 2, size - 2, 1 + data[0] % 40u, data[1]);
    check(whole.n == parts.n && !memcmp(whole.s, parts.s, whole.n), "cut otherwise, read otherwise");
    str_fini(&whole);
    str_fini(&parts);
    return 0;
}
