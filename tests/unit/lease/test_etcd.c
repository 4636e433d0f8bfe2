/*
 * Leases of etcd: what it is asked, word for word, and what is made of each answer. A real etcd's are tested end to
 * end (tests/e2e/test_standby.py).
 */
#include "asked.h"
#include "base/fsutil.h"
#include "lease/engine.h"

#include <stdlib.h>
#include <unistd.h>

static struct error err;
static const struct lease_config PLAIN = {.engine = "", .name = "n", .holder = "h", .ttl_ms = 2000};

static struct engine *made(const char *urls, const struct lease_config *config) {
    struct engine *e;
    server_reset();
    CHECK(etcd_engine_new(&e, urls, config, &err) == 0);
    return e;
}

static void end(struct engine *e) {
    e->calls->free(e);
    CHECK(!server.clients);
}

static int take(struct engine *e, uint64_t least, uint64_t *number) {
    *number = 0;
    return e->calls->take(e, least, number, &err);
}

#define NONE "{\"header\":{\"revision\":\"9\"}}"
/* Of base64's "n", "n/number". */
#define ASK_KEY    "POST http://a/v3/kv/range\n{\"key\":\"bg==\"}\n"
#define ASK_NUMBER "POST http://a/v3/kv/range\n{\"key\":\"bi9udW1iZXI=\"}\n"
#define ASK_GRANT  "POST http://a/v3/lease/grant\n{\"TTL\":\"2\"}\n"
#define ASK_REVOKE "POST http://a/v3/lease/revoke\n{\"ID\":\"77\"}\n"
#define ASK_KEEP   "POST http://a/v3/lease/keepalive\n{\"ID\":\"77\"}\n"
#define ASK_PUT(revision, value, number)                                                           \
    "POST http://a/v3/kv/txn\n"                                                                    \
    "{\"compare\":[{\"key\":\"bg==\",\"target\":\"CREATE\",\"create_revision\":\"0\"},"            \
    "{\"key\":\"bi9udW1iZXI=\",\"target\":\"MOD\",\"mod_revision\":\"" revision "\"}],"            \
    "\"success\":[{\"request_put\":{\"key\":\"bg==\",\"value\":\"" value "\",\"lease\":\"77\"}},"  \
    "{\"request_put\":{\"key\":\"bi9udW1iZXI=\",\"value\":\"" number "\"}}]}\n"
#define GRANTED "{\"ID\":\"77\",\"TTL\":\"2\"}"
#define DONE    "{\"succeeded\":true}"

/* For a take that succeeds. */
static void will_grant(const char *stored_number) {
    will_answer(200, NONE);
    will_answer(200, stored_number);
    will_answer(200, GRANTED);
    will_answer(200, DONE);
}

TEST(etcd_grants_what_nobody_has) {
    uint64_t number;
    struct engine *e = made("http://a", &PLAIN);
    EXPECT_STR(server.origin, "http://a");
    EXPECT(!*server.trust && !strcmp(server.identity, "- -") && server.patience_s == 2);
    EXPECT(!e->calls->lasts);
    will_grant(NONE);
    EXPECT_EQ(take(e, 1000, &number), 0);
    EXPECT_EQ(number, 1000);
    EXPECT(was_asked(ASK_KEY ASK_NUMBER ASK_GRANT ASK_PUT("0", "aCAxMDAw", "MTAwMA==")));
    EXPECT_EQ(server.limit_ms, 500);
    will_answer(200, NONE);
    e->calls->give_back(e);
    EXPECT(was_asked(ASK_REVOKE));
    e->calls->give_back(e); /* there is nothing to give back any more */
    EXPECT(was_asked(""));
    end(e);
}

TEST(etcds_numbers_rise) {
    uint64_t number;
    struct engine *e = made("http://a", &PLAIN);
    will_grant("{\"kvs\":[{\"value\":\"MTAwMA==\",\"mod_revision\":\"17\"}]}");
    EXPECT_EQ(take(e, 5, &number), 0);
    EXPECT_EQ(number, 1001);
    EXPECT(was_asked(ASK_KEY ASK_NUMBER ASK_GRANT ASK_PUT("17", "aCAxMDAx", "MTAwMQ==")));
    end(e);
}

