/* The table of keywords: what is known of each, and what its value has to be. */
#include "text/schema_impl.h"

#include <string.h>

const struct schema_keyword schema_keywords[] = {
    {"type", SCHEMA_EXACT, KV_TYPE, "One type or a list of them."},
    {"nullable", SCHEMA_EXACT, KV_BOOL, "As in OpenAPI 3.0: adds null to the type beside it."},
    {"enum", SCHEMA_EXACT, KV_LIST, "Values that the other keywords rule out are left out."},
    {"const", SCHEMA_EXACT, KV_ANY, "As an enum of one value."},
    {"properties", SCHEMA_EXACT, KV_SCHEMA_MAP, "Written in the order of the schema."},
    {"required", SCHEMA_EXACT, KV_NAMES, "Also of properties that are not declared."},
    {"additionalProperties", SCHEMA_EXACT, KV_SCHEMA, "Other properties follow the declared ones."},
    {"patternProperties", SCHEMA_EXACT, KV_SCHEMA_MAP, "Up to 64 combinations of patterns that names can match."},
    {"propertyNames", SCHEMA_EXACT, KV_SCHEMA, "Whatever can be said about a string."},
    {"minProperties", SCHEMA_PARTLY, KV_COUNT,
     "Exact where declared properties decide; refused where other names, which might repeat, would have to be "
     "counted."},
    {"maxProperties", SCHEMA_EXACT, KV_COUNT, "Refused when counting takes more than 20000 states."},
    {"dependentRequired", SCHEMA_EXACT, KV_NAME_LISTS, "As alternatives; up to 512 combinations."},
    {"dependentSchemas", SCHEMA_EXACT, KV_SCHEMA_MAP, "As alternatives; up to 512 combinations."},
    {"dependencies", SCHEMA_EXACT, KV_SCHEMA_OR_NAMES, "The older name of the two above."},
    {"items", SCHEMA_EXACT, KV_SCHEMA_OR_LIST, "A list of schemas is read as prefixItems (older drafts)."},
    {"prefixItems", SCHEMA_EXACT, KV_SCHEMAS, "The first items, one schema each."},
    {"additionalItems", SCHEMA_EXACT, KV_SCHEMA, "Of older drafts: the items after those of a list."},
    {"minItems", SCHEMA_EXACT, KV_COUNT, "A number of items."},
    {"maxItems", SCHEMA_EXACT, KV_COUNT, "A number of items."},
    {"uniqueItems", SCHEMA_PARTLY, KV_BOOL, "Only false, or arrays of at most one item."},
    {"contains", SCHEMA_REFUSED, KV_NONE, "An automaton cannot count matching items."},
    {"minContains", SCHEMA_REFUSED, KV_NONE, "Read together with contains."},
    {"maxContains", SCHEMA_REFUSED, KV_NONE, "Read together with contains."},
    {"minLength", SCHEMA_EXACT, KV_COUNT, "In code points."},
    {"maxLength", SCHEMA_EXACT, KV_COUNT, "In code points; beside a pattern, as far as the automaton stays small."},
    {"pattern", SCHEMA_PARTLY, KV_STRING, "ECMA-262; refused: backreferences, \\b, lookbehind, lookahead in groups."},
    {"format", SCHEMA_PARTLY, KV_STRING, "Known formats are enforced, those without a syntax ignored, others refused."},
    {"minimum", SCHEMA_EXACT, KV_NUMBER, "Exact in decimal."},
    {"maximum", SCHEMA_EXACT, KV_NUMBER, "Exact in decimal."},
    {"exclusiveMinimum", SCHEMA_EXACT, KV_BOUND, "Exact in decimal; draft 4's boolean is known."},
    {"exclusiveMaximum", SCHEMA_EXACT, KV_BOUND, "Exact in decimal; draft 4's boolean is known."},
    {"multipleOf", SCHEMA_PARTLY, KV_NUMBER, "Exact in decimal, while digits times scale stay below 65536 states."},
    {"anyOf", SCHEMA_EXACT, KV_SCHEMAS, "Up to 512 combinations in one place."},
    {"oneOf", SCHEMA_PARTLY, KV_SCHEMAS, "Where the branches are disjoint or can be made so by negating them."},
    {"allOf", SCHEMA_EXACT, KV_SCHEMAS, "All of them, merged into one."},
    {"not", SCHEMA_PARTLY, KV_SCHEMA, "Where the negation can be written with other keywords."},
    {"if", SCHEMA_PARTLY, KV_SCHEMA, "Where the condition can be negated."},
    {"then", SCHEMA_PARTLY, KV_SCHEMA, "Read together with if."},
    {"else", SCHEMA_PARTLY, KV_SCHEMA, "Read together with if."},
    {"$ref", SCHEMA_PARTLY, KV_STRING,
     "Inside the document, also recursive; a reference that only leads to itself is refused."},
    {"$defs", SCHEMA_EXACT, KV_SCHEMA_MAP, "Schemas to refer to."},
    {"definitions", SCHEMA_EXACT, KV_SCHEMA_MAP, "Schemas to refer to."},
    {"$anchor", SCHEMA_EXACT, KV_STRING, "A name to refer to."},
    {"$id", SCHEMA_EXACT, KV_STRING, "A URI to refer to."},
    {"unevaluatedProperties", SCHEMA_PARTLY, KV_SCHEMA, "true, or beside nothing that evaluates elsewhere."},
    {"unevaluatedItems", SCHEMA_PARTLY, KV_SCHEMA, "true, or beside nothing that evaluates elsewhere."},
    {"$dynamicRef", SCHEMA_REFUSED, KV_NONE, "Depends on the path of evaluation."},
    {"$dynamicAnchor", SCHEMA_REFUSED, KV_NONE, "Depends on the path of evaluation."},
    {"$recursiveRef", SCHEMA_REFUSED, KV_NONE, "Depends on the path of evaluation."},
    {"$recursiveAnchor", SCHEMA_REFUSED, KV_NONE, "Depends on the path of evaluation."},
    {"$vocabulary", SCHEMA_REFUSED, KV_NONE, "Only dialects are described with it."},
    {"$schema", SCHEMA_IGNORED, KV_STRING, "All drafts are read as described here."},
    {"$comment", SCHEMA_IGNORED, KV_ANY, ""},
    {"title", SCHEMA_IGNORED, KV_ANY, ""},
    {"description", SCHEMA_IGNORED, KV_ANY, ""},
    {"default", SCHEMA_IGNORED, KV_ANY, ""},
    {"examples", SCHEMA_IGNORED, KV_ANY, ""},
    {"example", SCHEMA_IGNORED, KV_ANY, "Of OpenAPI."},
    {"deprecated", SCHEMA_IGNORED, KV_ANY, ""},
    {"readOnly", SCHEMA_IGNORED, KV_ANY, ""},
    {"writeOnly", SCHEMA_IGNORED, KV_ANY, ""},
    {"contentEncoding", SCHEMA_IGNORED, KV_ANY, "An annotation since draft 2019-09."},
    {"contentMediaType", SCHEMA_IGNORED, KV_ANY, "An annotation since draft 2019-09."},
    {"contentSchema", SCHEMA_IGNORED, KV_ANY, "An annotation."},
    {"discriminator", SCHEMA_IGNORED, KV_ANY, "Of OpenAPI: a hint for parsers."},
    {"externalDocs", SCHEMA_IGNORED, KV_ANY, "Of OpenAPI."},
    {"xml", SCHEMA_IGNORED, KV_ANY, "Of OpenAPI."},
};
const size_t schema_n_keyword = sizeof schema_keywords / sizeof *schema_keywords;

const struct schema_keyword *schema_find_keyword(const char *name)
{
    static const struct schema_keyword extension = {"x-", SCHEMA_IGNORED, KV_ANY, ""};
    for (size_t i = 0; i < schema_n_keyword; i++)
        if (strcmp(schema_keywords[i].name, name) == 0)
            return &schema_keywords[i];
    return strncmp(name, "x-", 2) == 0 ? &extension : NULL;
}

const char *schema_level_name(enum schema_level level)
{
    static const char *const name[] = {"exact", "partly", "ignored", "refused"};
    return name[level];
}
