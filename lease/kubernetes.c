/*
 * kubernetes.c - a Lease of the cluster's API server (coordination.k8s.io/v1), over REST.
 *
 * Engine "kubernetes:[FOLDER]": FOLDER is a service account's, with `token`, `ca.crt` and `namespace`
 * (default: where every pod has its own); the server is the one of KUBERNETES_SERVICE_HOST and
 * KUBERNETES_SERVICE_PORT. The token is read anew for each request, since it changes. The account needs the
 * verbs get, create and update on leases.
 *
 * Each change names the resourceVersion that it was made from, so of several that write one succeeds. As
 * client-go does, a candidate believes no other's clock: a holder is given up when what the Lease says of
 * holder and times has not changed for the holder's own leaseDurationSeconds (an hour at most) by the
 * candidate's clock; who writes labels holds nothing. The grant's number is an
 * annotation of the same object, and so rises with it. One that gives it back leaves an empty holder.
 */
#include "lease/engine.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/url_host.h"
#include "base/utc.h"
#include "formats/hub/http.h"
#include "formats/json_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"
#define NUMBER  "trireme/lease-number"

enum {
    ANSWER_MAX = 256 << 10,
    TOKEN_MAX = 64 << 10,
    PATIENCE_S = 2,
    NAME_MAX_BYTES = 63,
    HOLDER_MAX = 128,
    TIME_MAX = 40,
    LIFE_MAX_S = 3600 /* as --lease-ttl */
};

struct kubernetes {
    struct engine base;
    char *folder, *server;         /* owned; server: https://HOST:PORT */
    char *holder;                  /* owned: of this process alone */
    char name[NAME_MAX_BYTES + 1]; /* of the Lease */
    char *space;                   /* owned: its namespace */
    int64_t ttl_s, answer_ms;
    uint64_t number;                  /* of our grant, */
    int64_t transitions;              /* before which it went from hand to hand so often, */
    char acquired[TIME_MAX];          /* and its time */
    char version[64];                 /* resourceVersion of what was read or written last */
    char seen[HOLDER_MAX + TIME_MAX]; /* another holder and its time, and since when they are so */
    int64_t seen_ms;
    struct arena arena; /* of the answer read last */
};

/* Without white space around it; owned. NULL with *err. */
static char *read_text(const char *folder, const char *file, struct error *err) {
    struct buf text;
    char *path = path_join(folder, file), *out = NULL;
    buf_init(&text, 0);
    if (!file_read_any(path, TOKEN_MAX, &text, err)) {
        const char *begin = buf_text(&text);
        size_t len = strlen(begin);
        while (len && (unsigned char)begin[len - 1] <= ' ')
            len--;
        out = mem_strndup(begin, len);
    }
    buf_release(&text);
    mem_free(path);
    return out;
}

/* --- asking --- */

static bool take_body(void *ctx, const struct hub_request *r, const uint8_t *data, size_t len) {
    struct buf *body = ctx;
    (void)r;
    buf_add(body, data, len);
    return !body->failed;
}

/* One request; *answer lives until the next. ERR_NOT_FOUND: there is none; ERR_AGAIN: it was changed
 * meanwhile, or is there already. */
static int ask(struct kubernetes *k, const char *method, struct bytes body,
               struct json_value *answer, struct error *err) {
    bool create = !strcmp(method, "POST");
    struct hub_http *http = NULL;
    struct buf url = {0}, text;
    char *token = read_text(k->folder, "token", err), *ca = path_join(k->folder, "ca.crt");
    buf_init(&text, ANSWER_MAX);
    buf_addf(&url, "%s/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", k->server, k->space,
             create ? "" : "/", create ? "" : k->name);
    int rc = token ? hub_http_new(&http, k->server, token, PATIENCE_S, err) : err->code;
    struct hub_request r = {.url = buf_text(&url),
                            .method = method,
                            .post = body,
                            .take_body = take_body,
                            .ctx = &text,
                            .limit_ms = k->answer_ms};
    if (!rc) {
        hub_http_trust(http, ca);
        hub_http_start(http, &r);
        while (hub_http_wait(http, 1000) != &r) {}
        arena_reset(&k->arena);
        if (r.status == 404 && !create)
            rc = error_set(err, ERR_NOT_FOUND, "there is no such Lease");
        else if (r.status == 409)
            rc = error_set(err, ERR_AGAIN, "another process was faster");
        else if (r.outcome != HUB_OK)
            rc = error_set(err, ERR_CLOSED, "%s", r.why.text);
        else
            rc = json_parse(&k->arena, buf_bytes(&text), answer, err);
    }
    hub_http_free(&http);
    buf_release(&url);
    buf_release(&text);
    mem_free(token);
    mem_free(ca);
    return rc;
}

