/* Any bytes as a chat template: refused with a sentence, or rendered with spans that cover the text. No byte of the
 * conversation may come out trusted, unless the template can make such bytes itself. */
#include "base/json.h"
#include "base/mem.h"
#include "text/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* U+E000 stands in all strings of the conversation; here as its UTF-8. */
#define MARK "\xEE\x80\x80"

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static json_t *parse(const char *text)
{
    json_t *j = NULL;
    check(json_parse(text, strlen(text), "conversation", &j, NULL) == GLIM_OK, "the conversation is no JSON");
    return j;
}

/* Can the template write the mark without reading the conversation? By a literal, an escape or a number. */
static bool makes_marks(const char *text, size_t n)
{
    static const char *const ways[] = {MARK, "\\", "%", "format", "E000", "57344"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (memmem(text, n, ways[i], strlen(ways[i])))
            return true;
    return false;
}

static void check_spans(const struct jinja_output *out, bool marks_allowed)
{
    size_t at = 0;
    for (size_t i = 0; i < out->n_span; at += out->span[i++].n) {
        check(out->span[i].n > 0 && out->span[i].n <= out->text.n - at, "a span outside the text");
        check(i == 0 || out->span[i].trusted != out->span[i - 1].trusted, "two spans that are one");
        if (out->span[i].trusted && !marks_allowed)
            check(!memmem(out->text.s + at, out->span[i].n, MARK, strlen(MARK)), "text of the conversation is trusted");
    }
    check(at == out->text.n, "the spans do not cover the text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *messages, *tools, *extra;
    if (!messages) {
        messages =
            parse("[{\"role\":\"system\",\"content\":\"" MARK "s\"},{\"role\":\"user\",\"content\":[{\"type\":\"text"
                  "\",\"text\":\"" MARK "\"}]},{\"role\":\"assistant\",\"content\":\"a" MARK "\",\"tool_calls\":[{"
                  "\"function\":{\"name\":\"" MARK "f\",\"arguments\":{\"k" MARK "\":\"" MARK "v\"}}}]}]");
        tools = parse("[{\"type\":\"function\",\"function\":{\"name\":\"f" MARK "\",\"parameters\":{\"a\":1.5}}}]");
        extra = parse("{\"s\":\"x" MARK "y\",\"l\":[3,1,2],\"n\":2,\"d\":{\"b\":\"" MARK "\",\"a\":null}}");
    }
    struct template_token token = {"bos_token", "<s>"};
    struct template_input in = {.messages = messages,
                                .tools = tools,
                                .extra = extra,
                                .add_generation_prompt = true,
                                .token = &token,
                                .n_token = 1,
                                .now = {.tm_year = 126, .tm_mday = 1}};
    struct jinja_output out;
    struct glim_err e = {0};
    struct template *t;
    if (template_open(&t, (const char *)data, size, "fuzz", &e) != GLIM_OK) {
        check(e.message[0] && !t, "refused without a sentence");
        return 0;
    }
    if (template_render(t, &in, &out, &e) == GLIM_OK)
        check_spans(&out, makes_marks((const char *)data, size));
    else
        check(e.message[0] && out.text.n == 0, "failed without a sentence");
    jinja_output_fini(&out);
    template_close(t);
    return 0;
}
