/* If this fails: in a container the engine starts a thread for each processor of the host, or plans more memory than
 * its limit and is killed in the middle of a request. */
#include "base/machine.h"
#include "base/file.h"
#include "base/mem.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

/* A made-up machine in a temporary folder. */
static char root[32];

static void put(const char *name, const char *text)
{
    struct glim_err e;
    char *p = path_join(root, name), *d = path_dir(p);
    assert_int_equal(file_mkdirs(d, &e), GLIM_OK);
    assert_int_equal(file_write_atomic(p, text, strlen(text), &e), GLIM_OK);
    mem_free(p);
    mem_free(d);
}

static const char *at(const char *name)
{
    static char p[2][128];
    static int turn;
    turn = !turn;
    snprintf(p[turn], sizeof p[turn], "%s/%s", root, name);
    return p[turn];
}

static int begin(void **state)
{
    (void)state;
    strcpy(root, "/tmp/glim-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    char cmd[64];
    snprintf(cmd, sizeof cmd, "rm -rf %s", root);
    return system(cmd);
}

static void memory_of_the_tightest_group_counts(void **state)
{
    (void)state;
    put("proc", "0::/a/b\n");
    put("cg/a/b/memory.max", "max\n");
    put("cg/a/b/memory.current", "5\n");
    assert_true(machine_cgroup_mem(at("proc"), at("cg")) == SIZE_MAX);
    put("cg/a/memory.max", "1000\n");
    put("cg/a/memory.current", "400\n");
    assert_int_equal(machine_cgroup_mem(at("proc"), at("cg")), 600);
    put("cg/a/memory.stat", "anon 100\ninactive_file 150\nactive_file 50\n"); /* page cache is given back */
    assert_int_equal(machine_cgroup_mem(at("proc"), at("cg")), 750);
    put("cg/a/b/memory.max", "100\n");
    assert_int_equal(machine_cgroup_mem(at("proc"), at("cg")), 95);
    put("cg/a/b/memory.current", "101\n");
    assert_int_equal(machine_cgroup_mem(at("proc"), at("cg")), 0);
    put("proc", "12:cpu:/x\n0::/\n"); /* as seen inside a container */
    put("cg/memory.max", "77\n");
    assert_int_equal(machine_cgroup_mem(at("proc"), at("cg")), 77);
}

static void odd_group_files_mean_no_limit(void **state)
{
    (void)state;
    assert_true(machine_cgroup_mem(at("proc"), at("cg")) == SIZE_MAX);
    const char *odd[] = {"", "\n", "1:memory:/a\n", "0::", "0::/", "0::/../..", "0::a/b"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        put("proc", odd[i]);
        assert_true(machine_cgroup_mem(at("proc"), at("cg")) == SIZE_MAX);
        assert_int_equal(machine_cgroup_cpus(at("proc"), at("cg")), 0);
    }
    char longest[6000];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "0::/", 4);
    longest[sizeof longest - 1] = 0;
    put("proc", longest);
    assert_true(machine_cgroup_mem(at("proc"), at("cg")) == SIZE_MAX);
}

static void processor_quota_rounds_up(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int cpus;
    } row[] = {{"max 100000\n", 0},  {"200000 100000\n", 2}, {"250000 100000\n", 3},
               {"1000 100000\n", 1}, {"5 0\n", 0},           {"", 0}};
    put("proc", "0::/a/b\n");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        put("cg/a/b/cpu.max", row[i].text);
        assert_int_equal(machine_cgroup_cpus(at("proc"), at("cg")), row[i].cpus);
    }
    put("cg/cpu.max", "150000 100000\n");
    put("cg/a/b/cpu.max", "800000 100000\n");
    assert_int_equal(machine_cgroup_cpus(at("proc"), at("cg")), 2);
}

