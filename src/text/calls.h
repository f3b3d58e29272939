/* Tool calls as a grammar: whatever it admits, the dialect's own parser reads as calls of the tools that were given,
 * with arguments that are valid under their schemas.
 *
 * The text around names and arguments is the dialect's frame. The arguments follow the tool's `parameters`:
 *
 *   - Missing parameters are an empty object, as OpenAI's API has it. A tool that declares properties takes only those,
 *     unless its schema says more (additionalProperties, patternProperties, …); one whose schema declares none takes
 *     any. That a name which is not declared comes twice is beyond an automaton, and so is nesting deeper than the
 *     parser goes: it reports such a call as malformed.
 *   - JSON arguments are spelled as schema.h says.
 *   - Parameters between markers come in the order of the schema. A string is its text, without the markers that would
 *     end it. Where the parser tells strings from other values by their looks (no single type is declared), a string
 *     does not look like one of those: like a number, say, or begin with a bracket.
 *   - Literals are those of the dialect: in Python True, False, None and strings in quotes of either kind (control
 *     characters but tab, line feed and carriage return do not come); in braces bare keys and the dialect's quotes.
 *   - Outside of JSON, an object that declares properties holds no others, unless additionalProperties says so.
 *
 * Refused before anything is generated, by the tool's name and the schema's path: what schema.h refuses; outside of
 * JSON also prefixItems, patternProperties, propertyNames, and counts of properties that are not met anyhow; names that
 * the dialect's parser does not read back; a dialect without calls. */
#ifndef GLIM_TEXT_CALLS_H
#define GLIM_TEXT_CALLS_H

#include "text/dialect.h"
#include "text/grammar_gate.h"

enum { CALLS_MAX_TOOLS = 1024 };

struct calls_opts {
    const char *only_name; /* NULL: any of the tools */
    bool parallel;         /* several calls may come, where the dialect can write them */
    /* The answer may have none: the grammar is for a gate with the triggers below, which are kept. Where a call needs
     * no marker there are none, and the grammar is that of the whole answer: a call, or text that does not begin like
     * one ({ or [). Otherwise the whole answer is calls.
     * Neither knows of reasoning, where a trigger would count as well: begin when that is over. */
    bool lazy;
};

struct calls {
    struct grammar *grammar;
    struct grammar_trigger *trigger; /* [n_trigger], keep is set */
    size_t n_trigger;
};

/* tools: a list of {"type": "function", "function": {…}} or of bare {"name": …}. *out is empty on failure.
 *
 * A dialect's stop tokens have to be end tokens of the vocabulary. A call that the frame ends with one of them may end
 * before it, so that the sentence is complete whether it counts as an end or as text. */
glim_status calls_make(struct calls *out, const struct dialect *d, const json_t *tools, const struct calls_opts *o,
                       struct glim_err *e);
void calls_fini(struct calls *c);

/* Does the text of a control token stand in the dialect's calls? A vocabulary for these grammars gives such tokens
 * their text as bytes; one for other grammars gives them none. */
bool calls_marker(const struct dialect *d, const char *text, size_t n);

#endif
