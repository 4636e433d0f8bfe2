/* hub_commands.c - trireme pull, list, delete and prune: models of hubs, and the caches that keep
 * them. */
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/report.h"

#include "formats/hub/cache.h"
#include "formats/hub/hub.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

struct hub_settings {
    const char *model, *revision, *file;
    bool json, dry, verbose;
};

#define ROW(field_, name_, type_, ...)                                                             \
    { .name = name_, .type = type_, .offset = offsetof(struct hub_settings, field_), __VA_ARGS__ }
#define MODEL_ROW                                                                                  \
    ROW(model, "model", OPTION_STRING, .short_name = 'm',                                          \
        .help = "ORG/NAME, with @REVISION and :FILE or :QUANT behind it or not; or "               \
                "ollama:NAME:TAG.")
#define REVISION_ROW(help_)                                                                        \
    ROW(revision, "revision", OPTION_STRING, .short_name = 'r', .help = help_)
#define JSON_ROW ROW(json, "json", OPTION_BOOL, .help = "Print one JSON object instead.")

static const struct option_row PULL_ROWS[] = {
    MODEL_ROW,
    REVISION_ROW("Branch, tag or commit; default main."),
    ROW(file, "file", OPTION_STRING, .aliases = "-hff --hf-file --gguf-file",
        .help = "A file of the repository, or a quant."),
    JSON_ROW,
};
static const struct option_foreign PULL_FOREIGN[] = {
    {.flags = "-o --output --local-dir",
     .reason = "models lie in a cache that other programs share, where HF_HUB_CACHE says; pull "
               "prints the path"}};
const struct option_table pull_options = {
    .program = "trireme pull",
    .synopsis = "[OPTIONS] MODEL",
    .summary = "Downloads a model into the cache, or what is missing of it, and prints where it "
               "is.",
    .rows = PULL_ROWS,
    .count = ARRAY_LEN(PULL_ROWS),
    .arguments = "model",
    .foreign = PULL_FOREIGN,
    .foreign_count = ARRAY_LEN(PULL_FOREIGN)};

static const struct option_row LIST_ROWS[] = {
    ROW(verbose, "verbose", OPTION_BOOL, .short_name = 'v',
        .help = "Also print how many revisions there are, and where the caches are."),
    JSON_ROW};
const struct option_table list_options = {.program = "trireme list",
                                          .synopsis = "[OPTIONS]",
                                          .summary = "Lists the models in the cache.",
                                          .rows = LIST_ROWS,
                                          .count = ARRAY_LEN(LIST_ROWS)};

static const struct option_row DELETE_ROWS[] = {
    MODEL_ROW,
    REVISION_ROW("Only this branch, tag or commit; default: all of the model."),
    JSON_ROW,
};
const struct option_table delete_options = {
    .program = "trireme delete",
    .synopsis = "[OPTIONS] MODEL",
    .summary = "Deletes a model from the cache, or with @REVISION one revision of it.",
    .rows = DELETE_ROWS,
    .count = ARRAY_LEN(DELETE_ROWS),
    .arguments = "model"};

static const struct option_row PRUNE_ROWS[] = {
    ROW(dry, "dry-run", OPTION_BOOL, .help = "Only tell what would be deleted."),
    JSON_ROW,
};
const struct option_table prune_options = {
    .program = "trireme prune",
    .synopsis = "[OPTIONS]",
    .summary = "Deletes from the cache what nothing needs: snapshots that no branch or tag means "
               "any more, files that no snapshot has, and downloads that were given up.",
    .rows = PRUNE_ROWS,
    .count = ARRAY_LEN(PRUNE_ROWS)};

/* ---- what all do ---- */

