/* Lookups in the generated tables. Runs of equal class are found by binary search; for planes 0 and 1, where nearly all
 * text lives, an index by the upper bits narrows the search to a handful of runs. */
#include "text/unicode.h"

enum { BLOCKS = 512 };

/* Index of the last of r[lo..hi] whose code point (upper 24 bits) is <= cp. */
static size_t run_of(const uint32_t *r, size_t lo, size_t hi, uint32_t cp)
{
    while (lo < hi) {
        size_t mid = (lo + hi + 1) / 2;
        if (r[mid] >> 8 <= cp)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

uint8_t uc_class(uint32_t cp)
{
    uint32_t b = cp >> 8;
    size_t lo = b < BLOCKS ? uc_block[b] : uc_block[BLOCKS];
    size_t hi = b < BLOCKS ? uc_block[b + 1] : uc_range_n - 1;
    return (uint8_t)uc_range[run_of(uc_range, lo, hi, cp)];
}

bool uc_in(const uint32_t *r, size_t n, uint32_t cp)
{
    size_t lo = 0, hi = n / 2;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (r[2 * mid + 1] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n / 2 && r[2 * lo] <= cp;
}

bool uc_is_ascii(const uint8_t *p, size_t n)
{
    uint8_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= p[i];
    return all < 128;
}

/* ---- NFC: decompose, order the marks, compose (Unicode Standard annex 15) ----
 *
 * The text is worked through in pieces that begin with a starter, held as one u32 a character: a code point, or INVALID
 * plus a byte that is passed through and never combines. */

#define INVALID 0x80000000u

/* Hangul syllables are arithmetic (section 3.12 of the standard). */
enum { S_BASE = 0xAC00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11A7, L_N = 19, V_N = 21, T_N = 28 };

struct piece {
    struct str cp; /* u32 each */
    struct str order;
};

static uint8_t ccc_of(uint32_t cp)
{
    return cp < 0x300 || cp >= INVALID ? 0 : (uint8_t)uc_ccc[run_of(uc_ccc, 0, uc_ccc_n - 1, cp)];
}

static void put(struct str *s, uint32_t v)
{
    str_add(s, (const char *)&v, sizeof v);
}

static void decompose(struct str *s, uint32_t cp)
{
    if (cp - S_BASE < L_N * V_N * T_N) {
        uint32_t i = cp - S_BASE;
        put(s, L_BASE + i / (V_N * T_N));
        put(s, V_BASE + i % (V_N * T_N) / T_N);
        if (i % T_N)
            put(s, T_BASE + i % T_N);
        return;
    }
    size_t lo = 0, hi = cp < 0xC0 ? 0 : uc_decomp_n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (uc_decomp[mid] >> 42 < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == uc_decomp_n || uc_decomp[lo] >> 42 != cp) {
        put(s, cp);
        return;
    }
    uint32_t a = (uint32_t)(uc_decomp[lo] >> 21) & 0x1FFFFF, b = (uint32_t)uc_decomp[lo] & 0x1FFFFF;
    decompose(s, a); /* as deep as the table: four levels */
    if (b)
        put(s, b); /* the second part never decomposes further */
}

/* The composite of a and b, 0 when they do not compose. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a - L_BASE < L_N && b - V_BASE < V_N)
        return S_BASE + ((a - L_BASE) * V_N + (b - V_BASE)) * T_N;
    if (a - S_BASE < L_N * V_N * T_N && (a - S_BASE) % T_N == 0 && b - T_BASE - 1 < T_N - 1)
        return a + (b - T_BASE);
    if (a >= INVALID || b >= INVALID)
        return 0;
    const uint64_t mask = ((uint64_t)1 << 42) - 1, want = (uint64_t)a << 21 | b;
    size_t lo = 0, hi = uc_comp_n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if ((uc_decomp[uc_comp[mid]] & mask) < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == uc_comp_n || (uc_decomp[uc_comp[lo]] & mask) != want)
        return 0;
    return (uint32_t)(uc_decomp[uc_comp[lo]] >> 42);
}

/* Stable sort of a run of marks by their class. Counting keeps hostile runs of a million marks linear. */
static void order_marks(struct piece *w, size_t first, size_t n)
{
    uint32_t *cp = (uint32_t *)(void *)w->cp.s + first;
    size_t at[257] = {0};
    if (n < 2)
        return;
    str_clear(&w->order);
    str_add(&w->order, (const char *)cp, n * sizeof *cp);
    if (w->order.failed)
        return;
    const uint32_t *from = (const uint32_t *)(const void *)w->order.s;
    for (size_t i = 0; i < n; i++)
        at[ccc_of(from[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        at[i] += at[i - 1];
    for (size_t i = 0; i < n; i++)
        cp[at[ccc_of(from[i])]++] = from[i];
}

static void order_all(struct piece *w)
{
    size_t n = w->cp.n / sizeof(uint32_t), i = 0;
    const uint32_t *cp = (const uint32_t *)(const void *)w->cp.s;
    while (i < n) {
        size_t first = i;
        while (i < n && ccc_of(cp[i]))
            i++;
        order_marks(w, first, i - first);
        i += i < n;
    }
}

/* A character composes with the last starter unless one between them has the same or a higher class. */
static size_t compose_all(uint32_t *cp, size_t n)
{
    size_t out = 0, starter = SIZE_MAX;
    uint8_t last = 0; /* class of the last character kept after the starter */
    for (size_t i = 0; i < n; i++) {
        uint8_t c = ccc_of(cp[i]);
        bool blocked = starter == SIZE_MAX || (out > starter + 1 && (last >= c || last == 0));
        uint32_t x = blocked ? 0 : compose(cp[starter], cp[i]);
        if (x) {
            cp[starter] = x;
            continue;
        }
        if (c == 0)
            starter = out;
        last = c;
        cp[out++] = cp[i];
    }
    return out;
}

static void write_out(const uint32_t *cp, size_t n, struct str *out)
{
    char utf8[4];
    for (size_t i = 0; i < n; i++)
        if (cp[i] >= INVALID)
            str_putc(out, (char)(cp[i] & 0xFF));
        else
            str_add(out, utf8, (size_t)utf8_encode(cp[i], utf8));
}

void uc_nfc(const uint8_t *p, size_t n, struct str *out)
{
    if (uc_is_ascii(p, n)) {
        str_add(out, (const char *)p, n);
        return;
    }
    struct piece w = {0};
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int len = utf8_decode(p + i, n - i, &cp);
        if (len)
            decompose(&w.cp, cp);
        else
            put(&w.cp, INVALID | p[i]);
        i += len ? (size_t)len : 1;
    }
    if (!w.cp.failed)
        order_all(&w);
    if (!w.cp.failed && !w.order.failed) {
        uint32_t *cp = (uint32_t *)(void *)w.cp.s;
        write_out(cp, compose_all(cp, w.cp.n / sizeof *cp), out);
    } else {
        out->failed = true;
    }
    str_fini(&w.cp);
    str_fini(&w.order);
}
