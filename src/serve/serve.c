/* The server's life: model names, workers, engine, transport. */
#include "serve/serve.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/run.h"
#include "serve/access.h"
#include "serve/call.h"
#include "serve/grammars.h"
#include "serve/store.h"
#include "serve/streams.h"
#include "serve/telemetry.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/random.h>

/* ---- workers ---- */

struct serve_pool {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct work *first, **end;
    bool stop;
    size_t n;
    pthread_t thread[];
};

void serve_work(struct server *s, struct work *w)
{
    struct serve_pool *p = s->pool;
    w->next = NULL;
    pthread_mutex_lock(&p->lock);
    *p->end = w;
    p->end = &w->next;
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
}

/* Work that was given before the stop is done before it. */
static void *worker(void *arg)
{
    struct serve_pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->first && !p->stop)
            pthread_cond_wait(&p->more, &p->lock);
        struct work *w = p->first;
        if (!w)
            break;
        p->first = w->next;
        if (!p->first)
            p->end = &p->first;
        pthread_mutex_unlock(&p->lock);
        w->fn(w->arg);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void pool_stop(struct serve_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->n; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

static glim_status pool_start(struct serve_pool **out, size_t n, struct glim_err *e)
{
    struct serve_pool *p = mem_calloc(1, sizeof *p + n * sizeof *p->thread);
    if (!p)
        return err_nomem(e, "workers", sizeof *p + n * sizeof *p->thread);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    p->end = &p->first;
    for (; p->n < n; p->n++)
        if (pthread_create(&p->thread[p->n], NULL, worker, p) != 0) {
            pool_stop(p);
            return err_set(e, GLIM_FAILED, "server: worker thread: have none, need %zu", n);
        }
    *out = p;
    return GLIM_OK;
}

/* ---- names ---- */

static glim_status add_name(struct server *s, const char *name, size_t n, struct glim_err *e)
{
    while (n && name[0] == ' ')
        name++, n--;
    while (n && name[n - 1] == ' ')
        n--;
    if (n == 0 || n > 128)
        return err_set(e, GLIM_REFUSED, "server: name of the model: have %zu bytes, need 1 to 128", n);
    if (s->n_name == SERVE_NAMES)
        return err_set(e, GLIM_REFUSED, "server: alias: have more names, need at most %d", SERVE_NAMES);
    if (!(s->name[s->n_name] = mem_strndup(name, n)))
        return err_nomem(e, "server", n);
    s->n_name++;
    return GLIM_OK;
}

/* The aliases; else the last part of the path, without .gguf. */
static glim_status find_names(struct server *s, const char *path, struct glim_err *e)
{
    const char *alias = s->lv->alias;
    while (alias && *alias) {
        size_t n = strcspn(alias, ",");
        TRY(add_name(s, alias, n, e));
        alias += n + (alias[n] == ',');
    }
    if (s->n_name)
        return GLIM_OK;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from && path[from - 1] != '/')
        from--;
    if (n - from > 5 && strncmp(path + n - 5, ".gguf", 5) == 0)
        n -= 5;
    return add_name(s, path + from, n - from, e);
}

bool serve_knows_model(const struct server *s, const char *name)
{
    for (size_t i = 0; i < s->n_name; i++)
        if (strcmp(s->name[i], name) == 0)
            return true;
    return strcmp(s->model->info.name, name) == 0;
}

/* Model, backend and the levers that change bits. */
static glim_status find_fingerprint(struct server *s, struct glim_err *e)
{
    const struct glim_model *m = s->model;
    struct str text = {0};
    struct sha256 h;
    char hex[65];
    str_printf(&text, "%s|%s|%s|%s|%llu|%llu|%d|%d|%d", glim_version(), m->info.name, m->info.arch, m->info.backend,
               (unsigned long long)m->info.n_param, (unsigned long long)m->info.weight_bytes, (int)m->kv_type,
               m->lv.act, m->lv.pooling);
    glim_status st = text.failed ? err_nomem(e, "server", text.n) : sha256_of(text.s, text.n, &h, e);
    str_fini(&text);
    TRY(st);
    sha256_hex(&h, hex);
    snprintf(s->fingerprint, sizeof s->fingerprint, "fp_%.16s", hex);
    return GLIM_OK;
}

/* ---- life ---- */

/* The model's templates, or the lever's. */
static glim_status open_templates(struct server *s, struct glim_err *e)
{
    enum { MAX_TEMPLATE = 1 << 20 };
    const struct glim_model *m = s->model;
    const char *path = s->lv->chat_template;
    struct run_templates from = {m->chat_template, m->tool_template, m->info.name};
    char *text = NULL;
    size_t n = 0;
    if (path) {
        TRY(file_read(path, MAX_TEMPLATE, &text, &n, e));
        from = (struct run_templates){text, NULL, path};
    }
    glim_status st = text && memchr(text, 0, n) ? err_set(e, GLIM_FAILED, "chat: %s: have a zero byte, need text", path)
                                                : run_chat_open(&s->chat, m->tok, &from, s->lv->dialect, e);
    mem_free(text);
    return st;
}

