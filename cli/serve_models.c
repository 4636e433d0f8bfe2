#include "cli/serve_models.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "formats/gguf.h"

#include "base/fsutil.h"
#include "base/list.h"
#include "worker/settings.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Only a first look: workers say what is wrong with a model. A folder of weights alone may be one,
 * too. */
static bool looks_like_model(const char *path) {
    static const char WEIGHTS[] = ".safetensors";
    char *gguf = gguf_path_of(path), *config = path_join(path, "config.json");
    bool good = gguf || file_exists(config);
    DIR *dir = good ? NULL : opendir(path);
    for (const struct dirent *e; dir && !good && (e = readdir(dir));) {
        size_t len = strlen(e->d_name), tail = sizeof WEIGHTS - 1;
        good = len > tail && !strcmp(e->d_name + len - tail, WEIGHTS);
    }
    if (dir)
        closedir(dir);
    mem_free(gguf);
    mem_free(config);
    return good;
}

/* A model of a hub, downloaded if it must be. That may take long: signals end it. */
static int find_named_model(struct serve_model *m, const char *given, bool offline,
                            struct error *err) {
    if (offline)
        return model_path_cached(given, &m->path, &m->public_name, err);
    sigset_t none, blocked;
    sigemptyset(&none);
    CHECK(sigprocmask(SIG_SETMASK, &none, &blocked) == 0);
    int rc = model_path_find(given, &m->path, &m->public_name, err);
    CHECK(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    return rc;
}

/* Returns owned, or NULL with errno. A file keeps its own name, also where it is a link: of a model
 * in several files the names tell which belong together. */
static char *absolute_path(const char *path) {
    const char *slash = strrchr(path, '/');
    char *real = realpath(path, NULL);
    if (!real || dir_exists(real))
        return real;
    char *dir = slash ? mem_strndup(path, (size_t)(slash - path)) : mem_strdup(".");
    char *real_dir = realpath(*dir ? dir : "/", NULL);
    char *whole = real_dir ? path_join(real_dir, slash ? slash + 1 : path) : NULL;
    free(real_dir);
    free(real);
    mem_free(dir);
    return whole;
}

static int check_model(const char *path, struct error *err) {
    if (looks_like_model(path))
        return 0;
    return error_set(err, ERR_NOT_FOUND,
                     "'%s' is no model: neither a folder with config.json nor a GGUF file", path);
}

static int find_model(struct serve_model *m, const char *given, bool offline, struct error *err) {
    m->given = mem_strdup(given);
    int rc = find_named_model(m, given, offline, err);
    if (rc)
        return rc;
    if (!m->path)
        m->path = absolute_path(given);
    if (!m->path)
        return error_set_errno(err, "cannot find the model '%s'", given);
    return check_model(m->path, err);
}

static int find_devices(struct serve_model *m, struct error *err) {
    if (m->settings->tp * m->settings->pp > SERVE_RANKS_MAX)
        return error_set(err, ERR_INVALID,
                         "--tp %" PRId64 " times --pp %" PRId64 " is more than %d ranks",
                         m->settings->tp, m->settings->pp, SERVE_RANKS_MAX);
    if (!m->settings->stage_devices)
        return 0;
    m->devices = mem_strdup(m->settings->stage_devices);
    char *rest = m->devices, *one;
    int64_t count = 0;
    for (; (one = strsep(&rest, ",")); count++)
        if (count < SERVE_RANKS_MAX)
            m->device_words[count] = one;
    if (count == m->settings->pp)
        return 0;
    return error_set(err, ERR_INVALID,
                     "--stage-devices '%s' names %" PRId64 " devices for --pp %" PRId64,
                     m->settings->stage_devices, count, m->settings->pp);
}

/* --- a word of --model --- */

/* Appends a name that no model has yet. */
static int add_name(struct serve_models *all, struct serve_model *m, const char *name, size_t len,
                    struct error *err) {
    if (!len || len >= WORKER_NAME_MAX || memchr(name, ';', len))
        return error_set(err, ERR_INVALID, "'%.*s' is no name for a model", (int)MIN(len, 100u),
                         name);
    for (uint32_t i = 0; i <= all->count && i < SUPERVISOR_MODELS_MAX; i++)
        if (list_has(all->items[i].names, ',', bytes_of(name, len)))
            return error_set(err, ERR_INVALID,
                             "two models are called '%.*s': give one another name, as "
                             "--model NAME=PATH",
                             (int)len, name);
    struct buf text = {0};
    buf_addf(&text, "%s%s%.*s", m->names ? m->names : "", m->names ? "," : "", (int)len, name);
    mem_free(m->names);
    m->names = mem_strdup(buf_text(&text));
    buf_release(&text);
    return 0;
}

static bool is_own_option(const char *name) {
    static const char *const OF_SERVE[] = {"workers",       "threads",   "tp",          "pp",
                                           "stage-devices", "on-demand", "idle-unload", "memory"};
    static const char *const OF_ALL[] = {"served-model-name", "model",      "run-dir",
                                         "log-level",         "log-format", "admin-port",
                                         "drain-timeout"};
    for (size_t i = 0; i < ARRAY_LEN(OF_SERVE); i++)
        if (!strcmp(name, OF_SERVE[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(OF_ALL); i++)
        if (!strcmp(name, OF_ALL[i]))
            return false;
    return option_table_has(&worker_options, name);
}

/* One OPTION=VALUE, or the name of a switch. */
static int set_option(struct serve_models *all, struct serve_model *m, char *text,
                      struct error *err) {
    struct option_table own = m->options.table;
    VEC(struct option_row) rows = {0};
    char *value = strchr(text, '=');
    if (value)
        *value++ = 0;
    if (!strcmp(text, "alias") && !m->names)
        return error_set(err, ERR_INVALID, "a model with an alias needs a name: NAME=PATH,alias=%s",
                         value ? value : "OTHER");
    if (!strcmp(text, "alias"))
        return add_name(all, m, value ? value : "", value ? strlen(value) : 0, err);
    for (size_t i = 0; i < m->options.table.count; i++)
        if (is_own_option(m->options.table.rows[i].name))
            vec_push(&rows, m->options.table.rows[i]);
    own.rows = rows.items;
    own.count = rows.count;
    own.notes = &m->notes;
    own.program = worker_options.program; /* whose --help lists most of them */
    int rc = option_set(&own, m->settings, text, value ? value : "true", err);
    vec_release(&rows);
    return rc ? error_wrap(err, "model '%s'", m->given) : 0;
}

static int read_word(struct serve_models *all, struct serve_model *m, char *word,
                     struct error *err) {
    bool is_path = file_exists(word) || dir_exists(word);
    char *rest = is_path ? NULL : strchr(word, ','), *name = is_path ? NULL : strchr(word, '=');
    if (rest && name && name > rest)
        name = NULL;
    if (rest)
        *rest++ = 0;
    int rc = name ? add_name(all, m, word, (size_t)(name - word), err) : 0;
    if (!rc)
        rc = find_model(m, name ? name + 1 : word, all->offline, err);
    for (char *one; !rc && (one = rest ? strsep(&rest, ",") : NULL);)
        rc = set_option(all, m, one, err);
    return rc ? rc : find_devices(m, err);
}

/* The command line again: what is set for this model alone must not touch the others. */
static int read_options(struct serve_model *m, int argc, char **argv, struct error *err) {
    serve_options_merge(&m->options, &m->notes);
    m->settings = (struct serve_settings *)(void *)m->options.settings;
    return option_parse(&m->options.table, m->settings, argc, argv, NULL, 0, NULL, err);
}

void serve_model_public_name(const struct serve_model *m, char out[WORKER_NAME_MAX]) {
    static const char FLAG[] = "--served-model-name=";
    struct worker_settings worker = {.model = m->path, .served_name = m->public_name};
    for (size_t i = 0; i < m->flags.words.count && m->flags.words.items[i]; i++)
        if (!strncmp(m->flags.words.items[i], FLAG, sizeof FLAG - 1))
            worker.served_name = m->flags.words.items[i] + sizeof FLAG - 1;
    worker_public_name(&worker, out);
}

/* Several models need names that differ, one that is not there yet needs its own; else it is left to
 * its worker. */
static int choose_name(struct serve_models *all, struct serve_model *m, bool many_models,
                       struct error *err) {
    struct flags given = {0};
    char *first = m->names, name[WORKER_NAME_MAX];
    bool named = false;
    merged_options_flags(&m->options, &worker_options, &given);
    for (size_t i = 0; i < given.words.count; i++)
        named |= !strncmp(given.words.items[i], "--served-model-name=", 20);
    flags_release(&given);
    if (named && (many_models || first))
        return error_set(err, ERR_INVALID,
                         "--served-model-name is for one model without a name of its own; else say "
                         "--model NAME=PATH,alias=OTHER");
    serve_model_public_name(m, name);
    if (named)
        return 0;
    return first || !(many_models || m->settings->on_demand)
               ? 0
               : add_name(all, m, name, strlen(name), err);
}

/* One of them, from a word of --model; it is to be released also after a failure. */
static int read_one(struct serve_models *m, struct serve_model *one, char *word, bool many,
                    struct error *err) {
    int rc = read_word(m, one, word, err);
    if (!rc)
        rc = choose_name(m, one, many, err);
    if (!rc && one->names)
        one->name = mem_strndup(one->names, strcspn(one->names, ","));
    return rc;
}

int serve_models_find(struct serve_models *m, const char *words, int argc, char **argv,
                      struct error *err) {
    char *all = mem_strdup(words ? words : ""), *rest = all, *word;
    bool many = strchr(all, '\n') != NULL;
    int rc = words && *words
                 ? 0
                 : error_set(err, ERR_INVALID,
                             "which model? give a folder, a .gguf file or a hub's name: trireme "
                             "serve MODEL");
    while (!rc && (word = strsep(&rest, "\n"))) {
        if (m->count == SUPERVISOR_MODELS_MAX) {
            rc = error_set(err, ERR_INVALID, "more than %d models", SUPERVISOR_MODELS_MAX);
            break;
        }
        struct serve_model *one = &m->items[m->count++];
        rc = read_options(one, argc, argv, err);
        if (!rc)
            rc = read_one(m, one, word, many, err);
    }
    mem_free(all);
    return rc;
}

void serve_models_names(const struct serve_models *m, struct buf *out) {
    for (uint32_t i = 0; i < m->count; i++)
        if (m->items[i].names)
            buf_addf(out, "%s%s", i ? ";" : "", m->items[i].names);
}

int64_t serve_models_replicas(const struct serve_models *m, const struct serve_model *one) {
    int64_t count = one->settings->on_demand ? one->settings->worker_count : 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->items[i].path && !m->items[i].settings->on_demand)
            count += m->items[i].settings->worker_count;
    return count;
}

bool serve_models_any_on_demand(const struct serve_models *m) {
    for (uint32_t i = 0; i < m->count; i++)
        if (m->items[i].settings->on_demand)
            return true;
    return false;
}

static bool is_weights(const char *name) {
    static const char *const ENDS[] = {".safetensors", ".gguf"};
    for (size_t i = 0; i < ARRAY_LEN(ENDS); i++) {
        size_t len = strlen(name), end = strlen(ENDS[i]);
        if (len > end && !strcmp(name + len - end, ENDS[i]))
            return true;
    }
    return false;
}

/* Of a file in several pieces (-00001-of-00003.gguf) all; of a folder all weights. */
static uint64_t weight_bytes(const char *path) {
    struct stat st;
    const char *slash = strrchr(path, '/');
    bool is_dir = dir_exists(path);
    char *folder = is_dir ? mem_strdup(path) : mem_strndup(path, (size_t)(slash - path));
    const char *file = is_dir ? "" : slash + 1, *of = strstr(file, "-of-");
    size_t same = !of ? strlen(file) : (size_t)(of - file) > 5 ? (size_t)(of - file) - 5 : 0;
    uint64_t bytes = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char *one = path_join(folder, e->d_name);
        if (is_weights(e->d_name) && !strncmp(e->d_name, file, same) && !stat(one, &st))
            bytes += (uint64_t)st.st_size;
        mem_free(one);
    }
    if (dir)
        closedir(dir);
    mem_free(folder);
    return bytes;
}

int serve_model_renew(struct serve_model *m, const struct flags **flags, struct error *err) {
    static const char MODEL[] = "--model=", NAME[] = "--served-model-name=";
    char *path = NULL, name[WORKER_NAME_MAX];
    bool named = false;
    int rc = model_path_cached(m->given, &path, NULL, err);
    if (!rc && !path)
        path = absolute_path(m->given);
    if (!rc && !path)
        rc = error_set_errno(err, "cannot find the model '%s'", m->given);
    if (!rc)
        rc = check_model(path, err);
    struct flags *f = rc ? NULL : mem_calloc(1, sizeof *f);
    for (size_t i = 0; f && i < m->flags.words.count && m->flags.words.items[i]; i++) {
        const char *word = m->flags.words.items[i];
        named |= !strncmp(word, NAME, sizeof NAME - 1);
        if (!strncmp(word, MODEL, sizeof MODEL - 1))
            flags_add(f, "%s%s", MODEL, path);
        else
            flags_add(f, "%s", word);
    }
    if (f && !named) { /* its folder may be called otherwise; clients go on with the name it had */
        const struct worker_settings before = {.model = m->path};
        worker_public_name(&before, name);
        flags_add(f, "%s%s", NAME, name);
    }
    if (f) {
        flags_end(f);
        vec_push(&m->renewed, f);
        *flags = f;
        mem_free(m->now);
        m->now = path;
    } else {
        mem_free(path);
    }
    return rc;
}

uint64_t serve_model_memory(const struct serve_model *m) {
    static const char KV[] = "--kv-bytes=";
    uint64_t cache = 0;
    if (m->settings->memory)
        return m->settings->memory;
    for (size_t i = 0; i < m->flags.words.count && m->flags.words.items[i]; i++)
        if (!strncmp(m->flags.words.items[i], KV, sizeof KV - 1))
            cache = strtoull(m->flags.words.items[i] + sizeof KV - 1, NULL, 10);
    return weight_bytes(m->now ? m->now : m->path) + cache * (uint64_t)m->settings->worker_count;
}

static void release_one(struct serve_model *one) {
    for (size_t k = 0; k < one->renewed.count; k++) {
        flags_release(one->renewed.items[k]);
        mem_free(one->renewed.items[k]);
    }
    vec_release(&one->renewed);
    mem_free(one->given);
    mem_free(one->word);
    mem_free(one->now);
    mem_free(one->path);
    mem_free(one->public_name);
    mem_free(one->names);
    mem_free(one->name);
    mem_free(one->devices);
    merged_options_release(&one->options);
    flags_release(&one->flags);
    buf_release(&one->notes);
    *one = (struct serve_model){0};
}

/* Whether --served-model-name has it: of the one model that serve was told. */
static bool is_served_name(const struct serve_model *m, const char *name) {
    const char *rest = merged_options_text(&m->options, "served-model-name");
    for (size_t len; rest && *rest; rest += len + (rest[len] != 0)) {
        len = strcspn(rest, ", ");
        if (strlen(name) == len && !memcmp(rest, name, len))
            return true;
    }
    return false;
}

/* A model that was given no name goes by its worker's from now on: others must not have it. */
static int name_is_free(const struct serve_models *m, const struct serve_model *one,
                        struct error *err) {
    char other[WORKER_NAME_MAX];
    for (uint32_t i = 0; i < m->count; i++) {
        if (!m->items[i].path || &m->items[i] == one)
            continue;
        serve_model_public_name(&m->items[i], other);
        if (!strcmp(other, one->name) || is_served_name(&m->items[i], one->name))
            return error_set(err, ERR_INVALID,
                             "a model is called '%s': give this one another name, as NAME=PATH",
                             one->name);
    }
    return 0;
}

uint32_t serve_models_place(const struct serve_models *m) {
    uint32_t place = 0;
    while (place < m->count && m->items[place].path)
        place++;
    return place;
}

int serve_models_add(struct serve_models *m, uint32_t place, const char *word, int argc,
                     char **argv, struct error *err) {
    if (place >= SUPERVISOR_MODELS_MAX)
        return error_set(err, ERR_LIMIT, "there are %d models, and may be no more",
                         SUPERVISOR_MODELS_MAX);
    char *copy = mem_strdup(word);
    m->offline = true;
    struct serve_model *one = &m->items[place];
    int rc = read_options(one, argc, argv, err);
    if (!rc) {
        merged_options_forget(&one->options, "served-model-name"); /* what the first is called */
        rc = read_one(m, one, copy, true, err);
    }
    if (!rc && strchr(one->names, ','))
        rc =
            error_set(err, ERR_UNSUPPORTED,
                      "the gateways know aliases of models that serve was told at its start alone");
    if (!rc)
        rc = name_is_free(m, one, err);
    if (rc) {
        release_one(one);
    } else {
        one->word = mem_strdup(word);
        m->count = MAX(m->count, place + 1);
    }
    mem_free(copy);
    return rc;
}

void serve_models_remove(struct serve_models *m, uint32_t idx) {
    CHECK(idx < m->count && m->items[idx].word);
    release_one(&m->items[idx]);
    while (!m->items[m->count - 1].path)
        m->count--;
}

void serve_models_release(struct serve_models *m) {
    for (uint32_t i = 0; i < m->count; i++)
        release_one(&m->items[i]);
}
