/* The APIs: each file's rows of the table of routes. */
#ifndef GLIM_SERVE_API_H
#define GLIM_SERVE_API_H

#include "serve/route.h"

enum {
    OPENAI_ROUTES = 24,
    RESPONSES_ROUTES = 7,
    ANTHROPIC_ROUTES = 4,
    LLAMACPP_ROUTES = 17,
    OLLAMA_ROUTES = 13,
    OPS_ROUTES = 9
};
extern const struct route openai_routes[OPENAI_ROUTES];       /* api_openai.c */
extern const struct route responses_routes[RESPONSES_ROUTES]; /* api_responses.c */
extern const struct route anthropic_routes[ANTHROPIC_ROUTES]; /* api_anthropic.c */
extern const struct route llamacpp_routes[LLAMACPP_ROUTES];   /* api_llamacpp.c */
extern const struct route ollama_routes[OLLAMA_ROUTES];       /* api_ollama.c */
extern const struct route ops_routes[OPS_ROUTES];             /* api_ops.c */

#endif
