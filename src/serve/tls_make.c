#include "serve/tls_make.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

enum { FILE_MAX = 64 << 10, CLOCK_SLACK_S = 300 }; /* clients' clocks may be late */

static glim_status ssl_error(struct glim_err *e, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return err_set(e, GLIM_FAILED, "TLS: %s: %s", what, why ? why : "not possible");
}

/* ---- files ---- */

/* dir/name + end, in fresh memory. */
static glim_status file_name(char **path, const char *dir, const char *name, const char *end, struct glim_err *e)
{
    struct str s = {0};
    str_printf(&s, "%s/%s%s", dir, name, end);
    *path = s.s;
    if (!s.failed)
        return GLIM_OK;
    str_fini(&s);
    *path = NULL;
    return err_nomem(e, "TLS", strlen(dir));
}

static glim_status must_be_new(const char *path, struct glim_err *e)
{
    return file_exists(path)
               ? err_set(e, GLIM_REFUSED, "TLS: %s: have such a file, need none: move it away to make another", path)
               : GLIM_OK;
}

/* A certificate or, where cert is NULL, a key. */
static glim_status write_pem(const char *path, X509 *cert, EVP_PKEY *key, struct glim_err *e)
{
    char *text;
    BIO *b = BIO_new(BIO_s_mem());
    bool ok =
        b && (cert ? PEM_write_bio_X509(b, cert) : PEM_write_bio_PKCS8PrivateKey(b, key, NULL, NULL, 0, NULL, NULL));
    long n = ok ? BIO_get_mem_data(b, &text) : 0;
    glim_status st = !ok    ? ssl_error(e, path)
                     : cert ? file_write_atomic(path, text, (size_t)n, e)
                            : file_write_secret(path, text, (size_t)n, e);
    BIO_free(b);
    return st;
}

static glim_status read_pem(const char *path, X509 **cert, EVP_PKEY **key, struct glim_err *e)
{
    char *text;
    size_t n;
    TRY(file_read(path, FILE_MAX, &text, &n, e));
    BIO *b = BIO_new_mem_buf(text, (int)n);
    bool ok = b && (cert ? (*cert = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL
                         : (*key = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL)) != NULL);
    glim_status st = ok ? GLIM_OK : ssl_error(e, path);
    BIO_free(b);
    OPENSSL_cleanse(text, n);
    mem_free(text);
    return st;
}

/* The key goes first: a certificate without its key is of no use, and both must be new. */
static glim_status write_pair(const char *dir, const char *name, X509 *cert, EVP_PKEY *key, struct glim_err *e)
{
    char *cert_path = NULL, *key_path = NULL;
    glim_status st;
    TRY_OUT(file_name(&cert_path, dir, name, ".pem", e));
    TRY_OUT(file_name(&key_path, dir, name, "-key.pem", e));
    TRY_OUT(must_be_new(cert_path, e));
    TRY_OUT(must_be_new(key_path, e));
    TRY_OUT(write_pem(key_path, NULL, key, e));
    TRY_OUT(write_pem(cert_path, cert, NULL, e));
out:
    mem_free(cert_path);
    mem_free(key_path);
    return st;
}

/* ---- a certificate ---- */

struct extension {
    int nid;
    const char *value;
};

struct wanted {
    const char *common_name;
    int days;
    X509 *issuer; /* NULL: itself */
    EVP_PKEY *issuer_key;
    const struct extension *extension;
    size_t n_extension;
};

static bool set_serial(X509 *c)
{
    unsigned char byte[16];
    if (RAND_bytes(byte, sizeof byte) != 1)
        return false;
    byte[0] = (byte[0] & 0x7f) | 0x40; /* positive, and of full length */
    BIGNUM *n = BN_bin2bn(byte, sizeof byte, NULL);
    bool ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(c));
    BN_free(n);
    return ok;
}

static bool set_names(X509 *c, const struct wanted *w)
{
    X509_NAME *subject = X509_get_subject_name(c);
    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)w->common_name, -1, -1, 0) &&
           X509_set_issuer_name(c, w->issuer ? X509_get_subject_name(w->issuer) : subject);
}

static bool add_extensions(X509 *c, const struct wanted *w)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, w->issuer ? w->issuer : c, c, NULL, NULL, 0);
    for (size_t i = 0; i < w->n_extension; i++) {
        X509_EXTENSION *x = X509V3_EXT_conf_nid(NULL, &ctx, w->extension[i].nid, w->extension[i].value);
        bool ok = x && X509_add_ext(c, x, -1);
        X509_EXTENSION_free(x);
        if (!ok)
            return false;
    }
    return true;
}

static glim_status make(const struct wanted *w, X509 **cert, EVP_PKEY **key, struct glim_err *e)
{
    *key = EVP_EC_gen("P-256");
    *cert = X509_new();
    X509 *c = *cert;
    bool ok = *key && c && X509_set_version(c, X509_VERSION_3) && set_serial(c) &&
              X509_gmtime_adj(X509_getm_notBefore(c), -CLOCK_SLACK_S) &&
              X509_time_adj_ex(X509_getm_notAfter(c), w->days, 0, NULL) && set_names(c, w) &&
              X509_set_pubkey(c, *key) && add_extensions(c, w) &&
              X509_sign(c, w->issuer ? w->issuer_key : *key, EVP_sha256());
    return ok ? GLIM_OK : ssl_error(e, w->common_name);
}

