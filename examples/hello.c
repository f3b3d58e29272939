/* The smallest program over glim.h: hello MODEL.gguf "prompt" prints what follows the prompt.
 * How to build it: docs/ARCHITECTURE.md, "Using the library". */
#include "glim.h"

#include <stdio.h>
#include <string.h>

static bool show(void *user, int32_t token, const char *text, size_t n)
{
    (void)user;
    (void)token;
    return fwrite(text, 1, n, stdout) == n;
}

int main(int argc, char **argv)
{
    struct glim_config *config = NULL;
    struct glim_model *model = NULL;
    struct glim_session *session = NULL;
    struct glim_request request = {.max_tokens = 32, .sampling = glim_sampling_default()};
    struct glim_result result = {0};
    struct glim_err err = {0};
    const char *prompt = argc > 2 ? argv[2] : "Hello";
    int32_t *tokens = NULL;
    bool ok = glim_config_create(&config, &err) == GLIM_OK &&
              glim_model_open(&model, argc > 1 ? argv[1] : "model.gguf", config, NULL, NULL, &err) == GLIM_OK &&
              glim_tokenize(model, prompt, strlen(prompt), GLIM_TOK_BOS, &tokens, &request.n_prompt, &err) == GLIM_OK &&
              glim_session_create(&session, model, 0, &err) == GLIM_OK;
    request.prompt = tokens;
    ok = ok && glim_generate(session, &request, show, NULL, NULL, &result, &err) == GLIM_OK;
    fprintf(ok ? stdout : stderr, "%s\n", ok ? "" : err.message);
    glim_result_fini(&result);
    glim_session_free(session);
    glim_free(tokens);
    glim_model_close(model);
    glim_config_free(config);
    return ok ? 0 : (int)err.status;
}