/* Control groups before the unified hierarchy: a folder and file names for each controller. */
static void groups_of_the_old_kind_count(void **state)
{
    (void)state;
    put("proc", "9:name=systemd:/\n4:memory:/a/b\n3:cpuset:/x\n1:cpu,cpuacct:/a/b\n0::/\n");
    assert_true(machine_cgroup_mem(at("proc"), at("cg")) == SIZE_MAX);
    assert_int_equal(machine_cgroup_cpus(at("proc"), at("cg")), 0);
    put("cg/memory/a/memory.limit_in_bytes", "1000\n");
    put("cg/memory/a/memory.usage_in_bytes", "400\n");
    put("cg/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 150\n");
    assert_int_equal(machine_cgroup_mem(at("proc"), at("cg")), 750);
    put("cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"); /* how they say that there is none */
    assert_int_equal(machine_cgroup_mem(at("proc"), at("cg")), 750);
    put("cg/memory.max", "700\n"); /* both kinds at once */
    assert_int_equal(machine_cgroup_mem(at("proc"), at("cg")), 700);

    const struct {
        const char *quota, *period;
        int cpus;
    } row[] = {{"-1\n", "100000\n", 0}, {"200000\n", "100000\n", 2}, {"150000\n", "100000\n", 2},
               {"100\n", "0\n", 0},     {"100\n", "-5\n", 0},        {"x\n", "100000\n", 0}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        put("cg/cpu/a/cpu.cfs_quota_us", row[i].quota);
        put("cg/cpu/a/cpu.cfs_period_us", row[i].period);
        assert_int_equal(machine_cgroup_cpus(at("proc"), at("cg")), row[i].cpus);
    }
    const char *odd[] = {"1:cpu:a\n", "1:cpu\n", "1:cpuset:/a\n", "1:acpu,cpub:/a\n", "cpu:/a\n", ":\n", "::"};
    put("cg/cpu/a/cpu.cfs_quota_us", "100000\n");
    put("cg/cpu/a/cpu.cfs_period_us", "100000\n");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        put("proc", odd[i]);
        assert_int_equal(machine_cgroup_cpus(at("proc"), at("cg")), 0);
    }
    put("proc", "1:cpuacct,cpu:/a");
    assert_int_equal(machine_cgroup_cpus(at("proc"), at("cg")), 1);
}