glim_status tls_make_authority(const char *dir, int days, struct glim_err *e)
{
    static const struct extension extension[] = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                                 {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                                 {NID_subject_key_identifier, "hash"}};
    const struct wanted w = {.common_name = "glim authority",
                             .days = days,
                             .extension = extension,
                             .n_extension = sizeof extension / sizeof *extension};
    X509 *cert = NULL;
    EVP_PKEY *key = NULL;
    glim_status st;
    TRY_OUT(file_mkdirs(dir, e));
    TRY_OUT(make(&w, &cert, &key, e));
    TRY_OUT(write_pair(dir, "ca", cert, key, e));
out:
    X509_free(cert);
    EVP_PKEY_free(key);
    return st;
}

/* ---- a server ---- */

static bool is_address(const char *s)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, s, bytes) == 1 || inet_pton(AF_INET6, s, bytes) == 1;
}

/* Labels of letters, digits and dashes; the first may be a star. */
static bool is_host(const char *s)
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    if (strncmp(s, "*.", 2) == 0)
        s += 2;
    if (strlen(s) > 253)
        return false;
    for (;;) {
        size_t n = strspn(s, fine);
        if (n == 0 || n > 63 || s[0] == '-' || s[n - 1] == '-' || (s[n] && s[n] != '.'))
            return false;
        if (!s[n])
            return true;
        s += n + 1;
    }
}

/* "DNS:a.example,IP:10.0.0.1" */
static glim_status list_names(struct str *out, const char *const *name, size_t n, struct glim_err *e)
{
    if (n == 0 || n > TLS_NAMES)
        return err_set(e, GLIM_USAGE, "TLS: names: have %zu, need 1 to %d", n, TLS_NAMES);
    for (size_t i = 0; i < n; i++) {
        bool address = is_address(name[i]);
        if (!address && !is_host(name[i]))
            return err_set(e, GLIM_USAGE, "TLS: name: have %.80s, need a host's name or a numeric address", name[i]);
        str_printf(out, "%s%s:%s", i ? "," : "", address ? "IP" : "DNS", name[i]);
    }
    return out->failed ? err_nomem(e, "TLS", out->n) : GLIM_OK;
}

static glim_status open_authority(const char *dir, X509 **cert, EVP_PKEY **key, struct glim_err *e)
{
    char *cert_path = NULL, *key_path = NULL;
    glim_status st;
    TRY_OUT(file_name(&cert_path, dir, "ca", ".pem", e));
    TRY_OUT(file_name(&key_path, dir, "ca", "-key.pem", e));
    TRY_OUT(read_pem(cert_path, cert, NULL, e));
    TRY_OUT(read_pem(key_path, NULL, key, e));
    if (X509_check_private_key(*cert, *key) != 1) {
        ERR_clear_error();
        st = err_set(e, GLIM_REFUSED, "TLS: %s: have another key than that of %s", key_path, cert_path);
    }
out:
    mem_free(cert_path);
    mem_free(key_path);
    return st;
}

static glim_status check_validity(const X509 *authority, int days, struct glim_err *e)
{
    int left = 0, seconds;
    if (!ASN1_TIME_diff(&left, &seconds, NULL, X509_get0_notAfter(authority)))
        return ssl_error(e, "authority");
    if (days > left)
        return err_set(e, GLIM_REFUSED, "TLS: days: have %d, need at most the %d that the authority is valid for", days,
                       left);
    return GLIM_OK;
}

glim_status tls_make_server(const char *dir, const char *const *name, size_t n, int days, struct glim_err *e)
{
    struct str names = {0};
    X509 *authority = NULL, *cert = NULL;
    EVP_PKEY *authority_key = NULL, *key = NULL;
    glim_status st;
    TRY_OUT(list_names(&names, name, n, e));
    TRY_OUT(open_authority(dir, &authority, &authority_key, e));
    TRY_OUT(check_validity(authority, days, e));
    const struct extension extension[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                                          {NID_key_usage, "critical,digitalSignature"},
                                          {NID_ext_key_usage, "serverAuth"},
                                          {NID_subject_key_identifier, "hash"},
                                          {NID_authority_key_identifier, "keyid"},
                                          {NID_subject_alt_name, names.s}};
    const struct wanted w = {.common_name = strlen(name[0]) <= 64 ? name[0] : "glim",
                             .days = days,
                             .issuer = authority,
                             .issuer_key = authority_key,
                             .extension = extension,
                             .n_extension = sizeof extension / sizeof *extension};
    TRY_OUT(make(&w, &cert, &key, e));
    TRY_OUT(write_pair(dir, strncmp(name[0], "*.", 2) == 0 ? name[0] + 2 : name[0], cert, key, e));
out:
    str_fini(&names);
    X509_free(authority);
    X509_free(cert);
    EVP_PKEY_free(authority_key);
    EVP_PKEY_free(key);
    return st;
}