/* The name that the flags and the argument make together. */
static int read_name(const struct hub_settings *s, struct hub_name *name, struct error *err) {
    struct buf text;
    if (!s->model)
        return error_set(err, ERR_INVALID, "which model? give ORG/NAME or ollama:NAME");
    int rc = hub_name_parse(name, s->model, err);
    if (rc || (!s->revision && !s->file))
        return rc;
    if (name->kind == HUB_OLLAMA)
        return error_set(err, ERR_INVALID,
                         "models of Ollama take their tag behind a colon: "
                         "ollama:NAME:TAG");
    buf_init(&text, 0);
    buf_addf(&text, "%s@%s", name->repo, s->revision ? s->revision : name->revision);
    if (s->file || name->file[0] || name->quant[0])
        buf_addf(&text, ":%s", s->file ? s->file : name->file[0] ? name->file : name->quant);
    rc = hub_name_parse(name, buf_text(&text), err);
    buf_release(&text);
    if (!rc && s->file && !name->file[0] && !name->quant[0])
        rc = error_set(err, ERR_INVALID,
                       "--file '%s' is neither a file (.gguf, .safetensors) nor a "
                       "quant (Q4_K_M)",
                       s->file);
    return rc;
}

typedef int command_fn(const struct hub_settings *s, const struct hub_places *places,
                       const struct report *r, struct error *err);

static int run(const struct option_table *table, const char *name, command_fn *command, int argc,
               char **argv) {
    struct hub_settings s;
    struct hub_places places = {.cache = NULL};
    struct hub_name model;
    struct report report;
    struct error err = {0};
    int rc = option_parse(table, &s, argc, argv, NULL, 0, NULL, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc && table->arguments)
        rc = read_name(&s, &model, &err);
    if (rc)
        return command_misused(name, table, &s, &err);
    report_begin(&report, s.json);
    rc = hub_places_read(&places, &err);
    if (!rc)
        rc = command(&s, &places, &report, &err);
    if (rc) {
        fprintf(stderr, "trireme %s: %s\n", name, err.text);
        report_add(&report, "errors", cJSON_CreateString(err.text));
    }
    report_end(&report);
    hub_places_release(&places);
    option_free(table, &s);
    return rc ? 1 : 0;
}

/* ---- pull ---- */

static int pull(const struct hub_settings *s, const struct hub_places *places,
                const struct report *r, struct error *err) {
    struct hub_name name;
    char *path = NULL, size[HUMAN_MAX];
    uint64_t bytes = 0;
    int rc = read_name(s, &name, err);
    if (!rc)
        rc = model_path_pull(places, &name, &path, &bytes, err);
    if (!rc) {
        report_row(r, "model", "%s", name.repo);
        report_row(r, "revision", "%s", name.revision);
        report_row(r, "size", "%s", human(bytes, "B", size));
        report_row(r, "path", "%s", path);
        report_text(r, "model", name.repo);
        report_text(r, "revision", name.revision);
        report_number(r, "bytes", (double)bytes);
        report_text(r, "path", path);
    }
    mem_free(path);
    return rc;
}

int pull_main(int argc, char **argv) {
    return run(&pull_options, "pull", pull, argc, argv);
}

/* ---- list ---- */

static void date_text(int64_t seconds, char out[16]) {
    struct tm tm;
    time_t t = (time_t)seconds;
    snprintf(out, 16, "-");
    if (seconds && localtime_r(&t, &tm))
        strftime(out, 16, "%Y-%m-%d", &tm);
}

static void print_cached(const struct report *r, const struct hub_cached *c, bool verbose) {
    char size[HUMAN_MAX], loose[HUMAN_MAX + 32] = "", bytes[HUMAN_MAX], date[16];
    char revisions[40] = "";
    date_text(c->changed_s, date);
    if (c->loose_bytes)
        snprintf(loose, sizeof loose, " (%s unused)", human(c->loose_bytes, "B", bytes));
    if (verbose)
        snprintf(revisions, sizeof revisions, "  revisions %zu", c->snapshots);
    if (!r->json) {
        printf("%-10s %s  %s%s%s\n", human(c->bytes, "B", size), date, c->repo, revisions, loose);
        return;
    }
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", c->repo);
    cJSON_AddNumberToObject(item, "bytes", (double)c->bytes);
    cJSON_AddNumberToObject(item, "unused_bytes", (double)c->loose_bytes);
    cJSON_AddNumberToObject(item, "revisions", (double)c->snapshots);
    cJSON_AddNumberToObject(item, "changed", (double)c->changed_s);
    report_add(r, "models", item);
}

