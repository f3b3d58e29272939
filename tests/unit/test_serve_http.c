/* If this fails: clients get wrong, mixed or no answers, or wait for what never comes. */
#include "test_serve_http.h"

static struct lab *lab;

static int start(void **state)
{
    (void)state;
    lab = calloc(1, sizeof *lab);
    lab->config = lab_config(lab);
    lab_start(lab);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    lab_stop(lab);
    free(lab);
    return 0;
}

#define CLOSE "Connection: close\r\n"

static void an_answer(void **state)
{
    (void)state;
    expect(ask(lab, "GET /show?q=1 HTTP/1.1\r\n" H "X-Y:  z \r\n" CLOSE "\r\n"), 200,
           "HTTP/1.1 200 OK\r\ndate: ", " GMT\r\n", "content-type: text/plain\r\n",
           "content-length: ", "connection: close\r\n",
           "\r\n\r\nGET|/show|q=1|127.0.0.1|0|host=localhost|x-y=z|connection=close|0", NULL);
    expect(ask(lab, "POST /echo HTTP/1.1\r\n" H CLOSE "Content-Length: 5\r\n\r\nhello"), 200, "content-length: 5\r\n",
           "\r\n\r\nhello", NULL);
    expect(ask(lab, "GET /nowhere HTTP/1.1\r\n" H CLOSE "\r\n"), 404, "Not Found", NULL);
}

/* A value cannot forge a field. */
static void fields_cannot_be_split(void **state)
{
    (void)state;
    char *answer = ask(lab, "GET /show HTTP/1.1\r\n" H CLOSE "\r\n");
    assert_null(strstr(answer, "\nevil"));
    expect(answer, 200, "x-echo: a  evil: b\r\n", NULL);
}

