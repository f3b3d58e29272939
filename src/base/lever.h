/* Levers: every option of the engine, one row each in lever_table.def (DESIGN: docs/ARCHITECTURE.md, "levers").
 *
 * A row gives the canonical environment name GLIM_…, the config key and flag of the same stem, type and bounds,
 * default, aliases with their own parse rule, scope, whether it can change output bits, whether its feature is built,
 * and one sentence. The typed values live in struct levers: one field a built row, in the order of the table (checked
 * by the compiler). Precedence: flag (lever_put), then environment, then glim.toml, then default. This module holds the
 * program's only getenv. */
#ifndef GLIM_BASE_LEVER_H
#define GLIM_BASE_LEVER_H

#include "base/log.h"
#include "base/str.h"

enum lever_kv { LEVER_KV_AUTO, LEVER_KV_F32, LEVER_KV_F16, LEVER_KV_BF16, LEVER_KV_Q8 };
enum lever_isa { LEVER_ISA_AUTO, LEVER_ISA_GENERIC, LEVER_ISA_AVX2, LEVER_ISA_AVX512 };
enum lever_backend { LEVER_BACKEND_AUTO, LEVER_BACKEND_CPU, LEVER_BACKEND_REF, LEVER_BACKEND_CUDA };
enum lever_draft { LEVER_DRAFT_OFF, LEVER_DRAFT_NGRAM };
enum lever_unknown { LEVER_UNKNOWN_REFUSE, LEVER_UNKNOWN_IGNORE };
enum lever_pooling { LEVER_POOLING_LAST, LEVER_POOLING_MEAN, LEVER_POOLING_CLS };
enum lever_act { LEVER_ACT_MIXED, LEVER_ACT_Q16, LEVER_ACT_Q8 };

/* The values of the built rows. (Strings belong to the struct; NULL = unset.) */
struct levers {
    const char *home;          /* GLIM_HOME: models, caches; default ~/.glim */
    int64_t threads;           /* GLIM_THREADS: 0 = one a physical core */
    int64_t ctx;               /* GLIM_CTX: positions a session holds; 0 = min(the model's own, 4096) */
    int64_t prefill_chunk;     /* GLIM_PREFILL_CHUNK: rows a forward takes at most; 512; 1..4096 */
    int backend;               /* GLIM_BACKEND: enum lever_backend */
    int cpu_isa;               /* GLIM_CPU_ISA: enum lever_isa */
    int kv_type;               /* GLIM_KV_TYPE: auto = f32 for unquantised weights, else q8; changes bits */
    int act;                   /* GLIM_ACT: activations of quantised products, enum lever_act; changes bits */
    bool kv_poison;            /* GLIM_KV_POISON: fresh KV pages are filled with NaN (alias METRALE_KV_POISON) */
    int64_t mem_limit;         /* GLIM_MEM_LIMIT: bytes the plan may take; 0 = what the machine has free */
    int64_t n_seq;             /* GLIM_N_SEQ: sequences an engine works on at once */
    int64_t kv_size;           /* GLIM_KV_SIZE: bytes of an engine's KV pages; 0 = as many as its sequences may need */
    bool prefix_cache;         /* GLIM_PREFIX_CACHE: finished sequences leave their pages to later ones */
    int64_t queue;             /* GLIM_QUEUE: answers that may wait */
    int64_t step_ms;           /* GLIM_STEP_MS: time between two tokens that an engine aims at */
    bool overcommit;           /* GLIM_OVERCOMMIT: admit without holding back pages for all tokens to come */
    int draft;                 /* GLIM_DRAFT: enum lever_draft */
    int64_t draft_max;         /* GLIM_DRAFT_MAX: most tokens guessed ahead */
    int log_level;             /* GLIM_LOG_LEVEL: error|warn|info|debug */
    int log_format;            /* GLIM_LOG_FORMAT: text|json */
    const char *host;          /* GLIM_HOST: address of the server */
    int64_t port;              /* GLIM_PORT: 0 = any free one */
    const char *alias;         /* GLIM_ALIAS: names of the served model, joined by commas; NULL = its file's name */
    const char *chat_template; /* GLIM_CHAT_TEMPLATE: file; NULL = the model's own */
    const char *dialect;       /* GLIM_DIALECT: a row of text/dialect.h; NULL = what the template shows */
    int unknown_fields;        /* GLIM_UNKNOWN_FIELDS: enum lever_unknown */
    int64_t workers;           /* GLIM_WORKERS: threads of the server beside the engine's */
    int pooling;               /* GLIM_POOLING: enum lever_pooling; changes bits */
    bool insecure;             /* GLIM_INSECURE: serve other machines without TLS and keys */
    int64_t drain_s;           /* GLIM_DRAIN_S: seconds answers may take to end at shutdown */
    const char *store_path;    /* GLIM_STORE_PATH: file of stored responses; NULL = responses.db in home */
    int64_t store_size;        /* GLIM_STORE_SIZE: bytes of stored responses; 0 = none */
    int64_t store_days;        /* GLIM_STORE_DAYS: how long they are kept */
    const char *tls_cert;      /* GLIM_TLS_CERT: PEM file; NULL = no TLS */
    const char *tls_key;       /* GLIM_TLS_KEY: PEM file */
    const char *api_keys;      /* GLIM_API_KEYS: file (serve/keys.h); NULL = nobody needs a key */
    const char *allowed_hosts; /* GLIM_ALLOWED_HOSTS: names, joined by commas */
    const char *cors;          /* GLIM_CORS: origins, joined by commas; NULL = none */
    const char *access_log;    /* GLIM_ACCESS_LOG: file, "-" = standard error; NULL = none */
    double health_s;           /* GLIM_HEALTH_S: seconds without a step after which a busy engine hangs */
};

struct lever_set; /* values plus where each came from */
/* Defaults + environment + glim.toml of the working folder, else of the home folder. GLIM_REFUSED: an unknown name that
 * begins with GLIM_, MUSER_ or METRALE_, an unknown key, a value outside its bounds, two names of one lever that
 * disagree, a lever that is not built set to other than its default. GLIM_FAILED: a file that cannot be read or is no
 * TOML. */
glim_status lever_load(struct lever_set **out, struct glim_err *e);
/* Defaults alone (tests, and glim_config copies): environment and files are not read. */
glim_status lever_defaults(struct lever_set **out, struct glim_err *e);
/* name: config key, flag stem, canonical name or alias. Wins over file and environment. GLIM_USAGE when there is no
 * such name, GLIM_REFUSED when the value is; the set is then as it was. */
glim_status lever_put(struct lever_set *s, const char *name, const char *value, struct glim_err *e);
const struct levers *lever_values(const struct lever_set *s);
void lever_free(struct lever_set *s);

/* The whole table as text for people, JSON, or Markdown (docs/LEVERS.md). s may be NULL (defaults). */
enum lever_style { LEVER_TEXT, LEVER_JSON, LEVER_MARKDOWN };
glim_status lever_print(const struct lever_set *s, enum lever_style style, struct str *out, struct glim_err *e);

/* Plain environment reads that are not levers, by a closed list (HOME, NO_COLOR, TERM, COLUMNS); NULL otherwise. */
const char *lever_system_env(const char *name);

#endif
