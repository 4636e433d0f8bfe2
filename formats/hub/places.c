#include "formats/hub/places.h"

#include "base/buf.h"
#include "base/fsutil.h"

#include <stdlib.h>
#include <strings.h>

enum { TOKEN_MAX = 4096, PATIENCE_S = 10, PATIENCE_MAX_S = 3600 };

/* A variable that is set and not empty. */
static const char *variable(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static bool is_true(const char *name) {
    static const char *const WORDS[] = {"1", "ON", "YES", "TRUE"};
    const char *text = variable(name);
    for (size_t i = 0; text && i < ARRAY_LEN(WORDS); i++)
        if (!strcasecmp(text, WORDS[i]))
            return true;
    return false;
}

/* The variable's path, with ~ as the shell has it; NULL when it is not set. */
static char *path_of(const char *name) {
    const char *text = variable(name), *home = variable("HOME");
    if (!text)
        return NULL;
    if (text[0] == '~' && text[1] == '/' && home)
        return path_join(home, text + 2);
    return mem_strdup(text);
}

/* Below XDG_CACHE_HOME or ~/.cache; NULL without both. */
static char *cache_path(const char *name) {
    char *cache = path_of("XDG_CACHE_HOME"), *path = NULL;
    if (!cache && variable("HOME"))
        cache = path_join(variable("HOME"), ".cache");
    if (cache)
        path = path_join(cache, name);
    mem_free(cache);
    return path;
}

static char *hugging_face_home(void) {
    char *home = path_of("HF_HOME");
    return home ? home : cache_path("huggingface");
}

static char *cache_of(const char *home) {
    char *cache = path_of("HF_HUB_CACHE");
    if (!cache)
        cache = path_of("HUGGINGFACE_HUB_CACHE");
    if (!cache && home)
        cache = path_join(home, "hub");
    return cache;
}

static int read_url(const char *name, const char *fallback, char **out, struct error *err) {
    const char *text = variable(name);
    if (!text)
        text = fallback;
    size_t len = strlen(text);
    while (len && text[len - 1] == '/')
        len--;
    *out = mem_strndup(text, len);
    if ((!strncmp(*out, "http://", 7) && len > 7) || (!strncmp(*out, "https://", 8) && len > 8))
        return 0;
    return error_set(err, ERR_INVALID, "%s is '%s': it should begin with https:// or http://", name,
                     text);
}

/* A copy without the white space around it; NULL: nothing is left. */
static char *trim(const char *text) {
    static const char WHITE[] = " \t\r\n";
    text += strspn(text, WHITE);
    size_t len = strlen(text);
    while (len && strchr(WHITE, text[len - 1]))
        len--;
    return len ? mem_strndup(text, len) : NULL;
}

static char *token_in_file(const char *home) {
    char *path = path_of("HF_TOKEN_PATH"), *token = NULL;
    struct buf text;
    if (!path && home)
        path = path_join(home, "token");
    buf_init(&text, 0);
    if (path && file_exists(path) && !file_read(path, TOKEN_MAX, &text, NULL))
        token = trim(buf_text(&text));
    buf_release(&text);
    mem_free(path);
    return token;
}

static int read_token(struct hub_places *p, const char *home, struct error *err) {
    static const char *const NAMES[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    for (size_t i = 0; !p->token && i < ARRAY_LEN(NAMES); i++)
        if (variable(NAMES[i]))
            p->token = trim(variable(NAMES[i]));
    if (!p->token)
        p->token = token_in_file(home);
    for (const char *c = p->token; c && *c; c++)
        if (*c <= 0x20 || *c >= 0x7f)
            return error_set(err, ERR_INVALID,
                             "the token of Hugging Face (HF_TOKEN, or the file HF_HOME/token) has "
                             "a space or a control character within");
    return 0;
}

static int read_patience(struct hub_places *p, struct error *err) {
    const char *text = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    char *end = NULL;
    p->patience_s = text ? strtol(text, &end, 10) : PATIENCE_S;
    if (!text || (!*end && p->patience_s > 0 && p->patience_s <= PATIENCE_MAX_S))
        return 0;
    return error_set(err, ERR_INVALID,
                     "HF_HUB_DOWNLOAD_TIMEOUT is '%s': it should be seconds, from 1 to %d", text,
                     PATIENCE_MAX_S);
}

int hub_places_read(struct hub_places *p, struct error *err) {
    char *home = hugging_face_home();
    *p = (struct hub_places){.cache = cache_of(home),
                             .ollama_cache = path_of("TRIREME_OLLAMA_CACHE"),
                             .ollama_models = path_of("OLLAMA_MODELS"),
                             .offline =
                                 is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE")};
    if (!p->ollama_cache)
        p->ollama_cache = cache_path("trireme/ollama");
    if (!p->ollama_models && variable("HOME"))
        p->ollama_models = path_join(variable("HOME"), ".ollama/models");
    int rc =
        p->cache && p->ollama_cache
            ? 0
            : error_set(err, ERR_NOT_FOUND, "there is no folder for models: set HF_HOME, or HOME");
    if (!rc)
        rc = read_url("HF_ENDPOINT", "https://huggingface.co", &p->endpoint, err);
    if (!rc)
        rc = read_url("TRIREME_OLLAMA_REGISTRY", "https://registry.ollama.ai", &p->registry, err);
    if (!rc)
        rc = read_token(p, home, err);
    if (!rc)
        rc = read_patience(p, err);
    mem_free(home);
    return rc;
}

void hub_places_release(struct hub_places *p) {
    mem_free(p->cache);
    mem_free(p->endpoint);
    mem_free(p->token);
    mem_free(p->registry);
    mem_free(p->ollama_cache);
    mem_free(p->ollama_models);
    *p = (struct hub_places){.cache = NULL};
}