static void copy_text(struct json_value v, char *out, size_t size) {
    struct bytes text = json_text(v);
    size_t len = MIN(text.len, size - 1);
    for (size_t i = 0; i < len; i++)
        out[i] = text.data[i] >= 0x20 && text.data[i] < 0x7f ? (char)text.data[i] : ' ';
    out[len] = 0;
}

static int64_t int_of(struct json_value v, const char *key, int64_t fallback) {
    struct json_value found = json_get(v, key);
    return found.kind == JSON_IS_INT ? found.integer : fallback;
}

/* Now, as a MicroTime. */
static void tell_time(char out[TIME_MAX]) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t len = utc_text(now.tv_sec, out);
    snprintf(out + len, TIME_MAX - len, ".%06ldZ", now.tv_nsec / 1000);
}

/* Writes the Lease over the one of k->version ("": a new one), as ours or as nobody's. */
static int put(struct kubernetes *k, bool ours, struct error *err) {
    char now[TIME_MAX];
    struct buf body = {0};
    struct json_value answer;
    buf_addf(&body,
             "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
             "\"name\":\"%s\",\"namespace\":\"%s\",\"annotations\":{\"" NUMBER "\":\"%" PRIu64
             "\"}",
             k->name, k->space, k->number);
    if (*k->version) {
        buf_add_str(&body, ",\"resourceVersion\":\"");
        buf_add_json(&body, bytes_str(k->version));
        buf_add_str(&body, "\"");
    }
    buf_add_str(&body, "},\"spec\":{\"holderIdentity\":\"");
    buf_add_json(&body, bytes_str(ours ? k->holder : ""));
    tell_time(now);
    buf_addf(&body,
             "\",\"leaseDurationSeconds\":%" PRId64 ",\"leaseTransitions\":%" PRId64
             ",\"acquireTime\":\"%s\",\"renewTime\":\"%s\"}}",
             k->ttl_s, k->transitions, k->acquired, now);
    int rc = ask(k, *k->version ? "PUT" : "POST", buf_bytes(&body), &answer, err);
    if (!rc)
        copy_text(json_get(json_get(answer, "metadata"), "resourceVersion"), k->version,
                  sizeof k->version);
    buf_release(&body);
    return rc;
}

/* --- the engine's calls --- */

/* True when it is nobody's, or its holder has not been heard of for as long as it said it might be. */
static bool is_free(struct kubernetes *k, struct json_value spec, const char *holder) {
    if (!*holder)
        return true;
    char renewed[TIME_MAX], seen[sizeof k->seen];
    copy_text(json_get(spec, "renewTime"), renewed, sizeof renewed);
    snprintf(seen, sizeof seen, "%s %s", holder, renewed);
    if (strcmp(k->seen, seen)) {
        memcpy(k->seen, seen, sizeof k->seen);
        k->seen_ms = clock_boot_ms();
    }
    int64_t lives_s = int_of(spec, "leaseDurationSeconds", k->ttl_s);
    return clock_boot_ms() - k->seen_ms >=
           MIN(MAX(lives_s, (int64_t)1), (int64_t)LIFE_MAX_S) * 1000;
}