static void connections_are_kept(void **state)
{
    int fd = dial(lab);
    (void)state;
    for (int i = 0; i < 50; i++) {
        say(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nxyz");
        char *answer = hear(fd, "xyz");
        assert_null(strstr(answer, "connection:"));
        expect(answer, 200, "\r\n\r\nxyz", NULL);
    }
    close(fd);
    assert_int_equal(http_server_stats(lab->server).accepted, 1);
}

static void http10(void **state)
{
    (void)state;
    expect(ask(lab, "GET /show HTTP/1.0\r\n\r\n"), 200, "connection: close\r\n", NULL);
    char *answer = ask(lab, "GET /pieces HTTP/1.0\r\n\r\n");
    assert_null(strstr(answer, "chunked"));
    expect(answer, 200, "connection: close\r\n", "\r\n\r\none two three", NULL);
    int fd = dial(lab);
    say(fd, "GET /show HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect(hear(fd, "keep-alive|0"), 200, "connection: keep-alive\r\n", NULL);
    close(fd);
}

static void pipelined(void **state)
{
    int fd = dial(lab);
    (void)state;
    say(fd, "GET /late HTTP/1.1\r\n" H "\r\nPOST /echo HTTP/1.1\r\n" H
            "Content-Length: 2\r\n\r\nhiGET /pieces HTTP/1.1\r\n" H "\r\nGET /nowhere HTTP/1.1\r\n" H CLOSE
            "\r\nGET /never HTTP/1.1\r\n" H "\r\n");
    sleep_s(0.03);
    assert_int_equal(atomic_load(&lab->begun), 1); /* the second waits for the first */
    char *answer = hear(fd, NULL);
    close(fd);
    const char *a = strstr(answer, "late"), *b = strstr(answer, "\r\n\r\nhi"), *c = strstr(answer, "one"),
               *d = strstr(answer, "404");
    assert_true(a && b && c && d && a < b && b < c && c < d);
    free(answer);
    assert_int_equal(atomic_load(&lab->begun), 4); /* nothing is read after the last */
}

static void streams_are_chunked(void **state)
{
    (void)state;
    expect(ask(lab, "GET /pieces HTTP/1.1\r\n" H CLOSE "\r\n"), 200, "transfer-encoding: chunked\r\n",
           "content-type: text/event-stream\r\n", "\r\n\r\n4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n", NULL);
}

static void bodies_in_chunks(void **state)
{
    (void)state;
    expect(ask(lab, "POST /echo HTTP/1.1\r\n" H CLOSE
                    "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"),
           200, "content-length: 5\r\n", "\r\n\r\nhello", NULL);
}

static void head_has_no_body(void **state)
{
    static const char *const path[] = {"/show", "/pieces", "/nowhere", "/forbidden"};
    (void)state;
    for (size_t i = 0; i < COUNT(path); i++) {
        char request[200];
        snprintf(request, sizeof request, "HEAD %s HTTP/1.1\r\n" H CLOSE "\r\n", path[i]);
        char *answer = ask(lab, request), *end = strstr(answer, "\r\n\r\n");
        assert_non_null(end);
        assert_string_equal(end, "\r\n\r\n");
        assert_non_null(strstr(answer, i == 1 ? "transfer-encoding: chunked" : "content-length: "));
        free(answer);
    }
    expect(ask(lab, "HEAD /show HTTP/1.1\r\n" H "\r\nnonsense\r\n\r\n"), 200, "400 Bad Request",
           "\r\n\r\nrequest: ", NULL);
    char *answer = ask(lab, "GET /empty HTTP/1.1\r\n" H CLOSE "\r\n");
    assert_null(strstr(answer, "content-length"));
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
    expect(answer, 204, NULL);
}

static void continue_is_said_when_wanted(void **state)
{
    int fd = dial(lab);
    (void)state;
    say(fd, "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    char *answer = hear(fd, "\r\n\r\n");
    assert_string_equal(answer, "HTTP/1.1 100 Continue\r\n\r\n");
    free(answer);
    say(fd, "hello");
    expect(hear(fd, "hello"), 200, NULL);
    say(fd, "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    expect(hear(fd, "hello"), 200, NULL); /* it did not wait: no word is needed */
    say(fd, "POST /forbidden HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    expect(hear(fd, NULL), 401, "connection: close", NULL);
    close(fd);
    expect(ask(lab, "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n"), 413,
           NULL);
    expect(ask(lab, "POST /show HTTP/1.1\r\n" H "Expect: 101\r\nContent-Length: 5\r\n\r\n"), 417, NULL);
}

/* Refused by `head`: the client, which goes on sending, reads the answer and no handler sees the body. */
static void refused_before_the_body(void **state)
{
    enum { BIG = 8 << 20 };
    char *body = calloc(1, BIG);
    int fd = dial(lab);
    (void)state;
    say(fd, "POST /forbidden HTTP/1.1\r\n" H "Content-Length: 8388608\r\n\r\n");
    assert_true(say_n(fd, body, BIG)); /* it is read, if for nothing */
    expect(hear(fd, NULL), 401, "connection: close", "no\n", NULL);
    close(fd);
    fd = dial(lab);
    say(fd, "POST /show HTTP/1.1\r\n" H "Content-Length: 8388608\r\n\r\n"); /* over the default limit */
    assert_true(say_n(fd, body, BIG));
    expect(hear(fd, NULL), 413, "request: body: too large", NULL);
    close(fd);
    fd = dial(lab);
    say(fd, "POST /echo HTTP/1.1\r\n" H CLOSE "Content-Length: 8388608\r\n\r\n"); /* `head` allows it there */
    assert_true(say_n(fd, body, BIG));
    expect(hear(fd, NULL), 200, "content-length: 8388608\r\n", NULL);
    close(fd);
    assert_int_equal(atomic_load(&lab->begun), 1);
    free(body);
    fd = dial(lab);
    say(fd, "GET /forbidden HTTP/1.1\r\n" H "\r\n"); /* no body: the connection is as good as before */
    expect(hear(fd, "no\n"), 401, NULL);
    say(fd, "GET /show HTTP/1.1\r\n" H CLOSE "\r\n");
    expect(hear(fd, NULL), 200, NULL);
    close(fd);
}

static void hosts(void **state)
{
    (void)state;
    expect(ask(lab, "GET /show HTTP/1.1\r\nHost: evil.example\r\n" CLOSE "\r\n"), 403, "Host", NULL);
    expect(ask(lab, "GET http://evil.example/show HTTP/1.1\r\n" H CLOSE "\r\n"), 403, NULL);
    expect(ask(lab, "GET http://localhost/show HTTP/1.1\r\nHost: evil.example\r\n" CLOSE "\r\n"), 403, NULL);
    expect(ask(lab, "GET http://localhost:1/show?a HTTP/1.1\r\nHost: 127.0.0.1:2\r\n" CLOSE "\r\n"), 200,
           "GET|/show|a|", NULL);
    expect(ask(lab, "GET /show HTTP/1.1\r\n" CLOSE "\r\n"), 400, NULL);
    expect(ask(lab, "GET /show HTTP/1.1\r\n" H H CLOSE "\r\n"), 400, NULL);
}

static void bad_requests_end_the_connection(void **state)
{
    static const struct {
        int status;
        const char *bytes;
    } table[] = {
        {400, "GET /show HTTP/1.1\r\n" H "\rX"},
        {400, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, "POST /echo HTTP/1.1\r\n" H "Content-Length : 5\r\n\r\nhello"},
        {400, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"},
        {400, "\x16\x03\x01\x02\x01"},
        {501, "CONNECT localhost:80 HTTP/1.1\r\n" H "\r\n"},
        {505, "GET / HTTP/3.0\r\n" H "\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        char bytes[400];
        snprintf(bytes, sizeof bytes, "%s%s", table[i].bytes, "GET /show HTTP/1.1\r\n" H "\r\n");
        char *answer = ask(lab, bytes);
        const char *first = strstr(answer, "date: ");
        if (!first || strstr(first + 1, "date: ") || strstr(answer, "GET|"))
            fail_msg("row %zu has more than one answer: %s", i, answer);
        expect(answer, table[i].status, "connection: close", NULL);
    }
    assert_int_equal(atomic_load(&lab->begun), 0);
    assert_true(reached(&lab->ended, (int)COUNT(table)));
    assert_int_equal(http_server_stats(lab->server).refused, COUNT(table));
}

/* Whatever the cuts, the same answers. */
static void cut_anywhere(void **state)
{
    static const char *const table[] = {
        "GET /show?a HTTP/1.1\r\n" H CLOSE "\r\n",
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabcPOST /echo HTTP/1.1\r\n" H CLOSE
        "Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n",
        "GET /show HTTP/1.1\r\n" H "A: b\rc\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        char *whole = ask(lab, table[i]);
        size_t n = strlen(table[i]);
        for (size_t cut = 1; cut < n; cut++) {
            int fd = dial(lab);
            int yes = 1;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            say_n(fd, table[i], cut);
            sleep_s(0.0005);
            say(fd, table[i] + cut);
            char *parts = hear(fd, NULL);
            close(fd);
            char *a = strstr(whole, "GMT"), *b = strstr(parts, "GMT"); /* the date may have moved on */
            assert_true(a && b);
            if (!strstr(a + 1, "GMT"))
                assert_string_equal(a, b);
            assert_int_equal(status_of(whole), status_of(parts));
            assert_int_equal(strlen(whole), strlen(parts));
            free(parts);
        }
        free(whole);
    }
}

static void a_cut_answer_does_not_look_whole(void **state)
{
    (void)state;
    int fd = dial(lab);
    say(fd, "GET /cut HTTP/1.1\r\n" H "\r\n");
    char buf[1000] = {0};
    ssize_t n, all = 0;
    while ((n = recv(fd, buf + all, sizeof buf - 1 - (size_t)all, 0)) > 0)
        all += n;
    assert_true(n < 0 && errno == ECONNRESET);
    assert_null(strstr(buf, "0\r\n\r\n"));
    close(fd);
    assert_true(reached(&lab->ended, 1));
    assert_int_equal(atomic_load(&lab->complete), 0);
    assert_int_equal(atomic_load(&lab->closed), 0);
}

static void records_are_told_once(void **state)
{
    (void)state;
    free(ask(lab, "GET /pieces HTTP/1.1\r\n" H CLOSE "\r\n"));
    free(ask(lab, "POST /forbidden HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n"));
    free(ask(lab, "garbage\r\n\r\n"));
    assert_true(reached(&lab->ended, 3));
    sleep_s(0.02);
    assert_int_equal(atomic_load(&lab->ended), 3);
    assert_int_equal(atomic_load(&lab->complete), 3);
    assert_int_equal(atomic_load(&lab->with_data), 2);
    assert_int_equal(atomic_load(&lab->closed), 0);
}

/* The refusal's text is the program's own. */
static void own_refusal(void *user, const char *path, int status, const char *sentence, struct str *body)
{
    (void)user;
    str_printf(body, "{\"path\":\"%s\",\"status\":%d,\"n\":%zu}", path ? path : "?", status, strlen(sentence));
}

static void refusals_have_the_programs_form(void **state)
{
    struct lab own = {0};
    (void)state;
    own.config = lab_config(&own);
    own.config.refusal = own_refusal;
    lab_start(&own);
    expect(ask(&own, "POST /show HTTP/1.1\r\n" H "Content-Length: 9999999\r\n\r\n"), 413, "application/json",
           "{\"path\":\"/show\",\"status\":413,", NULL);
    expect(ask(&own, "garbage\r\n\r\n"), 400, "{\"path\":\"?\",\"status\":400,", NULL);
    lab_stop(&own);
}

#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_answer),
        T(fields_cannot_be_split),
        T(connections_are_kept),
        T(http10),
        T(pipelined),
        T(streams_are_chunked),
        T(bodies_in_chunks),
        T(head_has_no_body),
        T(continue_is_said_when_wanted),
        T(refused_before_the_body),
        T(hosts),
        T(bad_requests_end_the_connection),
        T(cut_anywhere),
        T(a_cut_answer_does_not_look_whole),
        T(records_are_told_once),
        cmocka_unit_test(refusals_have_the_programs_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
