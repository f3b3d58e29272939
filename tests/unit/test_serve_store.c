/* If this fails: a conversation that a client comes back to is another one or gone, what was deleted can still be read,
 * the file grows without end or is readable by others, or lack of memory or a damaged file ends the server. */
#include "serve/store.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAY_S = 86400, BIG = 1 << 30 };

struct place {
    char folder[64], path[96];
};

static int make_place(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    snprintf(p->folder, sizeof p->folder, "/tmp/glim-store-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->path, sizeof p->path, "%s/home/r.db", p->folder);
    *state = p;
    return 0;
}

static int drop_place(void **state)
{
    struct place *p = *state;
    static const char *const end[] = {"", "-wal", "-shm"};
    char path[128];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", p->path, end[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/home", p->folder);
    rmdir(path);
    rmdir(p->folder);
    free(p);
    return 0;
}

static struct store *open_store(const char *path, int64_t max_bytes)
{
    struct store *s;
    struct glim_err e;
    struct store_config c = {.path = path, .max_bytes = max_bytes, .max_age_s = DAY_S};
    if (store_open(&s, &c, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return s;
}

/* Body and input of a made-up response: one item in, one out. */
static struct store_entry entry_of(const char *id, const char *previous, char body[256], char input[256])
{
    snprintf(body, 256, "{\"id\":\"%s\",\"output\":[{\"id\":\"out of %s\"}]}", id, id);
    snprintf(input, 256, "[{\"id\":\"in of %s\"}]", id);
    return (struct store_entry){.id = id, .previous = previous, .body = body, .input = input};
}

static glim_status try_put(struct store *s, const char *id, const char *previous, struct glim_err *e)
{
    char body[256], input[256];
    struct store_entry x = entry_of(id, previous, body, input);
    return store_put(s, &x, e);
}

static void put(struct store *s, const char *id, const char *previous)
{
    struct glim_err e;
    if (try_put(s, id, previous, &e) != GLIM_OK)
        fail_msg("%s", e.message);
}

static bool has(struct store *s, const char *id)
{
    char *body, want[256], input[256];
    struct glim_err e;
    entry_of(id, NULL, want, input);
    assert_int_equal(store_get(s, id, &body, &e), GLIM_OK);
    if (body)
        assert_string_equal(body, want);
    bool there = body != NULL;
    mem_free(body);
    return there;
}

static int64_t count(struct store *s, int64_t *bytes)
{
    int64_t n;
    struct glim_err e;
    assert_int_equal(store_size(s, bytes, &n, &e), GLIM_OK);
    return n;
}

/* The ids of a chain's items, joined by commas; "-ID" when ID is missing. */
static void check_chain(struct store *s, const char *id, bool only_input, const char *want)
{
    json_t *items;
    char missing[STORE_ID_MAX];
    struct glim_err e;
    struct str have = {0};
    assert_int_equal(store_chain(s, id, only_input, BIG, &items, missing, &e), GLIM_OK);
    for (size_t i = 0; i < json_array_size(items); i++)
        str_printf(&have, "%s%s", i ? "," : "", json_string_value(json_object_get(json_array_get(items, i), "id")));
    if (!items)
        str_printf(&have, "-%s", missing);
    assert_string_equal(have.s, want);
    str_fini(&have);
    json_decref(items);
}

static void test_kept_across_restarts(void **state)
{
    struct place *p = *state;
    struct glim_err e;
    bool found;
    struct store *s = open_store(p->path, BIG);
    put(s, "a", NULL);
    put(s, "b", "a");
    assert_true(has(s, "a"));
    assert_false(has(s, "c"));
    store_close(s);
    s = open_store(p->path, BIG);
    assert_true(has(s, "a"));
    check_chain(s, "b", false, "in of a,out of a,in of b,out of b");
    assert_int_equal(store_delete(s, "a", &found, &e), GLIM_OK);
    assert_true(found);
    assert_int_equal(store_delete(s, "a", &found, &e), GLIM_OK);
    assert_false(found);
    store_close(s);
    s = open_store(p->path, BIG);
    assert_false(has(s, "a"));
    assert_true(has(s, "b"));
    store_close(s);
    store_close(NULL);
}

static void test_chains(void **state)
{
    struct place *p = *state;
    struct store *s = open_store(p->path, BIG);
    put(s, "a", NULL);
    put(s, "b", "a");
    put(s, "c", "b");
    put(s, "other", "b");
    check_chain(s, "a", false, "in of a,out of a");
    check_chain(s, "c", false, "in of a,out of a,in of b,out of b,in of c,out of c");
    check_chain(s, "c", true, "in of a,out of a,in of b,out of b,in of c");
    check_chain(s, "a", true, "in of a");
    check_chain(s, "nobody", false, "-nobody");
    put(s, "orphan", "gone");
    check_chain(s, "orphan", false, "-gone");
    store_close(s);
}

static void test_chains_have_an_end(void **state)
{
    struct place *p = *state;
    struct store *s = open_store(p->path, BIG);
    json_t *items;
    char missing[STORE_ID_MAX];
    struct glim_err e;
    put(s, "a", "b");
    put(s, "b", "a");
    assert_int_equal(store_chain(s, "a", false, BIG, &items, missing, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have more than 4096 responses"));
    assert_int_equal(store_chain(s, "a", false, 1000, &items, missing, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have more than 1000 bytes"));
    assert_null(items);
    put(s, "c", NULL); /* and the store still works */
    check_chain(s, "c", false, "in of c,out of c");
    store_close(s);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void test_size_is_bounded(void **state)
{
    struct place *p = *state;
    enum { EACH = 60 }; /* about; the bound is 1000 */
    struct store *s = open_store(p->path, 1000);
    int64_t bytes;
    char id[16];
    struct glim_err e;
    for (int i = 0; i < 200; i++) {
        snprintf(id, sizeof id, "id%d", i);
        put(s, id, NULL);
        int64_t n = count(s, &bytes);
        assert_true(bytes <= 1000);
        assert_true(i < 15 ? n == i + 1 : n > (1000 - 2 * EACH) * 9 / 10 / EACH - 1);
        assert_true(has(s, id));
    }
    assert_false(has(s, "id0"));
    char *large = calloc(1, 1001);
    memset(large, ' ', 1000);
    struct store_entry x = {.id = "large", .body = large, .input = "[]"};
    assert_int_equal(store_put(s, &x, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have 1002 bytes, need at most 1000"));
    free(large);
    assert_true(has(s, "id199"));
    store_close(s);
}

/* A conversation that goes on keeps its beginning; what nobody uses goes. */
static void test_the_unused_go_first(void **state)
{
    struct place *p = *state;
    struct store *s = open_store(p->path, 1000);
    char id[16];
    put(s, "root", NULL);
    put(s, "idle", NULL);
    for (int i = 0; i < 30; i++) {
        run_sql(p->path, "UPDATE response SET used = used - 10");
        snprintf(id, sizeof id, "id%d", i);
        put(s, id, "root");
        char want[96];
        snprintf(want, sizeof want, "in of root,out of root,in of %s,out of %s", id, id);
        check_chain(s, id, false, want);
    }
    assert_true(has(s, "root"));
    assert_false(has(s, "idle"));
    assert_false(has(s, "id0"));
    store_close(s);
}

static void test_age_is_bounded(void **state)
{
    struct place *p = *state;
    struct store *s = open_store(p->path, BIG);
    int64_t bytes;
    put(s, "old", NULL);
    put(s, "new", NULL);
    run_sql(p->path, "UPDATE response SET used = used - 86300 WHERE id = 'new'");
    assert_true(has(s, "new"));
    run_sql(p->path, "UPDATE response SET used = used - 86500 WHERE id = 'old'");
    assert_false(has(s, "old"));
    assert_true(has(s, "new"));
    run_sql(p->path, "UPDATE response SET used = used - 86500");
    check_chain(s, "new", false, "-new");
    run_sql(p->path, "DELETE FROM response");
    put(s, "old", NULL);
    run_sql(p->path, "UPDATE response SET used = used - 86500");
    put(s, "new", NULL);
    assert_int_equal(count(s, &bytes), 1);
    store_close(s);
}

static void test_files_are_private(void **state)
{
    struct place *p = *state;
    static const char *const end[] = {"", "-wal", "-shm"};
    umask(0);
    struct store *s = open_store(p->path, BIG);
    put(s, "a", NULL);
    for (int i = 0; i < 3; i++) {
        char path[128];
        struct stat st;
        snprintf(path, sizeof path, "%s%s", p->path, end[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    store_close(s);
    umask(022);
}

static bool file_has(const char *path, const char *word)
{
    char *text;
    size_t n;
    struct glim_err e;
    assert_int_equal(file_read(path, BIG, &text, &n, &e), GLIM_OK);
    bool found = memmem(text, n, word, strlen(word)) != NULL;
    mem_free(text);
    return found;
}

static void test_what_is_deleted_is_overwritten(void **state)
{
    struct place *p = *state;
    struct store *s = open_store(p->path, BIG);
    struct glim_err e;
    bool found;
    put(s, "secret-of-mine", NULL);
    store_close(s);
    assert_true(file_has(p->path, "secret-of-mine"));
    s = open_store(p->path, BIG);
    assert_int_equal(store_delete(s, "secret-of-mine", &found, &e), GLIM_OK);
    store_close(s);
    assert_false(file_has(p->path, "secret-of-mine"));
}

static void test_files_that_cannot_be_used(void **state)
{
    struct place *p = *state;
    struct store *s;
    struct glim_err e;
    struct store_config c = {.path = p->path, .max_bytes = BIG, .max_age_s = DAY_S};
    static const char junk[] = "This is no database, but it is long enough to be looked at as one by those who look.";
    store_close(open_store(p->path, BIG));
    run_sql(p->path, "PRAGMA user_version = 99");
    assert_int_equal(store_open(&s, &c, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "have version 99, need at most 1"));
    assert_null(s);
    unlink(p->path);
    assert_int_equal(file_write_atomic(p->path, junk, sizeof junk, &e), GLIM_OK);
    assert_int_equal(store_open(&s, &c, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, p->path));
    c.path = "/proc/none/r.db";
    assert_int_equal(store_open(&s, &c, &e), GLIM_FAILED);
    c.path = "/proc/version";
    assert_int_equal(store_open(&s, &c, &e), GLIM_FAILED);
}

static void test_damaged_entries(void **state)
{
    struct place *p = *state;
    struct store *s = open_store(p->path, BIG);
    json_t *items;
    char missing[STORE_ID_MAX];
    struct glim_err e;
    put(s, "a", NULL);
    run_sql(p->path, "UPDATE response SET input = '[{'");
    assert_int_equal(store_chain(s, "a", false, BIG, &items, missing, &e), GLIM_FAILED);
    run_sql(p->path, "UPDATE response SET input = '{}'");
    assert_int_equal(store_chain(s, "a", false, BIG, &items, missing, &e), GLIM_FAILED);
    run_sql(p->path, "UPDATE response SET input = '[]', body = '{}'");
    assert_int_equal(store_chain(s, "a", false, BIG, &items, missing, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "have no list of items"));
    put(s, "b", NULL);
    assert_int_equal(try_put(s, "b", NULL, &e), GLIM_FAILED); /* an id is there once */
    assert_true(has(s, "b"));
    store_close(s);
}

struct writer {
    struct store *s;
    int which;
    bool ok;
};

static void *write_many(void *arg)
{
    struct writer *w = arg;
    struct glim_err e;
    w->ok = true;
    for (int i = 0; i < 50; i++) {
        char id[24];
        snprintf(id, sizeof id, "w%d-%d", w->which, i);
        w->ok = w->ok && try_put(w->s, id, NULL, &e) == GLIM_OK;
    }
    return NULL;
}

/* Workers of one server, and two servers with one file. */
static void test_shared(void **state)
{
    struct place *p = *state;
    struct store *s[2] = {open_store(p->path, BIG), open_store(p->path, BIG)};
    struct writer w[4];
    pthread_t t[4];
    int64_t bytes;
    for (int i = 0; i < 4; i++) {
        w[i] = (struct writer){.s = s[i % 2], .which = i};
        assert_int_equal(pthread_create(&t[i], NULL, write_many, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        assert_true(w[i].ok);
    }
    assert_int_equal(count(s[0], &bytes), 200);
    assert_int_equal(count(s[1], &bytes), 200);
    store_close(s[0]);
    store_close(s[1]);
}

static void test_no_memory(void **state)
{
    struct place *p = *state;
    struct store *s;
    struct glim_err e;
    struct store_config c = {.path = p->path, .max_bytes = BIG, .max_age_s = DAY_S};
    glim_status st = GLIM_FAILED;
    long n;
    for (n = 1; st != GLIM_OK; n++) {
        mem_fail_after(n);
        st = store_open(&s, &c, &e);
        mem_fail_after(0);
        assert_true(n < 1000 && (st == GLIM_OK || (st == GLIM_FAILED && !s)));
    }
    assert_true(n > 3);
    put(s, "a", NULL);
    put(s, "b", "a");
    for (st = GLIM_FAILED, n = 1; st != GLIM_OK; n++) {
        char *body;
        mem_fail_after(n);
        st = store_get(s, "a", &body, &e);
        mem_fail_after(0);
        assert_true(n < 1000 && (st == GLIM_OK) == (body != NULL));
        mem_free(body);
    }
    for (st = GLIM_FAILED, n = 1; st != GLIM_OK; n++) {
        json_t *items;
        char missing[STORE_ID_MAX];
        mem_fail_after(n);
        st = store_chain(s, "b", false, BIG, &items, missing, &e);
        mem_fail_after(0);
        assert_true(n < 1000 && (st == GLIM_OK) == (items != NULL));
        json_decref(items);
    }
    check_chain(s, "b", false, "in of a,out of a,in of b,out of b");
    store_close(s);
}

int main(void)
{
#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, drop_place)
    const struct CMUnitTest tests[] = {
        IN_A_PLACE(test_kept_across_restarts),
        IN_A_PLACE(test_chains),
        IN_A_PLACE(test_chains_have_an_end),
        IN_A_PLACE(test_size_is_bounded),
        IN_A_PLACE(test_the_unused_go_first),
        IN_A_PLACE(test_age_is_bounded),
        IN_A_PLACE(test_files_are_private),
        IN_A_PLACE(test_what_is_deleted_is_overwritten),
        IN_A_PLACE(test_files_that_cannot_be_used),
        IN_A_PLACE(test_damaged_entries),
        IN_A_PLACE(test_shared),
        IN_A_PLACE(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
