#include "gateway/access/auth.h"

#include "gateway/watch/key_metrics.h"
#include "proto/messages.h"

#include "base/fsutil.h"
#include "base/hash.h"
#include "base/list.h"

#include <stdlib.h>

enum { PRIORITY_MOST = 1000000 };

static int take_priority(struct auth_key *key, const char *value, struct error *err) {
    char *end;
    key->priority_min = strtoll(value, &end, 10);
    if (!*value || *end || key->priority_min < -PRIORITY_MOST || key->priority_min > PRIORITY_MOST)
        return error_set(err, ERR_INVALID,
                         "an API key has 'priority-min=%.40s'; the number must be from -%d to %d",
                         value, PRIORITY_MOST, PRIORITY_MOST);
    key->has_priority_min = true;
    return 0;
}

static int take_models(struct auth_key *key, const char *value, struct error *err) {
    if (!*value)
        return error_set(err, ERR_INVALID, "an API key has 'models=' without a name behind it");
    mem_free(key->models);
    key->models = mem_strdup(value);
    return 0;
}

static int take_admin(struct auth_key *key, const char *value, struct error *err) {
    (void)value, (void)err;
    key->admin = true;
    return 0;
}

/* A count behind "WORD=". */
static int take_count(const char *word, const char *value, uint32_t least, uint32_t most,
                      uint32_t *out, struct error *err) {
    char *end;
    unsigned long long count = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || count < least || count > most)
        return error_set(err, ERR_INVALID,
                         "an API key has '%s=%.40s'; the number must be from %u to %u", word, value,
                         least, most);
    *out = (uint32_t)count;
    return 0;
}

static int take_requests(struct auth_key *key, const char *value, struct error *err) {
    key->has_requests = true;
    return take_count("requests", value, 0, AUTH_REQUESTS_MAX, &key->limits.requests, err);
}

static int take_minute_tokens(struct auth_key *key, const char *value, struct error *err) {
    key->has_minute_tokens = true;
    return take_count("tokens-per-minute", value, 0, AUTH_MINUTE_TOKENS_MAX,
                      &key->limits.minute_tokens, err);
}

static int take_weight(struct auth_key *key, const char *value, struct error *err) {
    return take_count("weight", value, 1, WIRE_MAX_WEIGHT, &key->limits.weight, err);
}

/* It becomes a label of metrics. */
static int take_name(struct auth_key *key, const char *value, struct error *err) {
    size_t len = strlen(value);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < ' ')
            len = 0;
    if (!len || len > AUTH_NAME_MAX)
        return error_set(err, ERR_INVALID, "an API key has 'name=%.80s'; a name has 1 to %d bytes",
                         value, AUTH_NAME_MAX);
    mem_free(key->name);
    key->name = mem_strdup(value);
    return 0;
}

/* What may stand behind a key. */
static const struct term {
    const char *word; /* what ends with '=' has a value behind it */
    int (*take)(struct auth_key *key, const char *value, struct error *err);
} TERMS[] = {{"priority-min=", take_priority},
             {"models=", take_models},
             {"admin", take_admin},
             {"requests=", take_requests},
             {"tokens-per-minute=", take_minute_tokens},
             {"weight=", take_weight},
             {"name=", take_name}};

static const struct term *find_term(const char *word) {
    for (size_t i = 0; i < ARRAY_LEN(TERMS); i++) {
        size_t len = strlen(TERMS[i].word);
        bool has_value = TERMS[i].word[len - 1] == '=';
        if (!strncmp(word, TERMS[i].word, len) && (has_value || !word[len]))
            return &TERMS[i];
    }
    return NULL;
}

/* A key may have blanks in it, but hardly a last word that looks like a term: that is a slip. */
static int refuse_slip(const char *word, struct error *err) {
    struct buf known = {0};
    size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyz-_");
    if (!len || word[len] != '=' || !word[len + 1])
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(TERMS); i++)
        buf_addf(&known, "%s%s", i ? ", " : "", TERMS[i].word);
    int rc = error_set(err, ERR_INVALID, "an API key has '%.80s', which is none of %s", word,
                       buf_text(&known));
    buf_release(&known);
    return rc;
}

