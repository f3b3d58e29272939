/* If this fails: answers travel readable, a key lies open for others, a renewed certificate needs a restart, or TLS
 * clients are served worse than others. */
#include "test_serve_http.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

static char folder[] = "/tmp/glim-test-XXXXXX";
static char cert[64], key[64];
static struct lab *lab;

/* A self-signed certificate of that name, and its key, with mode 0600. */
static void make_certificate(const char *name)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), 0);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, pair);
    X509_NAME *n = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, n);
    assert_true(X509_sign(x, pair, EVP_sha256()) > 0);
    FILE *f = fopen(cert, "w");
    PEM_write_X509(f, x);
    fclose(f);
    f = fopen(key, "w");
    PEM_write_PrivateKey(f, pair, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    chmod(key, 0600);
    X509_free(x);
    EVP_PKEY_free(pair);
}

static int prepare(void **state)
{
    (void)state;
    lab = calloc(1, sizeof *lab);
    lab->config = lab_config(lab);
    lab->config.tls_cert = cert;
    lab->config.tls_key = key;
    make_certificate("first");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    lab_stop(lab);
    free(lab);
    return 0;
}

static int forget(void **state)
{
    (void)state;
    free(lab);
    return 0;
}

/* ---- a client ---- */

struct client {
    int fd;
    SSL_CTX *tls;
    SSL *ssl;
};

/* False: no handshake. */
static bool tls_dial(struct client *c, int version, const char *alpn)
{
    c->fd = dial(lab);
    c->tls = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(c->tls, version);
    SSL_CTX_set_max_proto_version(c->tls, version);
    SSL_CTX_set_security_level(c->tls, 0);
    c->ssl = SSL_new(c->tls);
    if (alpn)
        SSL_set_alpn_protos(c->ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
    SSL_set_fd(c->ssl, c->fd);
    return SSL_connect(c->ssl) == 1;
}

static void tls_close(struct client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->tls);
    close(c->fd);
    ERR_clear_error();
}

static void tls_say(struct client *c, const char *text)
{
    assert_int_equal(SSL_write(c->ssl, text, (int)strlen(text)), strlen(text));
}

/* Up to `end`, or to the close, which must be a proper one then. */
static char *tls_hear(struct client *c, const char *end)
{
    size_t n = 0, cap = 1 << 16;
    char *text = calloc(1, cap);
    while (!end || !strstr(text, end)) {
        int k = SSL_read(c->ssl, text + n, end ? 1 : (int)(cap - n - 1));
        if (k <= 0) {
            assert_int_equal(SSL_get_error(c->ssl, k), SSL_ERROR_ZERO_RETURN);
            break;
        }
        n += (size_t)k;
        text[n] = 0;
    }
    return text;
}

static void peer_name(struct client *c, char *out, size_t cap)
{
    X509 *x = SSL_get_peer_certificate(c->ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, out, (int)cap);
    X509_free(x);
}

/* ---- tests ---- */