/* A model without a template still completes text; one that was asked for has to be right. */
static glim_status open_chat(struct server *s, struct glim_err *e)
{
    const struct glim_model *m = s->model;
    if (open_templates(s, &s->no_chat) != GLIM_OK) {
        if (s->lv->chat_template || s->lv->dialect) {
            *e = s->no_chat;
            return e->status;
        }
        log_line(LOG_WARN, "serve", "no conversations: %s", s->no_chat.message);
        return grammars_create(&s->grammars, m, dialect_find("", 0), e);
    }
    const struct dialect *d = chat_dialect(s->chat);
    for (size_t i = 0; i < DIALECT_MAX_STOP && d->stop[i]; i++) {
        int32_t id = tok_special(m->tok, d->stop[i], strlen(d->stop[i]));
        if (id >= 0)
            s->end[s->n_end++] = id;
    }
    return grammars_create(&s->grammars, m, d, e);
}

static glim_status open_store(struct server *s, struct glim_err *e)
{
    enum { DAY_S = 86400 };
    const char *given = s->lv->store_path;
    if (s->lv->store_size == 0)
        return GLIM_OK;
    char *path = given ? mem_strdup(given) : path_join(s->lv->home, "responses.db");
    struct store_config c = {.path = path, .max_bytes = s->lv->store_size, .max_age_s = s->lv->store_days * DAY_S};
    glim_status st = path ? store_open(&s->store, &c, e) : err_nomem(e, "store", 0);
    mem_free(path);
    return st;
}

static bool is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* Who can reach the server and needs no key can use it; and every web page a user opens can reach loopback. */
static glim_status check_exposure(const struct levers *lv, struct glim_err *e)
{
    bool tls = lv->tls_cert && lv->tls_key;
    if (!is_loopback(lv->host) && !lv->insecure && !(tls && lv->api_keys))
        return err_set(e, GLIM_REFUSED,
                       "server: host %s: have an address that other machines reach and no %s, need tls_cert, tls_key "
                       "and api_keys, or --insecure on",
                       lv->host,
                       tls            ? "API keys"
                       : lv->api_keys ? "TLS"
                                      : "TLS and no API keys");
    for (const char *p = lv->cors; p && *p; p += *p == ',') {
        p += strspn(p, " ");
        size_t n = strcspn(p, ", ");
        if (n == 1 && *p == '*' && !lv->api_keys)
            return err_set(e, GLIM_REFUSED,
                           "server: cors: have * and no API keys, need api_keys, or a list of origins");
        if (n != 1 && !memmem(p, n, "://", 3))
            return err_set(e, GLIM_REFUSED, "server: cors: have %.*s, need origins like https://chat.example", (int)n,
                           p);
        p += strcspn(p, ",");
    }
    return GLIM_OK;
}

enum { HOSTS_MAX = 32 };

/* Cuts a list of names at its commas. */
static glim_status split_hosts(char *list, const char *host[HOSTS_MAX], size_t *n, struct glim_err *e)
{
    char *rest;
    for (char *p = strtok_r(list, ", ", &rest); p; p = strtok_r(NULL, ", ", &rest)) {
        if (*n == HOSTS_MAX)
            return err_set(e, GLIM_REFUSED, "server: allowed_hosts: have more names, need at most %d", HOSTS_MAX);
        host[(*n)++] = p;
    }
    return GLIM_OK;
}

static glim_status open_http(struct server *s, struct glim_err *e)
{
    struct http_config c = http_config_default();
    const char *host[HOSTS_MAX];
    char *list = mem_strdup(s->lv->allowed_hosts ? s->lv->allowed_hosts : "");
    if (!list)
        return err_nomem(e, "server", 0);
    c.address = s->lv->host;
    c.port = (uint16_t)s->lv->port;
    c.tls_cert = s->lv->tls_cert;
    c.tls_key = s->lv->tls_key;
    c.host = host;
    c.head = call_on_head;
    c.handle = call_on_request;
    c.refusal = call_on_refusal;
    c.ended = call_on_ended;
    c.user = s;
    glim_status st = split_hosts(list, host, &c.n_host, e);
    if (st == GLIM_OK)
        st = http_server_create(&s->http, &c, e);
    mem_free(list);
    return st;
}

static glim_status open_hub(struct server *s, struct glim_err *e)
{
    struct hub_config c = {.cors = s->lv->cors, .log_path = s->lv->access_log};
    TRY(check_exposure(s->lv, e));
    if (s->lv->api_keys)
        TRY(keys_read(&c.keys, s->lv->api_keys, e));
    if (c.keys && keys_count(c.keys) == 0)
        log_line(LOG_WARN, "serve", "%s has no keys: nobody can ask anything", s->lv->api_keys);
    return hub_create(&s->hub, &c, e);
}

/* ---- the end ---- */

static void on_deadline(void *arg)
{
    struct server *s = arg;
    http_server_drain(s->http, 0);
}

void serve_look(struct server *s)
{
    if (!atomic_load(&s->draining) || s->stopping || s->n_call > s->n_watcher)
        return;
    double left = s->deadline_s - serve_now(); /* for what is still being written */
    http_server_drain(s->http, left > 0 ? left : 0);
}

