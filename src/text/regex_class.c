/* Unicode properties of regular expressions, from the tables that the tokenizers use. */
#include "text/regex_parse.h"
#include "text/unicode.h"

#include <string.h>

/* Either a class of text/unicode.h (less those of `less`), or ranges written down here. Titlecase letters, separators
 * and controls are few and stable since Unicode 6.3. */
struct property {
    const char *name;
    uint8_t class_bit;
    const struct code_range *range;
    size_t n_range;
    bool less; /* class_bit without the ranges */
};

static const struct code_range any[] = {{0, 0x10FFFF}}, ascii[] = {{0, 0x7F}}, control[] = {{0, 0x1F}, {0x7F, 0x9F}},
                               title[] = {{0x1C5, 0x1C5},   {0x1C8, 0x1C8},   {0x1CB, 0x1CB},   {0x1F2, 0x1F2},
                                          {0x1F88, 0x1F8F}, {0x1F98, 0x1F9F}, {0x1FA8, 0x1FAF}, {0x1FBC, 0x1FBC},
                                          {0x1FCC, 0x1FCC}, {0x1FFC, 0x1FFC}},
                               space[] = {{0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                          {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}},
                               separator[] = {{0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                              {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}},
                               line[] = {{0x2028, 0x2028}}, paragraph[] = {{0x2029, 0x2029}};

#define RANGES(r) .range = (r), .n_range = sizeof(r) / sizeof *(r)
static const struct property property[] = {
    {"Any", RANGES(any)},
    {"ASCII", RANGES(ascii)},
    {"L", .class_bit = UC_L},
    {"Letter", .class_bit = UC_L},
    {"Lu", .class_bit = UC_UPPER, RANGES(title), .less = true},
    {"Uppercase_Letter", .class_bit = UC_UPPER, RANGES(title), .less = true},
    {"Ll", .class_bit = UC_LOWER},
    {"Lowercase_Letter", .class_bit = UC_LOWER},
    {"Lt", RANGES(title)},
    {"Titlecase_Letter", RANGES(title)},
    {"M", .class_bit = UC_M},
    {"Mark", .class_bit = UC_M},
    {"N", .class_bit = UC_N},
    {"Number", .class_bit = UC_N},
    {"P", .class_bit = UC_P},
    {"Punctuation", .class_bit = UC_P},
    {"S", .class_bit = UC_S},
    {"Symbol", .class_bit = UC_S},
    {"Z", RANGES(separator)},
    {"Separator", RANGES(separator)},
    {"Zs", RANGES(space)},
    {"Space_Separator", RANGES(space)},
    {"Zl", RANGES(line)},
    {"Zp", RANGES(paragraph)},
    {"Cc", RANGES(control)},
    {"Control", RANGES(control)},
    {"White_Space", .class_bit = UC_SPACE},
};

const char regex_property_names[] = "Any, ASCII, L, Lu, Ll, Lt, M, N, P, S, Z, Zs, Zl, Zp, Cc, their long names, "
                                    "White_Space";

static bool in_ranges(const struct property *p, uint32_t cp)
{
    for (size_t i = 0; i < p->n_range; i++)
        if (p->range[i].first <= cp && cp <= p->range[i].last)
            return true;
    return false;
}

/* Code points of a class: uc_range holds the first of each run and its class. */
static bool add_class(const struct property *p, bool (*add)(void *user, uint32_t first, uint32_t last), void *user)
{
    for (size_t i = 0; i < uc_range_n; i++) {
        uint32_t first = uc_range[i] >> 8, end = i + 1 < uc_range_n ? uc_range[i + 1] >> 8 : 0x110000;
        if (!(uc_range[i] & p->class_bit))
            continue;
        for (uint32_t a = first, b; a < end; a = b) {
            bool out = p->less && in_ranges(p, a);
            b = p->less ? a + 1 : end;
            while (b < end && in_ranges(p, b) == out)
                b++;
            if (!out && !add(user, a, b - 1))
                return false;
        }
    }
    return true;
}

bool re_property(const char *name, size_t n, bool (*add)(void *user, uint32_t first, uint32_t last), void *user,
                 bool *known)
{
    *known = false;
    if (n > 17 && memcmp(name, "General_Category=", 17) == 0)
        name += 17, n -= 17;
    else if (n > 3 && memcmp(name, "gc=", 3) == 0)
        name += 3, n -= 3;
    for (size_t i = 0; i < sizeof property / sizeof *property; i++) {
        const struct property *p = &property[i];
        if (strlen(p->name) != n || memcmp(p->name, name, n) != 0)
            continue;
        *known = true;
        if (p->class_bit)
            return add_class(p, add, user);
        for (size_t j = 0; j < p->n_range; j++)
            if (!add(user, p->range[j].first, p->range[j].last))
                return false;
        return true;
    }
    return true;
}
