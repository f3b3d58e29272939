/* Files. Maps are private and read-only; a file that another process truncates while it is mapped raises SIGBUS on
 * access, as with every program that maps its weights.
 *
 * Each step that touches the disk asks may_do() first, so that tests can make any of them fail. */
#include "base/file.h"
#include "base/arith.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long n_op;    /* file operations so far */
static atomic_long fail_at; /* operations from this number on fail; 0 = none */

/* False, with errno set, when the test hook says so. */
static bool may_do(void)
{
    long i = atomic_fetch_add_explicit(&n_op, 1, memory_order_relaxed) + 1;
    long f = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (f == 0 || i < f)
        return true;
    errno = EIO;
    return false;
}

void file_fail_after(long n)
{
    atomic_store(&fail_at, n > 0 ? atomic_load(&n_op) + n : 0);
}

/* "cannot <verb>: <path>: have <reason>, need <need>", from errno. */
static glim_status io_error(struct glim_err *e, const char *verb, const char *path, const char *need)
{
    char buf[128];
    const char *why = strerror_r(errno, buf, sizeof buf);
    return err_set(e, GLIM_FAILED, "cannot %s: %s: have '%s', need %s", verb, path, why, need);
}

static glim_status open_read(const char *path, int *fd, struct stat *st, struct glim_err *e)
{
    *fd = may_do() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (*fd < 0)
        return io_error(e, "open", path, "a readable file");
    glim_status s = GLIM_OK;
    if (fstat(*fd, st) != 0)
        s = io_error(e, "examine", path, "a readable file");
    else if (S_ISDIR(st->st_mode))
        s = err_set(e, GLIM_FAILED, "cannot open: %s: have a folder, need a file", path);
    if (s != GLIM_OK)
        close(*fd);
    return s;
}

/* ---- maps ---- */

glim_status file_map_open(struct file_map *m, const char *path, struct glim_err *e)
{
    *m = (struct file_map){0};
    int fd;
    struct stat info;
    TRY(open_read(path, &fd, &info, e));

    glim_status st = GLIM_OK;
    void *p = MAP_FAILED;
    if (!S_ISREG(info.st_mode))
        st = err_set(e, GLIM_FAILED, "cannot map: %s: have a device or pipe, need a regular file", path);
    else if (info.st_size == 0)
        st = err_set(e, GLIM_FAILED, "cannot map: %s: have 0 bytes, need at least 1", path);
    else if ((uint64_t)info.st_size > PTRDIFF_MAX)
        st = err_set(e, GLIM_FAILED, "cannot map: %s: have %lld bytes, need at most %td", path, (long long)info.st_size,
                     PTRDIFF_MAX);
    else if (!(m->path = mem_strdup(path)))
        st = err_nomem(e, path, strlen(path) + 1);
    else {
        m->size = (size_t)info.st_size;
        p = may_do() ? mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
        if (p == MAP_FAILED)
            st = io_error(e, "map", path, "its bytes in memory");
    }
    close(fd);
    if (st != GLIM_OK) {
        mem_free(m->path);
        *m = (struct file_map){0};
        return st;
    }
    m->data = p;
    return GLIM_OK;
}

void file_map_close(struct file_map *m)
{
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->size);
    mem_free(m->path);
    *m = (struct file_map){0};
}

/* Advice about all pages that [off, off + n) touches. A page shared with a neighbour may be dropped: it comes back by
 * itself. */
static void advise(const struct file_map *m, size_t off, size_t n, int advice)
{
    if (off >= m->size || n == 0)
        return;
    if (n > m->size - off)
        n = m->size - off;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = off & ~(page - 1);
    int saved = errno;
    madvise((void *)(uintptr_t)(m->data + first), off + n - first, advice);
    errno = saved;
}

void file_map_drop(const struct file_map *m, size_t off, size_t n)
{
    advise(m, off, n, MADV_DONTNEED);
}

void file_map_want(const struct file_map *m, size_t off, size_t n)
{
    advise(m, off, n, MADV_WILLNEED);
}

/* ---- whole files ---- */

static glim_status too_large(struct glim_err *e, const char *path, size_t max)
{
    return err_set(e, GLIM_REFUSED, "file too large: %s: have more than %zu bytes, need at most %zu", path, max, max);
}

