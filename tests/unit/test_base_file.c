/* If this fails: a missing, empty or unreadable model is reported wrongly or crashes, or a power cut leaves half a file
 * behind. */
#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[32], path[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/glim-test-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/f", dir);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    file_fail_after(0);
    mem_fail_after(0);
    unlink(path);
    return rmdir(dir);
}

static int n_entries(void)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *r; d && (r = readdir(d));)
        n += r->d_name[0] != '.';
    closedir(d);
    return n;
}

static void put(const char *text)
{
    struct glim_err e;
    assert_int_equal(file_write_atomic(path, text, strlen(text), &e), GLIM_OK);
}

static void a_map_shows_the_bytes(void **state)
{
    (void)state;
    struct file_map m;
    struct glim_err e;
    put("0123456789");
    assert_int_equal(file_map_open(&m, path, &e), GLIM_OK);
    assert_int_equal(m.size, 10);
    assert_memory_equal(m.data, "0123456789", 10);
    assert_string_equal(m.path, path);
    file_map_want(&m, 2, 3);
    file_map_drop(&m, 2, 3);
    file_map_drop(&m, 5, SIZE_MAX); /* beyond the end, and beyond overflow */
    file_map_want(&m, SIZE_MAX, SIZE_MAX);
    assert_memory_equal(m.data, "0123456789", 10); /* dropped pages come back */
    file_map_close(&m);
    file_map_close(&m);
}

/* Memory right behind a map is somebody else's: dropping must stop at the end, whatever the caller says. */
static void drop_stops_at_the_end_of_the_map(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(room != MAP_FAILED);
    memset(room, 7, 2 * page);
    struct file_map m = {.data = room, .size = page};
    file_map_drop(&m, 0, 2 * page);
    assert_int_equal(room[page], 7);
    assert_int_equal(room[0], 0); /* the part that was meant is gone */
    munmap(room, 2 * page);
}

/* Dropped pages leave the resident set; this is what lets a machine repack weights that fill half its memory. */
static void drop_gives_pages_back(void **state)
{
    (void)state;
    const size_t n = (size_t)8 << 20;
    struct file_map m;
    struct glim_err e;
    char *b = mem_calloc(n, 1);
    assert_int_equal(file_write_atomic(path, b, n, &e), GLIM_OK);
    mem_free(b);
    assert_int_equal(file_map_open(&m, path, &e), GLIM_OK);
    long resident[2];
    for (int i = 0; i < 2; i++) {
        unsigned sum = 0;
        for (size_t k = 0; k < n; k += 512)
            sum += m.data[k];
        assert_int_equal(sum, 0);
        if (i == 1)
            file_map_drop(&m, 0, n);
        char text[128] = "";
        FILE *f = fopen("/proc/self/statm", "r");
        assert_non_null(f);
        assert_non_null(fgets(text, sizeof text, f));
        fclose(f);
        assert_int_equal(sscanf(text, "%*d %ld", &resident[i]), 1);
    }
    assert_true((resident[0] - resident[1]) * sysconf(_SC_PAGESIZE) > (long)n / 2);
    file_map_close(&m);
}

static void what_cannot_be_mapped_is_named(void **state)
{
    (void)state;
    struct file_map m;
    struct glim_err e;
    char want[160];
    assert_int_equal(file_map_open(&m, path, &e), GLIM_FAILED);
    snprintf(want, sizeof want, "cannot open: %s: have 'No such file or directory', need a readable file", path);
    assert_string_equal(e.message, want);
    assert_null(m.data);
    file_map_close(&m);

    assert_int_equal(file_map_open(&m, dir, &e), GLIM_FAILED);
    snprintf(want, sizeof want, "cannot open: %s: have a folder, need a file", dir);
    assert_string_equal(e.message, want);

    put("");
    assert_int_equal(file_map_open(&m, path, &e), GLIM_FAILED);
    snprintf(want, sizeof want, "cannot map: %s: have 0 bytes, need at least 1", path);
    assert_string_equal(e.message, want);

    assert_int_equal(file_map_open(&m, "/dev/null", &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "regular file"));
}

static void read_returns_everything_up_to_the_limit(void **state)
{
    (void)state;
    char *b;
    size_t n;
    struct glim_err e;
    put("hello");
    assert_int_equal(file_read(path, 5, &b, &n, &e), GLIM_OK);
    assert_int_equal(n, 5);
    assert_string_equal(b, "hello");
    mem_free(b);
    assert_int_equal(file_read(path, 4, &b, &n, &e), GLIM_REFUSED);
    assert_null(b);
    put("");
    assert_int_equal(file_read(path, 0, &b, &n, &e), GLIM_OK);
    assert_int_equal(n, 0);
    assert_string_equal(b, "");
    mem_free(b);
    assert_int_equal(file_read(dir, 100, &b, &n, &e), GLIM_FAILED);
    assert_int_equal(file_read("/nonexistent/x", 100, &b, &n, &e), GLIM_FAILED);
}

/* Files without a size: the reader must grow as it goes, and still stop at the limit. */
static void read_copes_with_files_that_tell_no_size(void **state)
{
    (void)state;
    char *b;
    size_t n;
    struct glim_err e;
    assert_int_equal(file_read("/proc/self/status", SIZE_MAX, &b, &n, &e), GLIM_OK);
    assert_true(n > 200 && strlen(b) == n);
    mem_free(b);
    assert_int_equal(file_read("/proc/self/status", 100, &b, &n, &e), GLIM_REFUSED);
    assert_int_equal(file_read("/dev/zero", 100000, &b, &n, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "need at most 100000"));
    assert_null(b);
}

