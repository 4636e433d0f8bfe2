/*
 * Leases of Kubernetes: what the API server is asked, word for word, and what is made of each answer, with a clock that
 * the test sets. A server that keeps them is met end to end (tests/e2e/test_standby.py).
 */
#include "asked.h"
#include "base/fsutil.h"
#include "lease/engine.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static struct error err;
static char folder[64];
static int64_t boot_ms, wall_s;

/* In place of libc's. */
int clock_gettime(clockid_t id, struct timespec *out) {
    *out = id == CLOCK_REALTIME ? (struct timespec){wall_s, 12345999}
                                : (struct timespec){boot_ms / 1000, boot_ms % 1000 * 1000000};
    return 0;
}

static void write_file(const char *name, const char *text) {
    char *path = path_join(folder, name);
    CHECK(!file_write_atomic(path, text, strlen(text), 0600, &err));
    mem_free(path);
}

static void begin(void) {
    server_reset();
    snprintf(folder, sizeof folder, "/tmp/trm-test-XXXXXX");
    CHECK(mkdtemp(folder));
    write_file("namespace", "ns\n");
    write_file("token", "t1 \r\n");
    write_file("ca.crt", "");
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    boot_ms = 5000;
    wall_s = 86400;
}

static void finish(void) {
    static const char *const NAMES[] = {"namespace", "token", "ca.crt"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        char *path = path_join(folder, NAMES[i]);
        unlink(path);
        mem_free(path);
    }
    CHECK(!rmdir(folder) && !server.clients);
}

static const struct lease_config PLAIN = {
    .engine = "", .name = "Trireme_x", .holder = "h", .ttl_ms = 2000};

static struct engine *made(const struct lease_config *config) {
    struct engine *e;
    CHECK(kubernetes_engine_new(&e, folder, config, &err) == 0);
    return e;
}

static int take(struct engine *e, uint64_t least, uint64_t *number) {
    *number = 0;
    return e->calls->take(e, least, number, &err);
}

/* As was_asked, with "HOLDER" for the name of this process, which it has for itself alone. */
static bool was_asked_by(const char *log) {
    char holder[11];
    for (char *at = server.log; (at = strstr(at, ":\"h ")); at += 3) {
        memcpy(holder, at + 2, 10);
        holder[10] = 0;
        if (strspn(holder + 2, "0123456789abcdef") != 8 || at[12] != '"')
            return false;
        memcpy(at + 2, "HOLDER", 6);
        memmove(at + 8, at + 12, strlen(at + 12) + 1);
    }
    return was_asked(log);
}

#define LEASES "https://10.0.0.1:443/apis/coordination.k8s.io/v1/namespaces/ns/leases"
#define GET    "GET " LEASES "/trireme-x\n"
#define BODY(number, version, holder, transitions, acquired, renewed)                              \
    "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"                 \
    "\"name\":\"trireme-x\",\"namespace\":\"ns\",\"annotations\":{\"trireme/lease-number\":"       \
    "\"" number "\"}" version "},\"spec\":{\"holderIdentity\":\"" holder                           \
    "\",\"leaseDurationSeconds\":2,\"leaseTransitions\":" transitions ",\"acquireTime\":"          \
    "\"1970-01-02T" acquired ".012345Z\",\"renewTime\":\"1970-01-02T" renewed ".012345Z\"}}\n"
#define POST(number, holder)                                                                       \
    "POST " LEASES "\n" BODY(number, "", holder, "0", "00:00:00", "00:00:00")
#define PUT(number, version, holder, transitions, acquired, renewed)                               \
    "PUT " LEASES "/trireme-x\n" BODY(number, ",\"resourceVersion\":\"" version "\"", holder,      \
                                      transitions, acquired, renewed)
#define WRITTEN(version) "{\"metadata\":{\"resourceVersion\":\"" version "\"}}"

TEST(kubernetes_grants_what_nobody_has) {
    uint64_t number;
    begin();
    struct engine *e = made(&PLAIN);
    EXPECT(!e->calls->lasts);
    will_answer(404, "");
    will_answer(201, WRITTEN("v1"));
    EXPECT_EQ(take(e, 1000, &number), 0);
    EXPECT_EQ(number, 1000);
    EXPECT(was_asked_by(GET POST("1000", "HOLDER")));
    EXPECT_STR(server.origin, "https://10.0.0.1:443");
    EXPECT_STR(server.token, "t1");
    EXPECT(!strncmp(server.trust, folder, strlen(folder)) && strstr(server.trust, "/ca.crt"));
    EXPECT_EQ(server.limit_ms, 500);
    EXPECT_EQ(server.patience_s, 2);
    write_file("token", "t2"); /* it changes; the next request has the new one */
    wall_s += 5;
    will_answer(200, WRITTEN("v\\\"2"));
    EXPECT_EQ(e->calls->keep(e, &err), 0);
    EXPECT(was_asked_by(PUT("1000", "v1", "HOLDER", "0", "00:00:00", "00:00:05")));
    EXPECT_STR(server.token, "t2");
    will_answer(200, WRITTEN("v3"));
    e->calls->give_back(e);
    EXPECT(was_asked_by(PUT("1000", "v\\\"2", "", "0", "00:00:00", "00:00:05")));
    e->calls->free(e);
    finish();
}

