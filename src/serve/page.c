#include "serve/page.h"

#include <string.h>

void page_fields(struct http_field out[PAGE_FIELDS])
{
    const struct http_field f[PAGE_FIELDS] = {
        {"Content-Security-Policy", page.csp},
        {"ETag", page.etag},
        {"Cache-Control", "no-cache"}, /* may be kept, but is asked for each time: a new program has a new page */
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Permissions-Policy", "camera=(), microphone=(), geolocation=(), usb=(), payment=()"},
    };
    memcpy(out, f, sizeof f);
}

/* One entity tag of a list, `W/` before it or not, against the page's. */
static bool same_tag(const char *p, size_t n)
{
    if (n > 2 && p[0] == 'W' && p[1] == '/') {
        p += 2;
        n -= 2;
    }
    return n == strlen(page.etag) && memcmp(p, page.etag, n) == 0;
}

bool page_unchanged(const char *if_none_match)
{
    if (!if_none_match)
        return false;
    for (const char *p = if_none_match;;) {
        p += strspn(p, " \t,");
        size_t n = strcspn(p, " \t,"); /* our tag holds none of these, so cutting there loses no match */
        if (n == 0)
            return false;
        if ((n == 1 && *p == '*') || same_tag(p, n))
            return true;
        p += n;
    }
}
