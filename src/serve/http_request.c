/* What handlers ask of a request, and whom it is addressed to. */
#include "serve/http_parse.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

const char *http_header(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_field; i++)
        if (!strcmp(r->field[i].name, name))
            return r->field[i].value;
    return NULL;
}

/* ---- escapes ---- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of *s, which moves on; -1 for a bad escape. */
static int unescape(const char **s)
{
    const char *p = *s;
    if (*p != '%') {
        *s = p + 1;
        return (unsigned char)*p;
    }
    int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);
    if (low < 0 || (high == 0 && low == 0))
        return -1;
    *s = p + 3;
    return high * 16 + low;
}

bool http_unescape(char *s)
{
    char *out = s;
    for (const char *p = s; *p;) {
        int c = unescape(&p);
        if (c < 0)
            return false;
        *out++ = (char)c;
    }
    *out = 0;
    return true;
}

bool http_query(const struct http_request *r, const char *name, char *out, size_t cap)
{
    size_t n = strlen(name), len = 0;
    const char *p = r->query;
    while (strncmp(p, name, n) || (p[n] && p[n] != '=' && p[n] != '&')) {
        p += strcspn(p, "&");
        if (!*p++)
            return false;
    }
    p += p[n] == '=' ? n + 1 : n;
    while (*p && *p != '&') {
        int c = *p == '+' ? ' ' : 0;
        if (c)
            p++;
        else
            c = unescape(&p);
        if (c < 0 || len + 1 >= cap)
            return false;
        out[len++] = (char)c;
    }
    if (len >= cap)
        return false;
    out[len] = 0;
    return true;
}

/* ---- names ---- */

struct address {
    int family; /* 0: not an address */
    unsigned char bytes[16];
};

static struct address numeric(const char *s)
{
    struct address a = {0};
    if (inet_pton(AF_INET, s, a.bytes) == 1)
        a.family = AF_INET;
    else if (inet_pton(AF_INET6, s, a.bytes) == 1)
        a.family = AF_INET6;
    return a;
}

static bool is_any(const struct address *a)
{
    static const unsigned char zero[16];
    return !memcmp(a->bytes, zero, a->family == AF_INET ? 4 : 16);
}

static bool is_loopback(const struct address *a)
{
    static const unsigned char one[16] = {[15] = 1};
    return a->family == AF_INET ? a->bytes[0] == 127 : !memcmp(a->bytes, one, 16);
}

/* The host of "host:port" into out; false for what is not of that form. */
static bool host_of(const char *authority, char *out, size_t cap)
{
    bool bracket = *authority == '[';
    const char *p = authority + bracket;
    size_t n = strcspn(p, bracket ? "]" : ":");
    const char *rest = p + n;
    if (n == 0 || n >= cap || (bracket && *rest++ != ']'))
        return false;
    if (*rest == ':') {
        size_t digits = strspn(++rest, "0123456789");
        if (digits > 5)
            return false;
        rest += digits;
    }
    memcpy(out, p, n);
    out[n] = 0;
    if (!bracket && n > 1 && out[n - 1] == '.')
        out[n - 1] = 0; /* the root of all names may be spelled out */
    return *rest == 0 && bracket == (strchr(out, ':') != NULL);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcasecmp(s + n - m, end);
}

bool http_names_have(const struct http_names *names, const char *authority)
{
    char host[256];
    if (!host_of(authority, host, sizeof host))
        return false;
    for (size_t i = 0; i < names->n_host; i++)
        if (!strcmp(names->host[i], "*") || !strcasecmp(names->host[i], host))
            return true;
    struct address a = numeric(host), bound = numeric(names->bound);
    if (!a.family)
        return !strcasecmp(host, "localhost") || ends_with(host, ".localhost");
    /* Only a name can be made to point elsewhere: a page that reached us by an address was served by us. */
    return is_loopback(&a) || is_any(&bound) ||
           (a.family == bound.family && !memcmp(a.bytes, bound.bytes, sizeof a.bytes));
}