#define LEASE(number, holder, transitions, renewed, life)                                          \
    "{\"metadata\":{\"resourceVersion\":\"v7\",\"annotations\":{\"trireme/lease-number\":"         \
    "\"" number "\"}},\"spec\":{\"holderIdentity\":\"" holder                                      \
    "\",\"leaseTransitions\":" transitions ",\"renewTime\":\"" renewed "\"" life "}}"

/* A Lease that nobody holds is written over, from the version that it had; hands are counted. */
TEST(kubernetes_numbers_and_transitions_rise) {
    static const struct {
        const char *lease, *put;
        uint64_t number;
    } ROWS[] = {
        {LEASE("1000", "", "4", "", ""), PUT("1001", "v7", "HOLDER", "5", "00:00:00", "00:00:00"),
         1001},
        {LEASE("3", "", "2147483646", "", ""),
         PUT("1000", "v7", "HOLDER", "2147483647", "00:00:00", "00:00:00"), 1000},
        {LEASE("3", "", "2147483647", "", ""),
         PUT("1000", "v7", "HOLDER", "0", "00:00:00", "00:00:00"), 1000},
        {LEASE("3", "", "-1", "", ""), PUT("1000", "v7", "HOLDER", "0", "00:00:00", "00:00:00"),
         1000},
        {LEASE("x", "", "\"4\"", "", ""), PUT("1000", "v7", "HOLDER", "1", "00:00:00", "00:00:00"),
         1000},
    };
    uint64_t number;
    begin();
    struct engine *e = made(&PLAIN);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        will_answer(200, ROWS[i].lease);
        will_answer(200, WRITTEN("v8"));
        EXPECT_EQ(take(e, 1000, &number), 0);
        EXPECT_EQ(number, ROWS[i].number);
        char want[2000];
        snprintf(want, sizeof want, "%s%s", GET, ROWS[i].put);
        EXPECT(was_asked_by(want));
    }
    e->calls->free(e);
    finish();
}

/* Takes while another holds it; ms: later than before. */
static int try_later(struct engine *e, int64_t ms, const char *lease) {
    uint64_t number;
    boot_ms += ms;
    server_reset();
    will_answer(200, lease);
    will_answer(200, WRITTEN("v8"));
    return take(e, 1000, &number);
}

TEST(kubernetes_waits_for_as_long_as_a_holder_lives) {
    static const struct {
        const char *lease;
        int64_t life_ms;
    } ROWS[] = {
        {LEASE("1", "other", "1", "a", ",\"leaseDurationSeconds\":3"), 3000},
        {LEASE("1", "other", "1", "b", ""), 2000}, /* says nothing of it: ours */
        {LEASE("1", "other", "1", "c", ",\"leaseDurationSeconds\":0"), 1000},
        {LEASE("1", "other", "1", "d", ",\"leaseDurationSeconds\":-7"), 1000},
        {LEASE("1", "other", "1", "e", ",\"leaseDurationSeconds\":3600"), 3600000},
        {LEASE("1", "other", "1", "f", ",\"leaseDurationSeconds\":9007199254740991"), 3600000},
    };
    begin();
    struct engine *e = made(&PLAIN);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        EXPECT_EQ(try_later(e, 100000000, ROWS[i].lease), ERR_AGAIN); /* first seen now */
        EXPECT_STR(err.text, "'other' leads");
        EXPECT_EQ(try_later(e, ROWS[i].life_ms - 1, ROWS[i].lease), ERR_AGAIN);
        EXPECT_EQ(try_later(e, 1, ROWS[i].lease), 0);
    }
    static const char ONE[] = LEASE("1", "other", "1", "x", ""),
                      TWO[] = LEASE("1", "other", "1", "y", ""),
                      THIRD[] = LEASE("1", "third", "1", "y", "");
    EXPECT_EQ(try_later(e, 0, ONE), ERR_AGAIN);
    EXPECT_EQ(try_later(e, 1999, TWO), ERR_AGAIN); /* it lives: the time begins anew */
    EXPECT_EQ(try_later(e, 1999, TWO), ERR_AGAIN);
    EXPECT_EQ(try_later(e, 0, THIRD), ERR_AGAIN); /* as it does with another holder */
    EXPECT_EQ(try_later(e, 1999, THIRD), ERR_AGAIN);
    EXPECT_EQ(try_later(e, 1, THIRD), 0);
    EXPECT_EQ(try_later(e, 0, LEASE("1", "a\\u0007b\\u007f", "1", "", "")), ERR_AGAIN);
    EXPECT_STR(err.text, "'a b ' leads");
    e->calls->free(e);
    finish();
}

