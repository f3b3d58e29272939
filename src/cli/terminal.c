/* What only a person at a terminal sees: progress bars and Ctrl-C. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- bar ---- */

enum { BAR_CELLS = 30 };
static const double BAR_QUIET_S = 0.3, BAR_EVERY_S = 0.1; /* nothing flickers for what is quickly done */

static bool want_bar(void)
{
    const char *term = lever_system_env("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

void bar_show(struct bar *b, uint64_t done, uint64_t total)
{
    double now = cli_now();
    if (b->begin == 0)
        b->begin = b->last = now;
    if (total == 0 || now - b->begin < BAR_QUIET_S || now - b->last < BAR_EVERY_S || !want_bar())
        return;
    b->last = now;
    b->shown = true;
    const char *no_color = lever_system_env("NO_COLOR");
    bool plain = no_color && *no_color;
    int full = (int)((double)BAR_CELLS * (double)done / (double)total);
    fprintf(stderr, "\r%s %s", b->what, plain ? "[" : "\033[36m");
    for (int i = 0; i < BAR_CELLS; i++)
        fputs(plain ? (i < full ? "#" : " ") : i < full ? "━" : i == full ? "\033[90m─" : "─", stderr);
    fprintf(stderr, "%s %.0f/%.0f %s\033[K", plain ? "]" : "\033[0m", (double)done * b->scale, (double)total * b->scale,
            b->unit);
}

void bar_clear(struct bar *b)
{
    if (b->shown)
        fputs("\r\033[K", stderr);
    b->shown = false;
}

/* ---- Ctrl-C ---- */

volatile sig_atomic_t cli_interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    cli_interrupted = 1;
}

void cli_catch_interrupt(void)
{
    struct sigaction a = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
}

int cli_end_interrupted(void)
{
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    return GLIM_FAILED;
}
