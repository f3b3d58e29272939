/* Downloads by libcurl.
 *
 * Bytes go to DEST.part, which is locked while in use. A cut connection is taken up again where it broke off (a Range
 * request), in this run up to RETRIES times in a row without progress, and in a later run too. DEST.part.etag keeps the
 * server's tag of the content: a later run sends it as If-Range, so that a file that has changed meanwhile starts over
 * instead of being spliced. The whole file is hashed before it gets its name. */
#include "cli/download.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"

#include <curl/curl.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RETRIES = 5, ETAG_MAX = 200, STALL_SECONDS = 30 };

struct transfer {
    struct download *d;
    char *part, *etag_path;
    FILE *f;
    uint64_t size;       /* bytes in the part file */
    char etag[ETAG_MAX]; /* of the content the part file holds; "" = unknown */
    CURL *curl;
    struct bar bar;
    /* of the request under way */
    bool checked; /* the response's status was looked at */
    bool write_failed;
    char new_etag[ETAG_MAX];
    char curl_err[CURL_ERROR_SIZE];
};

/* ---- addresses -----------------------------------------------------------------------------------------------------
 */

static bool is_this_machine(const char *host)
{
    return strcmp(host, "127.0.0.1") == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0;
}

/* Which protocols may be used: https, or http when it goes to this machine. */
static glim_status check_url(const char *url, bool *local, struct glim_err *e)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL;
    glim_status st = GLIM_OK;
    if (!u || curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK) {
        st = err_set(e, GLIM_USAGE, "pull: %s: have no readable address, need https://host/path", url);
    } else {
        *local = strcmp(scheme, "http") == 0 && curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                 is_this_machine(host);
        if (strcmp(scheme, "https") != 0 && !*local)
            st = err_set(e, GLIM_REFUSED, "pull: %s: have %s, need https (http only to this machine)", url, scheme);
    }
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(u);
    return st;
}

/* ---- the part file -------------------------------------------------------------------------------------------------
 */

static void read_etag(struct transfer *t)
{
    char *text;
    size_t n;
    t->etag[0] = 0;
    if (!file_exists(t->etag_path) || file_read(t->etag_path, ETAG_MAX - 1, &text, &n, NULL) != GLIM_OK)
        return;
    memcpy(t->etag, text, n + 1);
    mem_free(text);
}

static glim_status open_part(struct transfer *t, struct glim_err *e)
{
    t->f = fopen(t->part, "ab");
    if (!t->f)
        return err_set(e, GLIM_FAILED, "pull: %s: have %s, need a writable file", t->part, strerror(errno));
    if (flock(fileno(t->f), LOCK_EX | LOCK_NB) != 0)
        return err_set(e, GLIM_BUSY, "pull: %s: have another process fetching it, need to wait for that", t->part);
    struct stat s;
    if (fstat(fileno(t->f), &s) != 0)
        return err_set(e, GLIM_FAILED, "pull: %s: have %s, need its size", t->part, strerror(errno));
    t->size = (uint64_t)s.st_size;
    read_etag(t);
    return GLIM_OK;
}

static bool start_over(struct transfer *t)
{
    t->size = 0;
    return fflush(t->f) == 0 && ftruncate(fileno(t->f), 0) == 0;
}

/* ---- one request ---------------------------------------------------------------------------------------------------
 */

static size_t on_header(char *p, size_t size, size_t n, void *user)
{
    struct transfer *t = user;
    size_t len = size * n;
    if (len > 5 && strncmp(p, "HTTP/", 5) == 0)
        t->new_etag[0] = 0; /* a further response, after a redirect */
    if (len > 5 && strncasecmp(p, "etag:", 5) == 0) {
        const char *v = p + 5, *end = p + len;
        while (v < end && *v == ' ')
            v++;
        while (end > v && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
            end--;
        bool strong = end - v >= 2 && v[0] == '"' && end - v < ETAG_MAX; /* a weak one cannot promise equal bytes */
        if (strong) {
            memcpy(t->new_etag, v, (size_t)(end - v));
            t->new_etag[end - v] = 0;
        }
    }
    return len;
}

/* The first bytes of a body: a server that answers 200 to a Range request sends everything. */
static bool on_first_bytes(struct transfer *t)
{
    long code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    t->checked = true;
    if (code != 206 && t->size > 0 && !start_over(t))
        return false;
    memcpy(t->etag, t->new_etag, sizeof t->etag);
    unlink(t->etag_path);
    return t->etag[0] == 0 || file_write_atomic(t->etag_path, t->etag, strlen(t->etag), NULL) == GLIM_OK;
}

static size_t on_body(char *p, size_t size, size_t n, void *user)
{
    struct transfer *t = user;
    size_t len = size * n;
    if ((!t->checked && !on_first_bytes(t)) || fwrite(p, 1, len, t->f) != len) {
        t->write_failed = true;
        return 0;
    }
    t->size += len;
    t->d->fetched += len;
    return len;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
    struct transfer *t = user;
    (void)up_total;
    (void)up;
    if (total > 0 && now <= total)
        bar_show(&t->bar, t->size, t->size + (uint64_t)(total - now));
    return cli_interrupted != 0;
}

static void set_options(struct transfer *t, bool local)
{
    CURL *c = t->curl;
    curl_easy_setopt(c, CURLOPT_URL, t->d->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, local ? "http" : "https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, local ? 0L : 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    if (local)
        curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "glim");
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->curl_err);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
}

