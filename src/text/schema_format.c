/* Formats: regular expressions over the whole string.
 *
 * `exact` means that the expression is the format, so that its negation is known too. The others leave out what their
 * standards allow and hardly anyone writes: leap seconds and lower-case t and z in times (RFC 3339), quoted local parts
 * and address literals in mail addresses (RFC 5321), the IP literals of the future in URIs (RFC 3986). Of host names,
 * which may have 253 characters, those of four labels of 62, or eight of 30, stay certainly below. What is admitted is
 * valid under the standard. */
#include "text/schema_impl.h"

#include <string.h>

#define DAYS                                                                                                           \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))"
#define DATE     "(?:(?:\\d{3}[1-9]|\\d\\d[1-9]\\d|\\d[1-9]\\d\\d|[1-9]\\d{3})-" DAYS "|" LEAP_DAY ")"
#define LEAP_DAY "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29"
#define TIME     "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL(n) "[A-Za-z0-9](?:[A-Za-z0-9-]{0," n "}[A-Za-z0-9])?"
#define HOST     "(?:" LABEL("60") "(?:\\." LABEL("60") "){0,3}|" LABEL("28") "(?:\\." LABEL("28") "){0,7})"
#define BYTE     "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4     BYTE "(?:\\." BYTE "){3}"
#define H16      "[0-9A-Fa-f]{1,4}"
#define LS32     "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                           \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 "|(?:(?:" H16            \
    ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16      \
    ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16   \
    "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
#define ATOM     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define HEX2     "%[0-9A-Fa-f]{2}"
#define UNRES    "A-Za-z0-9._~\\-"
#define SUB      "!$&'()*+,;="
#define PCHAR    "(?:[" UNRES SUB ":@]|" HEX2 ")"
#define SEGMENTS "(?:/" PCHAR "*)*"
#define REGNAME  "(?:[" UNRES SUB "]|" HEX2 ")*"
#define AUTH     "(?:(?:[" UNRES SUB ":]|" HEX2 ")*@)?(?:\\[" IPV6 "\\]|" REGNAME ")(?::\\d*)?"
#define QUERY    "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define URI      "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTH SEGMENTS "|/(?:" PCHAR "+" SEGMENTS ")?|" PCHAR "+" SEGMENTS "|)" QUERY
#define RELATIVE                                                                                                       \
    "(?://" AUTH SEGMENTS "|/(?:" PCHAR "+" SEGMENTS ")?|(?:[" UNRES SUB "@]|" HEX2 ")+" SEGMENTS "|)" QUERY

static const struct schema_format format[] = {
    {"date", DATE, true},
    {"time", TIME, false},
    {"date-time", DATE "T" TIME, false},
    {"duration",
     "P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|"
     "\\d+S))?|T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))",
     true},
    {"email", "(?=[^@]{1,64}@)" ATOM "(?:\\." ATOM ")*@" HOST, false},
    {"hostname", HOST, false},
    {"ipv4", IPV4, true},
    {"ipv6", IPV6, true},
    {"uri", URI, false},
    {"uri-reference", "(?:" URI "|" RELATIVE ")", false},
    {"uuid", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}", true},
    {"json-pointer", "(?:/(?:[^~/]|~[01])*)*", true},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)", true},
    {"byte", "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", false},
    /* names of OpenAPI that say how a value is kept or shown */
    {"binary", NULL, false},
    {"password", NULL, false},
    {"int32", NULL, false},
    {"int64", NULL, false},
    {"float", NULL, false},
    {"double", NULL, false},
};

const struct schema_format *schema_find_format(const char *name)
{
    for (size_t i = 0; i < sizeof format / sizeof *format; i++)
        if (strcmp(format[i].name, name) == 0)
            return &format[i];
    return NULL;
}

const char *schema_format_name(size_t i, bool *enforced)
{
    if (i >= sizeof format / sizeof *format)
        return NULL;
    *enforced = format[i].regex != NULL;
    return format[i].name;
}