/* "KEY TERM TERM...": takes the terms off its end. */
static int take_terms(struct auth_key *key, char *line, struct error *err) {
    for (char *blank; (blank = strrchr(line, ' ')) || (blank = strrchr(line, '\t'));) {
        char *tab = strrchr(blank, '\t'), *word = (tab ? tab : blank) + 1;
        const struct term *term = find_term(word);
        if (!term)
            return refuse_slip(word, err);
        int rc = term->take(key, word + strlen(term->word), err);
        if (rc)
            return rc;
        size_t len = (size_t)(word - line);
        while (len && strchr(" \t", line[len - 1]))
            len--;
        line[len] = 0;
    }
    return 0;
}

static void key_release(struct auth_key *key) {
    mem_free(key->text);
    mem_free(key->models);
    mem_free(key->name);
}

/* terms: of a file, where more may stand behind a key. */
static int add_key(struct auth_keys *keys, const char *text, size_t len, bool terms,
                   struct error *err) {
    while (len && (*text == ' ' || *text == '\t'))
        text++, len--;
    while (len && strchr(" \t\r", text[len - 1]))
        len--;
    if (len == 0)
        return 0;
    struct auth_key key = {.text = mem_strndup(text, len)};
    int rc = terms ? take_terms(&key, key.text, err) : 0;
    len = strlen(key.text);
    if (!rc && keys->count == AUTH_KEYS_MAX)
        rc = error_set(err, ERR_LIMIT, "more than %d API keys", AUTH_KEYS_MAX);
    if (!rc && len > AUTH_KEY_BYTES_MAX)
        rc = error_set(err, ERR_LIMIT, "an API key is longer than %d bytes", AUTH_KEY_BYTES_MAX);
    if (rc) {
        key_release(&key);
        return rc;
    }
    keys->items = mem_realloc(keys->items, (keys->count + 1) * sizeof *keys->items);
    key.tenant = hash128(key.text, len, 0);
    key.metrics = key.name ? key_metrics_of(key.name) : NULL;
    keys->items[keys->count++] = key;
    return 0;
}

static int add_keys(struct auth_keys *keys, const char *text, char separator, bool file,
                    struct error *err) {
    while (text && *text) {
        const char *end = strchr(text, separator);
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (!(file && *text == '#') && add_key(keys, text, len, file, err))
            return err->code;
        text = end ? end + 1 : NULL;
    }
    return 0;
}

static void keys_release(struct auth_keys *keys) {
    for (size_t i = 0; i < keys->count; i++)
        key_release(&keys->items[i]);
    mem_free(keys->items);
    *keys = (struct auth_keys){0};
}

/* Those of the list, then the file's. At a start it may be a pipe, which nobody can read twice. */
static int read_keys(const struct auth *a, bool again, struct auth_keys *keys, struct error *err) {
    enum { FILE_BYTES_MAX = 1 << 20 };
    struct buf file;
    *keys = (struct auth_keys){0};
    buf_init(&file, 0);
    int rc = add_keys(keys, a->list, ',', false, err);
    if (!rc && a->path) {
        rc = again ? file_read(a->path, FILE_BYTES_MAX, &file, err)
                   : file_read_any(a->path, FILE_BYTES_MAX, &file, err);
        if (!rc)
            rc = add_keys(keys, buf_text(&file), '\n', true, err);
        if (!rc && !keys->count)
            rc = error_set(err, ERR_INVALID, "no API key in '%s'", a->path);
    }
    buf_release(&file);
    if (rc)
        keys_release(keys);
    return rc;
}

int auth_init(struct auth *a, const char *list, const char *path, struct error *err) {
    *a = (struct auth){.list = mem_strdup(list ? list : ""),
                       .path = path && *path ? mem_strdup(path) : NULL};
    pthread_rwlock_init(&a->lock, NULL);
    if (a->path)
        a->mark = file_mark_of(a->path);
    a->is_file = !file_marks_equal(a->mark, (struct file_mark){0});
    int rc = read_keys(a, false, &a->keys, err);
    a->open = !a->keys.count;
    if (!rc && a->open && (list || path)) /* --api-key "$KEY", where KEY is not set */
        rc = error_set(err, ERR_INVALID,
                       "the API key is empty; without --api-key and --api-key-file (and with "
                       "TRIREME_API_KEY unset) the server is open to all");
    if (rc)
        auth_release(a);
    return rc;
}

bool auth_changed(struct auth *a) {
    if (!a->is_file)
        return false;
    struct file_mark before = a->seen;
    a->seen = file_mark_of(a->path);
    return file_marks_equal(a->seen, before) && !file_marks_equal(a->seen, a->mark);
}

