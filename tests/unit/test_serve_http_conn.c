/* If this fails: one client that is slow, silent, gone or one too many harms the others; work goes on for nobody; a
 * server that should go down does not, or breaks off what it could have finished; or what another thread had to say is
 * lost. */
#include "test_serve_http.h"

#include <fcntl.h>
#include <sys/resource.h>

static struct lab *lab;

static int prepare(void **state)
{
    (void)state;
    lab = calloc(1, sizeof *lab);
    lab->config = lab_config(lab);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    lab_stop(lab);
    free(lab);
    return 0;
}

static int forget(void **state)
{
    (void)state;
    free(lab);
    return 0;
}

/* Does the other side close within these seconds (bytes before that are thrown away)? */
static bool closes(int fd, double seconds)
{
    char buf[4096];
    double end = now_s() + seconds;
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        int ms = (int)((end - now_s()) * 1e3);
        if (ms < 0 || poll(&p, 1, ms) <= 0)
            return false;
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        if (n <= 0)
            return true;
    }
}

/* ---- clients that go ---- */

static void check_closed_soon(double begin)
{
    assert_true(reached(&lab->closed, 1));
    double after = (double)atomic_load(&lab->closed_us) * 1e-6 - begin;
    if (after > 0.05)
        fail_msg("heard after %.3f s", after);
    assert_true(reached(&lab->ended, 1));
    assert_int_equal(atomic_load(&lab->complete), 0);
    assert_int_equal(http_server_stats(lab->server).exchanges, 0);
}

static void a_client_that_goes_is_noticed(void **state)
{
    static const char *const path[] = {"/never", "/drip", "/late"};
    (void)state;
    lab_start(lab);
    for (size_t i = 0; i < COUNT(path); i++)
        for (int how = 0; how < 3; how++) {
            atomic_store(&lab->closed, 0);
            atomic_store(&lab->begun, 0);
            atomic_store(&lab->ended, 0);
            char request[200];
            struct linger reset = {1, 0};
            int fd = dial(lab);
            snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" H "\r\n", path[i]);
            say(fd, request);
            assert_true(reached(&lab->begun, 1));
            double begin = now_s();
            if (how == 1)
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            if (how == 2)
                shutdown(fd, SHUT_WR); /* half-open: cannot be told from gone */
            else
                close(fd);
            check_closed_soon(begin);
            if (how == 2) {
                assert_true(closes(fd, 1));
                close(fd);
            }
            assert_int_equal(atomic_load(&lab->closed), 1);
        }
}

static void a_client_that_goes_before_its_request_is_whole(void **state)
{
    static const char *const part[] = {"", "GET", "POST /echo HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nhalf"};
    (void)state;
    lab_start(lab);
    for (size_t i = 0; i < COUNT(part); i++) {
        int fd = dial(lab);
        say(fd, part[i]);
        sleep_s(0.01);
        close(fd);
    }
    for (int i = 0; i < 1000 && http_server_stats(lab->server).connections; i++)
        sleep_s(0.001);
    assert_int_equal(http_server_stats(lab->server).connections, 0);
    assert_int_equal(atomic_load(&lab->begun), 0);
}

