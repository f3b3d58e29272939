/* Certificates. A key that others can read is refused, and none is ever asked for at a terminal. */
#include "serve/http_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static glim_status tls_error(struct glim_err *e, const char *path)
{
    unsigned long code = ERR_peek_last_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return err_set(e, GLIM_FAILED, "TLS: %s: %s", path, why ? why : "not usable");
}

/* Keys are not encrypted here: the file's mode protects them. */
static int no_password(char *buf, int size, int rwflag, void *u)
{
    (void)buf;
    (void)size;
    (void)rwflag;
    (void)u;
    return -1;
}

static glim_status read_key(EVP_PKEY **out, const char *path, struct glim_err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    *out = NULL;
    if (!f || fstat(fd, &st) != 0) {
        glim_status status = err_set(e, GLIM_FAILED, "TLS: %s: %s", path, strerror(errno));
        if (f)
            fclose(f);
        else if (fd >= 0)
            close(fd);
        return status;
    }
    glim_status status = GLIM_OK;
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
        status = err_set(e, GLIM_REFUSED, "TLS: %s: have mode %04o, need a file that only its owner may read (0600)",
                         path, (unsigned)(st.st_mode & 07777));
    else if (!(*out = PEM_read_PrivateKey(f, NULL, no_password, NULL)))
        status = tls_error(e, path);
    fclose(f);
    return status;
}

/* Clients that speak of protocols must speak of ours. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in,
                           unsigned in_n, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    (void)ssl;
    (void)arg;
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, out_n, ours, sizeof ours - 1, in, in_n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

glim_status tls_load(SSL_CTX **out, const char *cert, const char *key, struct glim_err *e)
{
    EVP_PKEY *pkey = NULL;
    glim_status st = GLIM_OK;
    ERR_clear_error();
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    *out = NULL;
    if (!tls)
        return tls_error(e, "context");
    SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS); /* idle connections are many */
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(tls, no_password);
    SSL_CTX_set_alpn_select_cb(tls, choose_protocol, NULL);
    if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1) {
        st = tls_error(e, cert);
        goto out;
    }
    TRY_OUT(read_key(&pkey, key, e));
    if (SSL_CTX_use_PrivateKey(tls, pkey) != 1) {
        ERR_clear_error();
        st = err_set(e, GLIM_REFUSED, "TLS: %s: have another key than that of %s", key, cert);
        goto out;
    }
    *out = tls;
    tls = NULL;
out:
    EVP_PKEY_free(pkey);
    SSL_CTX_free(tls);
    return st;
}

glim_status http_server_reload(struct http_server *s, struct glim_err *e)
{
    SSL_CTX *fresh;
    if (!s->config.tls_cert)
        return err_set(e, GLIM_USAGE, "TLS: reload: this server has no certificate");
    TRY(tls_load(&fresh, s->config.tls_cert, s->config.tls_key, e));
    pthread_mutex_lock(&s->lock);
    SSL_CTX *old = s->tls;
    s->tls = fresh;
    pthread_mutex_unlock(&s->lock);
    SSL_CTX_free(old); /* connections hold their own reference */
    return GLIM_OK;
}
