/*
 * etcd.c - the v3 API over its HTTP gateway (JSON; keys and values in base64).
 *
 * KEY is there while somebody leads: it hangs on a lease of etcd's, and its value says who. KEY/number has
 * the number of the latest grant and stays. Both are written in one transaction, which asks that KEY is not
 * there and that KEY/number is as it was read; so of several that try one succeeds, and numbers rise.
 *
 * Addresses are asked in turn: one that does not answer is followed by the next. Where a user is given we
 * log in, and again when the token is not taken any more (it ends after some minutes, and with a member that
 * starts anew).
 */
#include "lease/engine.h"

#include "base/buf.h"
#include "base/fsutil.h"
#include "base/vec.h"
#include "formats/hub/http.h"
#include "formats/json_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { URLS_MAX = 16, ANSWER_MAX = 64 << 10, PATIENCE_S = 2 };

struct etcd {
    struct engine base;
    struct hub_http *http;
    char *urls[URLS_MAX]; /* owned */
    uint32_t url_count, at;
    char *holder;             /* owned */
    struct buf key, number;   /* base64 */
    int64_t ttl_s, answer_ms; /* answer_ms: for one address */
    char id[32];              /* of etcd's lease; "": none */
    struct buf login;         /* owned: what is sent to log in; empty: nobody does */
    char token[4096];         /* of the login; "": none */
    bool refused;             /* the answer read last says that the token is no good */
    char *authority, *certificate, *own_key; /* owned; NULL: not given */
    struct arena arena;                      /* of the answer read last */
};

static void add_base64(struct bytes in, struct buf *out) {
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < in.len; i += 3) {
        size_t left = in.len - i;
        uint32_t word = (uint32_t)in.data[i] << 16 | (left > 1 ? in.data[i + 1] << 8 : 0) |
                        (left > 2 ? in.data[i + 2] : 0);
        buf_add_byte(out, LETTERS[word >> 18]);
        buf_add_byte(out, LETTERS[word >> 12 & 63]);
        buf_add_byte(out, left > 1 ? LETTERS[word >> 6 & 63] : '=');
        buf_add_byte(out, left > 2 ? LETTERS[word & 63] : '=');
    }
}

