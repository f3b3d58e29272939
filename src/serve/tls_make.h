/* Certificates for those who have no authority of their own: one that signs, and what it signs for servers. Keys are of
 * the curve P-256; each file of one may only be read by its owner (0600). Nothing that exists is overwritten. */
#ifndef GLIM_SERVE_TLS_MAKE_H
#define GLIM_SERVE_TLS_MAKE_H

#include "base/status.h"

enum { TLS_NAMES = 32 };

/* dir/ca.pem, which clients are told to trust, and dir/ca-key.pem. dir is made when there is none. */
glim_status tls_make_authority(const char *dir, int days, struct glim_err *e);
/* dir/NAME.pem and dir/NAME-key.pem, signed by dir's authority, where NAME is the first of the names,
 * without its "*.". A name is a host's
 * or a numeric address; a host's may begin with "*.". Refused: anything else, and a validity beyond the authority's. */
glim_status tls_make_server(const char *dir, const char *const *name, size_t n, int days, struct glim_err *e);

#endif