static void hyper_threads_count_as_one_core(void **state)
{
    (void)state;
    const bool all[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    char name[64], text[32];
    for (int i = 0; i < 8; i++) { /* siblings i and i + 4, as on many servers */
        snprintf(name, sizeof name, "cpu%d/topology/core_cpus_list", i);
        snprintf(text, sizeof text, "%d,%d\n", i % 4, i % 4 + 4);
        put(name, text);
    }
    assert_int_equal(machine_core_count(at("."), all, 8), 4);
    assert_int_equal(machine_core_count(at("."), (bool[8]){[0] = 1, [4] = 1}, 8), 1);
    assert_int_equal(machine_core_count(at("."), (bool[8]){[4] = 1, [5] = 1}, 8), 2); /* only second siblings allowed */
    assert_int_equal(machine_core_count(at("."), (bool[8]){0}, 8), 1);
}

static void ranges_and_old_names_are_read(void **state)
{
    (void)state;
    const bool all[4] = {1, 1, 1, 1};
    put("cpu0/topology/thread_siblings_list", "0-1\n");
    put("cpu1/topology/thread_siblings_list", "0-1\n");
    put("cpu2/topology/core_cpus_list", "2-3\n");
    put("cpu3/topology/core_cpus_list", "2-3\n");
    assert_int_equal(machine_core_count(at("."), all, 4), 2);
    put("cpu0/topology/thread_siblings_list", "junk"); /* unreadable: each its own core */
    assert_int_equal(machine_core_count(at("."), all, 4), 2);
    assert_int_equal(machine_core_count(at("nowhere"), all, 4), 4);
}

/* n_fast processors, then n_slow, each a core, with a file of this name that tells their speed. */
static int cores_of(int n_fast, int n_slow, const char *file, const char *fast, const char *slow)
{
    bool all[32] = {0};
    char name[96];
    for (int i = 0; i < n_fast + n_slow; i++) {
        all[i] = true;
        snprintf(name, sizeof name, "devices/system/cpu/cpu%d/%s", i, file);
        put(name, i < n_fast ? fast : slow);
    }
    return machine_core_count(at("devices/system/cpu"), all, n_fast + n_slow);
}

/* A step ends with the slowest member: cores that would be waited for are worse than none, unless they are many. */
static void slow_cores_count_when_they_help(void **state)
{
    (void)state;
    const char *capacity = "cpu_capacity";
    assert_int_equal(cores_of(4, 4, capacity, "1024\n", "1024\n"), 8);
    assert_int_equal(cores_of(4, 4, capacity, "1024\n", "400\n"), 4);
    assert_int_equal(cores_of(2, 6, capacity, "1024\n", "400\n"), 8);
    assert_int_equal(cores_of(1, 1, capacity, "1024\n", "300\n"), 1);
    assert_int_equal(cores_of(1, 3, capacity, "junk\n", "300\n"), 4); /* unknown: all alike */
}

static void frequencies_tell_when_the_kernel_does_not(void **state)
{
    (void)state;
    const char *freq = "cpufreq/cpuinfo_max_freq";
    assert_int_equal(cores_of(8, 8, freq, "5750000\n", "5250000\n"), 16); /* favoured cores are no reason */
    assert_int_equal(cores_of(8, 8, freq, "5200000\n", "3900000\n"), 16);
    put("devices/cpu_atom/cpus", "8-15\n"); /* the same frequencies, but half the vector width */
    assert_int_equal(cores_of(8, 8, freq, "5200000\n", "3900000\n"), 8);
    put("devices/cpu_atom/cpus", "2-9\n");
    assert_int_equal(cores_of(2, 8, freq, "5200000\n", "3900000\n"), 10);
}

/* Two threads a fast core, one a slow one; and only some of them allowed. */
static void hybrid_machines_have_siblings_too(void **state)
{
    (void)state;
    bool allowed[12];
    char name[96], text[32];
    for (int i = 0; i < 12; i++) { /* 4 fast cores of two threads, 4 slow ones of one */
        allowed[i] = true;
        snprintf(name, sizeof name, "devices/system/cpu/cpu%d/topology/core_cpus_list", i);
        snprintf(text, sizeof text, i < 8 ? "%d-%d\n" : "%d\n", i < 8 ? i & ~1 : i, i | 1);
        put(name, text);
        snprintf(name, sizeof name, "devices/system/cpu/cpu%d/cpu_capacity", i);
        put(name, i < 8 ? "1024\n" : "400\n");
    }
    assert_int_equal(machine_core_count(at("devices/system/cpu"), allowed, 12), 4);
    memset(allowed, 0, 8);
    assert_int_equal(machine_core_count(at("devices/system/cpu"), allowed, 12), 4); /* the slow ones alone */
    allowed[0] = allowed[1] = true;
    assert_int_equal(machine_core_count(at("devices/system/cpu"), allowed, 12), 5);
}

static void meminfo_is_in_kib(void **state)
{
    (void)state;
    put("mi", "MemTotal:       100 kB\nMemFree:  1 kB\nMemAvailable:     42 kB\n");
    assert_int_equal(machine_meminfo(at("mi")), 42 * 1024);
    put("mi", "MemTotal: 100 kB\n");
    assert_true(machine_meminfo(at("mi")) == SIZE_MAX);
    put("mi", "MemAvailable: 99999999999999999999 kB\n");
    assert_true(machine_meminfo(at("mi")) == SIZE_MAX);
    assert_true(machine_meminfo(at("none")) == SIZE_MAX);
}

static void this_machine_makes_sense(void **state)
{
    (void)state;
    size_t n = mem_available();
    assert_true(n > (size_t)1 << 20 && n < (size_t)1 << 50);
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(machine_cpus(), CPU_COUNT(&set));
    assert_true(machine_cores() >= 1 && machine_cores() <= machine_cpus());
}

static void the_address_space_limit_counts(void **state)
{
    (void)state;
    struct rlimit old, now;
    getrlimit(RLIMIT_AS, &old);
    if (old.rlim_cur == RLIM_INFINITY)
        assert_true(machine_address_room() == SIZE_MAX);
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    now = old;
    now.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)64 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
    size_t room = machine_address_room(), avail = mem_available();
    setrlimit(RLIMIT_AS, &old);
    assert_true(room > (size_t)48 << 20 && room <= (size_t)65 << 20);
    assert_true(avail <= (size_t)65 << 20);
}

#define MADE_UP(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MADE_UP(memory_of_the_tightest_group_counts),
        MADE_UP(odd_group_files_mean_no_limit),
        MADE_UP(processor_quota_rounds_up),
        MADE_UP(hyper_threads_count_as_one_core),
        MADE_UP(ranges_and_old_names_are_read),
        MADE_UP(meminfo_is_in_kib),
        MADE_UP(groups_of_the_old_kind_count),
        MADE_UP(slow_cores_count_when_they_help),
        MADE_UP(frequencies_tell_when_the_kernel_does_not),
        MADE_UP(hybrid_machines_have_siblings_too),
        cmocka_unit_test(this_machine_makes_sense),
        cmocka_unit_test(the_address_space_limit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
