#include "serve/access_log.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct access_log {
    char *path; /* NULL: standard error */
    int fd;     /* the writer's */
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t more;
    struct str waiting;
    bool stop, reopen;
    uint64_t n_waiting, dropped; /* lines */
};

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* The old file stays in use when there can be no new one. */
static void open_again(struct access_log *l)
{
    int fd = l->path ? open_file(l->path) : -1;
    if (fd >= 0) {
        close(l->fd);
        l->fd = fd;
    } else if (l->path) {
        log_line(LOG_ERROR, "access log", "%s: %s", l->path, strerror(errno));
    }
}

static void *writer(void *arg)
{
    struct access_log *l = arg;
    struct str text = {0}, empty;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->waiting.n && !l->stop && !l->reopen)
            pthread_cond_wait(&l->more, &l->lock);
        bool reopen = l->reopen, stop = l->stop;
        uint64_t lines = l->n_waiting;
        l->reopen = false;
        l->n_waiting = 0;
        empty = text;
        text = l->waiting;
        l->waiting = empty;
        pthread_mutex_unlock(&l->lock);
        if (reopen)
            open_again(l);
        bool written = !text.n || write_all(l->fd, text.s, text.n);
        str_clear(&text);
        pthread_mutex_lock(&l->lock);
        l->dropped += written ? 0 : lines;
        if (stop && !l->waiting.n)
            break;
    }
    pthread_mutex_unlock(&l->lock);
    str_fini(&text);
    return NULL;
}

static void free_log(struct access_log *l)
{
    if (l->path && l->fd >= 0)
        close(l->fd);
    pthread_cond_destroy(&l->more);
    pthread_mutex_destroy(&l->lock);
    str_fini(&l->waiting);
    mem_free(l->path);
    mem_free(l);
}

glim_status access_log_open(struct access_log **out, const char *path, struct glim_err *e)
{
    struct access_log *l = mem_calloc(1, sizeof *l);
    bool file = strcmp(path, "-") != 0;
    glim_status st = GLIM_OK;
    *out = NULL;
    if (!l)
        return err_nomem(e, "access log", sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->more, NULL);
    l->fd = STDERR_FILENO;
    if (file && !(l->path = mem_strdup(path)))
        st = err_nomem(e, "access log", strlen(path));
    else if (file && (l->fd = open_file(path)) < 0)
        st = err_set(e, GLIM_FAILED, "access log: %s: %s", path, strerror(errno));
    else if (pthread_create(&l->thread, NULL, writer, l) != 0)
        st = err_set(e, GLIM_FAILED, "access log: thread: have none, need one");
    if (st != GLIM_OK)
        free_log(l);
    else
        *out = l;
    return st;
}

void access_log_put(struct access_log *l, const char *p, size_t n)
{
    pthread_mutex_lock(&l->lock);
    bool room = l->waiting.n + n <= ACCESS_LOG_WAITING;
    if (room)
        str_add(&l->waiting, p, n);
    if (room && !l->waiting.failed)
        l->n_waiting++;
    else
        l->dropped++;
    l->waiting.failed = false; /* the next line may find memory */
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
}

void access_log_reopen(struct access_log *l)
{
    pthread_mutex_lock(&l->lock);
    l->reopen = true;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
}

uint64_t access_log_dropped(struct access_log *l)
{
    pthread_mutex_lock(&l->lock);
    uint64_t n = l->dropped;
    pthread_mutex_unlock(&l->lock);
    return n;
}

void access_log_close(struct access_log *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    free_log(l);
}
