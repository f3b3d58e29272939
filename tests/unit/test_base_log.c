/* If this fails: a log collector cannot read our lines, lines of two threads mix, or a hostile name forges a line of
 * its own. */
#include "base/log.h"
#include "base/json.h"
#include "base/mem.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Standard error goes to a temporary file between capture_begin and capture_end. */
static int saved_err, sink;
static char caught[1 << 20];

static void capture_begin(void)
{
    char name[] = "/tmp/glim-test-XXXXXX";
    fflush(stderr);
    saved_err = dup(2);
    sink = mkstemp(name);
    unlink(name);
    dup2(sink, 2);
}

static void capture_end(void)
{
    dup2(saved_err, 2);
    close(saved_err);
    ssize_t n = pread(sink, caught, sizeof caught - 1, 0);
    close(sink);
    caught[n > 0 ? n : 0] = 0;
}

static void levels_are_filtered(void **state)
{
    (void)state;
    capture_begin();
    log_line(LOG_WARN, "a", "shown");
    log_line(LOG_INFO, "a", "hidden");
    log_setup(LOG_DEBUG, LOG_TEXT);
    log_line(LOG_DEBUG, NULL, "n=%d", 7);
    log_setup(LOG_ERROR, LOG_TEXT);
    log_line(LOG_WARN, "a", "hidden");
    log_line(LOG_ERROR, "gguf", "bad\nname\x1b");
    capture_end();
    assert_true(log_on(LOG_ERROR));
    assert_false(log_on(LOG_WARN));
    assert_string_equal(caught, "glim: warn: a: shown\nglim: debug: n=7\nglim: error: gguf: bad name \n");
}

static void json_lines_parse(void **state)
{
    (void)state;
    capture_begin();
    log_setup(LOG_DEBUG, LOG_JSON);
    log_line(LOG_INFO, "wh\"ere", "quote \" newline \n byte \xff end");
    log_line(LOG_DEBUG, NULL, "plain");
    capture_end();
    const char *line[2] = {strtok(caught, "\n"), strtok(NULL, "\n")};
    assert_null(strtok(NULL, "\n"));
    const char *level[] = {"info", "debug"}, *msg[] = {"quote \" newline \n byte \xEF\xBF\xBD end", "plain"};
    for (int i = 0; i < 2; i++) {
        json_t *j;
        struct glim_err e;
        assert_non_null(line[i]);
        assert_int_equal(json_parse(line[i], strlen(line[i]), "line", &j, &e), GLIM_OK);
        assert_string_equal(json_string_value(json_object_get(j, "level")), level[i]);
        assert_string_equal(json_string_value(json_object_get(j, "message")), msg[i]);
        const char *time = json_string_value(json_object_get(j, "time"));
        int y, mo, d, h, mi, s, ms;
        assert_int_equal(strlen(time), 24);
        assert_int_equal(sscanf(time, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &y, &mo, &d, &h, &mi, &s, &ms), 7);
        const char *where = json_string_value(json_object_get(j, "where"));
        if (i == 0)
            assert_string_equal(where, "wh\"ere");
        else
            assert_null(where);
        json_decref(j);
    }
}

static void lack_of_memory_is_said(void **state)
{
    (void)state;
    capture_begin();
    log_setup(LOG_INFO, LOG_JSON);
    mem_fail_after(1);
    log_line(LOG_INFO, "x", "lost");
    log_setup(LOG_INFO, LOG_TEXT);
    log_line(LOG_INFO, "x", "lost");
    mem_fail_after(0);
    capture_end();
    assert_string_equal(caught, "{\"level\":\"error\",\"message\":\"a log line was lost: out of memory\"}\n"
                                "glim: error: a log line was lost: out of memory\n");
}

static void long_messages_stay_one_line(void **state)
{
    (void)state;
    char big[5000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    capture_begin();
    log_setup(LOG_INFO, LOG_TEXT);
    log_line(LOG_INFO, NULL, "%s", big);
    capture_end();
    size_t n = strlen(caught);
    assert_true(n > 1000);
    assert_ptr_equal(strchr(caught, '\n'), caught + n - 1);
}

static void *chatter(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_line(LOG_INFO, "t", "%s", (const char *)arg);
    return NULL;
}

static void threads_do_not_mix_lines(void **state)
{
    (void)state;
    static char text[3][101];
    pthread_t t[3];
    capture_begin();
    log_setup(LOG_INFO, LOG_TEXT);
    for (int i = 0; i < 3; i++) {
        memset(text[i], 'a' + i, 100);
        pthread_create(&t[i], NULL, chatter, text[i]);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    capture_end();
    int n = 0;
    for (char *l = strtok(caught, "\n"); l; l = strtok(NULL, "\n"), n++) {
        assert_memory_equal(l, "glim: info: t: ", 15);
        assert_int_equal(strlen(l), 115);
        assert_int_equal(strspn(l + 15, (char[]){l[15], 0}), 100);
    }
    assert_int_equal(n, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_filtered),      cmocka_unit_test(json_lines_parse),
        cmocka_unit_test(lack_of_memory_is_said),   cmocka_unit_test(long_messages_stay_one_line),
        cmocka_unit_test(threads_do_not_mix_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
