#include "serve/signals.h"

static void *watch(void *arg)
{
    struct signals *s = arg;
    int number;
    while (sigwait(&s->set, &number) == 0 && number != SIGUSR2) { /* which is ours: serving has ended */
        if (number == SIGHUP)
            serve_reload(s->server);
        else
            serve_stop(s->server, s->drain_s);
    }
    return NULL;
}

void signals_block(struct signals *s)
{
    static const int number[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR2};
    sigemptyset(&s->set);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        sigaddset(&s->set, number[i]);
    pthread_sigmask(SIG_BLOCK, &s->set, &s->before);
}

glim_status signals_watch(struct signals *s, struct glim_err *e)
{
    if (pthread_create(&s->thread, NULL, watch, s) != 0)
        return err_set(e, GLIM_FAILED, "serve: signal thread: have none, need one");
    return GLIM_OK;
}

void signals_end(struct signals *s)
{
    pthread_kill(s->thread, SIGUSR2);
    pthread_join(s->thread, NULL);
}

void signals_unblock(struct signals *s)
{
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}
