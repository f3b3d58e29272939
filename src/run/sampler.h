/* Sampling: a pure function of (logits, prefix, parameters, seed).
 *
 * Order of the filters: bias, repetition / presence / frequency penalties, temperature, top-k, typical, top-p, min-p.
 * What remains is drawn by the Gumbel-max form: the token with the largest  logit / T + G(seed, position, id),  G from
 * a counter-based generator, so that the draw for a position does not depend on how it was reached (DESIGN rule 2) and
 * a drafter that sees the same distribution draws the same token. Ties go to the lower id. No libm in the noise. */
#ifndef GLIM_RUN_SAMPLER_H
#define GLIM_RUN_SAMPLER_H

#include "base/status.h"

/* -ln(-ln(u)), u in (0,1) from (seed, position, token): the same bits on every machine. */
float sample_gumbel(uint64_t seed, uint64_t position, uint32_t token);

/* The scratch a sampler needs for n_vocab tokens; made once, no allocation while sampling. */
struct sampler;
glim_status sampler_create(struct sampler **out, uint32_t n_vocab, struct glim_err *e);
void sampler_free(struct sampler *s);
glim_status sampler_check(const struct glim_sampling *p, uint32_t n_vocab,
                          struct glim_err *e); /* bounds of every field */
/* prefix: what the penalties see; the draw is for position n_prefix. NaN or +infinity among the logits is an error that
 * names the id; all at -infinity is refused. Several bias entries of one token add up. The prefix is not read (and may
 * be NULL) while no penalty is on. mask, bit i % 64 of word i / 64: token i may be drawn; NULL: all. The others count
 * as -infinity, before everything else. */
glim_status sampler_draw(struct sampler *s, const float *logits, const int32_t *prefix, size_t n_prefix,
                         const struct glim_sampling *p, const uint64_t *mask, int32_t *token, struct glim_err *e);

#endif