static int value_of(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* What of it reads, up to size - 1 bytes; printable, since it is shown. */
static void read_base64(struct bytes in, char *out, size_t size) {
    uint32_t word = 0, bits = 0;
    size_t len = 0;
    for (size_t i = 0; i < in.len && value_of((char)in.data[i]) >= 0; i++) {
        word = word << 6 | (uint32_t)value_of((char)in.data[i]);
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        char c = (char)(word >> bits & 0xff);
        if (len < size - 1)
            out[len++] = c >= 0x20 && c < 0x7f ? c : ' ';
    }
    out[len] = 0;
}

/* --- asking --- */

static bool take_body(void *ctx, const struct hub_request *r, const uint8_t *data, size_t len) {
    struct buf *body = ctx;
    (void)r;
    buf_add(body, data, len);
    return !body->failed;
}

/* One address. *answer lives until the next call. */
static int ask_one(struct etcd *e, const char *path, struct bytes body, struct json_value *answer,
                   struct error *err) {
    struct buf url = {0}, text;
    buf_init(&text, ANSWER_MAX);
    buf_addf(&url, "%s%s", e->urls[e->at], path);
    struct hub_request r = {.url = buf_text(&url),
                            .authorization = *e->token ? e->token : NULL,
                            .post = body,
                            .take_body = take_body,
                            .ctx = &text,
                            .limit_ms = e->answer_ms};
    hub_http_start(e->http, &r);
    while (hub_http_wait(e->http, 1000) != &r) {}
    arena_reset(&e->arena);
    int rc = 0;
    e->refused = r.status == 401;
    if (r.outcome != HUB_OK)
        rc = error_set(err, ERR_CLOSED, "%s%s", r.why.text,
                       r.status == 400 && !e->login.len ? ": does it ask for a user? (--lease-user)"
                                                        : "");
    else
        rc = json_parse(&e->arena, buf_bytes(&text), answer, err);
    buf_release(&url);
    buf_release(&text);
    return rc;
}

static int log_in(struct etcd *e, struct error *err) {
    struct json_value answer;
    e->token[0] = 0;
    int rc = ask_one(e, "/v3/auth/authenticate", buf_bytes(&e->login), &answer, err);
    if (rc)
        return error_wrap(err, "cannot log in to etcd");
    struct bytes token = json_text(json_get(answer, "token"));
    for (size_t i = 0; i < token.len; i++)
        if (token.data[i] <= ' ' || token.data[i] >= 0x7f)
            token.len = 0;
    if (!token.len || token.len >= sizeof e->token)
        return error_set(err, ERR_INVALID, "etcd's login has no token");
    memcpy(e->token, token.data, token.len);
    e->token[token.len] = 0;
    return 0;
}

/* The same, logged in where there is a user. */
static int ask_known(struct etcd *e, const char *path, struct bytes body, struct json_value *answer,
                     struct error *err) {
    bool had_token = *e->token;
    int rc = e->login.len && !had_token ? log_in(e, err) : 0;
    if (!rc)
        rc = ask_one(e, path, body, answer, err);
    if (!rc || !e->refused || !had_token)
        return rc;
    rc = log_in(e, err);
    return rc ? rc : ask_one(e, path, body, answer, err);
}

/* Each address once, from the one that answered last. */
static int ask(struct etcd *e, const char *path, struct buf *body, struct json_value *answer,
               struct error *err) {
    int rc = ERR_CLOSED;
    for (uint32_t i = 0; i < e->url_count && rc; i++) {
        rc = ask_known(e, path, buf_bytes(body), answer, err);
        if (rc)
            e->at = (e->at + 1) % e->url_count;
    }
    buf_release(body);
    return rc;
}

/* What a range found; absent: no such key. */
static int get(struct etcd *e, const struct buf *key, struct json_value *found, struct error *err) {
    struct buf body = {0};
    struct json_value answer;
    buf_addf(&body, "{\"key\":\"%s\"}", key->data);
    int rc = ask(e, "/v3/kv/range", &body, &answer, err);
    if (!rc)
        *found = json_at(json_get(answer, "kvs"), 0);
    return rc;
}

static void revoke(struct etcd *e) {
    struct buf body = {0};
    struct json_value answer;
    struct error err;
    if (*e->id) {
        buf_addf(&body, "{\"ID\":\"%s\"}", e->id);
        (void)!ask(e, "/v3/lease/revoke", &body, &answer, &err); /* else it ends by itself */
    }
    e->id[0] = 0;
}

/* Numbers of 64 bits are strings in etcd's JSON. */
static bool digits_of(struct json_value v, char *out, size_t size) {
    struct bytes text = json_text(v);
    if (!text.len || text.len >= size)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    memcpy(out, text.data, text.len);
    out[text.len] = 0;
    return true;
}

static int grant(struct etcd *e, struct error *err) {
    struct buf body = {0};
    struct json_value answer;
    buf_addf(&body, "{\"TTL\":\"%" PRId64 "\"}", e->ttl_s);
    int rc = ask(e, "/v3/lease/grant", &body, &answer, err);
    if (!rc && !digits_of(json_get(answer, "ID"), e->id, sizeof e->id))
        rc = error_set(err, ERR_INVALID, "etcd grants no lease");
    return rc;
}

/* ERR_AGAIN: somebody was faster. */
static int put(struct etcd *e, const char *revision, uint64_t number, struct error *err) {
    struct buf body = {0}, value = {0}, text = {0};
    struct json_value answer;
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    buf_addf(&text, "%s %s", e->holder, digits);
    add_base64(buf_bytes(&text), &value);
    buf_addf(&body,
             "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"0\"},"
             "{\"key\":\"%s\",\"target\":\"MOD\",\"mod_revision\":\"%s\"}],"
             "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%s\"}},",
             e->key.data, e->number.data, revision, e->key.data, buf_text(&value), e->id);
    buf_reset(&value);
    add_base64(bytes_str(digits), &value);
    buf_addf(&body, "{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\"}}]}", e->number.data,
             buf_text(&value));
    int rc = ask(e, "/v3/kv/txn", &body, &answer, err);
    if (!rc && !json_get_bool(answer, "succeeded", false))
        rc = error_set(err, ERR_AGAIN, "another process was faster");
    buf_release(&value);
    buf_release(&text);
    return rc;
}

/* --- the engine's calls --- */

static int take(struct engine *base, uint64_t least, uint64_t *number, struct error *err) {
    struct etcd *e = (struct etcd *)base;
    struct json_value found;
    char holder[128], last[32] = "0", revision[32] = "0";
    int rc = get(e, &e->key, &found, err);
    if (rc)
        return rc;
    if (json_count(found)) {
        read_base64(json_text(json_get(found, "value")), holder, sizeof holder);
        return error_set(err, ERR_AGAIN, "'%s' leads", holder);
    }
    rc = get(e, &e->number, &found, err);
    if (!rc && json_count(found)) {
        read_base64(json_text(json_get(found, "value")), last, sizeof last);
        if (!digits_of(json_get(found, "mod_revision"), revision, sizeof revision))
            rc = error_set(err, ERR_INVALID, "etcd's answer has no revision");
    }
    *number = lease_number_after(last, least);
    if (!rc)
        rc = grant(e, err);
    if (!rc)
        rc = put(e, revision, *number, err);
    if (rc)
        revoke(e);
    return rc;
}

/* etcd's lease lives on without the key that hung on it: somebody may have removed or written it. */
static int check_key(struct etcd *e, struct error *err) {
    struct json_value found;
    char id[32] = "";
    int rc = get(e, &e->key, &found, err);
    if (!rc && (!digits_of(json_get(found, "lease"), id, sizeof id) || strcmp(id, e->id) != 0))
        rc = error_set(err, ERR_NOT_FOUND, "another process has removed or written its key");
    return rc;
}

static int keep(struct engine *base, struct error *err) {
    struct etcd *e = (struct etcd *)base;
    struct buf body = {0};
    struct json_value answer;
    char ttl[32] = "0";
    int held = check_key(e, err);
    if (held)
        return held;
    buf_addf(&body, "{\"ID\":\"%s\"}", e->id);
    int rc = ask(e, "/v3/lease/keepalive", &body, &answer, err);
    if (!rc && (!digits_of(json_get(json_get(answer, "result"), "TTL"), ttl, sizeof ttl) ||
                !strcmp(ttl, "0")))
        rc = error_set(err, ERR_NOT_FOUND, "etcd does not know it any more");
    return rc;
}

static void give_back(struct engine *base) {
    revoke((struct etcd *)base);
}

static void free_engine(struct engine *base) {
    struct etcd *e = (struct etcd *)base;
    hub_http_free(&e->http);
    for (uint32_t i = 0; i < e->url_count; i++)
        mem_free(e->urls[i]);
    mem_free(e->holder);
    mem_free(e->authority);
    mem_free(e->certificate);
    mem_free(e->own_key);
    if (e->login.len)
        explicit_bzero(e->login.data, e->login.len);
    buf_release(&e->login);
    buf_release(&e->key);
    buf_release(&e->number);
    arena_release(&e->arena);
    mem_free(e);
}

/* What is sent to log in. */
static int read_login(struct etcd *e, const struct lease_config *config, struct error *err) {
    struct buf text = {0};
    if (!config->user)
        return config->password_file
                   ? error_set(err, ERR_INVALID, "a password of etcd needs a user's name")
                   : 0;
    if (!config->password_file)
        return error_set(err, ERR_INVALID, "etcd's user '%.100s' needs a password's file",
                         config->user);
    int rc = file_read(config->password_file, 4096, &text, err);
    if (!rc) {
        size_t len = strcspn(buf_text(&text), "\r\n");
        buf_add_str(&e->login, "{\"name\":\"");
        buf_add_json(&e->login, bytes_str(config->user));
        buf_add_str(&e->login, "\",\"password\":\"");
        buf_add_json(&e->login, bytes_of(buf_text(&text), len));
        buf_add_str(&e->login, "\"}");
        explicit_bzero(text.data, text.len);
    }
    buf_release(&text);
    return rc;
}

/* A path that is wrong stays wrong: it is said at once, and not tried again and again. */
static int take_file(const char *path, char **out, struct error *err) {
    if (!path)
        return 0;
    *out = mem_strdup(path);
    return file_exists(path) ? 0 : error_set(err, ERR_NOT_FOUND, "there is no file '%s'", path);
}

int etcd_engine_new(struct engine **out, const char *urls, const struct lease_config *config,
                    struct error *err) {
    static const struct engine_calls CALLS = {
        .take = take, .keep = keep, .give_back = give_back, .free = free_engine};
    struct etcd *e = mem_alloc(sizeof *e);
    struct buf number = {0};
    *e = (struct etcd){.base = {&CALLS},
                       .holder = mem_strdup(config->holder),
                       .ttl_s = (config->ttl_ms + 999) / 1000};
    arena_init(&e->arena, 1 << 20, 4096);
    add_base64(bytes_str(config->name), &e->key);
    buf_addf(&number, "%s/number", config->name);
    add_base64(buf_bytes(&number), &e->number);
    buf_release(&number);
    char *all = mem_strdup(urls), *rest = all, *one;
    while ((one = strsep(&rest, ",")) && e->url_count < URLS_MAX) {
        size_t len = strlen(one);
        while (len && one[len - 1] == '/')
            one[--len] = 0;
        if (len)
            e->urls[e->url_count++] = mem_strdup(one);
    }
    mem_free(all);
    e->answer_ms = MAX(config->ttl_ms / 4 / MAX(e->url_count, 1u), (int64_t)200);
    int rc = read_login(e, config, err);
    if (!rc)
        rc = take_file(config->authority, &e->authority, err);
    if (!rc)
        rc = take_file(config->certificate, &e->certificate, err);
    if (!rc)
        rc = take_file(config->key, &e->own_key, err);
    if (!rc)
        rc = hub_http_new(&e->http, e->url_count ? e->urls[0] : "", NULL, PATIENCE_S, err);
    if (!rc && e->authority)
        hub_http_trust(e->http, e->authority);
    if (!rc)
        hub_http_identify(e->http, e->certificate, e->own_key);
    *out = &e->base;
    if (rc) {
        free_engine(&e->base);
        *out = NULL;
    }
    return rc;
}
