/* If this fails: a request that meets a lack of memory, a client that goes away at a bad moment, or an end of the
 * server in the middle of work crashes it, wedges it, or leaves pages behind. The whole server runs here in one
 * process, so that the sanitizers see all of its threads. */
#include "base/mem.h"
#include "run/metrics.h"
#include "run/model.h"
#include "run/run.h"
#include "serve/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SLOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1
#endif
#ifdef SLOW
enum { N_CLIENT = 4, N_ROUND = 12, STEP = 7 };
#else
enum { N_CLIENT = 8, N_ROUND = 40, STEP = 1 };
#endif

/* A plus: who asks wants to come back to the stream. */
static const char *const request[] = {
    "POST /v1/chat/completions {\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"max_tokens\":6,\"seed\":1}",
    "POST /v1/chat/completions "
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":9,\"seed\":2,\"stream\":true,"
    "\"logprobs\":true,\"top_logprobs\":2,\"n\":2,\"stream_options\":{\"include_usage\":true}}",
    "POST /v1/completions "
    "{\"prompt\":[[1,2,3],[4,5]],\"max_tokens\":4,\"echo\":true,\"logprobs\":1,\"seed\":3,\"stop\":[\"qq\"],"
    "\"logit_bias\":{\"5\":-1}}",
    "POST /v1/completions {\"prompt\":\"abc\",\"max_tokens\":30,\"stream\":true,\"seed\":4,\"ignore_eos\":true}",
    "+POST /v1/completions {\"prompt\":\"kept\",\"max_tokens\":30,\"stream\":true,\"seed\":4,\"ignore_eos\":true}",
    "POST /v1/embeddings {\"input\":[\"a\",\"b\",\"c\"]}",
    "POST /v1/chat/completions "
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":8,\"seed\":5,\"json_schema\":"
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}}",
    "POST /v1/chat/completions "
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":12,\"seed\":6,\"tool_choice\":"
    "\"required\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":"
    "{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"]}}}],\"stream\":true}",
    "POST /v1/chat/completions {\"messages\":5}",
    "POST /v1/messages {\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"max_tokens\":6,\"seed\":1}",
    "POST /v1/messages "
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":12,\"seed\":7,\"stream\":true,\"stop_"
    "sequences\":[\"qq\"],\"tool_choice\":{\"type\":\"any\"},\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":"
    "\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"]}}]}",
    "POST /v1/messages "
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
    "\"thinking\":\"t\",\"signature\":\"\"},{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{}}]},{"
    "\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"content\":\"r\"}]}],\"max_"
    "tokens\":5,\"seed\":7,\"stream\":true,\"system\":\"s\"}",
    "POST /v1/messages/count_tokens {\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}",
    "POST /v1/responses {\"input\":\"hello\",\"max_output_tokens\":6,\"seed\":1,\"metadata\":{\"a\":\"b\"}}",
    "POST /v1/responses "
    "{\"input\":\"a\",\"max_output_tokens\":12,\"seed\":8,\"stream\":true,\"tool_choice\":\"required\",\"tools\":[{"
    "\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
    "\"boolean\"}},\"required\":[\"a\"]}}]}",
    "POST /v1/responses "
    "{\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\","
    "\"text\":\"t\"}]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":"
    "\"function_call_output\",\"call_id\":\"c\",\"output\":\"r\"}],\"instructions\":\"i\",\"max_output_tokens\":5,"
    "\"seed\":8,\"stream\":true}",
    "POST /v1/responses "
    "{\"input\":\"x\",\"max_output_tokens\":9,\"seed\":9,\"stream\":true,\"include\":[\"message.output_text.logprobs\"]"
    ","
    "\"top_logprobs\":2}",
    "POST /v1/responses/nobody/cancel ",
    "GET /v1/responses/nobody ",
    "GET /v1/responses/nobody/input_items?limit=3 ",
    "DELETE /v1/responses/nobody ",
    "POST /tokenize {\"content\":\"some text\"}",
    "GET /openapi.json ",
    "GET /metrics ",
    "GET /health ",
    "GET / ",
    "GET /v1/streams/none ",
    "POST /v1/requests/none/cancel ",
    "POST /completion "
    "{\"prompt\":[\"a\",[1,\"b\",2],{\"prompt_string\":\"c\"}],\"n_predict\":4,\"n_probs\":2,\"return_tokens\":true,"
    "\"seed\":1,"
    "\"logit_bias\":{\"a\":-1,\"7\":false},\"stop\":\"qq\",\"grammar\":\"root ::= [a-z ]+\"}",
    "POST /completion "
    "{\"prompt\":\"x\",\"n_predict\":20,\"stream\":true,\"n_cmpl\":2,\"ignore_eos\":true,\"seed\":2,\"samplers\":["
    "\"top_k\"],"
    "\"response_fields\":[\"stop\",\"timings/predicted_n\",\"generation_settings/seed\"]}",
    "POST /infill {\"input_prefix\":\"a\",\"input_suffix\":\"b\"}",
    "POST /embedding {\"content\":[\"a\",{\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}]}",
    "POST /tokenize {\"content\":[\"text\",3],\"with_pieces\":true}",
    "POST /detokenize {\"tokens\":[1,2,3]}",
    "POST /apply-template {\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
    "GET /props ",
    "GET /slots ",
    "GET /models ",
    "POST /api/chat "
    "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"tool_calls\":"
    "[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":true}}}]},{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":"
    "\"1\"}],"
    "\"tools\":[{\"function\":{\"name\":\"f\"}}],\"options\":{\"num_predict\":8,\"seed\":3},\"logprobs\":true}",
    "POST /api/generate "
    "{\"model\":\"tiny\",\"prompt\":\"x\",\"context\":[1,2],\"system\":\"y\",\"format\":\"json\",\"stream\":false,"
    "\"options\":{\"num_predict\":6,\"seed\":4}}",
    "POST /api/generate {\"model\":\"tiny\",\"prompt\":\"x\",\"raw\":true,\"options\":{\"num_predict\":6,\"seed\":4}}",
    "POST /api/show {\"model\":\"tiny\"}",
    "GET /api/tags ",
};
enum { N_REQUEST = sizeof request / sizeof *request };