static int list(const struct hub_settings *s, const struct hub_places *places,
                const struct report *r, struct error *err) {
    struct hub_cached_list cached, ollama;
    int rc = hub_cache_read(places->cache, &cached, err);
    if (rc)
        return rc;
    rc = ollama_read(places, &ollama, err);
    report_text(r, "cache", places->cache);
    report_text(r, "ollama_cache", places->ollama_cache);
    report_array(r, "models");
    if (s->verbose && !r->json)
        printf("caches     %s\n           %s\n", places->cache, places->ollama_cache);
    for (size_t i = 0; i < cached.repos.count; i++)
        print_cached(r, &cached.repos.items[i], s->verbose);
    for (size_t i = 0; !rc && i < ollama.repos.count; i++)
        print_cached(r, &ollama.repos.items[i], s->verbose);
    if (!rc && !r->json && !cached.repos.count && !ollama.repos.count)
        printf("there is no model in '%s'\n", places->cache);
    hub_cached_list_release(&cached);
    hub_cached_list_release(&ollama);
    return rc;
}

int list_main(int argc, char **argv) {
    return run(&list_options, "list", list, argc, argv);
}

/* ---- less of it ---- */

static void print_freed(const struct report *r, const char *what, uint64_t bytes) {
    char size[HUMAN_MAX];
    report_row(r, what, "%s", human(bytes, "B", size));
    report_number(r, what, (double)bytes);
}

static int delete_model(const struct hub_settings *s, const struct hub_places *places,
                        const struct report *r, struct error *err) {
    struct hub_name name;
    uint64_t bytes = 0;
    int rc = read_name(s, &name, err);
    if (!rc && (name.file[0] || name.quant[0]))
        rc = error_set(err, ERR_UNSUPPORTED,
                       "files are not deleted one by one: leave out ':%s', with @REVISION one "
                       "revision goes, without it the model",
                       name.file[0] ? name.file : name.quant);
    bool one = s->revision || strcmp(name.revision, "main") || strchr(s->model, '@');
    if (!rc && name.kind == HUB_OLLAMA)
        rc = ollama_delete(places, &name, &bytes, err);
    else if (!rc)
        rc = one ? hub_cache_delete_revision(places->cache, name.repo, name.revision, &bytes, err)
                 : hub_cache_delete(places->cache, name.repo, &bytes, err);
    if (!rc)
        print_freed(r, "freed", bytes);
    return rc;
}

int delete_main(int argc, char **argv) {
    return run(&delete_options, "delete", delete_model, argc, argv);
}

/* What is being pulled stays as it is; the rest goes on. */
static int skip_busy(int rc, const struct error *err) {
    if (rc != ERR_AGAIN)
        return rc;
    fprintf(stderr, "%s\n", err->text);
    return 0;
}

static int prune(const struct hub_settings *s, const struct hub_places *places,
                 const struct report *r, struct error *err) {
    struct hub_cached_list cached;
    uint64_t bytes = 0, one = 0;
    int rc = hub_cache_read(places->cache, &cached, err);
    for (size_t i = 0; !rc && i < cached.repos.count; i++) {
        rc = skip_busy(
            hub_cache_prune(places->cache, cached.repos.items[i].repo, s->dry, &one, err), err);
        bytes += one;
    }
    if (!rc) {
        rc = skip_busy(ollama_prune(places, s->dry, &one, err), err);
        bytes += one;
    }
    if (!rc)
        print_freed(r, s->dry ? "unused" : "freed", bytes);
    hub_cached_list_release(&cached);
    return rc;
}

int prune_main(int argc, char **argv) {
    return run(&prune_options, "prune", prune, argc, argv);
}
