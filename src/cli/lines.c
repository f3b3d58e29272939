/* Lines from a person. See lines.h. */
#include "cli/lines.h"

#include "base/mem.h"

#include <errno.h>
#include <histedit.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { REMEMBERED = 1000 };

struct lines {
    EditLine *edit; /* NULL: no terminal */
    History *history;
    char *file;
    const char *prompt;
};

static char *prompt_of(EditLine *edit)
{
    void *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    return (char *)(uintptr_t)((struct lines *)l)->prompt;
}

glim_status lines_open(struct lines **out, const char *file, struct glim_err *e)
{
    HistEvent ev;
    struct lines *l = mem_calloc(1, sizeof *l);
    *out = l;
    if (!l)
        return err_nomem(e, "terminal", sizeof *l);
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return GLIM_OK;
    l->edit = el_init("glim", stdin, stdout, stderr);
    l->history = history_init();
    if (!l->edit || !l->history) {
        lines_close(l);
        *out = NULL;
        return err_nomem(e, "terminal", sizeof *l);
    }
    l->prompt = "";
    l->file = file ? mem_strdup(file) : NULL;
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, prompt_of);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_SIGNAL, 0); /* Ctrl-C is the caller's */
    el_set(l->edit, EL_HIST, history, l->history);
    history(l->history, &ev, H_SETSIZE, REMEMBERED);
    history(l->history, &ev, H_SETUNIQUE, 1);
    if (l->file)
        history(l->history, &ev, H_LOAD, l->file);
    return GLIM_OK;
}

void lines_close(struct lines *l)
{
    HistEvent ev;
    if (!l)
        return;
    if (l->history && l->file)
        history(l->history, &ev, H_SAVE, l->file);
    if (l->history)
        history_end(l->history);
    if (l->edit)
        el_end(l->edit);
    mem_free(l->file);
    mem_free(l);
}

bool lines_edited(const struct lines *l)
{
    return l->edit != NULL;
}

/* One line with its end; its length, 0 at the end of input, -1 when interrupted. */
static int read_line(struct lines *l, const char *prompt, const char *begin, struct str *to)
{
    int n = 0, c;
    if (l->edit) {
        l->prompt = prompt;
        if (begin)
            el_push(l->edit, begin);
        errno = 0;
        const char *s = el_gets(l->edit, &n);
        if (s && n > 0)
            str_add(to, s, (size_t)n);
        return s ? n : n < 0 && errno == EINTR ? -1 : 0;
    }
    while ((c = getchar()) != EOF) {
        str_putc(to, (char)c);
        n = 1;
        if (c == '\n')
            break;
    }
    return ferror(stdin) && errno == EINTR ? -1 : n;
}

enum line_end lines_next(struct lines *l, const char *prompt, const char *begin, struct str *line)
{
    HistEvent ev;
    str_clear(line);
    for (;;) {
        int n = read_line(l, line->n ? "… " : prompt, begin, line);
        if (n < 0)
            return LINE_INTERRUPTED;
        if (n == 0 && line->n == 0)
            return LINE_END;
        while (line->n && (line->s[line->n - 1] == '\n' || line->s[line->n - 1] == '\r'))
            line->s[--line->n] = 0;
        if (n == 0 || line->n == 0 || line->s[line->n - 1] != '\\')
            break;
        line->s[line->n - 1] = '\n';
        begin = NULL;
    }
    if (l->edit && line->n)
        history(l->history, &ev, H_ENTER, line->s);
    str_add(line, "", 0);
    return LINE_READ;
}