TEST(etcds_keys_are_in_base64) {
    static const struct {
        const char *name, *key;
    } ROWS[] = {{"abc", "YWJj"}, {"ab", "YWI="}, {"a", "YQ=="}, {"~~~???", "fn5+Pz8/"}};
    uint64_t number;
    char want[200];
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct lease_config c = PLAIN;
        c.name = ROWS[i].name;
        struct engine *e = made("http://a", &c);
        will_answer(200, "{\"kvs\":[{\"value\":\"\"}]}");
        EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
        snprintf(want, sizeof want, "POST http://a/v3/kv/range\n{\"key\":\"%s\"}\n", ROWS[i].key);
        EXPECT(was_asked(want));
        end(e);
    }
}

/* A key that is there: who leads, as a person may read it. */
TEST(etcd_says_who_leads) {
    static const struct {
        const char *value, *text;
    } ROWS[] = {
        {"b3RoZXIgNQ==", "'other 5' leads"},
        {"fn5+Pz8/", "'~~~?\?\?' leads"},
        {"eHkHen8gMw==", "'xy z  3' leads"}, /* a bell and a delete */
        {"YW*Jj", "'a' leads"},
        {"", "'' leads"},
    };
    uint64_t number;
    char answer[600];
    struct engine *e = made("http://a", &PLAIN);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        snprintf(answer, sizeof answer, "{\"kvs\":[{\"value\":\"%s\"}]}", ROWS[i].value);
        will_answer(200, answer);
        EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
        EXPECT_STR(err.text, ROWS[i].text);
        EXPECT(was_asked(ASK_KEY));
    }
    /* 200 times 'a' is cut */
    size_t len = (size_t)snprintf(answer, sizeof answer, "{\"kvs\":[{\"value\":\"");
    for (int i = 0; i < 67; i++)
        len += (size_t)snprintf(answer + len, sizeof answer - len, "YWFh");
    snprintf(answer + len, sizeof answer - len, "\"}]}");
    will_answer(200, answer);
    EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
    EXPECT_EQ(strspn(err.text + 1, "a"), 127);
    end(e);
}

/* The n-th answer is what stands there; what was granted by then is given back. */
TEST(etcd_failures_take_nothing) {
    static const struct {
        int at;
        long status;
        const char *body;
        int code;
        const char *text;
        bool is_granted;
    } ROWS[] = {
        {0, 0, "", ERR_CLOSED, "it answers 0", false},
        {0, 400, "", ERR_CLOSED, "it answers 400: does it ask for a user? (--lease-user)", false},
        {0, 200, "nonsense", ERR_INVALID, NULL, false},
        {1, 503, "", ERR_CLOSED, "it answers 503", false},
        {1, 200, "{\"kvs\":[{\"value\":\"MQ==\"}]}", ERR_INVALID, "etcd's answer has no revision",
         false},
        {1, 200, "{\"kvs\":[{\"value\":\"MQ==\",\"mod_revision\":17}]}", ERR_INVALID,
         "etcd's answer has no revision", false},
        {2, 500, "", ERR_CLOSED, "it answers 500", false},
        {2, 200, "{}", ERR_INVALID, "etcd grants no lease", false},
        {2, 200, "{\"ID\":\"\"}", ERR_INVALID, "etcd grants no lease", false},
        {2, 200, "{\"ID\":\"7x\"}", ERR_INVALID, "etcd grants no lease", false},
        {2, 200, "{\"ID\":\"/7\"}", ERR_INVALID, "etcd grants no lease", false},
        {2, 200, "{\"ID\":\":7\"}", ERR_INVALID, "etcd grants no lease", false},
        {2, 200, "{\"ID\":\"12345678901234567890123456789012\"}", ERR_INVALID,
         "etcd grants no lease", false},
        {3, 500, "", ERR_CLOSED, "it answers 500", true},
        {3, 200, "{\"succeeded\":false}", ERR_AGAIN, "another process was faster", true},
        {3, 200, "{}", ERR_AGAIN, "another process was faster", true},
    };
    static const char *const GOOD[] = {NONE, NONE, GRANTED, DONE};
    static const char *const ASKED[] = {ASK_KEY, ASK_NUMBER, ASK_GRANT,
                                        ASK_PUT("0", "aCAxMDAw", "MTAwMA==")};
    uint64_t number;
    struct buf want = {0};
    struct engine *e = made("http://a", &PLAIN);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        buf_reset(&want);
        for (int j = 0; j <= ROWS[i].at; j++) {
            will_answer(j < ROWS[i].at ? 200 : ROWS[i].status,
                        j < ROWS[i].at ? GOOD[j] : ROWS[i].body);
            buf_add_str(&want, ASKED[j]);
        }
        if (ROWS[i].is_granted) {
            will_answer(200, NONE);
            buf_add_str(&want, ASK_REVOKE);
        }
        int rc = take(e, 1000, &number);
        if (rc != ROWS[i].code || (ROWS[i].text && strcmp(err.text, ROWS[i].text)))
            check_fail(__FILE__, __LINE__, "row %zu: %d, '%s'", i, rc, err.text);
        EXPECT(was_asked(buf_text(&want)));
    }
    buf_release(&want);
    end(e);
}