/* ---- the server ---- */

struct rig {
    struct glim_config *config;
    struct glim_model *model;
    struct server *server;
    pthread_t thread;
};

/* The store of all servers of this process. */
static char store_path[64];

static int make_store(void **state)
{
    (void)state;
    snprintf(store_path, sizeof store_path, "/tmp/glim-serve-%d.db", (int)getpid());
    return 0;
}

static int drop_store(void **state)
{
    static const char *const end[] = {"", "-wal", "-shm"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        char path[80];
        snprintf(path, sizeof path, "%s%s", store_path, end[i]);
        unlink(path);
    }
    return 0;
}

static void *serve_thread(void *arg)
{
    struct glim_err e;
    if (serve_run(((struct rig *)arg)->server, &e) != GLIM_OK)
        fprintf(stderr, "serve_run: %s\n", e.message);
    return NULL;
}

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static void start(struct rig *r)
{
    struct glim_err e;
    const char *const lever[][2] = {
        {"threads", "2"},    {"store_path", store_path},
        {"ctx", "512"},      {"n_seq", "4"},
        {"queue", "32"},     {"port", "0"},
        {"kv_poison", "on"}, {"chat_template", TEST_DATA "/templates/Qwen-Qwen3-0.6B.jinja"}};
    ok(glim_config_create(&r->config, &e), &e);
    for (size_t i = 0; i < sizeof lever / sizeof *lever; i++)
        ok(glim_config_set(r->config, lever[i][0], lever[i][1], &e), &e);
    ok(glim_model_open(&r->model, TEST_DATA "/hf/llama", r->config, NULL, NULL, &e), &e);
    struct serve_config c = {.model = r->model, .levers = lever_values(r->config->set), .path = "/models/tiny.gguf"};
    ok(serve_create(&r->server, &c, &e), &e);
    assert_string_equal(r->server->name[0], "tiny");
    assert_int_equal(pthread_create(&r->thread, NULL, serve_thread, r), 0);
}