int auth_reload(struct auth *a, struct error *err) {
    struct auth_keys keys, before;
    if (!a->path)
        return 0;
    a->mark = file_mark_of(a->path);
    int rc = read_keys(a, true, &keys, err);
    if (rc)
        return rc;
    pthread_rwlock_wrlock(&a->lock);
    before = a->keys;
    a->keys = keys;
    pthread_rwlock_unlock(&a->lock);
    keys_release(&before);
    return 0;
}

void auth_release(struct auth *a) {
    if (!a->list) /* never begun */
        return;
    keys_release(&a->keys);
    pthread_rwlock_destroy(&a->lock);
    mem_free(a->list);
    mem_free(a->path);
    *a = (struct auth){0};
}

/* Looks at every byte of what was given, whatever the key. */
static bool equal_in_constant_time(const char *key, struct bytes given) {
    size_t len = strlen(key);
    volatile unsigned diff = len != given.len;
    for (size_t i = 0; i < given.len; i++)
        diff |= (unsigned char)key[i % len] ^ given.data[i];
    return diff == 0;
}

/* The key behind "Bearer "; empty: another scheme. */
static struct bytes bearer_key(struct bytes header) {
    static const char scheme[] = "bearer ";
    size_t scheme_len = sizeof scheme - 1;
    if (header.len <= scheme_len)
        return bytes_of(NULL, 0);
    for (size_t i = 0; i < scheme_len; i++)
        if ((header.data[i] | 0x20) != scheme[i])
            return bytes_of(NULL, 0);
    return bytes_of(header.data + scheme_len, header.len - scheme_len);
}

bool auth_check(struct auth *a, struct bytes authorization, struct bytes api_key,
                struct u128 *tenant) {
    bool found = false;
    *tenant = (struct u128){0};
    if (a->open)
        return true;
    struct bytes given = bearer_key(authorization);
    if (given.len == 0)
        given = api_key;
    if (given.len == 0 || given.len > AUTH_KEY_BYTES_MAX)
        return false;
    pthread_rwlock_rdlock(&a->lock);
    for (size_t i = 0; i < a->keys.count; i++)
        found |= equal_in_constant_time(a->keys.items[i].text, given);
    pthread_rwlock_unlock(&a->lock);
    if (found)
        *tenant = hash128(given.data, given.len, 0);
    return found;
}

/* Takes the lock, until key_done. NULL: a client without a key, or one that is no longer there. */
static const struct auth_key *key_of(struct auth *a, struct u128 tenant) {
    pthread_rwlock_rdlock(&a->lock);
    for (size_t i = 0; i < a->keys.count; i++)
        if (u128_equal(a->keys.items[i].tenant, tenant))
            return &a->keys.items[i];
    return NULL;
}
static void key_done(struct auth *a) {
    pthread_rwlock_unlock(&a->lock);
}

int64_t auth_priority_min(struct auth *a, struct u128 tenant, int64_t fallback) {
    const struct auth_key *key = key_of(a, tenant);
    int64_t least = key && key->has_priority_min ? key->priority_min : fallback;
    key_done(a);
    return least;
}

bool auth_allows_model(struct auth *a, struct u128 tenant, const char *model) {
    const struct auth_key *key = key_of(a, tenant);
    bool allowed = !key || !key->models || list_has(key->models, ',', bytes_str(model));
    key_done(a);
    return allowed;
}

bool auth_is_admin(struct auth *a, struct u128 tenant) {
    const struct auth_key *key = key_of(a, tenant);
    bool admin = key && key->admin;
    key_done(a);
    return admin;
}

struct auth_limits auth_limits(struct auth *a, struct u128 tenant) {
    struct auth_limits limits = a->limits;
    const struct auth_key *key = key_of(a, tenant);
    if (key && key->has_requests)
        limits.requests = key->limits.requests;
    if (key && key->has_minute_tokens)
        limits.minute_tokens = key->limits.minute_tokens;
    if (key)
        limits.weight = key->limits.weight;
    key_done(a);
    return limits;
}

struct metric *auth_metrics(struct auth *a, struct u128 tenant) {
    const struct auth_key *key = key_of(a, tenant);
    struct metric *metrics = key ? key->metrics : NULL;
    key_done(a);
    return metrics;
}