/* 31 digits are a number of 64 bits more than once over, and fit. */
TEST(etcds_names_of_leases_are_kept_whole) {
    uint64_t number;
    struct engine *e = made("http://a", &PLAIN);
    will_answer(200, NONE);
    will_answer(200, NONE);
    will_answer(200, "{\"ID\":\"1234567890123456789012345678909\"}");
    will_answer(500, "");
    will_answer(200, NONE);
    EXPECT_EQ(take(e, 1000, &number), ERR_CLOSED);
    EXPECT(strstr(server.log, "/revoke\n{\"ID\":\"1234567890123456789012345678909\"}\n"));
    end(e);
}

TEST(etcds_answers_are_bounded) {
    uint64_t number;
    char *long_one = mem_alloc((64 << 10) + 2);
    memset(long_one, ' ', (64 << 10) + 1);
    long_one[0] = '{';
    long_one[(64 << 10) - 1] = '}';
    long_one[64 << 10] = 0;
    struct engine *e = made("http://a", &PLAIN);
    will_answer(200, long_one); /* just fits, and says that nobody leads */
    will_answer(503, "");
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT(was_asked(ASK_KEY ASK_NUMBER));
    long_one[64 << 10] = ' ';
    long_one[(64 << 10) + 1] = 0;
    will_answer(200, long_one);
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT_STR(err.text, "it is too long");
    EXPECT(was_asked(ASK_KEY));
    end(e);
    mem_free(long_one);
}

static struct engine *granted(const struct lease_config *config) {
    uint64_t number;
    struct engine *e = made("http://a", config);
    will_grant(NONE);
    CHECK(take(e, 1000, &number) == 0);
    server_reset();
    return e;
}

TEST(etcd_keeps_while_the_key_is_ours) {
    static const char OURS[] = "{\"kvs\":[{\"lease\":\"77\"}]}";
    static const struct {
        long key_status;
        const char *key;
        long status;
        const char *body; /* NULL: the second is not asked */
        int code;
        const char *text;
    } ROWS[] = {
        {200, OURS, 200, "{\"result\":{\"ID\":\"77\",\"TTL\":\"2\"}}", 0, NULL},
        {200, NONE, 0, NULL, ERR_NOT_FOUND, "another process has removed or written its key"},
        {200, "{\"kvs\":[{\"lease\":\"78\"}]}", 0, NULL, ERR_NOT_FOUND,
         "another process has removed or written its key"},
        {200, "{\"kvs\":[{\"lease\":\"777\"}]}", 0, NULL, ERR_NOT_FOUND,
         "another process has removed or written its key"},
        {503, "", 0, NULL, ERR_CLOSED, "it answers 503"},
        {200, OURS, 503, "", ERR_CLOSED, "it answers 503"},
        {200, OURS, 200, "{\"result\":{\"ID\":\"77\"}}", ERR_NOT_FOUND,
         "etcd does not know it any more"},
        {200, OURS, 200, "{\"result\":{\"ID\":\"77\",\"TTL\":\"0\"}}", ERR_NOT_FOUND,
         "etcd does not know it any more"},
        {200, OURS, 200, "{}", ERR_NOT_FOUND, "etcd does not know it any more"},
    };
    struct engine *e = granted(&PLAIN);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        will_answer(ROWS[i].key_status, ROWS[i].key);
        if (ROWS[i].body)
            will_answer(ROWS[i].status, ROWS[i].body);
        int rc = e->calls->keep(e, &err);
        if (rc != ROWS[i].code || (ROWS[i].text && strcmp(err.text, ROWS[i].text)))
            check_fail(__FILE__, __LINE__, "row %zu: %d, '%s'", i, rc, err.text);
        EXPECT(was_asked(ROWS[i].body ? ASK_KEY ASK_KEEP : ASK_KEY));
    }
    end(e);
}

