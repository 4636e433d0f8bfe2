#include "cli/model_path.h"

#include "cli/progress.h"
#include "cli/report.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LINE_EVERY_MS = 10000 };

/* ---- what is shown of a download ---- */

struct pull_view {
    struct progress progress;
    const char *what;
    int64_t line_ms; /* of the clock: when a line was last written to no terminal */
};

static void show_bytes(void *ctx, uint64_t done, uint64_t total) {
    struct pull_view *v = ctx;
    char have[HUMAN_MAX], all[HUMAN_MAX];
    int64_t now_ms = clock_ms();
    progress_show(&v->progress, done, total);
    if (v->progress.on_terminal || now_ms - v->line_ms < LINE_EVERY_MS)
        return;
    v->line_ms = now_ms;
    fprintf(stderr, "%s: %s of %s\n", v->what, human(done, "B", have), human(total, "B", all));
}

static void show_note(void *ctx, const char *text) {
    const struct pull_view *v = ctx;
    fprintf(stderr, "%s%s\n", v->progress.on_terminal ? "\r\033[K" : "", text);
}

int model_path_pull(const struct hub_places *places, const struct hub_name *name, char **path,
                    uint64_t *bytes, struct error *err) {
    struct pull_view view = {.line_ms = clock_ms()};
    struct buf what;
    buf_init(&what, 0);
    buf_add_str(&what, "downloading ");
    hub_name_add(name, &what);
    view.what = buf_text(&what);
    progress_begin(&view.progress, view.what);
    const struct hub_watch watch = {.ctx = &view, .on_bytes = show_bytes, .on_note = show_note};
    int rc = hub_pull(places, name, &watch, path, bytes, err);
    progress_end(&view.progress);
    buf_release(&what);
    return rc;
}

/* ---- names ---- */

/* "ORG/NAME"; of Ollama "llama3.2", with its tag unless that is latest. */
static char *public_name_of(const struct hub_name *name) {
    static const char LIBRARY[] = "library/";
    struct buf text;
    buf_init(&text, 0);
    bool library = name->kind == HUB_OLLAMA && !strncmp(name->repo, LIBRARY, sizeof LIBRARY - 1);
    buf_add_str(&text, name->repo + (library ? sizeof LIBRARY - 1 : 0));
    if (name->kind == HUB_OLLAMA && strcmp(name->revision, "latest"))
        buf_addf(&text, ":%s", name->revision);
    char *copy = mem_strdup(buf_text(&text));
    buf_release(&text);
    return copy;
}

/* No file, but like a name in the hub. */
static bool names_the_hub(const char *given) {
    return access(given, F_OK) != 0 && hub_name_is_like(given);
}

/* Neither a file nor like a path: a name as Ollama's users type it. */
static bool is_bare_name(const char *given) {
    size_t len = strlen(given);
    return access(given, F_OK) != 0 && errno == ENOENT && *given && !strchr(given, '/') &&
           !hub_name_is_like(given) && (len < 5 || strcmp(given + len - 5, ".gguf") != 0);
}

/* What is not in the cache is downloaded, if that is wanted. */
static int find_in_hub(const struct hub_places *places, const struct hub_name *name,
                       const char *given, bool download, char **path, struct error *err) {
    int rc = hub_locate(places, name, path, err);
    if (!rc || !download)
        return rc;
    rc = model_path_pull(places, name, path, NULL, err);
    if (rc && name->kind == HUB_HUGGING_FACE)
        error_wrap(err, "there is no file or folder '%.100s'; asked for a model of that name",
                   given);
    return rc;
}

static int find(const char *given, bool download, char **path, char **public_name,
                struct error *err) {
    struct hub_places places = {0};
    struct hub_name name;
    *path = NULL;
    if (public_name)
        *public_name = NULL;
    if (is_bare_name(given))
        return error_set(
            err, ERR_NOT_FOUND,
            "cannot find the model '%s': no file or folder is called so; a model of a hub is "
            "ORG/NAME, and one of Ollama's ollama:%s",
            given, given);
    if (!names_the_hub(given))
        return 0;
    int rc = hub_name_parse(&name, given, err);
    if (!rc)
        rc = hub_places_read(&places, err);
    if (!rc)
        rc = find_in_hub(&places, &name, given, download, path, err);
    if (!rc && public_name)
        *public_name = public_name_of(&name);
    hub_places_release(&places);
    return rc;
}

int model_path_cached(const char *given, char **path, char **public_name, struct error *err) {
    return find(given, false, path, public_name, err);
}

int model_path_find(const char *given, char **path, char **public_name, struct error *err) {
    return find(given, true, path, public_name, err);
}

int model_path_of_option(const char **model, struct error *err) {
    char *path;
    if (!*model)
        return 0;
    int rc = model_path_find(*model, &path, NULL, err);
    if (rc || !path)
        return rc;
    mem_free((char *)(uintptr_t)*model); /* the parse owns it, and will own the other */
    *model = path;
    return 0;
}
