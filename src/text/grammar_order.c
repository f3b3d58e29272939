/* The order of rules, and left recursion.
 *
 * A depth-first walk over what is reached without a byte: splits, and the starts of called rules. A rule that is left
 * before another was called by it, so rules in the order of leaving, turned round, are in topological order. Meeting a
 * state that has not been left yet closes a circle that reads nothing; it always goes through a call, because no turn
 * of a repetition is empty. */
#include "text/grammar_compile.h"

#include "base/mem.h"

enum { NEW, OPEN, LEFT };

struct walk {
    struct grammar *g;
    uint8_t *mark;   /* [n_state] */
    uint32_t *place; /* [n_state] when it was left */
    struct step {
        uint32_t state, next_child;
    } * stack; /* [n_state] */
    size_t depth;
    uint32_t n_left;
};

static bool child(const struct grammar *g, uint32_t state, uint32_t i, uint32_t *to)
{
    const struct g_state *s = &g->state[state];
    if (s->kind == G_S_SPLIT && i < s->n)
        *to = g->data[s->a + i];
    else if (s->kind == G_S_CALL && i == 0)
        *to = g->rule[g->call[s->a].rule].start;
    else
        return false;
    return true;
}

/* The state of a circle's call; 0 = there is none below `start`. */
static uint32_t walk(struct walk *w, uint32_t start)
{
    if (w->mark[start] != NEW)
        return 0;
    w->stack[w->depth++] = (struct step){start, 0};
    w->mark[start] = OPEN;
    while (w->depth > 0) {
        struct step *top = &w->stack[w->depth - 1];
        uint32_t to;
        if (!child(w->g, top->state, top->next_child++, &to)) {
            w->mark[top->state] = LEFT;
            w->place[top->state] = w->n_left++;
            w->depth--;
        } else if (w->mark[to] == OPEN) {
            return to;
        } else if (w->mark[to] == NEW) {
            w->mark[to] = OPEN;
            w->stack[w->depth++] = (struct step){to, 0};
        }
    }
    return 0;
}

static const struct g_rule_def *rule_of(const struct grammar_builder *b, uint32_t node)
{
    for (size_t i = 0; i < b->n_rule; i++)
        if (b->rule[i].node == node)
            return &b->rule[i];
    return NULL;
}

/* The first rule on the circle, from `to` to the top of the stack, that has a name. Parts without one only lie between
 * rules: a circle of them alone would be a node that contains itself. */
static glim_status refuse(const struct walk *w, const struct grammar_builder *b, const uint32_t *of_rule, uint32_t to,
                          struct glim_err *e)
{
    size_t i = w->depth;
    while (i > 0 && w->stack[i - 1].state != to)
        i--;
    for (i = i ? i - 1 : 0; i < w->depth; i++) {
        const struct g_state *s = &w->g->state[w->stack[i].state];
        const struct g_rule_def *r = s->kind == G_S_CALL ? rule_of(b, of_rule[w->g->call[s->a].rule]) : NULL;
        if (r)
            return err_set(e, GLIM_REFUSED,
                           "grammar: rule %.*s: have left recursion (it may begin with itself), need it to read first",
                           (int)r->n_name, b->text + r->name);
    }
    return err_set(e, GLIM_REFUSED, "grammar: have left recursion, need every rule to read before it begins again");
}

glim_status g_order(struct grammar *g, const struct grammar_builder *b, const uint32_t *of_rule, struct glim_err *e)
{
    size_t n = g->n_state;
    struct walk w = {.g = g,
                     .mark = mem_calloc(n, 1),
                     .place = mem_calloc(n, sizeof *w.place),
                     .stack = mem_alloc(n * sizeof *w.stack)};
    glim_status st = GLIM_OK;
    if (!w.mark || !w.place || !w.stack)
        st = err_nomem(e, "grammar", n * sizeof *w.stack);
    for (size_t i = 0; i < g->n_rule && st == GLIM_OK; i++) {
        uint32_t to = walk(&w, g->rule[i].start);
        if (to != 0)
            st = refuse(&w, b, of_rule, to, e);
    }
    for (size_t i = 0; i < g->n_rule && st == GLIM_OK; i++)
        g->rule[i].order = (uint32_t)n - w.place[g->rule[i].start];
    mem_free(w.mark);
    mem_free(w.place);
    mem_free(w.stack);
    return st;
}
