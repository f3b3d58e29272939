/* From bytes to a request: llhttp with stricter rules around it, and no socket, so that it can be fuzzed.
 *
 * Every byte that is not body goes to llhttp alone, so that the outcome cannot depend on how a client's bytes were cut,
 * and is looked at here first: CR only before LF and LF only after CR (llhttp takes some bare ones), no continued
 * lines, limits to the byte. A parser object reads one request and is then reset: what one request did cannot reach the
 * next. */
#ifndef GLIM_SERVE_HTTP_PARSE_H
#define GLIM_SERVE_HTTP_PARSE_H

#include "serve/http.h"

#include <llhttp.h>

struct http_parse {
    const struct http_config *config; /* max_target, max_head, max_field */
    llhttp_t ll;
    struct str text; /* method, target, then name and value of each field, each ended by NUL */
    struct str body;
    struct http_field *field; /* [request.n_field] */
    uint64_t max_body;
    uint64_t length;  /* Content-Length; 0 when there is none */
    uint64_t data;    /* bytes of body that come before the next byte of framing */
    uint64_t framing; /* bytes so far that were not body: of the header section, then of chunks and trailers */
    uint32_t n_field;
    uint32_t target;      /* bytes so far */
    unsigned char last;   /* byte of framing before this one; 0 at the begin and after body */
    bool began;           /* a byte has come that is no empty line before the request */
    bool line_read;       /* the first line is complete */
    uint8_t n_blank;      /* … blanks in it so far */
    bool head_done, done; /* the header section, the whole request has been read */
    /* from the head on */
    struct http_request request;  /* without peer, peer_port and tls */
    const char *authority;        /* Host, "" when an HTTP/1.0 client sent none */
    const char *target_authority; /* of a target with a scheme; NULL: it had none */
    bool keep_alive, http10, chunked;
    bool expects; /* the client waits for 100 Continue before it sends the body */
    /* a refusal */
    int status;
    const char *sentence;
};

enum http_parsed {
    HTTP_PARSED_ALL,  /* all bytes are used, more are needed */
    HTTP_PARSED_HEAD, /* the header section is complete; call again for the body, with what is left, if nothing too */
    HTTP_PARSED_DONE, /* the request is complete; http_parse_reset before the next */
    HTTP_PARSED_BAD   /* refused: status and sentence say why; nothing more can be read from this client */
};

void http_parse_init(struct http_parse *p, const struct http_config *c);
/* *used bytes of the n are consumed; never any of the next request. */
enum http_parsed http_parse_feed(struct http_parse *p, const char *data, size_t n, size_t *used);
/* Forget the request and its memory. */
void http_parse_reset(struct http_parse *p);

/* Whom a request may be addressed to. */
struct http_names {
    const char *const *host; /* [n_host] of struct http_config */
    size_t n_host;
    const char *bound; /* numeric address the server listens at */
};
/* Is "name", "name:port", "1.2.3.4:port" or "[::1]:port" one of ours? Without regard to the port. False for what is
 * malformed as well. */
bool http_names_have(const struct http_names *names, const char *authority);

#endif
