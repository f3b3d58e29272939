/* Signals of a server: SIGTERM and SIGINT end it (the first after the answers under way, the second at once), SIGHUP
 * makes it read keys and certificates and open its log again. A thread waits for them; no code runs in a handler. */
#ifndef GLIM_SERVE_SIGNALS_H
#define GLIM_SERVE_SIGNALS_H

#include "serve/serve.h"

#include <signal.h>

struct signals {
    struct server *server;
    double drain_s;
    sigset_t set, before;
    pthread_t thread;
};

/* Before the server's threads are made, which leave these signals alone. */
void signals_block(struct signals *s);
/* server and drain_s are set. */
glim_status signals_watch(struct signals *s, struct glim_err *e);
/* After serving has ended; before the server goes. */
void signals_end(struct signals *s);
/* As before signals_block. */
void signals_unblock(struct signals *s);

#endif