static void stop(struct rig *r, double drain_s)
{
    serve_stop(r->server, drain_s);
    pthread_join(r->thread, NULL);
    serve_free(r->server);
    glim_model_close(r->model);
    glim_config_free(r->config);
}

/* ---- a client ---- */

static int dial(const struct rig *r)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)serve_port(r->server))};
    struct timeval limit = {.tv_sec = 60};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

/* "POST /path body", perhaps with a plus before it. */
static bool send_request(int fd, const char *what)
{
    char head[256];
    bool keep = *what == '+';
    what += keep;
    const char *path = strchr(what, ' ') + 1, *body = strchr(path, ' ') + 1;
    int n = snprintf(head, sizeof head,
                     "%.*s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n",
                     (int)(body - what - 1), what, strlen(body), keep ? "X-Resume-Seconds: 1\r\n" : "");
    return send(fd, head, (size_t)n, MSG_NOSIGNAL) == n &&
           send(fd, body, strlen(body), MSG_NOSIGNAL) == (ssize_t)strlen(body);
}

/* All that comes until the end; raw memory, since the server's may be failing. Returns the bytes, -1 on a time-out. */
static ssize_t read_all(int fd, char *to, size_t cap)
{
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(fd, to + n, cap - 1 - n, 0);
        if (got < 0 && errno != ECONNRESET)
            return -1;
        if (got <= 0 || n + (size_t)got >= cap - 1)
            break;
        n += (size_t)got;
    }
    to[n] = 0;
    return (ssize_t)n;
}

enum { REPLY_MAX = 1 << 18 };

/* The status, 0 when the connection broke before one. */
static int ask(const struct rig *r, const char *what, char *reply)
{
    int fd = dial(r);
    assert_true(fd >= 0);
    reply[0] = 0;
    if (send_request(fd, what))
        assert_true(read_all(fd, reply, REPLY_MAX) >= 0);
    close(fd);
    return strncmp(reply, "HTTP/1.1 ", 9) == 0 ? atoi(reply + 9) : 0;
}

static void wait_idle(const struct rig *r)
{
    struct metrics_view v;
    for (int i = 0; i < 3000; i++) {
        metrics_read(&v, run_engine_metrics(r->server->engine));
        if (v.of[METRIC_REQUESTS_RUNNING].value == 0 && v.of[METRIC_REQUESTS_WAITING].value == 0 &&
            v.of[METRIC_PAGES_USED].value == 0)
            return;
        usleep(1000);
    }
    fail_msg("after 3 s: have %.0f running, %.0f waiting, %.0f pages, need none", v.of[METRIC_REQUESTS_RUNNING].value,
             v.of[METRIC_REQUESTS_WAITING].value, v.of[METRIC_PAGES_USED].value);
}

/* ---- tests ---- */

static int expected(const char *what)
{
    bool absent = strstr(what, "/none") || strstr(what, "nobody");
    if (strstr(what, "/infill"))
        return 501;
    return strstr(what, "\"messages\":5") ? 400 : absent ? 404 : 200;
}

static void requests_are_answered(void **state)
{
    struct rig *r = *state;
    static char first[REPLY_MAX], again[REPLY_MAX];
    for (size_t i = 0; i < N_REQUEST; i++) {
        int status = ask(r, request[i], first);
        if (status != expected(request[i]))
            fail_msg("%s: %s", request[i], first);
        ask(r, request[i], again);
    }
    wait_idle(r);
}

/* Has a stream come to its end? */
static bool is_whole(const char *reply)
{
    static const char end[] = "\r\n0\r\n\r\n";
    size_t n = strlen(reply);
    return !strcasestr(reply, "\r\ntransfer-encoding: chunked\r\n") ||
           (n > sizeof end && strcmp(reply + n - (sizeof end - 1), end) == 0);
}

/* Whatever cannot be had is missed in turn. The client sees an answer, an error, or a broken connection, and the next
 * request finds a server that works. */
