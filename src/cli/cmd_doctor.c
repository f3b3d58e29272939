/* glim doctor: this machine as glim sees it, and the kernels it gets. */
#include "cli/cli.h"

#include "base/crew.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/mem.h"
#include "run/model.h"

#include <stdio.h>
#include <string.h>

struct doctor {
    char cpu[128], thp[128];
    const struct backend *be;
    int threads;
    double read_gb_s;
};

/* ---- bandwidth ---- */

enum { READ_LINE = 64, READ_BYTES = 256 << 20 };
static const double READ_SECONDS = 0.3;

struct read_job {
    const uint64_t *p;
    size_t n_line;         /* of 64 bytes */
    uint64_t sum[256 * 8]; /* a cache line a member: keeps the reads alive */
};

static void read_member(void *arg, int member, int n_member)
{
    struct read_job *j = arg;
    size_t a = j->n_line * (size_t)member / (size_t)n_member, b = j->n_line * (size_t)(member + 1) / (size_t)n_member;
    uint64_t s[8] = {0};
    for (size_t i = a; i < b; i++)
        for (size_t k = 0; k < 8; k++)
            s[k] += j->p[8 * i + k];
    for (size_t k = 1; k < 8; k++)
        s[0] += s[k];
    j->sum[8 * member] += s[0];
}

/* Read a block larger than the caches, over and over, for a third of a second. */
static glim_status measure_read(struct doctor *d, struct crew *crew, struct glim_err *e)
{
    struct read_job *j = mem_calloc(1, sizeof *j);
    uint64_t *p = mem_aligned(READ_LINE, READ_BYTES);
    glim_status st = GLIM_OK;
    if (!j || !p) {
        st = err_nomem(e, "bandwidth test", READ_BYTES);
        goto out;
    }
    memset(p, 1, READ_BYTES);
    j->p = p;
    j->n_line = READ_BYTES / READ_LINE;
    crew_run(crew, read_member, j);
    double begin = cli_now(), seconds;
    double bytes = 0;
    do {
        crew_run(crew, read_member, j);
        bytes += READ_BYTES;
        seconds = cli_now() - begin;
    } while (seconds < READ_SECONDS);
    d->read_gb_s = bytes / seconds * 1e-9;
out:
    mem_free(p);
    mem_free(j);
    return st;
}

/* ---- what the system says ---- */

/* The chosen word of "always [madvise] never". */
static void read_thp(struct doctor *d)
{
    char *text, *open, *close;
    size_t n;
    if (file_read("/sys/kernel/mm/transparent_hugepage/enabled", 4096, &text, &n, NULL) != GLIM_OK) {
        snprintf(d->thp, sizeof d->thp, "unknown");
        return;
    }
    open = strchr(text, '[');
    close = open ? strchr(open, ']') : NULL;
    if (close)
        *close = 0;
    snprintf(d->thp, sizeof d->thp, "%s", close ? open + 1 : "unknown");
    mem_free(text);
}

static glim_status examine(struct doctor *d, const struct levers *lv, struct glim_err *e)
{
    struct crew *crew;
    cpu_model_name(d->cpu, sizeof d->cpu);
    read_thp(d);
    TRY(model_backend(lv, &d->be, e));
    TRY(crew_create(&crew, (int)lv->threads, e));
    d->threads = crew_size(crew);
    glim_status st = measure_read(d, crew, e);
    crew_free(crew);
    return st;
}

/* ---- output ---- */

static const char *const isa_names[CPU_ISA_COUNT] = {"generic", "avx2", "avx512"};

static void put_text(struct str *s, const struct doctor *d)
{
    char buf[32];
    size_t mem = mem_available();
    str_printf(s, "cpu        %s\n", d->cpu[0] ? d->cpu : "unknown");
    str_puts(s, "isa       ");
    for (int i = 0; i < CPU_ISA_COUNT; i++)
        str_printf(s, " %s%s", cpu_isa_usable((enum cpu_isa)i) ? "" : "no-", isa_names[i]);
    str_printf(s, "\ncores      %d physical, %d logical; %d threads\n", machine_cores(), machine_cpus(), d->threads);
    str_printf(s, "memory     %s available\n", mem == SIZE_MAX ? "unknown" : cli_bytes((double)mem, buf));
    str_printf(s, "huge pages %s\n", d->thp);
    str_printf(s, "reads      %.1f GB/s\n", d->read_gb_s);
    str_puts(s, "cuda       not in this build\n");
    str_printf(s, "backend    %s\n", d->be->name);
    for (size_t i = 0; i < quant_n(); i++) {
        const struct quant_format *f = quant_at(i);
        if (f->is_weight)
            str_printf(s, "  %-8s %s\n", f->name, d->be->kernel_name(f, f->group ? ACT_Q8 : ACT_F32));
    }
}

static void put_json(struct str *s, const struct doctor *d)
{
    size_t mem = mem_available();
    str_puts(s, "{\"cpu\":");
    str_json(s, d->cpu, strlen(d->cpu));
    str_puts(s, ",\"isa\":{");
    for (int i = 0; i < CPU_ISA_COUNT; i++)
        str_printf(s, "%s\"%s\":%s", i ? "," : "", isa_names[i], cpu_isa_usable((enum cpu_isa)i) ? "true" : "false");
    str_printf(s, "},\"cores\":%d,\"cpus\":%d,\"threads\":%d,\"memory_available\":", machine_cores(), machine_cpus(),
               d->threads);
    if (mem == SIZE_MAX)
        str_puts(s, "null");
    else
        str_printf(s, "%zu", mem);
    str_puts(s, ",\"huge_pages\":");
    str_json(s, d->thp, strlen(d->thp));
    str_printf(s, ",\"read_gb_s\":%.2f,\"cuda\":\"not in this build\",\"backend\":\"%s\",\"kernels\":{", d->read_gb_s,
               d->be->name);
    bool first = true;
    for (size_t i = 0; i < quant_n(); i++) {
        const struct quant_format *f = quant_at(i);
        if (!f->is_weight)
            continue;
        const char *kernel = d->be->kernel_name(f, f->group ? ACT_Q8 : ACT_F32);
        str_printf(s, "%s\"%s\":", first ? "" : ",", f->name);
        str_json(s, kernel, strlen(kernel));
        first = false;
    }
    str_puts(s, "}}\n");
}

int cmd_doctor(int argc, char **argv)
{
    bool json = false;
    const struct arg arg[] = {{0, "json", ARG_FLAG, &json, NULL, 0, 0, "a JSON object instead of text"}};
    const struct arg_spec spec = {
        "doctor", "[--json] [OPTION …]", "Tell what this machine has and which kernels it gets.", arg, 1, true, 0};
    struct cli c = {0};
    struct doctor d = {0};
    struct str s = {0};
    glim_status st;
    TRY_OUT(cli_begin(&c, &spec, argc, argv));
    if (c.args.help)
        goto out;
    TRY_OUT(examine(&d, cli_levers(&c), &c.err));
    if (json)
        put_json(&s, &d);
    else
        put_text(&s, &d);
    TRY_OUT(cli_print(&s, &c.err));
out:
    return cli_end(&c, st);
}