/* The request and the end of the client's side at once: what has been said by then is said to the end. */
static void half_closed_after_a_request(void **state)
{
    enum { BIG = 12 << 20 };
    char *body = calloc(1, BIG), buf[1 << 16];
    size_t heard = 0;
    (void)state;
    lab_start(lab);
    int fd = dial(lab);
    say(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 12582912\r\n\r\n");
    say_n(fd, body, BIG);
    shutdown(fd, SHUT_WR);
    sleep_s(0.1);
    for (ssize_t n; (n = recv(fd, buf, sizeof buf, 0)) > 0;)
        heard += (size_t)n;
    assert_true(heard > BIG);
    close(fd);
    free(body);
}

/* Peers that vanish without a word are asked for. */
static void vanished_peers_are_asked_for(void **state)
{
    static const char *const row = "keepalive";
    (void)state;
    lab_start(lab);
    int fd = dial(lab);
    say(fd, "GET /show HTTP/1.1\r\n" H "\r\n");
    free(hear(fd, "localhost|0"));
    char command[200], line[400] = "";
    snprintf(command, sizeof command, "ss -Hnoet state established sport = :%u 2>/dev/null",
             http_server_port(lab->server));
    FILE *p = popen(command, "r");
    if (!p || !fgets(line, sizeof line, p)) {
        if (p)
            pclose(p);
        close(fd);
        skip();
    }
    pclose(p);
    if (!strstr(line, row))
        fail_msg("have <%s>, need a keepalive timer", line);
    close(fd);
}

/* ---- clients that are slow ---- */

/* One reads nothing, one reads late; a third is served as ever. */
static void a_slow_reader_is_waited_for_then_cut(void **state)
{
    (void)state;
    lab->config.stall_s = 0.5;
    lab_start(lab);
    int slow = dial(lab);
    say(slow, "GET /flood HTTP/1.1\r\n" H "\r\n");
    sleep_s(0.2);
    uint64_t sent = atomic_load(&lab->sent);
    assert_true(sent > FLOOD_MARK);
    double begin = now_s();
    while (atomic_load(&lab->closed) == 0 && now_s() < begin + 5) {
        int fd = dial(lab);
        double asked = now_s();
        say(fd, "GET /show HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
        expect(hear(fd, NULL), 200, NULL);
        assert_true(now_s() - asked < 0.1);
        close(fd);
        sleep_s(0.01);
        assert_true(atomic_load(&lab->sent) < sent + (1 << 20)); /* the handler is not told to go on */
    }
    double cut = now_s() - begin;
    assert_int_equal(atomic_load(&lab->closed), 1);
    if (cut < 0.1 || cut > 1.0)
        fail_msg("cut after %.2f s", cut);
    assert_true(closes(slow, 1));
    close(slow);
    assert_false(atomic_load(&lab->overrun));
}

static void a_reader_that_pauses_goes_on(void **state)
{
    (void)state;
    lab->config.stall_s = 1;
    lab_start(lab);
    int fd = dial(lab);
    say(fd, "GET /flood HTTP/1.1\r\n" H "\r\n");
    char buf[1 << 16];
    size_t heard = 0;
    for (int pause = 0; pause < 4; pause++) {
        sleep_s(0.5);
        for (size_t part = 0; part < (16 << 20);) {
            ssize_t n = recv(fd, buf, sizeof buf, 0);
            assert_true(n > 0);
            part += (size_t)n;
            heard += (size_t)n;
        }
    }
    assert_true(heard >= 64 << 20);
    assert_int_equal(atomic_load(&lab->closed), 0);
    assert_false(atomic_load(&lab->overrun));
    close(fd);
    assert_true(reached(&lab->closed, 1));
}

/* An answer that was given away whole is cut too when nobody takes it. */
static void a_finished_answer_is_not_kept_for_ever(void **state)
{
    enum { BIG = 12 << 20 };
    char *body = calloc(1, BIG);
    (void)state;
    lab->config.stall_s = 0.4;
    lab_start(lab);
    int fd = dial(lab);
    say(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 12582912\r\n\r\n");
    say_n(fd, body, BIG);
    free(body);
    assert_true(reached(&lab->ended, 1));
    assert_int_equal(atomic_load(&lab->complete), 0);
    assert_int_equal(atomic_load(&lab->closed), 0); /* the handler had ended */
    close(fd);
}

static void slow_requests_are_refused(void **state)
{
    static const struct {
        const char *begin, *more;
    } table[] = {
        {"GET /show HTTP/1.1\r\n", "a: b\r\n"},
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: 100000\r\n\r\n", "x"},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
    };
    (void)state;
    lab->config.head_s = lab->config.body_s = 0.4;
    lab->config.body_rate = 10000;
    lab_start(lab);
    for (size_t i = 0; i < COUNT(table); i++) {
        int fd = dial(lab);
        double begin = now_s();
        say(fd, table[i].begin);
        struct pollfd p = {fd, POLLIN, 0};
        while (poll(&p, 1, 20) == 0 && now_s() < begin + 3)
            say(fd, table[i].more); /* always something, never enough */
        double after = now_s() - begin;
        if (after < 0.3 || after > 1)
            fail_msg("row %zu: refused after %.2f s", i, after);
        expect(hear(fd, NULL), 408, "connection: close", "too slow", NULL);
        close(fd);
    }
    assert_int_equal(atomic_load(&lab->begun), 0);
    int fd = dial(lab); /* slow, but as fast as asked */
    say(fd, "POST /echo HTTP/1.1\r\n" H "Connection: close\r\nContent-Length: 20000\r\n\r\n");
    char piece[1000] = {0};
    for (int i = 0; i < 20; i++, sleep_s(0.05))
        say_n(fd, piece, sizeof piece);
    expect(hear(fd, NULL), 200, "content-length: 20000\r\n", NULL);
    close(fd);
}

static void silent_connections_are_closed(void **state)
{
    (void)state;
    lab->config.head_s = 0.2;
    lab->config.idle_s = 0.4;
    lab_start(lab);
    int first = dial(lab), second = dial(lab);
    say(second, "GET /show HTTP/1.1\r\n" H "\r\n");
    expect(hear(second, "localhost|0"), 200, NULL);
    double begin = now_s();
    char *text = hear(first, NULL); /* never said a word: none is said to it */
    assert_string_equal(text, "");
    free(text);
    assert_true(now_s() - begin < 0.35);
    text = hear(second, NULL);
    assert_string_equal(text, "");
    free(text);
    assert_true(now_s() - begin > 0.3 && now_s() - begin < 0.8);
    close(first);
    close(second);
}

/* A handler may think for longer than any timeout. */
static void thinking_is_not_idling(void **state)
{
    (void)state;
    lab->config.head_s = lab->config.idle_s = lab->config.body_s = lab->config.stall_s = 0.05;
    lab_start(lab);
    int fd = dial(lab);
    say(fd, "GET /late HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    expect(hear(fd, NULL), 200, "late", NULL);
    close(fd);
}

/* ---- clients that are many, or say much ---- */

static void one_too_many_is_told(void **state)
{
    int fd[4];
    (void)state;
    lab->config.max_connections = 3;
    lab_start(lab);
    for (int i = 0; i < 3; i++) {
        fd[i] = dial(lab);
        say(fd[i], "GET /show HTTP/1.1\r\n" H "\r\n");
        expect(hear(fd[i], "localhost|0"), 200, NULL);
    }
    fd[3] = dial(lab);
    expect(hear(fd[3], NULL), 503, "connection: close", NULL);
    close(fd[3]);
    close(fd[0]);
    for (int i = 0; i < 1000 && http_server_stats(lab->server).connections > 2; i++)
        sleep_s(0.001);
    expect(ask(lab, "GET /show HTTP/1.1\r\n" H "Connection: close\r\n\r\n"), 200, NULL);
    close(fd[1]);
    close(fd[2]);
}

static void sending_far_ahead_is_cut(void **state)
{
    (void)state;
    lab_start(lab);
    int fd = dial(lab);
    char *much = calloc(1, 1 << 20);
    say(fd, "GET /never HTTP/1.1\r\n" H "\r\n");
    say_n(fd, much, 1 << 20);
    free(much);
    assert_true(reached(&lab->closed, 1));
    assert_true(closes(fd, 1));
    close(fd);
}

/* No file descriptor left: the server waits without burning time, and serves again later. */
static void files_may_run_out(void **state)
{
    struct rlimit before, none;
    (void)state;
    lab_start(lab);
    int fd = dial(lab), probe = dup(0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    close(probe);
    say(fd, "GET /show HTTP/1.1\r\n" H "\r\n");
    free(hear(fd, "localhost|0"));
    int waiting = socket(AF_INET, SOCK_STREAM, 0);
    none = before;
    none.rlim_cur = (rlim_t)waiting + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(http_server_port(lab->server))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(waiting, (struct sockaddr *)&a, sizeof a), 0);
    struct timespec t0, t1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
    sleep_s(0.3);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
    say(fd, "GET /show HTTP/1.1\r\n" H "\r\n"); /* those who are in are served */
    free(hear(fd, "localhost|0"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    say(waiting, "GET /show HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    expect(hear(waiting, NULL), 200, NULL);
    assert_true((double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9 < 0.1);
    close(waiting);
    close(fd);
}

/* ---- the end ---- */

static void count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void drain_lets_answers_end(void **state)
{
    (void)state;
    lab_start(lab);
    int idle = dial(lab), stream = dial(lab), begun = dial(lab);
    say(idle, "GET /show HTTP/1.1\r\n" H "\r\n");
    free(hear(idle, "localhost|0"));
    say(begun, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhe");
    say(stream, "GET /drip HTTP/1.1\r\n" H "\r\n");
    free(hear(stream, "drop"));
    assert_false(http_server_draining(lab->server));
    http_server_drain(lab->server, 60);
    assert_true(http_server_draining(lab->server));
    assert_true(closes(idle, 1));
    say(begun, "llo");
    expect(hear(begun, NULL), 200, "connection: close", "hello", NULL);
    char *rest = hear(stream, NULL);
    assert_non_null(strstr(rest, "\r\n0\r\n\r\n"));
    free(rest);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(http_server_port(lab->server))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int late_one = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_not_equal(connect(late_one, (struct sockaddr *)&a, sizeof a), 0);
    close(late_one);
    close(idle);
    close(stream);
    close(begun);
    double begin = now_s();
    lab_join(lab); /* by itself */
    assert_true(now_s() - begin < 1);
}

static void drain_has_a_deadline(void **state)
{
    (void)state;
    lab_start(lab);
    int fd = dial(lab);
    say(fd, "GET /never HTTP/1.1\r\n" H "\r\n");
    assert_true(reached(&lab->begun, 1));
    double begin = now_s();
    http_server_drain(lab->server, 60);
    sleep_s(0.05);
    assert_int_equal(atomic_load(&lab->closed), 0);
    http_server_drain(lab->server, 0.2);
    http_server_drain(lab->server, 60); /* may not lengthen it */
    struct http_note note[40];
    atomic_int n_note = 0;
    for (int i = 0; i < 40; i++, sleep_s(0.02)) { /* nor may being woken */
        note[i] = (struct http_note){count_up, &n_note, NULL};
        http_post(lab->server, &note[i]);
    }
    double after = (double)atomic_load(&lab->closed_us) * 1e-6 - begin;
    assert_true(after > 0.2 && after < 0.6);
    assert_true(closes(fd, 1));
    assert_int_equal(atomic_load(&lab->closed), 1);
    close(fd);
    lab_join(lab);
}

static void stop_cuts_everybody(void **state)
{
    static const char *const text[] = {"",
                                       "GET",
                                       "GET /never HTTP/1.1\r\n" H "\r\n",
                                       "GET /flood HTTP/1.1\r\n" H "\r\n",
                                       "GET /drip HTTP/1.1\r\n" H "\r\n",
                                       "bad\r\n\r\n"};
    int fd[COUNT(text)];
    (void)state;
    lab_start(lab);
    for (size_t i = 0; i < COUNT(text); i++) {
        fd[i] = dial(lab);
        say(fd[i], text[i]);
    }
    sleep_s(0.05);
    lab_stop(lab);
    assert_int_equal(atomic_load(&lab->closed), 3);
    for (size_t i = 0; i < COUNT(text); i++) {
        assert_true(closes(fd[i], 1));
        close(fd[i]);
    }
}

static void stop_before_run(void **state)
{
    (void)state;
    struct glim_err e = {0};
    assert_int_equal(http_server_create(&lab->server, &lab->config, &e), GLIM_OK);
    http_server_stop(lab->server);
    assert_int_equal(http_server_run(lab->server, &e), GLIM_OK);
    http_server_free(lab->server);
    assert_int_equal(http_server_create(&lab->server, &lab->config, &e), GLIM_OK);
    http_server_free(lab->server); /* never run */
}

/* ---- other threads ---- */

enum { POSTERS = 4, POSTS = 10000 };

static struct posted {
    struct http_note note;
    int thread, i;
} posted[POSTERS][POSTS];
static int next_of[POSTERS];
static atomic_int n_posted, out_of_order;
static pthread_t ran_in;

static void take(void *arg)
{
    struct posted *p = arg;
    if (next_of[p->thread]++ != p->i || !pthread_equal(pthread_self(), ran_in))
        atomic_fetch_add(&out_of_order, 1);
    memset(&p->note, 0x5a, sizeof p->note); /* it is ours again */
    atomic_fetch_add(&n_posted, 1);
}

static void *poster(void *arg)
{
    int thread = *(int *)arg;
    for (int i = 0; i < POSTS; i++) {
        posted[thread][i] = (struct posted){{take, &posted[thread][i], NULL}, thread, i};
        http_post(lab->server, &posted[thread][i].note);
    }
    return NULL;
}

static void posts_arrive_once_and_in_order(void **state)
{
    pthread_t thread[POSTERS];
    int id[POSTERS];
    (void)state;
    lab_start(lab);
    ran_in = lab->thread;
    for (int i = 0; i < POSTERS; i++) {
        id[i] = i;
        pthread_create(&thread[i], NULL, poster, &id[i]);
    }
    for (int i = 0; i < 20; i++) /* while clients are served */
        expect(ask(lab, "GET /show HTTP/1.1\r\n" H "Connection: close\r\n\r\n"), 200, NULL);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(thread[i], NULL);
    assert_true(reached(&n_posted, POSTERS * POSTS));
    assert_int_equal(atomic_load(&n_posted), POSTERS * POSTS);
    assert_int_equal(atomic_load(&out_of_order), 0);
}

static void a_post_that_comes_too_late_is_run(void **state)
{
    atomic_int count = 0;
    struct http_note note = {count_up, &count, NULL};
    struct glim_err e = {0};
    (void)state;
    assert_int_equal(http_server_create(&lab->server, &lab->config, &e), GLIM_OK);
    http_server_stop(lab->server);
    assert_int_equal(http_server_run(lab->server, &e), GLIM_OK);
    http_post(lab->server, &note);
    assert_int_equal(atomic_load(&count), 0);
    http_server_free(lab->server);
    assert_int_equal(atomic_load(&count), 1);
}

/* ---- resources ---- */

/* Nothing to do, nothing done: with an open connection and a handler that thinks. */
static void an_idle_server_sleeps(void **state)
{
    struct timespec t0, t1;
    (void)state;
    lab_start(lab);
    int idle = dial(lab), waiting = dial(lab);
    say(idle, "GET /show HTTP/1.1\r\n" H "\r\n");
    free(hear(idle, "localhost|0"));
    say(waiting, "GET /never HTTP/1.1\r\n" H "\r\n");
    assert_true(reached(&lab->begun, 2));
    clockid_t clock;
    assert_int_equal(pthread_getcpuclockid(lab->thread, &clock), 0);
    clock_gettime(clock, &t0);
    sleep_s(0.5);
    clock_gettime(clock, &t1);
    assert_true((double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9 < 0.001);
    close(idle);
    close(waiting);
}

/* Whatever allocation fails, the server refuses or cuts; it goes on and forgets nothing. */
static void memory_may_end(void **state)
{
    (void)state;
    lab_start(lab);
    for (long fail = 1; fail < 40; fail++) {
        int fd = dial(lab);
        mem_fail_after(fail);
        say(fd, "POST /echo HTTP/1.1\r\n" H
                "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        char buf[2000] = {0};
        ssize_t n, all = 0;
        while ((n = recv(fd, buf + all, sizeof buf - 1 - (size_t)all, 0)) > 0)
            all += n;
        mem_fail_after(0);
        close(fd);
        int status = status_of(buf);
        if (status != 0 && status != 503 && (status != 200 || !strstr(buf, "\r\n\r\nhello")))
            fail_msg("allocation %ld: %s", fail, buf);
        if (status == 200) {
            assert_true(fail > 5);
            break;
        }
        assert_true(fail < 39);
    }
    expect(ask(lab, "GET /show HTTP/1.1\r\n" H "Connection: close\r\n\r\n"), 200, NULL);
}

static void servers_that_cannot_be(void **state)
{
    struct glim_err e;
    struct http_config c = lab->config;
    struct http_server *s, *t;
    (void)state;
    c.address = "localhost";
    assert_int_equal(http_server_create(&s, &c, &e), GLIM_REFUSED);
    assert_string_equal(e.message, "server: address: have localhost, need a numeric address");
    c.address = "192.0.2.1";
    assert_int_equal(http_server_create(&s, &c, &e), GLIM_FAILED);
    assert_null(s);
    c.address = "127.0.0.1";
    assert_int_equal(http_server_create(&s, &c, &e), GLIM_OK);
    c.port = http_server_port(s);
    assert_int_equal(http_server_create(&t, &c, &e), GLIM_FAILED);
    http_server_free(s);
    c.port = 0;
    c.max_connections = 2000000000;
    assert_int_equal(http_server_create(&s, &c, &e), GLIM_REFUSED);
    c.max_connections = 10;
    c.host = (const char *const[]){"a", "b"};
    c.n_host = 2;
    for (long fail = 1;; fail++) {
        mem_fail_after(fail);
        glim_status st = http_server_create(&s, &c, &e);
        mem_fail_after(0);
        if (st == GLIM_OK) {
            assert_true(fail > 4);
            break;
        }
        assert_null(s);
    }
    http_server_free(s);
}

static void ipv6(void **state)
{
    struct glim_err e = {0};
    (void)state;
    lab->config.address = "::1";
    if (http_server_create(&lab->server, &lab->config, &e) != GLIM_OK)
        skip(); /* a machine without it */
    assert_int_equal(pthread_create(&lab->thread, NULL, lab_thread, lab), 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(http_server_port(lab->server))};
    a.sin6_addr = in6addr_loopback;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    say(fd, "GET /show HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n");
    expect(hear(fd, NULL), 200, "GET|/show||::1|", NULL);
    close(fd);
    lab_stop(lab);
}

#define T(f) cmocka_unit_test_setup_teardown(f, prepare, stop)
#define U(f) cmocka_unit_test_setup_teardown(f, prepare, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_client_that_goes_is_noticed),
        T(a_client_that_goes_before_its_request_is_whole),
        T(half_closed_after_a_request),
        T(vanished_peers_are_asked_for),
        T(a_slow_reader_is_waited_for_then_cut),
        T(a_reader_that_pauses_goes_on),
        T(a_finished_answer_is_not_kept_for_ever),
        T(slow_requests_are_refused),
        T(silent_connections_are_closed),
        T(thinking_is_not_idling),
        T(one_too_many_is_told),
        T(sending_far_ahead_is_cut),
        T(files_may_run_out),
        U(drain_lets_answers_end),
        U(drain_has_a_deadline),
        U(stop_cuts_everybody),
        U(stop_before_run),
        T(posts_arrive_once_and_in_order),
        U(a_post_that_comes_too_late_is_run),
        T(an_idle_server_sleeps),
        T(memory_may_end),
        U(servers_that_cannot_be),
        U(ipv6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