static int take(struct engine *base, uint64_t least, uint64_t *number, struct error *err) {
    struct kubernetes *k = (struct kubernetes *)base;
    struct json_value found;
    char holder[HOLDER_MAX] = "", last[32] = "";
    k->transitions = 0;
    k->version[0] = 0;
    int rc = ask(k, "GET", (struct bytes){0}, &found, err);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (!rc) {
        struct json_value meta = json_get(found, "metadata"), spec = json_get(found, "spec");
        copy_text(json_get(meta, "resourceVersion"), k->version, sizeof k->version);
        copy_text(json_get(json_get(meta, "annotations"), NUMBER), last, sizeof last);
        copy_text(json_get(spec, "holderIdentity"), holder, sizeof holder);
        int64_t transitions = int_of(spec, "leaseTransitions", 0); /* the server's has 32 bits */
        k->transitions = transitions < 0 || transitions >= INT32_MAX ? 0 : transitions + 1;
        if (!*k->version)
            return error_set(err, ERR_INVALID, "the Lease has no resourceVersion");
        if (!is_free(k, spec, holder))
            return error_set(err, ERR_AGAIN, "'%s' leads", holder);
    }
    *number = k->number = lease_number_after(last, least);
    tell_time(k->acquired);
    return put(k, true, err);
}

static int keep(struct engine *base, struct error *err) {
    struct kubernetes *k = (struct kubernetes *)base;
    struct json_value found;
    char holder[HOLDER_MAX];
    int rc = put(k, true, err);
    if (rc != ERR_AGAIN)
        return rc;
    rc = ask(k, "GET", (struct bytes){0}, &found, err); /* somebody else wrote: who holds it? */
    if (rc)
        return rc;
    copy_text(json_get(json_get(found, "spec"), "holderIdentity"), holder, sizeof holder);
    if (strcmp(holder, k->holder))
        return error_set(err, ERR_NOT_FOUND, "'%s' holds it now", holder);
    copy_text(json_get(json_get(found, "metadata"), "resourceVersion"), k->version,
              sizeof k->version);
    return put(k, true, err);
}

static void give_back(struct engine *base) {
    struct error err;
    (void)!put((struct kubernetes *)base, false, &err); /* else it ends by itself */
}

static void free_engine(struct engine *base) {
    struct kubernetes *k = (struct kubernetes *)base;
    mem_free(k->folder);
    mem_free(k->server);
    mem_free(k->holder);
    mem_free(k->space);
    arena_release(&k->arena);
    mem_free(k);
}

/* What an object may be called: small letters, digits and '-'. */
static void make_name(const char *name, char out[NAME_MAX_BYTES + 1]) {
    size_t len = 0;
    for (; *name && len < NAME_MAX_BYTES; name++) {
        char c = *name >= 'A' && *name <= 'Z' ? (char)(*name | 0x20) : *name;
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (plain || (len && out[len - 1] != '-'))
            out[len++] = plain ? c : '-';
    }
    while (len && out[len - 1] == '-')
        len--;
    out[len] = 0;
}

const char *kubernetes_account(const char *folder) {
    return *folder ? folder : ACCOUNT;
}

int kubernetes_engine_new(struct engine **out, const char *folder,
                          const struct lease_config *config, struct error *err) {
    static const struct engine_calls CALLS = {
        .take = take, .keep = keep, .give_back = give_back, .free = free_engine};
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    struct kubernetes *k = mem_alloc(sizeof *k);
    struct buf text = {0};
    char id[U128_TEXT_MAX];
    *k = (struct kubernetes){.base = {&CALLS},
                             .folder = mem_strdup(kubernetes_account(folder)),
                             .ttl_s = (config->ttl_ms + 999) / 1000,
                             .answer_ms = MAX(config->ttl_ms / 4, (int64_t)200)};
    arena_init(&k->arena, 1 << 20, 4096);
    u128_text(random_u128(), id);
    buf_addf(&text, "%s %.8s", config->holder, id);
    k->holder = mem_strdup(buf_text(&text));
    buf_reset(&text);
    make_name(config->name, k->name);
    int rc =
        *k->name ? 0 : error_set(err, ERR_INVALID, "'%s' is no name for a Lease", config->name);
    if (!rc && (!host || !port))
        rc = error_set(err, ERR_INVALID,
                       "no API server: KUBERNETES_SERVICE_HOST and _PORT are not set, as they are "
                       "in a pod");
    if (!rc && !(k->space = read_text(k->folder, "namespace", err)))
        rc = err->code;
    if (!rc) {
        buf_addf(&text, "https://%s:%s", url_host(host).text, port);
        k->server = mem_strdup(buf_text(&text));
    }
    buf_release(&text);
    *out = &k->base;
    if (rc) {
        free_engine(&k->base);
        *out = NULL;
    }
    return rc;
}
