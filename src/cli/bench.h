/* What the parts of glim bench share. */
#ifndef GLIM_CLI_BENCH_H
#define GLIM_CLI_BENCH_H

#include "cli/cli.h"
#include "run/run.h"

struct bench_list { /* of whole numbers: "1,4,16" */
    const char *text;
    int64_t v[32];
    size_t n;
};

struct bench_test {
    bool prefill;   /* else decode */
    uint32_t n;     /* tokens of a prefill, steps of a decode */
    uint32_t depth; /* tokens that each stream holds before */
    uint32_t batch; /* streams of a step; 1 for a prefill */
    char name[48];  /* "tg64@d4096 b4" */
};

struct bench {
    struct cli *cli;
    const char *model;
    int64_t n_prompt, n_gen, repeat;
    struct bench_list depth, batch;
    bool json, roofline, formats, engine;
    struct run_streams *streams;
    int32_t *tokens; /* pseudo-random; stream k's position i has tokens[k + i] */
};

/* The tests asked for, in the order of their rows: each depth, at each the prefill and then the batches. False after
 * the last. */
bool bench_next(const struct bench *b, size_t i, struct bench_test *t);
/* Bring the streams to the test's depth, then run and time the rest. */
glim_status bench_measure(struct bench *b, const struct bench_test *t, struct run_profile *p, double *seconds);

/* --roofline: the machine's limits, then each test's ops against them. */
glim_status bench_roofline(struct bench *b);
/* --engine: the same decode through an engine, its prefix cache, and answers beside a long prompt. */
glim_status bench_engine(struct bench *b);
/* --formats: each number format's product, without a model. */
glim_status bench_formats(struct cli *c, int threads, bool json);

#endif
