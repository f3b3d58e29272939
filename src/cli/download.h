/* Fetch one file over https, resuming what an earlier try left behind. */
#ifndef GLIM_CLI_DOWNLOAD_H
#define GLIM_CLI_DOWNLOAD_H

#include "base/hash.h"

struct download {
    const char *url;
    const char *dest;          /* path of the finished file; while unfinished it is dest + ".part" */
    const struct sha256 *want; /* NULL: any content */
    struct sha256 have;        /* out: of the finished file */
    uint64_t fetched;          /* out: bytes that came over the network now */
};

/* https, or http to this machine alone (127.0.0.1, localhost, [::1]). The file appears under its name only when it is
 * whole and its hash is as wanted. GLIM_BUSY when another process is fetching it. */
glim_status download_file(struct download *d, struct glim_err *e);

#endif
