/* Any JSON as the body of any route: it passes the route's table, strictly or laxly, or is refused with a sentence and
 * a path; what passes strictly passes laxly. A crash here is a request that ends the server. */
#include "serve/field.h"
#include "serve/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok, const char *what, const char *detail)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, detail);
        abort();
    }
}

static void one(const struct field_shape *s, const json_t *body)
{
    struct field_report strict = {0}, lax = {.lax = true};
    struct glim_err e = {0}, e_lax = {0};
    glim_status st = field_check(s, body, &strict, &e), st_lax = field_check(s, body, &lax, &e_lax);
    check(st == GLIM_OK || (st == GLIM_REFUSED && strstr(e.message, ": have ")), "refused without a sentence",
          e.message);
    check(st != GLIM_OK || st_lax == GLIM_OK, "strict passes what lax does not", e_lax.message);
    check(st != GLIM_OK || lax.ignored.n == 0, "strict passes what lax ignores", lax.ignored.s ? lax.ignored.s : "");
    check(strlen(strict.path) < FIELD_PATH_MAX, "path", strict.path);
    field_report_fini(&strict);
    field_report_fini(&lax);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct glim_err e = {0};
    json_t *body;
    if (json_parse((const char *)data, size, "the body", &body, &e) != GLIM_OK) {
        check(e.message[0] != 0, "refused without a sentence", "");
        return 0;
    }
    for (size_t g = 0; g < route_n_group; g++)
        for (size_t i = 0; i < route_groups[g].n; i++) {
            const struct route *r = &route_groups[g].route[i];
            if (r->request)
                one(r->request, body);
            if (r->reply)
                one(r->reply, body);
            if (r->event)
                one(r->event, body);
        }
    json_decref(body);
    return 0;
}
