/* If this fails: two servers behind one another disagree where a request ends, so that one client's bytes become part
 * of another's request; a request is read differently according to how the network cut it; or a page elsewhere reaches
 * the server through a name of its own. */
#include "serve/http_parse.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void put_request(struct str *out, const struct http_request *r)
{
    str_printf(out, "%s %s?%s", r->method, r->path, r->query);
    for (size_t i = 0; i < r->n_field; i++)
        str_printf(out, " {%s=%s}", r->field[i].name, r->field[i].value);
}

/* Everything that the bytes make of a connection's parser, given to it in the pieces [0, cut), [cut, n) or, with
 * step > 0, in pieces of that many bytes. */
static void transcript(struct str *out, const struct http_config *c, const char *bytes, size_t n, size_t cut,
                       size_t step)
{
    struct http_parse p;
    http_parse_init(&p, c);
    for (size_t at = 0; at < n;) {
        size_t end = step ? at + step : at < cut ? cut : n, used;
        enum http_parsed what = http_parse_feed(&p, bytes + at, (end < n ? end : n) - at, &used);
        at += used;
        if (what == HTTP_PARSED_HEAD) {
            put_request(out, &p.request);
            str_printf(out, "%s%s%s", p.keep_alive ? " keep" : "", p.expects ? " expects" : "", p.http10 ? " 1.0" : "");
            what = http_parse_feed(&p, "", 0, &used);
        }
        if (what == HTTP_PARSED_DONE) {
            str_printf(out, " <%s> %zu\n", p.request.body, p.request.n_body);
            http_parse_reset(&p);
        } else if (what == HTTP_PARSED_BAD) {
            str_printf(out, " refused %d %s\n", p.status, p.sentence);
            break;
        }
    }
    str_puts(out, p.began ? " ..." : "");
    http_parse_reset(&p);
}

/* The transcript is `want`, wherever the bytes are cut. */
static void check(const char *bytes, size_t n, const char *want, const struct http_config *c)
{
    struct str whole = {0};
    transcript(&whole, c, bytes, n, n, 0);
    if (strncmp(whole.s, want, strlen(want)))
        fail_msg("have <%s>, need <%s>", whole.s, want);
    for (size_t cut = 0; cut < n + 3; cut++) {
        struct str parts = {0};
        transcript(&parts, c, bytes, n, cut < n ? cut : 0, cut < n ? 0 : cut - n + 1);
        if (strcmp(parts.s, whole.s))
            fail_msg("cut at %zu: have <%s>, need <%s>", cut, parts.s, whole.s);
        str_fini(&parts);
    }
    str_fini(&whole);
}

#define H "Host: h\r\n"

static void requests_are_read(void **state)
{
    static const char *const table[][2] = {
        {"GET / HTTP/1.1\r\n" H "\r\n", "GET /? {host=h} keep <> 0\n"},
        {"\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n", "GET /? {host=h} keep <> 0\n"},
        {"GET /a%2Fb?c=d&e?f HTTP/1.1\r\n" H "\r\n", "GET /a%2Fb?c=d&e?f {host=h} keep <> 0\n"},
        {"GET / HTTP/1.1\r\n" H "ACCEPT:\t a b \t \r\nEmpty:\r\nBlank: \t\r\n\r\n",
         "GET /? {host=h} {accept=a b} {empty=} {blank=} keep <> 0\n"},
        {"GET / HTTP/1.1\r\n" H "x: caf\xc3\xa9\r\n\r\n", "GET /? {host=h} {x=caf\xc3\xa9} keep <> 0\n"},
        {"GET / HTTP/1.1\r\n" H "Connection: x, close\r\n\r\n", "GET /? {host=h} {connection=x, close} <> 0\n"},
        {"GET / HTTP/1.0\r\n\r\n", "GET /? 1.0 <> 0\n"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /? {connection=keep-alive} keep 1.0 <> 0\n"},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello",
         "POST /? {host=h} {content-length=5} keep <hello> 5\n"},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", "POST /? {host=h} {content-length=0} keep <> 0\n"},
        {"POST / HTTP/1.1\r\n" H
         "Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n00A;x=y\r\n, chunks!\n\r\n0\r\nT: u\r\n\r\n",
         "POST /? {host=h} {transfer-encoding=Chunked} keep <hello, chunks!\n> 15\n"},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "POST /? {host=h} {transfer-encoding=chunked} keep <> 0\n"},
        {"POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
         "POST /? {host=h} {expect=100-Continue} {content-length=1} keep expects <x> 1\n"},
        {"GET HTTP://me:80?q HTTP/1.1\r\n" H "\r\n", "GET /?q {host=h} keep <> 0\n"},
        {"GET https://me/p HTTP/1.1\r\n" H "\r\n", "GET /p? {host=h} keep <> 0\n"},
        {"OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS *? {host=h} keep <> 0\n"},
        /* no change of protocol: what follows is a request */
        {"GET /a HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\nGET /b HTTP/1.1\r\n" H "\r\n",
         "GET /a? {host=h} {connection=Upgrade} {upgrade=h2c} keep <> 0\nGET /b? {host=h} keep <> 0\n"},
        {"POST /a HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nGETPOST /b HTTP/1.1\r\n" H
         "Transfer-Encoding: chunked\r\n\r\n1\r\nG\r\n0\r\n\r\nGET /c HTTP/1.1\r\n" H "\r\nGET",
         "POST /a? {host=h} {content-length=3} keep <GET> 3\nPOST /b? {host=h} {transfer-encoding=chunked} keep <G> 1\n"
         "GET /c? {host=h} keep <> 0\n ..."},
    };
    struct http_config c = http_config_default();
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++)
        check(table[i][0], strlen(table[i][0]), table[i][1], &c);
}

