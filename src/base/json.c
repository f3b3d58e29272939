/* Parsing with jansson. Its own limits stay on: nesting deeper than 2048, integers beyond 64 bits, invalid UTF-8 and
 * NUL bytes inside strings are errors. */
#include "base/json.h"
#include "base/file.h"
#include "base/mem.h"

#include <pthread.h>

/* jansson blames the text for some allocations that failed; this tells the two apart. */
static _Thread_local bool starved;

static void *json_alloc(size_t n)
{
    void *p = mem_alloc(n);
    starved |= !p;
    return p;
}

static void set_allocator(void)
{
    json_set_alloc_funcs(json_alloc, mem_free);
}

void json_setup(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_allocator);
}

glim_status json_parse(const char *p, size_t n, const char *what, json_t **out, struct glim_err *e)
{
    json_error_t bad;
    json_setup();
    starved = false;
    *out = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &bad);
    if (*out)
        return GLIM_OK;
    if (starved)
        return err_nomem(e, what, n);
    return err_set(e, GLIM_FAILED, "malformed JSON: %s: have %s at line %d column %d, need valid JSON", what, bad.text,
                   bad.line, bad.column);
}

glim_status json_parse_file(const char *path, size_t max, json_t **out, struct glim_err *e)
{
    char *text;
    size_t n;
    *out = NULL;
    TRY(file_read(path, max, &text, &n, e));
    glim_status st = json_parse(text, n, path, out, e);
    mem_free(text);
    return st;
}