static void begin_drain(void *arg)
{
    struct server *s = arg;
    atomic_store(&s->draining, true);
    s->deadline_s = serve_now() + s->drain_s;
    http_timer_start(s->deadline, s->drain_s);
    telemetry_end(s->telemetry);
    serve_look(s);
}

void serve_stop(struct server *s, double drain_s)
{
    if (atomic_exchange(&s->stop_asked, true)) {
        http_server_drain(s->http, 0);
        return;
    }
    s->drain_s = drain_s;
    http_post(s->http, &s->stop_note);
}

/* ---- reading again ---- */

static void set_keys(void *arg)
{
    struct server *s = arg;
    pthread_mutex_lock(&s->reload);
    struct keys *fresh = s->fresh;
    s->fresh = NULL;
    pthread_mutex_unlock(&s->reload);
    hub_set_keys(s->hub, fresh);
}

/* Those that are on their way to the event thread when newer ones come are not needed any more. */
static void reload_keys(struct server *s)
{
    struct keys *fresh;
    struct glim_err e;
    if (keys_read(&fresh, s->lv->api_keys, &e) != GLIM_OK) {
        log_line(LOG_ERROR, "serve", "the old API keys stay in force: %s", e.message);
        return;
    }
    log_line(LOG_INFO, "serve", "%zu API keys", keys_count(fresh));
    pthread_mutex_lock(&s->reload);
    struct keys *passed = s->fresh;
    s->fresh = fresh;
    pthread_mutex_unlock(&s->reload);
    if (passed)
        keys_free(passed);
    else
        http_post(s->http, &s->keys_note);
}

void serve_reload(struct server *s)
{
    struct glim_err e;
    if (s->lv->api_keys)
        reload_keys(s);
    if (s->lv->tls_cert && http_server_reload(s->http, &e) != GLIM_OK)
        log_line(LOG_ERROR, "serve", "the old certificate stays in force: %s", e.message);
    hub_reopen_log(s->hub);
}

/* ---- life ---- */

glim_status serve_create(struct server **out, const struct serve_config *c, struct glim_err *e)
{
    glim_status st;
    struct server *s = mem_calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return err_nomem(e, "server", sizeof *s);
    s->model = c->model;
    s->lv = c->levers;
    s->path = c->path;
    s->started = time(NULL);
    s->stop_note = (struct http_note){.fn = begin_drain, .arg = s};
    s->keys_note = (struct http_note){.fn = set_keys, .arg = s};
    pthread_mutex_init(&s->reload, NULL);
    s->n_ctx = model_default_ctx(&c->model->lv, &c->model->plan);
    json_setup();
    TRY_OUT(find_names(s, c->path, e));
    TRY_OUT(find_fingerprint(s, e));
    TRY_OUT(open_chat(s, e));
    TRY_OUT(open_store(s, e));
    TRY_OUT(open_hub(s, e));
    TRY_OUT(open_http(s, e));
    TRY_OUT(telemetry_create(&s->telemetry, s, e));
    if (!(s->deadline = http_timer_create(s->http, on_deadline, s)))
        TRY_OUT(err_nomem(e, "server", 0));
    TRY_OUT(glim_engine_create(&s->engine, s->model, e));
    TRY_OUT(pool_start(&s->pool, (size_t)s->lv->workers, e));
out:
    if (st != GLIM_OK)
        serve_free(s);
    else
        *out = s;
    return st;
}

glim_status serve_run(struct server *s, struct glim_err *e)
{
    return http_server_run(s->http, e);
}

/* Workers first: they submit. Then the engine, which tells its last; what was told is heard when the transport goes. */
void serve_free(struct server *s)
{
    if (!s)
        return;
    s->stopping = true;
    streams_free(s);
    telemetry_free(s->telemetry);
    http_timer_free(s->deadline);
    pool_stop(s->pool);
    if (s->engine)
        glim_engine_free(s->engine, 0);
    s->engine = NULL;
    if (s->http)
        http_server_free(s->http);
    store_close(s->store);
    keys_free(s->fresh);
    hub_free(s->hub);
    pthread_mutex_destroy(&s->reload);
    grammars_free(s->grammars);
    chat_close(s->chat);
    for (size_t i = 0; i < s->n_name; i++)
        mem_free(s->name[i]);
    mem_free(s);
}

int serve_port(const struct server *s)
{
    return http_server_port(s->http);
}

/* ---- small things ---- */

uint64_t serve_random(void)
{
    uint64_t v = 0;
    struct timespec t;
    if (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v) { /* only before the kernel is seeded */
        clock_gettime(CLOCK_MONOTONIC, &t);
        v = xxh3(&t, sizeof t);
    }
    return v;
}

void serve_id(const char *prefix, char *out)
{
    static const char digit[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t v = 0;
    size_t n = (size_t)snprintf(out, CALL_ID_MAX - 25, "%s", prefix);
    for (int i = 0; i < 24; i++) {
        v = i % 8 == 0 ? serve_random() : v / 62;
        out[n++] = digit[v % 62];
    }
    out[n] = 0;
}

double serve_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