#define P    "POST /p HTTP/1.1\r\n" H
#define NEXT "GET /smuggled HTTP/1.1\r\n" H "\r\n"
#define TE   "Transfer-Encoding: chunked\r\n"

/* Each is refused, and nothing of what follows is taken for a request. */
static void ambiguity_is_refused(void **state)
{
    static const char *const table[] = {
        P "Content-Length: 5\r\n" TE "\r\n0\r\n\r\n" NEXT,
        P TE "Content-Length: 5\r\n\r\n0\r\n\r\n" NEXT,
        P "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" NEXT,
        P "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" NEXT,
        P "Content-Length: 5, 5\r\n\r\nhello" NEXT,
        P "Content-Length: 5,6\r\n\r\nhello" NEXT,
        P "Content-Length: +5\r\n\r\nhello" NEXT,
        P "Content-Length: -5\r\n\r\nhello" NEXT,
        P "Content-Length: 0x5\r\n\r\nhello" NEXT,
        P "Content-Length: 5 5\r\n\r\nhello" NEXT,
        P "Content-Length: 5;\r\n\r\nhello" NEXT,
        P "Content-Length:\r\n\r\n" NEXT,
        P "Content-Length: \r\n\r\n" NEXT,
        P "Content-Length: 18446744073709551616\r\n\r\n" NEXT,
        P "Content-Length: 18446744073709551621\r\n\r\nhello" NEXT,
        P "Content-Length : 5\r\n\r\nhello" NEXT,
        P "Content-Length\t: 5\r\n\r\nhello" NEXT,
        P " Content-Length: 5\r\n\r\nhello" NEXT,
        P "Content-Length\r\n\r\nhello" NEXT,
        P "Content Length: 5\r\n\r\nhello" NEXT,
        P "Content-Length: 5\r\nA B: c\r\n\r\nhello" NEXT,
        P "Content-\tLength: 5\r\n\r\nhello" NEXT,
        P ": 5\r\n\r\nhello" NEXT,
        P "Content\rLength: 5\r\n\r\nhello" NEXT,
        P "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" NEXT,
        P "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" NEXT,
        P "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" NEXT,
        P "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" NEXT,
        P "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n" NEXT,
        P "Transfer-Encoding: identity\r\n\r\n" NEXT,
        P "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" NEXT,
        P "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" NEXT,
        P "Transfer-Encoding:\x0b chunked\r\n\r\n0\r\n\r\n" NEXT,
        P "Transfer-Encoding:\r\n\r\n" NEXT,
        P "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" NEXT,
        P TE TE "\r\n0\r\n\r\n" NEXT,
        "POST /p HTTP/1.0\r\n" H TE "\r\n0\r\n\r\n" NEXT,
        P TE "\r\n0x5\r\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n+5\r\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n-5\r\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n 5\r\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n5\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n5\rhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n5;a\nb\r\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n5;a\rb\r\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n5\r\nhello\n0\r\n\r\n" NEXT,
        P TE "\r\n5\r\nhelloX\r\n0\r\n\r\n" NEXT,
        P TE "\r\n5\r\nhello0\r\n\r\n" NEXT,
        P TE "\r\n5\r\nhello\r0\r\n\r\n" NEXT,
        P TE "\r\n\r\n5\r\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n10000000000000005\r\nhello\r\n0\r\n\r\n" NEXT,
        P TE "\r\n0\r\n\rX" NEXT,
        P TE "\r\n0\r\n\n" NEXT,
        P TE "\r\n0\r\nA: b\n\r\n" NEXT,
        P TE "\r\n0\r\nA: b\r\n c\r\n\r\n" NEXT,
        P TE "\r\n0\r\nA b\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "\r\rX" NEXT,
        "GET /p HTTP/1.1\r\nHost: h\r\n\rX" NEXT,
        "GET /p HTTP/1.1\r\nHost: h\r\n\r" NEXT,
        "GET /p HTTP/1.1\r\nHost: h\n\r\n" NEXT,
        "GET /p HTTP/1.1\nHost: h\n\n" NEXT,
        "GET /p HTTP/1.1\r\nHost: h\r\n\n" NEXT,
        "GET /p HTTP/1.1\rHost: h\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\nHost: h\rX: y\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "A: b\r\n folded\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "A:\r\n\tfolded\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n A: b\r\n" H "\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "A: b\x01\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "A: b\x7f\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "A\x80: b\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "A(b: c\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H H "\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "host: other\r\n\r\n" NEXT,
        "GET /p HTTP/1.1\r\n" H "Authorization: a\r\nAuthorization: b\r\n\r\n" NEXT,
        "GET /p\x01 HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET /p\xc3\xa9 HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET /p#f HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET p HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET * HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET http:///p HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET http://user@h/p HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET ftp://h/p HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET  /p HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET /p  HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET\t/p HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET /p HTTP/1.1 \r\n" H "\r\n" NEXT,
        "GET /p q HTTP/1.1\r\n" H "\r\n" NEXT,
        "GET /p http/1.1\r\n" H "\r\n" NEXT,
        "GET /p RTSP/1.0\r\n" H "\r\n" NEXT,
        "OPTIONS /p RTSP/1.0\r\n" H "\r\n" NEXT,
        "get /p HTTP/1.1\r\n" H "\r\n" NEXT,
        "FROB /p HTTP/1.1\r\n" H "\r\n" NEXT,
        " GET /p HTTP/1.1\r\n" H "\r\n" NEXT,
        "\nGET /p HTTP/1.1\r\n" H "\r\n" NEXT,
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    };
    struct http_config c = http_config_default();
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct str have = {0};
        size_t n = strlen(table[i]);
        if (table[i][0] == 0x16)
            n = 11;
        transcript(&have, &c, table[i], n, n, 0);
        if (!strstr(have.s, "refused 400 ") || strchr(have.s, '<')) /* which marks a body that was taken */
            fail_msg("row %zu: <%s> gave <%s>", i, table[i], have.s);
        check(table[i], n, have.s, &c);
        str_fini(&have);
    }
}

