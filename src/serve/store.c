/* Stored responses in SQLite. See store.h.
 *
 * One connection behind a mutex: SQLite would lock anyway, and a response is written once in the time it takes to
 * generate one. Times are seconds; `used` is when an entry was last put or read. */
#include "serve/store.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUSY_MS = 10000, VERSION = 1 };

enum query { Q_PUT, Q_GET, Q_USE, Q_DELETE, Q_SIZE, Q_OLD, Q_SHRINK, N_QUERY };

static const char *const query_sql[N_QUERY] = {
    [Q_PUT] = "INSERT INTO response(id, previous, used, bytes, body, input) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [Q_GET] = "SELECT body, input, previous FROM response WHERE id = ?1",
    [Q_USE] = "UPDATE response SET used = ?2 WHERE id = ?1 AND used < ?2",
    [Q_DELETE] = "DELETE FROM response WHERE id = ?1",
    [Q_SIZE] = "SELECT total(bytes), count(*) FROM response",
    [Q_OLD] = "DELETE FROM response WHERE used < ?1",
    /* all that is older than the newest ?1 bytes */
    [Q_SHRINK] =
        ("DELETE FROM response WHERE rowid IN (SELECT rowid FROM (SELECT rowid, sum(bytes) OVER (ORDER BY used "
         "DESC, rowid DESC) AS newer FROM response) WHERE newer > ?1)"),
};

static const char schema_sql[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS response(id TEXT PRIMARY KEY NOT NULL, previous TEXT, used INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, body TEXT NOT NULL, input TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS response_used ON response(used, bytes);"
    "PRAGMA user_version = 1;"
    "COMMIT;";

struct store {
    sqlite3 *db;
    sqlite3_stmt *query[N_QUERY];
    pthread_mutex_t lock;
    char *path;
    int64_t max_bytes, max_age_s;
};

/* ---- opening ---- */

static glim_status broken(const struct store *s, const char *what, struct glim_err *e)
{
    return err_set(e, GLIM_FAILED, "store: %s: have '%s' when %s, need a working SQLite file", s->path,
                   s->db ? sqlite3_errmsg(s->db) : "out of memory", what);
}

/* SQLite gives its other files the mode of the first. */
static glim_status make_private(const struct store *s, struct glim_err *e)
{
    char *folder = path_dir(s->path);
    glim_status st = folder ? file_mkdirs(folder, e) : err_nomem(e, "store", strlen(s->path));
    mem_free(folder);
    TRY(st);
    int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(e, GLIM_FAILED, "store: %s: have '%s', need a file to write to", s->path, strerror(errno));
    close(fd);
    return GLIM_OK;
}

static glim_status read_version(struct store *s, int *version, struct glim_err *e)
{
    sqlite3_stmt *q = NULL;
    *version = 0;
    if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL) != SQLITE_OK || sqlite3_step(q) != SQLITE_ROW) {
        sqlite3_finalize(q);
        return broken(s, "reading it", e);
    }
    *version = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    return GLIM_OK;
}