/* Reads fd to its end into *buf; the size is not trusted, since pipes and /proc files have none. */
static glim_status read_to_end(int fd, const char *path, size_t max, size_t guess, char **buf, size_t *n,
                               struct glim_err *e)
{
    size_t cap = guess < 4096 ? 4096 : guess, got = 0;
    if (cap > max)
        cap = max;
    char *b = mem_alloc(cap + 1); /* one more byte than wanted: for the terminator, and to notice what is too large */
    if (!b)
        return err_nomem(e, path, cap + 1);
    glim_status st = GLIM_OK;
    for (;;) {
        ssize_t r = may_do() ? read(fd, b + got, cap + 1 - got) : -1;
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0) {
            st = io_error(e, "read", path, "its bytes");
            break;
        }
        if (r == 0)
            break;
        got += (size_t)r;
        if (got > max) {
            st = too_large(e, path, max);
            break;
        }
        if (got <= cap)
            continue;
        cap = cap > max / 2 ? max : cap * 2;
        char *bigger = mem_realloc(b, cap + 1);
        if (!bigger) {
            st = err_nomem(e, path, cap + 1);
            break;
        }
        b = bigger;
    }
    if (st != GLIM_OK) {
        mem_free(b);
        return st;
    }
    b[got] = 0;
    *buf = b;
    *n = got;
    return GLIM_OK;
}

glim_status file_read(const char *path, size_t max, char **buf, size_t *n, struct glim_err *e)
{
    int fd;
    struct stat info;
    *buf = NULL;
    *n = 0;
    if (max >= PTRDIFF_MAX)
        max = PTRDIFF_MAX - 1;
    TRY(open_read(path, &fd, &info, e));
    glim_status st;
    if ((uint64_t)info.st_size > max)
        st = too_large(e, path, max);
    else
        st = read_to_end(fd, path, max, (size_t)info.st_size, buf, n, e);
    close(fd);
    return st;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = may_do() ? write(fd, p, n) : -1;
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return may_do() && fsync(fd) == 0;
}

/* Makes the rename itself last; file systems that cannot sync a folder are left as they are. */
static void sync_folder(const char *path)
{
    char *dir = path_dir(path);
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
    mem_free(dir);
}

static glim_status write_whole(const char *path, mode_t mode, const void *data, size_t n, struct glim_err *e)
{
    static atomic_uint serial; /* two threads writing the same path must not share a temporary */
    size_t cap = strlen(path) + 48;
    char *tmp = mem_alloc(cap);
    if (!tmp)
        return err_nomem(e, path, cap);
    snprintf(tmp, cap, "%s.tmp-%ld-%u", path, (long)getpid(), atomic_fetch_add(&serial, 1));

    glim_status st = GLIM_OK;
    int fd = may_do() ? open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode) : -1;
    if (fd < 0) {
        st = io_error(e, "create", tmp, "a writable folder");
        goto out;
    }
    if (!write_all(fd, data, n))
        st = io_error(e, "write", tmp, "room for the whole file");
    if (close(fd) != 0 && st == GLIM_OK)
        st = io_error(e, "write", tmp, "room for the whole file");
    if (st == GLIM_OK && !(may_do() && rename(tmp, path) == 0))
        st = io_error(e, "replace", path, "a writable folder");
    if (st == GLIM_OK)
        sync_folder(path);
    else
        unlink(tmp);
out:
    mem_free(tmp);
    return st;
}

glim_status file_write_atomic(const char *path, const void *data, size_t n, struct glim_err *e)
{
    return write_whole(path, 0644, data, n, e);
}

glim_status file_write_secret(const char *path, const void *data, size_t n, struct glim_err *e)
{
    return write_whole(path, 0600, data, n, e);
}

/* ---- questions ---- */

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

glim_status file_size(const char *path, size_t *n, struct glim_err *e)
{
    struct stat st;
    *n = 0;
    if (!may_do() || stat(path, &st) != 0)
        return io_error(e, "examine", path, "a file");
    if (S_ISDIR(st.st_mode))
        return err_set(e, GLIM_FAILED, "cannot examine: %s: have a folder, need a file", path);
    *n = (size_t)st.st_size;
    return GLIM_OK;
}

static bool make_dir(const char *path)
{
    if (may_do() && mkdir(path, 0755) == 0)
        return true;
    return errno == EEXIST && file_is_dir(path);
}

glim_status file_mkdirs(const char *path, struct glim_err *e)
{
    char *p = mem_strdup(path);
    if (!p)
        return err_nomem(e, path, strlen(path) + 1);
    glim_status st = GLIM_OK;
    for (char *s = p + (*p == '/'); st == GLIM_OK; s++) {
        if (*s && *s != '/')
            continue;
        char c = *s;
        *s = 0;
        if (*p && !make_dir(p))
            st = io_error(e, "create folder", p, "a writable parent folder");
        *s = c;
        if (!c)
            break;
    }
    mem_free(p);
    return st;
}

/* ---- paths ---- */

char *path_join(const char *dir, const char *name)
{
    size_t a = strlen(dir), b = strlen(name);
    bool slash = a == 0 || dir[a - 1] != '/';
    char *p = mem_alloc(a + slash + b + 1);
    if (!p)
        return NULL;
    memcpy(p, dir, a);
    if (slash)
        p[a] = '/';
    memcpy(p + a + slash, name, b + 1);
    return p;
}

char *path_dir(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') /* "a/b/" means "a/b" */
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n ? mem_strndup(path, n) : mem_strdup(".");
}