static void lack_of_memory_hurts_one_request(void **state)
{
    struct rig *r = *state;
    static char reply[REPLY_MAX];
    for (size_t i = 0; i < N_REQUEST; i++) {
        int good = 0, bad = 0;
        for (long n = 1; good < 3; n += STEP + n / 16) {
            mem_fail_after(n);
            int status = ask(r, request[i], reply);
            mem_fail_after(0);
            bool whole = status != 200 || is_whole(reply);
            bool fine = status == expected(request[i]) && whole && !strstr(reply, "out of memory");
            if (!fine && status != 0 && status != 500 && status != 200)
                fail_msg("%s: have no memory left: %s", request[i], reply);
            good = fine ? good + 1 : 0;
            bad += !fine;
            wait_idle(r);
            assert_int_equal(ask(r, request[0], reply), 200);
            if (n > 200000)
                fail_msg("%s: no end", request[i]);
        }
        assert_true(bad > 0);
    }
}

struct client {
    struct rig *rig;
    uint32_t seed;
    int wrong;
};

static uint32_t rnd(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

/* Requests of all kinds; now and then it goes away, at some moment. */
static void *client_thread(void *arg)
{
    struct client *c = arg;
    char *reply = malloc(REPLY_MAX);
    for (int i = 0; i < N_ROUND && reply; i++) {
        const char *what = request[rnd(&c->seed) % N_REQUEST];
        int fd = dial(c->rig);
        if (fd < 0 || !send_request(fd, what)) {
            c->wrong++;
        } else if (rnd(&c->seed) % 3 == 0) {
            usleep(rnd(&c->seed) % 20000);
            if (rnd(&c->seed) % 2)
                recv(fd, reply, 100, MSG_DONTWAIT);
        } else if (read_all(fd, reply, REPLY_MAX) < 0 || strncmp(reply, "HTTP/1.1 ", 9) != 0) {
            c->wrong++;
        }
        if (fd >= 0)
            close(fd);
    }
    free(reply);
    return NULL;
}

static void run_clients(struct rig *r, pthread_t *thread, struct client *client)
{
    for (uint32_t i = 0; i < N_CLIENT; i++) {
        client[i] = (struct client){.rig = r, .seed = i + 1};
        assert_int_equal(pthread_create(&thread[i], NULL, client_thread, &client[i]), 0);
    }
}

static void many_clients_come_and_go(void **state)
{
    struct rig *r = *state;
    pthread_t thread[N_CLIENT];
    struct client client[N_CLIENT];
    run_clients(r, thread, client);
    for (int i = 0; i < N_CLIENT; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(client[i].wrong, 0);
    }
    wait_idle(r);
}

/* Jobs, workers and notes under way when the server ends: nothing is touched after it is gone, and nothing leaks. */
static void an_end_in_the_middle_is_clean(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct rig r = {0};
        pthread_t thread[N_CLIENT];
        struct client client[N_CLIENT];
        start(&r);
        run_clients(&r, thread, client);
        usleep(20000 * (unsigned)i);
        serve_stop(r.server, i % 2 ? 0.05 : 0);
        pthread_join(r.thread, NULL);
        for (int k = 0; k < N_CLIENT; k++)
            pthread_join(thread[k], NULL);
        serve_free(r.server);
        glim_model_close(r.model);
        glim_config_free(r.config);
    }
}

static void a_server_that_cannot_start_leaves_nothing(void **state)
{
    (void)state;
    struct rig r = {0};
    struct glim_err e;
    start(&r);
    struct serve_config c = {.model = r.model, .levers = lever_values(r.config->set), .path = "x"};
    for (long n = 1;; n += 1 + n / 8) {
        struct server *s = NULL;
        mem_fail_after(n);
        glim_status st = serve_create(&s, &c, &e);
        mem_fail_after(0);
        if (st == GLIM_OK) {
            serve_free(s);
            break;
        }
        assert_null(s);
    }
    stop(&r, 0);
}

static int setup(void **state)
{
    static struct rig r;
    start(&r);
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    stop(*state, 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_are_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(lack_of_memory_hurts_one_request, setup, teardown),
        cmocka_unit_test_setup_teardown(many_clients_come_and_go, setup, teardown),
        cmocka_unit_test(an_end_in_the_middle_is_clean),
        cmocka_unit_test(a_server_that_cannot_start_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_store, drop_store);
}