static glim_status prepare(struct store *s, struct glim_err *e)
{
    static const char settings[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;"
                                   "PRAGMA journal_size_limit = 4194304; PRAGMA trusted_schema = OFF;";
    int version;
    sqlite3_busy_timeout(s->db, BUSY_MS);
    if (sqlite3_exec(s->db, settings, NULL, NULL, NULL) != SQLITE_OK)
        return broken(s, "opening it", e);
    TRY(read_version(s, &version, e));
    if (version > VERSION)
        return err_set(e, GLIM_FAILED, "store: %s: have version %d, need at most %d: it belongs to a newer glim",
                       s->path, version, VERSION);
    if (version < VERSION && sqlite3_exec(s->db, schema_sql, NULL, NULL, NULL) != SQLITE_OK)
        return broken(s, "making its table", e);
    for (int i = 0; i < N_QUERY; i++)
        if (sqlite3_prepare_v3(s->db, query_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->query[i], NULL) != SQLITE_OK)
            return broken(s, "preparing queries", e);
    return GLIM_OK;
}

glim_status store_open(struct store **out, const struct store_config *c, struct glim_err *e)
{
    glim_status st;
    struct store *s = mem_calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return err_nomem(e, "store", sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    s->max_bytes = c->max_bytes;
    s->max_age_s = c->max_age_s;
    if (!(s->path = mem_strdup(c->path)))
        TRY_OUT(err_nomem(e, "store", strlen(c->path)));
    TRY_OUT(make_private(s, e));
    if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        TRY_OUT(broken(s, "opening it", e));
    TRY_OUT(prepare(s, e));
out:
    if (st != GLIM_OK)
        store_close(s);
    else
        *out = s;
    return st;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    for (int i = 0; i < N_QUERY; i++)
        sqlite3_finalize(s->query[i]);
    sqlite3_close(s->db);
    pthread_mutex_destroy(&s->lock);
    mem_free(s->path);
    mem_free(s);
}

/* ---- queries, with the lock ---- */

static bool bind_text(sqlite3_stmt *q, int at, const char *text)
{
    return (text ? sqlite3_bind_text(q, at, text, -1, SQLITE_STATIC) : sqlite3_bind_null(q, at)) == SQLITE_OK;
}

/* Run to the end a query that gives no rows. */
static glim_status finish(struct store *s, enum query i, bool bound, const char *what, struct glim_err *e)
{
    sqlite3_stmt *q = s->query[i];
    glim_status st = bound && sqlite3_step(q) == SQLITE_DONE ? GLIM_OK : broken(s, what, e);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return st;
}

static glim_status exec(struct store *s, const char *sql, struct glim_err *e)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? GLIM_OK : broken(s, sql, e);
}

/* All of it or nothing: st is how the part in between went. */
static glim_status end_transaction(struct store *s, glim_status st, struct glim_err *e)
{
    if (st == GLIM_OK && (st = exec(s, "COMMIT", e)) == GLIM_OK)
        return GLIM_OK;
    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

static glim_status size_of(struct store *s, int64_t *bytes, int64_t *n, struct glim_err *e)
{
    sqlite3_stmt *q = s->query[Q_SIZE];
    glim_status st = sqlite3_step(q) == SQLITE_ROW ? GLIM_OK : broken(s, "counting", e);
    if (st == GLIM_OK) {
        *bytes = sqlite3_column_int64(q, 0);
        *n = sqlite3_column_int64(q, 1);
    }
    sqlite3_reset(q);
    return st;
}

/* Room for `more` bytes. A tenth more than needed goes at a time, so that not every put looks at every entry. */
static glim_status drop_old(struct store *s, int64_t now, int64_t more, struct glim_err *e)
{
    int64_t bytes, n, keep = s->max_bytes - more;
    sqlite3_stmt *q = s->query[Q_OLD];
    TRY(finish(s, Q_OLD, sqlite3_bind_int64(q, 1, now - s->max_age_s) == SQLITE_OK, "dropping the oldest", e));
    TRY(size_of(s, &bytes, &n, e));
    if (bytes <= keep)
        return GLIM_OK;
    q = s->query[Q_SHRINK];
    return finish(s, Q_SHRINK, sqlite3_bind_int64(q, 1, keep - keep / 10) == SQLITE_OK, "dropping the oldest", e);
}

static glim_status use(struct store *s, const char *id, int64_t now, struct glim_err *e)
{
    sqlite3_stmt *q = s->query[Q_USE];
    bool bound = bind_text(q, 1, id) && sqlite3_bind_int64(q, 2, now) == SQLITE_OK;
    return finish(s, Q_USE, bound, "marking as used", e);
}

/* ---- entries ---- */

static glim_status put(struct store *s, const struct store_entry *entry, int64_t bytes, struct glim_err *e)
{
    sqlite3_stmt *q = s->query[Q_PUT];
    int64_t now = (int64_t)time(NULL);
    TRY(drop_old(s, now, bytes, e));
    bool bound = bind_text(q, 1, entry->id) && bind_text(q, 2, entry->previous) &&
                 sqlite3_bind_int64(q, 3, now) == SQLITE_OK && sqlite3_bind_int64(q, 4, bytes) == SQLITE_OK &&
                 bind_text(q, 5, entry->body) && bind_text(q, 6, entry->input);
    return finish(s, Q_PUT, bound, "writing", e);
}

glim_status store_put(struct store *s, const struct store_entry *entry, struct glim_err *e)
{
    int64_t bytes = (int64_t)(strlen(entry->body) + strlen(entry->input));
    if (bytes > s->max_bytes)
        return err_set(e, GLIM_REFUSED, "store: response: have %lld bytes, need at most %lld", (long long)bytes,
                       (long long)s->max_bytes);
    pthread_mutex_lock(&s->lock);
    glim_status st = exec(s, "BEGIN IMMEDIATE", e);
    if (st == GLIM_OK)
        st = end_transaction(s, put(s, entry, bytes, e), e);
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* One entry's texts, fresh; body NULL when there is none. */
struct entry {
    char *body, *input;
    char previous[STORE_ID_MAX];
};

static glim_status copy_column(sqlite3_stmt *q, int i, char **out, struct glim_err *e)
{
    const char *text = (const char *)sqlite3_column_text(q, i);
    *out = text ? mem_strdup(text) : NULL;
    return *out ? GLIM_OK : err_nomem(e, "store", (size_t)sqlite3_column_bytes(q, i));
}

static void entry_fini(struct entry *x)
{
    mem_free(x->body);
    mem_free(x->input);
    *x = (struct entry){0};
}

static glim_status read_entry(struct store *s, const char *id, struct entry *x, struct glim_err *e)
{
    sqlite3_stmt *q = s->query[Q_GET];
    *x = (struct entry){0};
    int rc = bind_text(q, 1, id) ? sqlite3_step(q) : SQLITE_NOMEM;
    glim_status st = rc == SQLITE_ROW || rc == SQLITE_DONE ? GLIM_OK : broken(s, "reading", e);
    if (rc == SQLITE_ROW) {
        const char *previous = (const char *)sqlite3_column_text(q, 2);
        snprintf(x->previous, sizeof x->previous, "%s", previous ? previous : "");
        st = copy_column(q, 0, &x->body, e);
        if (st == GLIM_OK)
            st = copy_column(q, 1, &x->input, e);
    }
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    if (st != GLIM_OK)
        entry_fini(x);
    return st;
}

/* Is it past its age? Then it is as good as gone, also before a put has dropped it. */
static glim_status forget_old(struct store *s, struct glim_err *e)
{
    sqlite3_stmt *q = s->query[Q_OLD];
    int64_t limit = (int64_t)time(NULL) - s->max_age_s;
    return finish(s, Q_OLD, sqlite3_bind_int64(q, 1, limit) == SQLITE_OK, "dropping the oldest", e);
}

glim_status store_get(struct store *s, const char *id, char **body, struct glim_err *e)
{
    struct entry x = {0};
    *body = NULL;
    pthread_mutex_lock(&s->lock);
    glim_status st = forget_old(s, e);
    if (st == GLIM_OK)
        st = read_entry(s, id, &x, e);
    if (st == GLIM_OK && x.body)
        st = use(s, id, (int64_t)time(NULL), e);
    pthread_mutex_unlock(&s->lock);
    if (st == GLIM_OK) {
        *body = x.body;
        x.body = NULL;
    }
    entry_fini(&x);
    return st;
}

glim_status store_delete(struct store *s, const char *id, bool *found, struct glim_err *e)
{
    pthread_mutex_lock(&s->lock);
    glim_status st = finish(s, Q_DELETE, bind_text(s->query[Q_DELETE], 1, id), "deleting", e);
    *found = st == GLIM_OK && sqlite3_changes(s->db) > 0;
    pthread_mutex_unlock(&s->lock);
    return st;
}

glim_status store_size(struct store *s, int64_t *bytes, int64_t *n, struct glim_err *e)
{
    pthread_mutex_lock(&s->lock);
    glim_status st = size_of(s, bytes, n, e);
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* ---- chains ---- */

/* A list's items, the last one first. What is stored is ours, but the file may be damaged. */
static glim_status add_reversed(json_t *list, const char *text, const char *member, struct glim_err *e)
{
    json_t *whole;
    TRY(json_parse(text, strlen(text), "store: entry", &whole, e));
    const json_t *from = member ? json_object_get(whole, member) : whole;
    bool ok = true;
    for (size_t i = json_array_size(from); i-- > 0;)
        ok = json_array_append(list, json_array_get(from, i)) == 0 && ok;
    glim_status st = !json_is_array(from) ? err_set(e, GLIM_FAILED, "store: entry: have no list of items, need one")
                     : ok                 ? GLIM_OK
                                          : err_nomem(e, "conversation", strlen(text));
    json_decref(whole);
    return st;
}

static json_t *reversed(const json_t *from)
{
    json_t *list = json_array();
    for (size_t i = json_array_size(from); list && i-- > 0;)
        if (json_array_append(list, json_array_get(from, i)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* From the last link to the first. */
static glim_status walk(struct store *s, const char *id, bool only_input, size_t max_bytes, json_t *list,
                        char missing[STORE_ID_MAX], struct glim_err *e)
{
    struct entry x;
    char at[STORE_ID_MAX];
    int64_t now = (int64_t)time(NULL);
    size_t bytes = 0;
    glim_status st = GLIM_OK;
    snprintf(at, sizeof at, "%s", id);
    for (size_t n = 0; st == GLIM_OK && at[0]; n++) {
        if (n == STORE_MAX_CHAIN)
            return err_set(e, GLIM_REFUSED, "store: conversation: have more than %d responses, need fewer",
                           STORE_MAX_CHAIN);
        TRY(read_entry(s, at, &x, e));
        if (!x.body) {
            snprintf(missing, STORE_ID_MAX, "%s", at);
            return GLIM_OK;
        }
        bytes += strlen(x.body) + strlen(x.input);
        st = bytes > max_bytes
                 ? err_set(e, GLIM_REFUSED, "store: conversation: have more than %zu bytes, need fewer", max_bytes)
                 : use(s, at, now, e);
        if (st == GLIM_OK && !(only_input && n == 0))
            st = add_reversed(list, x.body, "output", e);
        if (st == GLIM_OK)
            st = add_reversed(list, x.input, NULL, e);
        memcpy(at, x.previous, sizeof at);
        entry_fini(&x);
    }
    return st;
}

glim_status store_chain(struct store *s, const char *id, bool only_input, size_t max_bytes, json_t **items,
                        char missing[STORE_ID_MAX], struct glim_err *e)
{
    missing[0] = 0;
    json_setup();
    json_t *list = json_array();
    *items = NULL;
    if (!list)
        return err_nomem(e, "conversation", 0);
    pthread_mutex_lock(&s->lock);
    glim_status st = exec(s, "BEGIN IMMEDIATE", e);
    if (st == GLIM_OK)
        st = forget_old(s, e);
    if (st == GLIM_OK)
        st = walk(s, id, only_input, max_bytes, list, missing, e);
    st = end_transaction(s, st, e);
    pthread_mutex_unlock(&s->lock);
    if (st == GLIM_OK && !missing[0] && !(*items = reversed(list)))
        st = err_nomem(e, "conversation", json_array_size(list));
    json_decref(list);
    return st;
}