static void nul_is_refused_everywhere(void **state)
{
    static const char request[] =
        "POST /p HTTP/1.1\r\nHost: h\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\nz\r\n0\r\nT: u\r\n\r\n";
    struct http_config c = http_config_default();
    char bytes[sizeof request - 1];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        struct str have = {0};
        memcpy(bytes, request, sizeof bytes);
        bytes[i] = 0;
        if (request[i] == 'z')
            continue; /* a body is any bytes */
        transcript(&have, &c, bytes, sizeof bytes, sizeof bytes, 0);
        if (!strstr(have.s, "refused 400 ") && !strstr(have.s, "refused 505 "))
            fail_msg("at %zu: %s", i, have.s);
        str_fini(&have);
    }
}

static void other_statuses(void **state)
{
    static const char *const table[][2] = {
        {"GET / HTTP/1.2\r\n" H "\r\n", " refused 505"},
        {"GET / HTTP/2.0\r\n" H "\r\n", " refused 505"},
        {"GET /\r\n" H "\r\n", " refused 505"},
        {"GET / HTTP/1.1x\r\n" H "\r\n", " refused 505"},
        {"GET / HTTP/0.9\r\n" H "\r\n", " refused 505"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", " refused 505"},
        {"CONNECT h:80 HTTP/1.1\r\n" H "\r\n", " refused 501"},
        {P "Expect: 200-ok\r\nContent-Length: 1\r\n\r\n", " refused 417"},
        {P "Content-Length: 11\r\n\r\n", "POST /p? {host=h} {content-length=11} keep refused 413"},
        {P TE "\r\n5\r\nhello\r\n6\r\n", "POST /p? {host=h} {transfer-encoding=chunked} keep refused 413"},
        {P TE "\r\nffffffffffffffff\r\n", "POST /p? {host=h} {transfer-encoding=chunked} keep refused 413"},
        {P TE "\r\n5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n",
         "POST /p? {host=h} {transfer-encoding=chunked} keep <hellohello> 10\n"},
    };
    struct http_config c = http_config_default();
    (void)state;
    c.max_body = 10;
    for (size_t i = 0; i < COUNT(table); i++)
        check(table[i][0], strlen(table[i][0]), table[i][1], &c);
}

/* The largest that fits, and one more. */
static void limits_are_to_the_byte(void **state)
{
    struct http_config c = http_config_default();
    (void)state;
    c.max_target = 8;
    check("GET /234567 HTTP/1.1\r\n" H "\r\n", 33, "GET /234567?", &c);
    check("GET /2345678 HTTP/1.1\r\n" H "\r\n", 34, "GET /2345678?", &c);
    check("GET /23456789 HTTP/1.1\r\n" H "\r\n", 35, " refused 414", &c);
    c.max_field = 2;
    check("GET / HTTP/1.1\r\n" H "a: b\r\n\r\n", 33, "GET /? {host=h} {a=b}", &c);
    check("GET / HTTP/1.1\r\n" H "a: b\r\nc:\r\n\r\n", 37, " refused 431", &c);
    c.max_head = 33;
    check("GET / HTTP/1.1\r\n" H "a: b\r\n\r\n", 33, "GET /? {host=h} {a=b}", &c);
    c.max_head = 32;
    check("GET / HTTP/1.1\r\n" H "a: b\r\n\r\n", 33, " refused 431", &c);
    c.max_head = 4;
    check("\r\n\r\n\r\n", 6, " refused 431", &c);
}

/* Chunks of one byte are fine, extensions and trailers without end are not. */
static void framing_is_limited(void **state)
{
    struct http_config c = http_config_default();
    struct str b = {0};
    (void)state;
    str_puts(&b, P TE "\r\n");
    for (int i = 0; i < 5000; i++)
        str_puts(&b, "1\r\nx\r\n");
    str_puts(&b, "0\r\n\r\n");
    struct str have = {0};
    transcript(&have, &c, b.s, b.n, b.n, 0);
    assert_non_null(strstr(have.s, "> 5000\n"));
    static const char *const endless[] = {"1;", "0\r\nA: "};
    for (size_t i = 0; i < COUNT(endless); i++) {
        str_clear(&b);
        str_clear(&have);
        str_puts(&b, P TE "\r\n");
        str_puts(&b, endless[i]);
        for (int k = 0; k < 40000; k++)
            str_putc(&b, 'a');
        transcript(&have, &c, b.s, b.n, b.n, 0);
        assert_non_null(strstr(have.s, "refused 400"));
    }
    str_fini(&b);
    str_fini(&have);
}

static void memory_may_end(void **state)
{
    static const char request[] = P TE "\r\n5\r\nhello\r\n0\r\n\r\n";
    struct http_config c = http_config_default();
    (void)state;
    for (long fail = 1;; fail++) {
        struct http_parse p;
        size_t used = 0, more;
        http_parse_init(&p, &c);
        mem_fail_after(fail);
        enum http_parsed what = http_parse_feed(&p, request, sizeof request - 1, &used);
        if (what == HTTP_PARSED_HEAD)
            what = http_parse_feed(&p, request + used, sizeof request - 1 - used, &more);
        mem_fail_after(0);
        if (what == HTTP_PARSED_DONE) {
            assert_true(fail > 3);
            assert_string_equal(p.request.body, "hello");
            http_parse_reset(&p);
            break;
        }
        assert_int_equal(what, HTTP_PARSED_BAD);
        assert_int_equal(p.status, 503);
        http_parse_reset(&p);
    }
}

static void names(void **state)
{
    static const char *const host[] = {"glim.example", "10.0.0.7"};
    static const struct {
        const char *bound, *authority;
        bool ours;
    } table[] = {
        {"127.0.0.1", "localhost", true},
        {"127.0.0.1", "LocalHost:4949", true},
        {"127.0.0.1", "localhost.:80", true},
        {"127.0.0.1", "a.localhost", true},
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.1.2.3:1", true},
        {"127.0.0.1", "[::1]:4949", true},
        {"127.0.0.1", "[0:0::1]", true},
        {"127.0.0.1", "GLIM.example:1", true},
        {"127.0.0.1", "10.0.0.7", true},
        {"192.168.1.2", "192.168.1.2:80", true},
        {"fe80::2", "[fe80:0::2]", true},
        {"0.0.0.0", "192.168.1.2:80", true},
        {"::", "192.168.1.2:80", true},
        {"127.0.0.1", "", false},
        {"127.0.0.1", ":80", false},
        {"127.0.0.1", "evil.example", false},
        {"127.0.0.1", "localhost.evil.example", false},
        {"127.0.0.1", "evillocalhost", false},
        {"127.0.0.1", ".localhost", false},
        {"127.0.0.1", "glim.example.evil", false},
        {"127.0.0.1", "192.168.1.2", false},
        {"127.0.0.1", "127.0.0.1.evil.example", false},
        {"127.0.0.1", "127.1", false},
        {"127.0.0.1", "2130706433", false},
        {"127.0.0.1", "localhost:80:80", false},
        {"127.0.0.1", "localhost:x", false},
        {"127.0.0.1", "localhost:123456", false},
        {"127.0.0.1", "localhost/", false},
        {"127.0.0.1", "localhost evil.example", false},
        {"127.0.0.1", "::1", false},
        {"127.0.0.1", "[::1", false},
        {"127.0.0.1", "[::1]x", false},
        {"127.0.0.1", "[localhost]", false},
        {"0.0.0.0", "evil.example", false},
        {"192.168.1.2", "192.168.1.3", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct http_names n = {host, COUNT(host), table[i].bound};
        if (http_names_have(&n, table[i].authority) != table[i].ours)
            fail_msg("%s at %s", table[i].authority, table[i].bound);
    }
    struct http_names any = {(const char *const[]){"*"}, 1, "127.0.0.1"};
    assert_true(http_names_have(&any, "evil.example:80"));
    assert_false(http_names_have(&any, "evil.example:80:80"));
}

static void queries(void **state)
{
    struct http_request r = {.query = "a=1&bb=x%20y+z&c&d=%zz&e=%00&aa=2&f=%e2%82%ac"};
    char out[8], tiny[1];
    (void)state;
    assert_true(http_query(&r, "a", out, sizeof out));
    assert_string_equal(out, "1");
    assert_true(http_query(&r, "bb", out, sizeof out));
    assert_string_equal(out, "x y z");
    assert_true(http_query(&r, "c", tiny, sizeof tiny));
    assert_string_equal(tiny, "");
    assert_true(http_query(&r, "aa", out, sizeof out));
    assert_string_equal(out, "2");
    assert_true(http_query(&r, "f", out, sizeof out));
    assert_string_equal(out, "\xe2\x82\xac");
    assert_false(http_query(&r, "b", out, sizeof out));
    assert_false(http_query(&r, "d", out, sizeof out));
    assert_false(http_query(&r, "e", out, sizeof out));
    assert_false(http_query(&r, "bb", out, 5));
    assert_true(http_query(&r, "bb", out, 6));
    char path[] = "/v1/a%2Fb%41", cut[] = "/%4", high[] = "/%";
    assert_true(http_unescape(path));
    assert_string_equal(path, "/v1/a/bA");
    assert_false(http_unescape(cut));
    assert_false(http_unescape(high));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read),
        cmocka_unit_test(ambiguity_is_refused),
        cmocka_unit_test(nul_is_refused_everywhere),
        cmocka_unit_test(other_statuses),
        cmocka_unit_test(limits_are_to_the_byte),
        cmocka_unit_test(framing_is_limited),
        cmocka_unit_test(memory_may_end),
        cmocka_unit_test(names),
        cmocka_unit_test(queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
