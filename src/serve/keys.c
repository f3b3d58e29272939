#include "serve/keys.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MAX = 4 << 20 };

struct key {
    struct sha256 hash;
    struct limit *limit;
};

struct keys {
    struct key *key;
    size_t n, cap;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a line ---- */

static bool is_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return n > 0 && n <= LIMIT_NAME_MAX && s[n] == 0;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_hash(const char *s, struct sha256 *out)
{
    for (size_t i = 0; i < sizeof out->b; i++, s += 2) {
        int high = digit(s[0]), low = high < 0 ? -1 : digit(s[1]);
        if (low < 0)
            return false;
        out->b[i] = (uint8_t)(high * 16 + low);
    }
    return *s == 0;
}

static bool is_limit(const char *s, struct limit_rule *rule)
{
    uint32_t *const to[LIMIT_KINDS] = {&rule->requests, &rule->tokens, &rule->concurrent};
    for (size_t i = 0; i < LIMIT_KINDS; i++) {
        size_t n = strlen(limit_name[i]);
        uint64_t v;
        if (strncmp(s, limit_name[i], n) != 0 || s[n] != '=')
            continue;
        if (!parse_u64(s + n + 1, &v) || v == 0 || v > UINT32_MAX)
            return false;
        *to[i] = (uint32_t)v;
        return true;
    }
    return false;
}

/* NULL, or what the line should have had. */
static const char *read_line(char *line, const char **name, struct sha256 *hash, struct limit_rule *rule)
{
    char *rest, *word = strtok_r(line, " \t", &rest);
    *rule = (struct limit_rule){0};
    if (!word || !is_name(word))
        return "a name of 1 to 64 letters, digits, dots, dashes or underscores";
    *name = word;
    word = strtok_r(NULL, " \t", &rest);
    if (!word || !is_hash(word, hash))
        return "64 lower-case hexadecimal digits after the name";
    while ((word = strtok_r(NULL, " \t", &rest)))
        if (!is_limit(word, rule))
            return "limits like requests=60, tokens=100000 or concurrent=4 after the hash";
    return NULL;
}

/* ---- a file ---- */

static const struct key *named(const struct keys *k, const char *name)
{
    for (size_t i = 0; k && i < k->n; i++)
        if (strcmp(k->key[i].limit->name, name) == 0)
            return &k->key[i];
    return NULL;
}

static glim_status add_line(struct keys *k, char *line, const char *path, size_t number, struct glim_err *e)
{
    const char *name;
    struct sha256 hash;
    struct limit_rule rule;
    void *key = k->key;
    line += strspn(line, " \t");
    if (*line == 0 || *line == '#')
        return GLIM_OK;
    const char *need = read_line(line, &name, &hash, &rule);
    if (need)
        return err_set(e, GLIM_REFUSED, "API keys: %s: line %zu: have something else, need %s", path, number, need);
    if (named(k, name))
        return err_set(e, GLIM_REFUSED, "API keys: %s: line %zu: have %s a second time, need each name once", path,
                       number, name);
    if (k->n == KEYS_MAX)
        return err_set(e, GLIM_REFUSED, "API keys: %s: have more, need at most %d", path, KEYS_MAX);
    if (!mem_grow(&key, &k->cap, k->n, sizeof *k->key))
        return err_nomem(e, "API keys", (k->n + 1) * sizeof *k->key);
    k->key = key;
    struct limit *l = limit_create(name, rule, now_s());
    if (!l)
        return err_nomem(e, "API keys", sizeof *l);
    k->key[k->n++] = (struct key){hash, l};
    return GLIM_OK;
}

static glim_status read_private(const char *path, char **text, size_t *n, struct glim_err *e)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return err_set(e, GLIM_FAILED, "API keys: %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
        return err_set(e, GLIM_REFUSED,
                       "API keys: %s: have mode %04o, need a file that only its owner may read and write (0600)", path,
                       (unsigned)(st.st_mode & 07777));
    TRY(file_read(path, FILE_MAX, text, n, e));
    if (memchr(*text, 0, *n)) {
        mem_free(*text);
        return err_set(e, GLIM_REFUSED, "API keys: %s: have a zero byte, need text", path);
    }
    return GLIM_OK;
}

glim_status keys_read(struct keys **out, const char *path, struct glim_err *e)
{
    char *text;
    size_t n, number = 1;
    glim_status st = GLIM_OK;
    *out = NULL;
    TRY(read_private(path, &text, &n, e));
    struct keys *k = mem_calloc(1, sizeof *k);
    if (!k)
        st = err_nomem(e, "API keys", sizeof *k);
    for (char *p = text, *next; st == GLIM_OK && *p; p = next, number++) {
        next = p + strcspn(p, "\n");
        if (*next)
            *next++ = 0;
        st = add_line(k, p, path, number, e);
    }
    mem_free(text);
    if (st != GLIM_OK)
        keys_free(k);
    else
        *out = k;
    return st;
}

void keys_free(struct keys *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->n; i++)
        limit_drop(k->key[i].limit);
    mem_free(k->key);
    mem_free(k);
}

