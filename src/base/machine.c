/* Reads of /proc and /sys. Everything here is best effort: a file that is missing or odd means "no limit known".
 *
 * The reads go neither through mem_alloc nor through the file module, so that asking does not disturb fault injection.
 * A process is limited by every control group above it, so each question walks from its own group up to the root, in
 * the unified hierarchy (v2) and in the one of its own that each controller had before (v1). */
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

/* The path in the line of /proc/self/cgroup for a controller ("" = the unified hierarchy), or NULL:
 *     0::/path
 *     4:cpu,cpuacct:/path */
static const char *group_path(const char *text, const char *controller)
{
    size_t n = strlen(controller);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *list = strchr(line, ':'), *end = list ? strchr(list + 1, ':') : NULL;
        if (!end)
            return NULL;
        for (const char *p = list + 1;; p++) {
            size_t len = strcspn(p, ",:");
            if (len == n && strncmp(p, controller, n) == 0)
                return end[1] == '/' ? end + 1 : NULL;
            p += len;
            if (p >= end)
                break;
        }
    }
    return NULL;
}

/* Calls visit for the folder of this process's group of a controller, then for each group above it. */
static void walk_groups(const char *proc, const char *root, const char *controller,
                        void (*visit)(const char *dir, void *arg), void *arg)
{
    char text[TEXT_MAX], dir[PATH_LEN];
    if (!read_text(proc, text))
        return;
    const char *path = group_path(text, controller);
    if (!path)
        return;
    int n_root = snprintf(dir, sizeof dir, "%s%s%s", root, *controller ? "/" : "", controller);
    size_t n = strcspn(path, "\n");
    if (n_root < 0 || (size_t)n_root + n >= sizeof dir)
        return;
    memcpy(dir + n_root, path, n);
    dir[(size_t)n_root + n] = 0;
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

/* Room under a limit, from files with these names. */
static void mem_room(const char *dir, const char *limit, const char *usage, const char *inactive, size_t *room)
{
    char text[TEXT_MAX];
    uint64_t max, used, cache = 0;
    if (!read_in(dir, limit, text) || !field(text, "", &max)) /* "max" is no number: no limit */
        return;
    if (!read_in(dir, usage, text) || !field(text, "", &used))
        used = 0;
    if (read_in(dir, "memory.stat", text) && field(text, inactive, &cache)) /* given back on demand */
        used -= cache < used ? cache : used;
    uint64_t left = used < max ? max - used : 0;
    if (left < *room)
        *room = (size_t)left;
}

static void visit_mem(const char *dir, void *arg)
{
    mem_room(dir, "memory.max", "memory.current", "inactive_file ", arg);
}

static void visit_mem_v1(const char *dir, void *arg)
{
    mem_room(dir, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", arg);
}

size_t machine_cgroup_mem(const char *proc, const char *root)
{
    size_t room = SIZE_MAX;
    walk_groups(proc, root, "", visit_mem, &room);
    walk_groups(proc, root, "memory", visit_mem_v1, &room);
    return room;
}

static void cpu_quota(unsigned long long quota, unsigned long long period, int *cpus)
{
    if (period == 0)
        return;
    unsigned long long n = quota / period + (quota % period != 0);
    if (n < 1)
        n = 1;
    if (n < CPU_MAX && (*cpus == 0 || (int)n < *cpus))
        *cpus = (int)n;
}

static void visit_cpu(const char *dir, void *arg)
{
    char text[TEXT_MAX];
    unsigned long long quota, period;
    if (read_in(dir, "cpu.max", text) && sscanf(text, "%llu %llu", &quota, &period) == 2)
        cpu_quota(quota, period, arg);
}

static void visit_cpu_v1(const char *dir, void *arg)
{
    char text[TEXT_MAX];
    long long quota, period;
    if (read_in(dir, "cpu.cfs_quota_us", text) && sscanf(text, "%lld", &quota) == 1 && quota >= 0 && /* -1: none */
        read_in(dir, "cpu.cfs_period_us", text) && sscanf(text, "%lld", &period) == 1 && period > 0)
        cpu_quota((unsigned long long)quota, (unsigned long long)period, arg);
}

int machine_cgroup_cpus(const char *proc, const char *root)
{
    int cpus = 0;
    walk_groups(proc, root, "", visit_cpu, &cpus);
    walk_groups(proc, root, "cpu", visit_cpu_v1, &cpus);
    return cpus;
}

/* ---- processors ---- */

/* Marks the processors of a list like "0-3,8"; returns whether there were any. */
static bool read_list(const char *list, bool *in, int n_cpu)
{
    bool any = false;
    memset(in, 0, (size_t)n_cpu * sizeof *in);
    for (const char *p = list; *p >= '0' && *p <= '9';) {
        char *end;
        long a = strtol(p, &end, 10), b = a;
        if (*end == '-')
            b = strtol(end + 1, &end, 10);
        for (long i = a; i <= b && i < n_cpu; i++)
            any = in[i] = true;
        p = *end == ',' ? end + 1 : "";
    }
    return any;
}

static bool read_at(const char *sys, int cpu, const char *name, char text[TEXT_MAX])
{
    char path[PATH_LEN];
    snprintf(path, sizeof path, "%s/cpu%d/%s", sys, cpu, name);
    return read_text(path, text);
}

/* Whether processor i is the first allowed one of its core. */
static bool leads_core(const char *sys, const bool *allowed, int n_cpu, int i)
{
    char text[TEXT_MAX];
    bool sibling[CPU_MAX];
    bool known = read_at(sys, i, "topology/core_cpus_list", text) ||
                 read_at(sys, i, "topology/thread_siblings_list", text); /* the name before Linux 5.3 */
    if (!known || !read_list(text, sibling, n_cpu) || !sibling[i])
        return true;
    for (int k = 0; k < i; k++)
        if (sibling[k] && allowed[k])
            return false;
    return true;
}

/* Speed of a processor beside the others: the kernel's own measure, or else its highest frequency, halved for those
 * that Intel calls atoms, whose vector units are half as wide; 0 = unknown. */
static double cpu_speed(const char *sys, int cpu, const bool *atom)
{
    char text[TEXT_MAX];
    uint64_t v;
    if (read_at(sys, cpu, "cpu_capacity", text) && field(text, "", &v))
        return (double)v;
    if (read_at(sys, cpu, "cpufreq/cpuinfo_max_freq", text) && field(text, "", &v))
        return (double)v * (atom[cpu] ? 0.5 : 1);
    return 0;
}

static int faster_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Work is cut into equal shares, and a step ends with the slowest: k cores do k times what the slowest of them does. */
static int best_count(double *speed, int n)
{
    int best = 1;
    qsort(speed, (size_t)n, sizeof *speed, faster_first);
    if (speed[n - 1] == 0)
        return n;
    for (int k = 2; k <= n; k++)
        if (k * speed[k - 1] >= best * speed[best - 1])
            best = k;
    return best;
}

int machine_core_count(const char *sys, const bool *allowed, int n_cpu)
{
    char path[PATH_LEN], text[TEXT_MAX];
    bool atom[CPU_MAX] = {0};
    double speed[CPU_MAX];
    int cores = 0;
    snprintf(path, sizeof path, "%s/../../cpu_atom/cpus", sys);
    if (n_cpu > CPU_MAX)
        n_cpu = CPU_MAX;
    if (read_text(path, text))
        read_list(text, atom, n_cpu);
    for (int i = 0; i < n_cpu; i++)
        if (allowed[i] && leads_core(sys, allowed, n_cpu, i))
            speed[cores++] = cpu_speed(sys, i, atom);
    return cores > 0 ? best_count(speed, cores) : 1;
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