static void answers(void **state)
{
    static const int version[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    (void)state;
    lab_start(lab);
    for (size_t i = 0; i < COUNT(version); i++) {
        struct client c;
        assert_true(tls_dial(&c, version[i], NULL));
        for (int k = 0; k < 3; k++) {
            tls_say(&c, "GET /show HTTP/1.1\r\n" H "\r\n");
            expect(tls_hear(&c, "localhost|0"), 200, "GET|/show||127.0.0.1|1|", NULL);
        }
        tls_say(&c, "GET /drip HTTP/1.1\r\n" H "\r\nPOST /echo HTTP/1.1\r\n" H
                    "Connection: close\r\nContent-Length: 2\r\n\r\nhi");
        expect(tls_hear(&c, NULL), 200, "0\r\n\r\nHTTP/1.1 200", "\r\n\r\nhi", NULL);
        tls_close(&c);
    }
}

static void old_versions_and_other_protocols_are_refused(void **state)
{
    struct client c;
    (void)state;
    lab_start(lab);
    assert_false(tls_dial(&c, TLS1_1_VERSION, NULL));
    tls_close(&c);
    assert_false(tls_dial(&c, TLS1_3_VERSION, "\x02h2"));
    tls_close(&c);
    assert_true(tls_dial(&c, TLS1_3_VERSION, "\x02h2\x08http/1.1"));
    const unsigned char *p;
    unsigned n;
    SSL_get0_alpn_selected(c.ssl, &p, &n);
    assert_int_equal(n, 8);
    assert_memory_equal(p, "http/1.1", 8);
    tls_close(&c);
    char *text = ask(lab, "GET /show HTTP/1.1\r\n" H "\r\n"); /* not TLS at all */
    assert_null(strstr(text, "HTTP/1.1 200"));
    free(text);
    assert_int_equal(atomic_load(&lab->begun), 0);
}

/* Silent before, in the middle of and after the handshake. */
static void slow_handshakes_are_closed(void **state)
{
    (void)state;
    lab->config.head_s = 0.3;
    lab_start(lab);
    int silent = dial(lab), half = dial(lab);
    say_n(half, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
    struct client c;
    assert_true(tls_dial(&c, TLS1_3_VERSION, NULL));
    double begin = now_s();
    free(hear(silent, NULL));
    free(hear(half, NULL));
    for (int i = 0; i < 2000 && http_server_stats(lab->server).connections; i++)
        sleep_s(0.001);
    assert_int_equal(http_server_stats(lab->server).connections, 0);
    assert_true(now_s() - begin < 1);
    close(silent);
    close(half);
    tls_close(&c);
}

static void a_client_that_goes_is_noticed(void **state)
{
    (void)state;
    lab_start(lab);
    for (int how = 0; how < 3; how++) {
        struct client c;
        atomic_store(&lab->begun, 0);
        atomic_store(&lab->closed, 0);
        assert_true(tls_dial(&c, TLS1_3_VERSION, NULL));
        tls_say(&c, how == 2 ? "GET /drip HTTP/1.1\r\n" H "\r\n" : "GET /never HTTP/1.1\r\n" H "\r\n");
        assert_true(reached(&lab->begun, 1));
        double begin = now_s();
        if (how == 1)
            SSL_shutdown(c.ssl);
        tls_close(&c);
        assert_true(reached(&lab->closed, 1));
        assert_true((double)atomic_load(&lab->closed_us) * 1e-6 - begin < 0.05);
    }
}

static void a_slow_reader_is_cut(void **state)
{
    struct client c;
    (void)state;
    lab->config.stall_s = 0.4;
    lab_start(lab);
    assert_true(tls_dial(&c, TLS1_3_VERSION, NULL));
    tls_say(&c, "GET /flood HTTP/1.1\r\n" H "\r\n");
    char buf[1 << 14];
    for (size_t heard = 0; heard < (8 << 20);) { /* as long as it reads it is served */
        int n = SSL_read(c.ssl, buf, sizeof buf);
        assert_true(n > 0);
        heard += (size_t)n;
    }
    assert_int_equal(atomic_load(&lab->closed), 0);
    double begin = now_s();
    assert_true(reached(&lab->closed, 1));
    assert_true(now_s() - begin < 1.5);
    assert_false(atomic_load(&lab->overrun));
    tls_close(&c);
}

static void one_too_many_is_told(void **state)
{
    struct client a, b;
    (void)state;
    lab->config.max_connections = 1;
    lab_start(lab);
    assert_true(tls_dial(&a, TLS1_3_VERSION, NULL));
    assert_true(tls_dial(&b, TLS1_3_VERSION, NULL));
    expect(tls_hear(&b, NULL), 503, NULL);
    tls_close(&b);
    tls_close(&a);
}

static void certificates_are_renewed(void **state)
{
    struct glim_err e = {0};
    struct client old, fresh;
    char name[32];
    (void)state;
    lab_start(lab);
    assert_true(tls_dial(&old, TLS1_3_VERSION, NULL));
    peer_name(&old, name, sizeof name);
    assert_string_equal(name, "first");
    tls_say(&old, "GET /show HTTP/1.1\r\n" H "\r\n");
    free(tls_hear(&old, "localhost|0"));
    make_certificate("second");
    assert_int_equal(http_server_reload(lab->server, &e), GLIM_OK);
    tls_say(&old, "GET /show HTTP/1.1\r\n" H "\r\n");
    expect(tls_hear(&old, "localhost|0"), 200, NULL);
    assert_true(tls_dial(&fresh, TLS1_3_VERSION, NULL));
    peer_name(&fresh, name, sizeof name);
    assert_string_equal(name, "second");
    tls_close(&fresh);
    chmod(key, 0644);
    assert_int_equal(http_server_reload(lab->server, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have mode 0644"));
    assert_true(tls_dial(&fresh, TLS1_3_VERSION, NULL)); /* with the one that was good */
    peer_name(&fresh, name, sizeof name);
    assert_string_equal(name, "second");
    tls_close(&fresh);
    tls_close(&old);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void bad_files_are_refused(void **state)
{
    struct http_server *s;
    struct glim_err e;
    char other[64], kept[4096] = {0};
    (void)state;
    static const mode_t mode[] = {0644, 0640, 0604, 0660};
    for (size_t i = 0; i < COUNT(mode); i++) {
        chmod(key, mode[i]);
        assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_REFUSED);
        assert_non_null(strstr(e.message, key));
        assert_null(s);
    }
    chmod(key, 0400);
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_OK);
    assert_int_equal(http_server_reload(s, &e), GLIM_OK);
    http_server_free(s);
    chmod(key, 0600);

    snprintf(other, sizeof other, "%s/other", folder);
    FILE *f = fopen(key, "r");
    assert_true(fread(kept, 1, sizeof kept - 1, f) > 0);
    fclose(f);
    make_certificate("another");
    write_file(key, kept); /* the first one's key */
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "another key"));
    write_file(key, "nonsense");
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, key));
    write_file(key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGjMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBDhTSW8\n"
                    "-----END ENCRYPTED PRIVATE KEY-----\n");
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_FAILED);
    lab->config.tls_key = folder;
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_REFUSED);
    lab->config.tls_key = other;
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "No such file"));
    lab->config.tls_key = key;
    lab->config.tls_cert = other;
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_FAILED);
    lab->config.tls_cert = NULL;
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_USAGE);
    lab->config.tls_key = NULL;
    assert_int_equal(http_server_create(&s, &lab->config, &e), GLIM_OK);
    assert_int_equal(http_server_reload(s, &e), GLIM_USAGE);
    http_server_free(s);
}

#define T(f) cmocka_unit_test_setup_teardown(f, prepare, stop)
#define U(f) cmocka_unit_test_setup_teardown(f, prepare, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(answers),
        T(old_versions_and_other_protocols_are_refused),
        T(slow_handshakes_are_closed),
        T(a_client_that_goes_is_noticed),
        T(a_slow_reader_is_cut),
        T(one_too_many_is_told),
        T(certificates_are_renewed),
        U(bad_files_are_refused),
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(cert);
    remove(key);
    rmdir(folder);
    return failed;
}