static void a_write_replaces_the_whole_file(void **state)
{
    (void)state;
    char *b;
    size_t n;
    struct glim_err e;
    put("a long first version");
    put("short");
    assert_int_equal(file_size(path, &n, &e), GLIM_OK);
    assert_int_equal(n, 5);
    assert_int_equal(file_read(path, 100, &b, &n, &e), GLIM_OK);
    assert_string_equal(b, "short");
    mem_free(b);
    assert_int_equal(n_entries(), 1);
    assert_int_equal(file_write_atomic("/nonexistent/x", "a", 1, &e), GLIM_FAILED);
    assert_int_equal(file_write_atomic(dir, "a", 1, &e), GLIM_FAILED); /* a folder is not replaced */
}

/* Every step of a write fails once: the old content stays whole and no temporary is left. */
static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    struct glim_err e;
    put("old");
    glim_status st = GLIM_FAILED;
    long k = 0;
    while (st != GLIM_OK) {
        assert_true(++k < 20);
        file_fail_after(k);
        st = file_write_atomic(path, "new!", 4, &e);
        file_fail_after(0);
        char *b;
        size_t n;
        struct glim_err e2;
        assert_int_equal(file_read(path, 100, &b, &n, &e2), GLIM_OK);
        assert_string_equal(b, st == GLIM_OK ? "new!" : "old");
        mem_free(b);
        assert_int_equal(n_entries(), 1);
        if (st != GLIM_OK)
            assert_non_null(strstr(e.message, "Input/output error"));
    }
    assert_int_equal(k, 5); /* open, write, sync, rename each failed once */
    mem_fail_after(1);
    assert_int_equal(file_write_atomic(path, "x", 1, &e), GLIM_FAILED);
}

static void injected_faults_reach_every_reader(void **state)
{
    (void)state;
    struct glim_err e;
    struct file_map m;
    char *b;
    size_t n;
    put("text");
    for (long k = 1; k <= 2; k++) {
        file_fail_after(k);
        assert_int_equal(file_map_open(&m, path, &e), GLIM_FAILED);
        file_fail_after(k);
        assert_int_equal(file_read(path, 100, &b, &n, &e), GLIM_FAILED);
        assert_null(b);
        file_fail_after(0);
        mem_fail_after(1);
        assert_int_equal(file_map_open(&m, path, &e), GLIM_FAILED);
        assert_int_equal(file_read(path, 100, &b, &n, &e), GLIM_FAILED);
        mem_fail_after(0);
    }
    file_fail_after(1);
    assert_int_equal(file_size(path, &n, &e), GLIM_FAILED);
    file_fail_after(0);
    mem_fail_after(2); /* growing the buffer of a file without a size */
    assert_int_equal(file_read("/dev/zero", 1 << 20, &b, &n, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "out of memory"));
}

static void questions_about_paths(void **state)
{
    (void)state;
    struct glim_err e;
    size_t n;
    assert_false(file_exists(path));
    put("x");
    assert_true(file_exists(path));
    assert_false(file_is_dir(path));
    assert_true(file_is_dir(dir));
    assert_int_equal(file_size(dir, &n, &e), GLIM_FAILED);
    assert_int_equal(file_size("/nonexistent", &n, &e), GLIM_FAILED);
}

static void mkdirs_makes_all_parents(void **state)
{
    (void)state;
    struct glim_err e;
    char deep[96], inner[80];
    snprintf(inner, sizeof inner, "%s/a", dir);
    snprintf(deep, sizeof deep, "%s//b/", inner);
    assert_int_equal(file_mkdirs(deep, &e), GLIM_OK);
    assert_true(file_is_dir(deep));
    assert_int_equal(file_mkdirs(deep, &e), GLIM_OK);
    assert_int_equal(file_mkdirs("/", &e), GLIM_OK);
    rmdir(deep);
    rmdir(inner);
    put("x");
    snprintf(deep, sizeof deep, "%s/y", path); /* below a file */
    assert_int_equal(file_mkdirs(deep, &e), GLIM_FAILED);
    assert_int_equal(file_mkdirs(path, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "cannot create folder"));
    mem_fail_after(1);
    assert_int_equal(file_mkdirs(dir, &e), GLIM_FAILED);
}

static void paths_are_joined_and_cut(void **state)
{
    (void)state;
    const char *join[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "/b"}};
    for (size_t i = 0; i < sizeof join / sizeof *join; i++) {
        char *p = path_join(join[i][0], join[i][1]);
        assert_string_equal(p, join[i][2]);
        mem_free(p);
    }
    const char *cut[][2] = {{"a/b.gguf", "a"}, {"b", "."},    {"/b", "/"}, {"/", "/"},
                            {"a/b/", "a"},     {"a//b", "a"}, {"", "."},   {"/a/b", "/a"}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char *p = path_dir(cut[i][0]);
        assert_string_equal(p, cut[i][1]);
        mem_free(p);
    }
    mem_fail_after(1);
    assert_null(path_join("a", "b"));
    assert_null(path_dir("a"));
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_map_shows_the_bytes),
        cmocka_unit_test(drop_stops_at_the_end_of_the_map),
        IN_FOLDER(drop_gives_pages_back),
        IN_FOLDER(what_cannot_be_mapped_is_named),
        IN_FOLDER(read_returns_everything_up_to_the_limit),
        IN_FOLDER(read_copes_with_files_that_tell_no_size),
        IN_FOLDER(a_write_replaces_the_whole_file),
        IN_FOLDER(a_failed_write_leaves_the_old_file),
        IN_FOLDER(injected_faults_reach_every_reader),
        IN_FOLDER(questions_about_paths),
        IN_FOLDER(mkdirs_makes_all_parents),
        IN_FOLDER(paths_are_joined_and_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