#define FROM(host) "POST http://" host "/v3/kv/range\n{\"key\":\"bg==\"}\n"

TEST(etcds_addresses_are_asked_in_turn) {
    static const char HELD[] = "{\"kvs\":[{\"value\":\"\"}]}";
    uint64_t number;
    struct engine *e = made(",http://a//,,http://b/,http://c", &PLAIN);
    EXPECT_STR(server.origin, "http://a");
    will_answer(0, "");
    will_answer(200, HELD);
    EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
    EXPECT(was_asked(FROM("a") FROM("b")));
    EXPECT_EQ(server.limit_ms, 200); /* a twelfth is less */
    will_answer(200, HELD);          /* the one that answered is asked again */
    EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
    EXPECT(was_asked(FROM("b")));
    will_answer(503, "");
    will_answer(0, "");
    will_answer(500, "");
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT(was_asked(FROM("b") FROM("c") FROM("a")));
    end(e);
}

/* Each has its share of a quarter of the time to live; sixteen are asked at most. */
TEST(etcds_addresses_share_the_time) {
    static const struct {
        int urls, asked;
        int64_t ttl_ms, limit_ms;
        const char *grant;
    } ROWS[] = {{1, 1, 1000, 250, "{\"TTL\":\"1\"}"},
                {1, 1, 1001, 250, "{\"TTL\":\"2\"}"},
                {1, 1, 60000, 15000, "{\"TTL\":\"60\"}"},
                {3, 3, 6000, 500, "{\"TTL\":\"6\"}"},
                {17, 16, 64000, 1000, "{\"TTL\":\"64\"}"}};
    uint64_t number;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct buf urls = {0};
        for (int j = 0; j < ROWS[i].urls; j++)
            buf_add_str(&urls, j ? ",http://a" : "http://a");
        struct lease_config c = PLAIN;
        c.ttl_ms = ROWS[i].ttl_ms;
        struct engine *e = made(buf_text(&urls), &c);
        buf_release(&urls);
        EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
        EXPECT_EQ(server.at, ROWS[i].asked);
        EXPECT_EQ(server.limit_ms, ROWS[i].limit_ms);
        server_reset();
        will_answer(200, NONE);
        will_answer(200, NONE);
        EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
        EXPECT(strstr(server.log, ROWS[i].grant));
        end(e);
    }
}

/* --- users and certificates --- */

