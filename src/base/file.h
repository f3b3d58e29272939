/* Files: read-only maps, whole-file reads, atomic writes, paths. */
#ifndef GLIM_BASE_FILE_H
#define GLIM_BASE_FILE_H

#include "base/status.h"

#include <stdio.h>

/* A read-only view of a whole file. Empty files are refused (nothing here can be parsed from them). */
struct file_map {
    const uint8_t *data;
    size_t size;
    char *path; /* owned copy */
};
glim_status file_map_open(struct file_map *m, const char *path, struct glim_err *e);
void file_map_close(struct file_map *m);
/* The bytes [off, off + n) will not be read again soon: their pages stop counting as ours. */
void file_map_drop(const struct file_map *m, size_t off, size_t n);
/* Start reading [off, off + n) in the background. */
void file_map_want(const struct file_map *m, size_t off, size_t n);

/* *buf gets the file plus a terminating NUL not counted in *n; refused when larger than max. Free with mem_free. */
glim_status file_read(const char *path, size_t max, char **buf, size_t *n, struct glim_err *e);
/* Write to a temporary beside path, fsync, rename. */
glim_status file_write_atomic(const char *path, const void *data, size_t n, struct glim_err *e);
/* The same; only the owner may read it. */
glim_status file_write_secret(const char *path, const void *data, size_t n, struct glim_err *e);
bool file_exists(const char *path);
bool file_is_dir(const char *path);
glim_status file_size(const char *path, size_t *n, struct glim_err *e);
glim_status file_mkdirs(const char *path, struct glim_err *e);

/* dir + "/" + name in fresh memory (no second slash when dir ends with one); NULL when out of memory. */
char *path_join(const char *dir, const char *name);
/* Folder part of path ("." when none) in fresh memory; NULL when out of memory. */
char *path_dir(const char *path);

/* Test hook: the n-th file operation (open, map, read, write) from now and all later ones fail; 0 = off. */
void file_fail_after(long n);

#endif