TEST(kubernetes_failures_take_nothing) {
    static const struct {
        long get;
        const char *lease;
        long put;
        const char *written;
        int code;
        const char *text;
        int asked;
    } ROWS[] = {
        {503, "", 0, "", ERR_CLOSED, "it answers 503", 1},
        {0, "", 0, "", ERR_CLOSED, "it answers 0", 1},
        {403, "", 0, "", ERR_CLOSED, "it answers 403", 1},
        {200, "nonsense", 0, "", ERR_INVALID, NULL, 1},
        {200, "{}", 0, "", ERR_INVALID, "the Lease has no resourceVersion", 1},
        {404, "", 404, "", ERR_CLOSED, "it answers 404", 2}, /* there is no such namespace */
        {404, "", 409, "", ERR_AGAIN, "another process was faster", 2},
        {200, WRITTEN("v1"), 409, "", ERR_AGAIN, "another process was faster", 2},
        {200, WRITTEN("v1"), 404, "", ERR_NOT_FOUND, "there is no such Lease", 2},
        {200, WRITTEN("v1"), 500, "", ERR_CLOSED, "it answers 500", 2},
        {200, WRITTEN("v1"), 200, "{}", 0, NULL, 2},
    };
    uint64_t number;
    begin();
    struct engine *e = made(&PLAIN);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        server_reset();
        will_answer(ROWS[i].get, ROWS[i].lease);
        will_answer(ROWS[i].put, ROWS[i].written);
        int rc = take(e, 1000, &number);
        if (rc != ROWS[i].code || server.at != (size_t)ROWS[i].asked ||
            (ROWS[i].text && strcmp(err.text, ROWS[i].text)))
            check_fail(__FILE__, __LINE__, "row %zu: %d, '%s', %zu asked", i, rc, err.text,
                       server.at);
    }
    char *token = path_join(folder, "token");
    server_reset();
    unlink(token);
    EXPECT(take(e, 1000, &number) < 0);
    EXPECT(!*server.log);
    write_file("token", "t");
    mem_free(token);
    e->calls->free(e);
    finish();
}

TEST(kubernetes_answers_are_bounded) {
    enum { MOST = 256 << 10 };
    static char answer[MOST + 2];
    uint64_t number;
    begin();
    struct engine *e = made(&PLAIN);
    size_t len = strlen(strcpy(answer, LEASE("1", "other", "1", "a", "")));
    memset(answer + len, ' ', MOST - len);
    will_answer(200, answer);
    EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
    EXPECT_STR(err.text, "'other' leads");
    answer[MOST] = ' ';
    will_answer(200, answer);
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT_STR(err.text, "it is too long");
    /* A holder and a version longer than we keep are cut. */
    snprintf(
        answer, sizeof answer,
        "{\"metadata\":{\"resourceVersion\":\"%0100d\"},\"spec\":{\"holderIdentity\":\"%0300d\"}}",
        1, 2);
    will_answer(200, answer);
    EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
    EXPECT_EQ(strspn(err.text + 1, "0"), 127);
    snprintf(answer, sizeof answer, "{\"metadata\":{\"resourceVersion\":\"%0100d\"}}", 1);
    server_reset();
    will_answer(200, answer);
    will_answer(200, answer);
    EXPECT_EQ(take(e, 1, &number), 0);
    const char *version = strstr(server.log, "resourceVersion");
    EXPECT(version && strspn(version + 18, "0") == 63 && version[18 + 63] == '"');
    e->calls->free(e);
    finish();
}

#define HELD "{\"metadata\":{\"resourceVersion\":\"v9\"},\"spec\":{\"holderIdentity\":\"%s\"}}"

