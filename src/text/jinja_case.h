/* Tables of upper and lower case (jinja_case_data.c). */
#ifndef GLIM_TEXT_JINJA_CASE_H
#define GLIM_TEXT_JINJA_CASE_H

#include <stddef.h>
#include <stdint.h>

/* first, first + step, …, last become themselves plus delta. Sorted, not overlapping. */
struct jj_case_run {
    uint32_t first, last;
    uint8_t step;
    int32_t delta;
};

/* Characters that become several. map: 0 upper, 1 lower, 2 title, 3 fold. Sorted by map and character. */
struct jj_case_many {
    uint8_t map;
    uint32_t cp, to[3];
};

extern const struct jj_case_run jj_case_upper[], jj_case_lower[], jj_case_title_map[], jj_case_fold[];
extern const struct jj_case_many jj_case_many[];
extern const uint32_t jj_case_other_upper[], jj_case_other_lower[], jj_case_titled[], jj_case_ignorable[],
    jj_case_decimal[], jj_case_digit[], jj_case_numeric[];
extern const size_t jj_case_upper_n, jj_case_lower_n, jj_case_title_map_n, jj_case_fold_n, jj_case_many_n,
    jj_case_other_upper_n, jj_case_other_lower_n, jj_case_titled_n, jj_case_ignorable_n, jj_case_decimal_n,
    jj_case_digit_n, jj_case_numeric_n;

#endif
