/* What the machine lets this process have: memory and processor cores, after control groups and limits. */
#ifndef GLIM_BASE_MACHINE_H
#define GLIM_BASE_MACHINE_H

#include "base/status.h"

/* Threads worth running: one for each physical core that this process's affinity allows (not one for each of its
 * hyper-threads), without cores so slow that the others would wait for them, and not more than the control group's
 * processor quota; at least 1. */
int machine_cores(void);
/* Logical processors the affinity allows; at least 1. */
int machine_cpus(void);

/* The parts of the above, with the places they read, so that tests can hand in a made-up machine.
 * proc: a file like /proc/self/cgroup; root: a folder like /sys/fs/cgroup; sys: a folder like /sys/devices/system/cpu.
 */
size_t machine_cgroup_mem(const char *proc,
                          const char *root); /* bytes still free in the tightest group; SIZE_MAX = no limit */
int machine_cgroup_cpus(const char *proc, const char *root); /* quota of the tightest group, rounded up; 0 = no limit */
/* Cores among the n_cpu processors for which allowed[i] is true; processors without topology count as a core each. Of
 * cores of different speed only the fastest k, k such that k times the slowest of them is most: a machine with 8 fast
 * and 8 slow cores counts as 8, one with 2 and 8 as 10. */
int machine_core_count(const char *sys, const bool *allowed, int n_cpu);

/* MemAvailable of a file like /proc/meminfo in bytes; SIZE_MAX when it is not there. */
size_t machine_meminfo(const char *path);
/* Bytes of address space left under RLIMIT_AS; SIZE_MAX = no limit. */
size_t machine_address_room(void);

#endif
