/* Reads of /proc and /sys. Everything here is best effort: a file that is missing or odd means "no limit known".
 *
 * The reads go neither through mem_alloc nor through the file module, so that asking does not disturb fault injection.
 * A process is limited by every control group above it, so each question walks from its own group up to the root. Only
 * the unified hierarchy (v2) is known. */
#include "base/machine.h"
#include "base/arith.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TEXT_MAX = 8192, PATH_LEN = 1024, CPU_MAX = 8192 };

static bool read_text(const char *path, char buf[TEXT_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t n = 0;
    for (;;) {
        ssize_t got = read(fd, buf + n, TEXT_MAX - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    buf[n] = 0;
    return n > 0;
}

/* The number after `key` at the start of a line, or false. */
static bool field(const char *text, const char *key, uint64_t *out)
{
    size_t n = strlen(key);
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, key, n) == 0) {
            char *end;
            *out = strtoull(p + n, &end, 10);
            return end != p + n;
        }
        if (!*p)
            break;
    }
    return false;
}

size_t machine_meminfo(const char *path)
{
    char text[TEXT_MAX];
    uint64_t kib, bytes;
    if (!read_text(path, text) || !field(text, "MemAvailable:", &kib) || !mul_u64(kib, 1024, &bytes) ||
        bytes > SIZE_MAX)
        return SIZE_MAX;
    return (size_t)bytes;
}

size_t machine_address_room(void)
{
    struct rlimit lim;
    char text[TEXT_MAX];
    uint64_t pages;
    if (getrlimit(RLIMIT_AS, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    if (!read_text("/proc/self/statm", text) || !field(text, "", &pages))
        return (size_t)lim.rlim_cur;
    uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return used < lim.rlim_cur ? (size_t)(lim.rlim_cur - used) : 0;
}

/* ---- control groups ---- */

/* Calls visit for the folder of this process's group, then for each group above it. */
static void walk_groups(const char *proc, const char *root, void (*visit)(const char *dir, void *arg), void *arg)
{
    char text[TEXT_MAX], dir[PATH_LEN];
    if (!read_text(proc, text))
        return;
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return;
    line = strchr(line, '/');
    if (!line)
        return;
    size_t n_root = strlen(root), n = strcspn(line, "\n");
    if (n_root + n >= sizeof dir)
        return;
    memcpy(dir, root, n_root);
    memcpy(dir + n_root, line, n);
    dir[n_root + n] = 0;
    for (;;) {
        char *slash = strrchr(dir + n_root, '/');
        if (slash && !slash[1]) { /* the root group is written "/" */
            *slash = 0;
            continue;
        }
        visit(dir, arg);
        if (!slash)
            return;
        *slash = 0;
    }
}

static bool read_in(const char *dir, const char *name, char text[TEXT_MAX])
{
    char path[PATH_LEN + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return read_text(path, text);
}

static void visit_mem(const char *dir, void *arg)
{
    size_t *room = arg;
    char text[TEXT_MAX];
    uint64_t max, used, cache = 0;
    if (!read_in(dir, "memory.max", text) || !field(text, "", &max)) /* "max" is no number: no limit */
        return;
    if (!read_in(dir, "memory.current", text) || !field(text, "", &used))
        used = 0;
    if (read_in(dir, "memory.stat", text) && field(text, "inactive_file ", &cache)) /* given back on demand */
        used -= cache < used ? cache : used;
    uint64_t left = used < max ? max - used : 0;
    if (left < *room)
        *room = (size_t)left;
}

size_t machine_cgroup_mem(const char *proc, const char *root)
{
    size_t room = SIZE_MAX;
    walk_groups(proc, root, visit_mem, &room);
    return room;
}

static void visit_cpu(const char *dir, void *arg)
{
    int *cpus = arg;
    char text[TEXT_MAX];
    unsigned long long quota, period;
    if (!read_in(dir, "cpu.max", text) || sscanf(text, "%llu %llu", &quota, &period) != 2 || period == 0)
        return;
    unsigned long long n = quota / period + (quota % period != 0);
    if (n < 1)
        n = 1;
    if (n < CPU_MAX && (*cpus == 0 || (int)n < *cpus))
        *cpus = (int)n;
}

int machine_cgroup_cpus(const char *proc, const char *root)
{
    int cpus = 0;
    walk_groups(proc, root, visit_cpu, &cpus);
    return cpus;
}

/* ---- processors ---- */

/* The lowest allowed processor in a list like "0-3,8", or -1. */
static int first_allowed(const char *list, const bool *allowed, int n_cpu)
{
    for (const char *p = list; *p >= '0' && *p <= '9';) {
        char *end;
        long a = strtol(p, &end, 10), b = a;
        if (*end == '-')
            b = strtol(end + 1, &end, 10);
        for (long i = a; i <= b && i < n_cpu; i++)
            if (allowed[i])
                return (int)i;
        p = *end == ',' ? end + 1 : "";
    }
    return -1;
}

int machine_core_count(const char *sys, const bool *allowed, int n_cpu)
{
    int cores = 0;
    for (int i = 0; i < n_cpu; i++) {
        if (!allowed[i])
            continue;
        char path[PATH_LEN], text[TEXT_MAX];
        snprintf(path, sizeof path, "%s/cpu%d/topology/core_cpus_list", sys, i);
        bool known = read_text(path, text);
        if (!known) { /* the name before Linux 5.3 */
            snprintf(path, sizeof path, "%s/cpu%d/topology/thread_siblings_list", sys, i);
            known = read_text(path, text);
        }
        int first = known ? first_allowed(text, allowed, n_cpu) : i;
        cores += first == i || first < 0;
    }
    return cores > 0 ? cores : 1;
}

static int read_affinity(bool allowed[CPU_MAX])
{
    cpu_set_t set[CPU_MAX / CPU_SETSIZE];
    int n = 0;
    memset(allowed, 0, CPU_MAX * sizeof *allowed);
    if (sched_getaffinity(0, sizeof set, set) == 0)
        for (int i = 0; i < CPU_MAX; i++)
            n += allowed[i] = CPU_ISSET_S((size_t)i, sizeof set, set);
    return n;
}

int machine_cpus(void)
{
    bool allowed[CPU_MAX];
    int n = read_affinity(allowed);
    return n > 0 ? n : 1;
}

int machine_cores(void)
{
    bool allowed[CPU_MAX];
    if (read_affinity(allowed) == 0)
        return 1;
    int cores = machine_core_count("/sys/devices/system/cpu", allowed, CPU_MAX);
    int quota = machine_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota > 0 && quota < cores ? quota : cores;
}