size_t keys_count(const struct keys *k)
{
    return k ? k->n : 0;
}

struct limit *keys_limit(const struct keys *k, size_t i)
{
    return k->key[i].limit;
}

struct limit *keys_find(const struct keys *k, const char *secret)
{
    struct sha256 hash;
    struct limit *found = NULL;
    if (sha256_of(secret, strlen(secret), &hash, NULL) != GLIM_OK)
        return NULL;
    for (size_t i = 0; i < k->n; i++)
        if (CRYPTO_memcmp(hash.b, k->key[i].hash.b, sizeof hash.b) == 0)
            found = k->key[i].limit;
    return found;
}

void keys_inherit(struct keys *fresh, const struct keys *old)
{
    for (size_t i = 0; i < fresh->n; i++) {
        struct key *key = &fresh->key[i];
        const struct key *was = named(old, key->limit->name);
        if (!was)
            continue;
        limit_change(was->limit, key->limit->rule, now_s());
        limit_hold(was->limit);
        limit_drop(key->limit);
        key->limit = was->limit;
    }
}

/* ---- `glim keys` ---- */

/* "glim_" and 43 of 62 signs: 256 bits. */
static glim_status make_secret(char secret[KEY_SECRET_MAX], struct glim_err *e)
{
    static const char sign[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    size_t n = (size_t)snprintf(secret, KEY_SECRET_MAX, "glim_");
    while (n < 5 + 43) {
        unsigned char byte;
        if (getrandom(&byte, 1, 0) != 1)
            return err_set(e, GLIM_FAILED, "API keys: random numbers: %s", strerror(errno));
        if (byte < 248) /* 4 * 62: each sign is as likely */
            secret[n++] = sign[byte % 62];
    }
    secret[n] = 0;
    return GLIM_OK;
}

static void print_line(struct str *out, const char *name, const char *hex, const struct limit_rule *rule)
{
    const uint32_t value[LIMIT_KINDS] = {rule->requests, rule->tokens, rule->concurrent};
    str_printf(out, "%s %s", name, hex);
    for (size_t i = 0; i < LIMIT_KINDS; i++)
        if (value[i])
            str_printf(out, " %s=%u", limit_name[i], value[i]);
    str_putc(out, '\n');
}

static glim_status write_keys(const char *path, struct str *text, struct glim_err *e)
{
    glim_status st =
        text->failed ? err_nomem(e, "API keys", text->n) : file_write_secret(path, text->s ? text->s : "", text->n, e);
    str_fini(text);
    return st;
}

glim_status keys_add(const char *path, const char *name, struct limit_rule rule, char secret[KEY_SECRET_MAX],
                     struct glim_err *e)
{
    struct str text = {0};
    struct keys *k = NULL;
    struct sha256 hash;
    char hex[65], *old = NULL;
    size_t n = 0;
    if (!is_name(name))
        return err_set(e, GLIM_USAGE, "API keys: name: have %.80s, need 1 to 64 of a-z A-Z 0-9 . _ -", name);
    if (file_exists(path)) {
        TRY(keys_read(&k, path, e));
        bool taken = named(k, name) != NULL;
        keys_free(k);
        if (taken)
            return err_set(e, GLIM_REFUSED, "API keys: %s: have a key named %s, need another name", path, name);
        TRY(read_private(path, &old, &n, e));
        str_add(&text, old, n);
        if (n && old[n - 1] != '\n')
            str_putc(&text, '\n');
        mem_free(old);
    }
    glim_status st = make_secret(secret, e);
    if (st == GLIM_OK)
        st = sha256_of(secret, strlen(secret), &hash, e);
    if (st != GLIM_OK) {
        str_fini(&text);
        return st;
    }
    sha256_hex(&hash, hex);
    print_line(&text, name, hex, &rule);
    return write_keys(path, &text, e);
}

/* Is the line's first word the name? */
static bool line_is(const char *line, const char *name)
{
    size_t n = strlen(name);
    line += strspn(line, " \t");
    return strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == '\t');
}

glim_status keys_remove(const char *path, const char *name, struct glim_err *e)
{
    struct str text = {0};
    char *old;
    size_t n;
    bool found = false;
    TRY(read_private(path, &old, &n, e));
    for (const char *p = old; *p;) {
        size_t line = strcspn(p, "\n");
        line += p[line] == '\n';
        if (line_is(p, name))
            found = true;
        else
            str_add(&text, p, line);
        p += line;
    }
    mem_free(old);
    if (found)
        return write_keys(path, &text, e);
    str_fini(&text);
    return err_set(e, GLIM_REFUSED, "API keys: %s: have no key named %.80s, need one of its names", path, name);
}
