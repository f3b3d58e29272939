/* Lines from a person: edited and remembered at a terminal (libedit), read as they come otherwise. */
#ifndef GLIM_CLI_LINES_H
#define GLIM_CLI_LINES_H

#include "base/str.h"

struct lines;
/* file: what lines are remembered in, or NULL. */
glim_status lines_open(struct lines **out, const char *file, struct glim_err *e);
void lines_close(struct lines *l);
bool lines_edited(const struct lines *l); /* there is a terminal */

enum line_end { LINE_READ, LINE_INTERRUPTED, LINE_END };
/* The next line, without its end, into *line; a backslash at its end joins the next one to it. begin: text the line
 * starts with, to be edited, or NULL. LINE_INTERRUPTED: Ctrl-C. */
enum line_end lines_next(struct lines *l, const char *prompt, const char *begin, struct str *line);

#endif