/* Who holds the Lease that another has written? If we do, our version is the new one. */
TEST(kubernetes_keeps_what_only_others_labels_changed) {
    uint64_t number;
    char mine[64], answer[300];
    begin();
    struct engine *e = made(&PLAIN);
    will_answer(404, "");
    will_answer(201, WRITTEN("v1"));
    EXPECT_EQ(take(e, 1000, &number), 0);
    const char *at = strstr(server.log, "holderIdentity\":\"");
    EXPECT(at && sscanf(at + 17, "%40[^\"]", mine) == 1);
    server_reset();
    snprintf(answer, sizeof answer, HELD, mine);
    will_answer(409, "");
    will_answer(200, answer);
    will_answer(200, WRITTEN("v10"));
    EXPECT_EQ(e->calls->keep(e, &err), 0);
    EXPECT(was_asked_by(PUT("1000", "v1", "HOLDER", "0", "00:00:00", "00:00:00")
                            GET PUT("1000", "v9", "HOLDER", "0", "00:00:00", "00:00:00")));
    snprintf(answer, sizeof answer, HELD, "other");
    will_answer(409, "");
    will_answer(200, answer);
    EXPECT_EQ(e->calls->keep(e, &err), ERR_NOT_FOUND);
    EXPECT_STR(err.text, "'other' holds it now");
    EXPECT(was_asked_by(PUT("1000", "v10", "HOLDER", "0", "00:00:00", "00:00:00") GET));
    will_answer(404, "");
    EXPECT_EQ(e->calls->keep(e, &err), ERR_NOT_FOUND);
    server_reset();
    will_answer(503, "");
    EXPECT_EQ(e->calls->keep(e, &err), ERR_CLOSED);
    server_reset();
    will_answer(409, "");
    will_answer(503, "");
    EXPECT_EQ(e->calls->keep(e, &err), ERR_CLOSED);
    e->calls->free(e);
    finish();
}

TEST(kubernetes_names_are_those_of_objects) {
    static const struct {
        const char *name, *object;
    } ROWS[] = {
        {"Trireme_x", "trireme-x"},
        {"a09z", "a09z"},
        {"AZ", "az"},
        {"/a//b@[`{:c/", "a-b-c"},
        {"a123456789b123456789c123456789d123456789e123456789f123456789abcd",
         "a123456789b123456789c123456789d123456789e123456789f123456789abc"},
        {"a123456789b123456789c123456789d123456789e123456789f123456789ab/x",
         "a123456789b123456789c123456789d123456789e123456789f123456789ab"},
    };
    uint64_t number;
    char want[300];
    struct engine *none;
    begin();
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct lease_config c = PLAIN;
        c.name = ROWS[i].name;
        struct engine *e = made(&c);
        EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
        snprintf(want, sizeof want, "GET " LEASES "/%s\n", ROWS[i].object);
        EXPECT_STR(server.log, want);
        server_reset();
        e->calls->free(e);
    }
    struct lease_config c = PLAIN;
    c.name = "//";
    EXPECT_EQ(kubernetes_engine_new(&none, folder, &c, &err), ERR_INVALID);
    EXPECT(!none);
    EXPECT_STR(err.text, "'//' is no name for a Lease");
    finish();
}

TEST(kubernetes_is_where_the_pod_says) {
    static const char NOWHERE[] = "no API server: KUBERNETES_SERVICE_HOST and _PORT are not set, "
                                  "as they are in a pod";
    uint64_t number;
    struct engine *e;
    begin();
    setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    struct lease_config c = PLAIN;
    c.ttl_ms = 1001;
    e = made(&c);
    will_answer(404, "");
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT(!strncmp(server.log, "GET https://[fd00::1]:443/apis/", 31));
    EXPECT(strstr(server.log, "\"leaseDurationSeconds\":2,"));
    EXPECT_EQ(server.limit_ms, 250);
    e->calls->free(e);
    c.ttl_ms = 700;
    server_reset();
    e = made(&c);
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT_EQ(server.limit_ms, 200);
    e->calls->free(e);
    unsetenv("KUBERNETES_SERVICE_PORT");
    EXPECT_EQ(kubernetes_engine_new(&e, folder, &PLAIN, &err), ERR_INVALID);
    EXPECT_STR(err.text, NOWHERE);
    setenv("KUBERNETES_SERVICE_PORT", "1", 1);
    unsetenv("KUBERNETES_SERVICE_HOST");
    EXPECT_EQ(kubernetes_engine_new(&e, folder, &PLAIN, &err), ERR_INVALID);
    EXPECT_STR(err.text, NOWHERE);
    setenv("KUBERNETES_SERVICE_HOST", "h", 1);
    EXPECT_EQ(kubernetes_engine_new(&e, "/nowhere", &PLAIN, &err), ERR_NOT_FOUND);
    EXPECT(!e);
    EXPECT_STR(kubernetes_account(""), "/var/run/secrets/kubernetes.io/serviceaccount");
    EXPECT_STR(kubernetes_account("/x"), "/x");
    finish();
}
