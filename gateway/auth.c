#include "gateway/auth.h"

#include "gateway/key_metrics.h"
#include "proto/messages.h"

#include "base/fsutil.h"
#include "base/hash.h"

#include <stdlib.h>

enum { PRIORITY_MOST = 1000000 };

static int take_priority(struct auth_key *key, const char *value, struct error *err) {
    char *end;
    key->priority_min = strtoll(value, &end, 10);
    if (!*value || *end || key->priority_min < -PRIORITY_MOST || key->priority_min > PRIORITY_MOST)
        return error_set(err, ERR_INVALID,
                         "behind an API key stands no number from -%d to %d: 'priority-min=%.40s'",
                         PRIORITY_MOST, PRIORITY_MOST, value);
    key->has_priority_min = true;
    return 0;
}

static int take_models(struct auth_key *key, const char *value, struct error *err) {
    if (!*value)
        return error_set(err, ERR_INVALID, "behind an API key stands 'models=' and no name");
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
                         "behind an API key stands no number from %u to %u: '%s=%.40s'", least,
                         most, word, value);
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
        return error_set(err, ERR_INVALID,
                         "behind an API key stands no name of 1 to %d bytes: 'name=%.80s'",
                         AUTH_NAME_MAX, value);
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

/* "KEY TERM TERM...": takes the terms off its end. */
static int take_terms(struct auth_key *key, char *line, struct error *err) {
    for (char *blank; (blank = strrchr(line, ' ')) || (blank = strrchr(line, '\t'));) {
        char *tab = strrchr(blank, '\t'), *word = (tab ? tab : blank) + 1;
        const struct term *term = find_term(word);
        if (!term)
            break;
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
static int add_key(struct auth *a, const char *text, size_t len, bool terms, struct error *err) {
    while (len && (*text == ' ' || *text == '\t'))
        text++, len--;
    while (len && strchr(" \t\r", text[len - 1]))
        len--;
    if (len == 0)
        return 0;
    struct auth_key key = {.text = mem_strndup(text, len)};
    int rc = terms ? take_terms(&key, key.text, err) : 0;
    len = strlen(key.text);
    if (!rc && a->key_count == AUTH_KEYS_MAX)
        rc = error_set(err, ERR_LIMIT, "more than %d API keys", AUTH_KEYS_MAX);
    if (!rc && len > AUTH_KEY_BYTES_MAX)
        rc = error_set(err, ERR_LIMIT, "an API key is longer than %d bytes", AUTH_KEY_BYTES_MAX);
    if (rc) {
        key_release(&key);
        return rc;
    }
    a->keys = mem_realloc(a->keys, (a->key_count + 1) * sizeof *a->keys);
    key.tenant = hash128(key.text, len, 0);
    key.metrics = key.name ? key_metrics_of(key.name) : NULL;
    a->keys[a->key_count++] = key;
    return 0;
}

static int add_keys(struct auth *a, const char *text, char separator, bool file,
                    struct error *err) {
    while (text && *text) {
        const char *end = strchr(text, separator);
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (!(file && *text == '#') && add_key(a, text, len, file, err))
            return err->code;
        text = end ? end + 1 : NULL;
    }
    return 0;
}

int auth_init(struct auth *a, const char *list, const char *path, struct error *err) {
    struct buf file;
    *a = (struct auth){0};
    buf_init(&file, 0);
    int rc = add_keys(a, list, ',', false, err);
    if (rc == 0 && path && *path) {
        rc = file_read_any(path, (size_t)1 << 20, &file, err);
        if (rc == 0)
            rc = add_keys(a, buf_text(&file), '\n', true, err);
        if (rc == 0 && a->key_count == 0)
            rc = error_set(err, ERR_INVALID, "no API key in '%s'", path);
    }
    buf_release(&file);
    if (rc)
        auth_release(a);
    return rc;
}

void auth_release(struct auth *a) {
    for (size_t i = 0; i < a->key_count; i++)
        key_release(&a->keys[i]);
    mem_free(a->keys);
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

bool auth_check(const struct auth *a, struct bytes authorization, struct bytes api_key,
                struct u128 *tenant) {
    bool found = false;
    *tenant = (struct u128){0};
    if (auth_is_open(a))
        return true;
    struct bytes given = bearer_key(authorization);
    if (given.len == 0)
        given = api_key;
    if (given.len == 0 || given.len > AUTH_KEY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < a->key_count; i++)
        found |= equal_in_constant_time(a->keys[i].text, given);
    if (found)
        *tenant = hash128(given.data, given.len, 0);
    return found;
}

int64_t auth_priority_min(const struct auth *a, struct u128 tenant, int64_t fallback) {
    for (size_t i = 0; i < a->key_count; i++)
        if (a->keys[i].has_priority_min && u128_equal(a->keys[i].tenant, tenant))
            return a->keys[i].priority_min;
    return fallback;
}

static const struct auth_key *find_key(const struct auth *a, struct u128 tenant) {
    for (size_t i = 0; i < a->key_count; i++)
        if (u128_equal(a->keys[i].tenant, tenant))
            return &a->keys[i];
    return NULL;
}

bool auth_allows_model(const struct auth *a, struct u128 tenant, const char *model) {
    const struct auth_key *key = find_key(a, tenant);
    size_t len = strlen(model);
    if (!key || !key->models)
        return true;
    for (const char *at = key->models; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && !memcmp(at, model, len))
            return true;
    return false;
}

bool auth_is_admin(const struct auth *a, struct u128 tenant) {
    const struct auth_key *key = find_key(a, tenant);
    return key && key->admin;
}

struct auth_limits auth_limits(const struct auth *a, struct u128 tenant) {
    const struct auth_key *key = find_key(a, tenant);
    struct auth_limits limits = a->limits;
    if (key && key->has_requests)
        limits.requests = key->limits.requests;
    if (key && key->has_minute_tokens)
        limits.minute_tokens = key->limits.minute_tokens;
    if (key)
        limits.weight = key->limits.weight;
    return limits;
}

struct metric *auth_metrics(const struct auth *a, struct u128 tenant) {
    const struct auth_key *key = find_key(a, tenant);
    return key ? key->metrics : NULL;
}
