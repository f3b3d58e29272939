/* Inside the safetensors module: a strict scanner for its JSON, the parse of one file and of a folder's index. */
#ifndef GLIM_FORMAT_SAFETENSORS_PRIVATE_H
#define GLIM_FORMAT_SAFETENSORS_PRIVATE_H

#include "base/str.h"
#include "format/names.h"
#include "format/safetensors.h"

#include <string.h>

enum {
    ST_HEADER_MAX = 100 << 20, /* bytes; the format's own limit */
    ST_INDEX_MAX = 100 << 20,
    ST_TENSOR_MAX = 1 << 20,
};

/* ---- scanner ----
 * The headers of large checkpoints are tens of megabytes, and a tree of a hostile one takes forty times its size. Here
 * nothing is kept but what the reader asks for. Each function skips white space first, and returns false with `fault`
 * set ("have …, need …") and `at` on the spot when the text is not what was asked for. */
struct st_scan {
    const uint8_t *p;
    size_t n, at;
    const char *fault;
    struct str text; /* the last string, decoded; free with str_fini */
};
bool st_is(struct st_scan *s, char c);               /* the next byte is c; nothing is consumed, no fault is set */
bool st_take(struct st_scan *s, char c);             /* consume c */
bool st_string(struct st_scan *s);                   /* into s->text: valid UTF-8 without NUL */
bool st_u64(struct st_scan *s, uint64_t *v);         /* digits only */
bool st_skip(struct st_scan *s);                     /* any value, at most 64 deep */
bool st_end(struct st_scan *s);                      /* nothing but white space is left */
bool st_fault(struct st_scan *s, const char *fault); /* set the fault; returns false */
/* Steps through "{…}" or "[…]": call with *n = 0 before the first element. True when an element follows (for an object,
 * its key is in s->text and the colon is consumed); false at the end or on a fault. */
bool st_next_member(struct st_scan *s, size_t *n);
bool st_next_element(struct st_scan *s, size_t *n);

/* ---- files ---- */
struct st_file {
    struct st_file *next;
    struct file_map map; /* all zero when opened from memory */
    const uint8_t *p;
    size_t size;
    const char *path; /* for messages */
};

struct safetensors {
    struct st_file *first;
    struct tensor *tensor;
    size_t n_tensor, tensor_cap;
    struct name_index index;
    struct name_pool names;
};

/* Parse f (p, size and path set) and append its tensors to s->tensor. */
glim_status st_parse(struct safetensors *s, struct st_file *f, struct glim_err *e);

/* model.safetensors.index.json: which shard holds each tensor. */
struct st_entry {
    const char *name; /* first: indexed by name */
    const char *file; /* plain file name in the same folder */
};
struct st_index {
    struct st_entry *entry;
    size_t n, cap;
    struct name_index by_name;
    struct name_pool names;
};
/* Parse n bytes; path is for messages. Call st_index_fini in any case. */
glim_status st_index_parse(struct st_index *x, const void *p, size_t n, const char *path, struct glim_err *e);
void st_index_fini(struct st_index *x);

/* Open one file from memory that stays the caller's and unchanged until safetensors_close; tensors get no map. */
glim_status safetensors_open_memory(struct safetensors **out, const void *p, size_t n, const char *name,
                                    struct glim_err *e);

#endif