static char *file_with(const char *text) {
    char *path = mem_strdup("/tmp/trm-test-XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void remove_file(char *path) {
    unlink(path);
    mem_free(path);
}

#define ASK_LOGIN                                                                                  \
    "POST http://a/v3/auth/authenticate\n{\"name\":\"me \\\"2\\\"\",\"password\":\"p\\\\w\"}\n"
#define ASK_AS(token) "POST http://a/v3/kv/range " token "\n{\"key\":\"bg==\"}\n"

TEST(etcds_user_logs_in_and_again_when_refused) {
    static const char HELD[] = "{\"kvs\":[{\"value\":\"\"}]}";
    uint64_t number;
    char *path = file_with("p\\w\r\nmore");
    struct lease_config c = PLAIN;
    c.user = "me \"2\"";
    c.password_file = path;
    struct engine *e = made("http://a", &c);
    will_answer(200, "{\"token\":\"t1\"}");
    will_answer(200, HELD);
    EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
    EXPECT(was_asked(ASK_LOGIN ASK_AS("t1")));
    will_answer(200, HELD); /* one login serves */
    EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
    EXPECT(was_asked(ASK_AS("t1")));
    will_answer(401, "");
    will_answer(200, "{\"token\":\"t2\"}");
    will_answer(200, HELD);
    EXPECT_EQ(take(e, 1, &number), ERR_AGAIN);
    EXPECT(was_asked(ASK_AS("t1") ASK_LOGIN ASK_AS("t2")));
    will_answer(503, ""); /* nothing is wrong with the token */
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT(was_asked(ASK_AS("t2")));
    will_answer(400, ""); /* nor is a user missing */
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT_STR(err.text, "it answers 400");
    EXPECT(was_asked(ASK_AS("t2")));
    will_answer(401, "");
    will_answer(403, "");
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT_STR(err.text, "cannot log in to etcd: it answers 403");
    EXPECT(was_asked(ASK_AS("t2") ASK_LOGIN));
    will_answer(200, "{\"token\":\"t3\"}");
    will_answer(401, ""); /* a token just given: it is no use to ask for another */
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT(was_asked(ASK_LOGIN ASK_AS("t3")));
    end(e);
    remove_file(path);
}

TEST(etcds_tokens_are_words) {
    uint64_t number;
    char *path = file_with("p\\w"), answer[5000], token[4097];
    struct lease_config c = PLAIN;
    c.user = "me \"2\"";
    c.password_file = path;
    struct engine *e = made("http://a", &c);
    static const char *const BAD[] = {"{}",
                                      "{\"token\":\"\"}",
                                      "{\"token\":\"a b\"}",
                                      "{\"token\":\"a\\r\\nX: y\"}",
                                      "{\"token\":\"a\\u007f\"}",
                                      "{\"token\":\" a\"}",
                                      "{\"token\":\"\\u007fa\"}"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        will_answer(200, BAD[i]);
        EXPECT_EQ(take(e, 1, &number), ERR_INVALID);
        EXPECT_STR(err.text, "etcd's login has no token");
        EXPECT(was_asked(ASK_LOGIN));
    }
    memset(token, 't', 4096);
    token[4096] = 0;
    snprintf(answer, sizeof answer, "{\"token\":\"%s\"}", token);
    will_answer(200, answer);
    EXPECT_EQ(take(e, 1, &number), ERR_INVALID);
    EXPECT(was_asked(ASK_LOGIN));
    token[4095] = 0; /* the longest that fits */
    snprintf(answer, sizeof answer, "{\"token\":\"%s\"}", token);
    will_answer(200, answer);
    EXPECT_EQ(take(e, 1, &number), ERR_CLOSED);
    EXPECT(strstr(server.log, token));
    end(e);
    remove_file(path);
}

TEST(etcds_certificates_are_handed_on) {
    char *one = file_with("1"), *two = file_with("2"), *three = file_with("3"), want[200];
    struct engine *out = NULL;
    struct lease_config c = PLAIN;
    c.authority = one;
    c.certificate = two;
    c.key = three;
    struct engine *e = made("https://a", &c);
    EXPECT_STR(server.trust, one);
    snprintf(want, sizeof want, "%s %s", two, three);
    EXPECT_STR(server.identity, want);
    end(e);
    for (int i = 0; i < 3; i++) {
        c.authority = i == 0 ? "/nowhere" : one;
        c.certificate = i == 1 ? "/nowhere" : two;
        c.key = i == 2 ? "/nowhere" : three;
        EXPECT_EQ(etcd_engine_new(&out, "https://a", &c, &err), ERR_NOT_FOUND);
        EXPECT_STR(err.text, "there is no file '/nowhere'");
        EXPECT(!out && !server.clients);
    }
    c = PLAIN;
    c.password_file = one;
    EXPECT_EQ(etcd_engine_new(&out, "https://a", &c, &err), ERR_INVALID);
    EXPECT_STR(err.text, "a password of etcd needs a user's name");
    remove_file(one);
    remove_file(two);
    remove_file(three);
}