static CURLcode request(struct transfer *t)
{
    struct curl_slist *headers = NULL;
    char line[ETAG_MAX + 16];
    if (t->size > 0 && t->etag[0]) {
        snprintf(line, sizeof line, "If-Range: %s", t->etag);
        headers = curl_slist_append(NULL, line);
    }
    /* without a tag nothing says that the rest belongs to this beginning */
    if (t->size > 0 && !headers && !start_over(t))
        return CURLE_WRITE_ERROR;
    t->checked = false;
    t->new_etag[0] = 0;
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers);
    char range[32];
    snprintf(range, sizeof range, "%llu-", (unsigned long long)t->size);
    curl_easy_setopt(t->curl, CURLOPT_RANGE, t->size > 0 ? range : NULL);
    CURLcode code = curl_easy_perform(t->curl);
    curl_slist_free_all(headers);
    if (fflush(t->f) != 0)
        t->write_failed = true;
    return code;
}

/* ---- all requests --------------------------------------------------------------------------------------------------
 */

static bool worth_a_retry(CURLcode code)
{
    return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_GOT_NOTHING || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_COULDNT_CONNECT ||
           code == CURLE_HTTP2_STREAM || code == CURLE_HTTP2;
}

static glim_status fail_with(const struct transfer *t, CURLcode code, struct glim_err *e)
{
    if (cli_interrupted)
        return err_set(e, GLIM_FAILED, "pull: %s: have an interrupt after %llu bytes; pull again to go on", t->d->url,
                       (unsigned long long)t->size);
    if (t->write_failed)
        return err_set(e, GLIM_FAILED, "pull: %s: have %s, need room to write", t->part, strerror(errno));
    return err_set(e, GLIM_FAILED, "pull: %s: have %s, need a server that sends the file", t->d->url,
                   t->curl_err[0] ? t->curl_err : curl_easy_strerror(code));
}

static glim_status fetch_all(struct transfer *t, struct glim_err *e)
{
    int idle = 0;
    for (;;) {
        uint64_t before = t->d->fetched;
        t->curl_err[0] = 0;
        CURLcode code = request(t);
        long status = 0;
        curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
        if (code == CURLE_OK && !t->write_failed) {
            if (t->checked && (status == 200 || status == 206))
                return GLIM_OK;
            return err_set(e, GLIM_FAILED, "pull: %s: have status %ld and %s, need the file", t->d->url, status,
                           t->checked ? "another document" : "no content");
        }
        if (status == 416 &&
            t->size > 0) { /* asked for what lies behind the end: what is here is whole, or it is not this file */
            if (t->d->want && sha256_file(t->part, &t->d->have, NULL) == GLIM_OK &&
                memcmp(&t->d->have, t->d->want, sizeof t->d->have) == 0)
                return GLIM_OK;
            if (!start_over(t))
                t->write_failed = true;
        } else if (!worth_a_retry(code) || t->write_failed || cli_interrupted) {
            return fail_with(t, code, e);
        }
        idle = t->d->fetched > before ? 0 : idle + 1;
        if (idle > RETRIES || t->write_failed)
            return fail_with(t, code, e);
        const struct timespec wait = {.tv_sec = 0, .tv_nsec = 100000000L << (idle < 3 ? idle : 3)};
        nanosleep(&wait, NULL);
    }
}

static glim_status finish(struct transfer *t, struct glim_err *e)
{
    struct download *d = t->d;
    if (fsync(fileno(t->f)) != 0)
        return err_set(e, GLIM_FAILED, "pull: %s: have %s, need room to write", t->part, strerror(errno));
    TRY(sha256_file(t->part, &d->have, e));
    if (d->want && memcmp(&d->have, d->want, sizeof d->have) != 0) {
        char have[65], want[65];
        sha256_hex(&d->have, have);
        sha256_hex(d->want, want);
        unlink(t->part);
        unlink(t->etag_path);
        return err_set(e, GLIM_FAILED, "pull: %s: sha256: have %s, need %s", d->url, have, want);
    }
    if (rename(t->part, d->dest) != 0)
        return err_set(e, GLIM_FAILED, "pull: %s: have %s, need a folder to write in", d->dest, strerror(errno));
    unlink(t->etag_path);
    return GLIM_OK;
}

static char *with_ending(const char *path, const char *ending)
{
    struct str s = {0};
    str_puts(&s, path);
    str_puts(&s, ending);
    if (s.failed)
        str_fini(&s);
    return s.s;
}

glim_status download_file(struct download *d, struct glim_err *e)
{
    bool local = false;
    TRY(check_url(d->url, &local, e));
    struct transfer t = {.d = d, .bar = {.what = "fetching", .unit = "MiB", .scale = 1.0 / (1 << 20)}};
    glim_status st;
    t.part = with_ending(d->dest, ".part");
    t.etag_path = with_ending(d->dest, ".part.etag");
    t.curl = curl_easy_init();
    if (!t.part || !t.etag_path || !t.curl) {
        st = err_nomem(e, "download", sizeof t);
        goto out;
    }
    TRY_OUT(open_part(&t, e));
    set_options(&t, local);
    st = fetch_all(&t, e);
    bar_clear(&t.bar);
    if (st == GLIM_OK)
        st = finish(&t, e);
out:
    if (st != GLIM_OK && t.f && t.size == 0)
        unlink(t.part); /* nothing to go on from */
    if (t.f)
        fclose(t.f); /* releases the lock */
    curl_easy_cleanup(t.curl);
    mem_free(t.part);
    mem_free(t.etag_path);
    return st;
}
