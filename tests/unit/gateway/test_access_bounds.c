/* What keys, hosts and heads of requests may be, at each bound and one behind it. */
#include "check.h"

#include "base/fsutil.h"
#include "gateway/access/auth.h"
#include "gateway/access/caller.h"
#include "gateway/access/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- hosts ---- */

static int hosts_of(struct hosts *h, const char *listen, const char *list) {
    struct error err = {0};
    return hosts_init(h, listen, list, &err);
}

TEST(names_of_the_loopback_are_allowed_everywhere) {
    static const struct {
        const char *host;
        bool allowed;
    } CASES[] = {
        {"localhost", true},
        {"LOCALHOST:80", true},
        {"a.localhost", true},
        {"a.LocalHost:1", true},
        {".localhost", false},
        {"alocalhost", false},
        {"127.0.0.1", true},
        {"127.255.255.255", true},
        {"126.255.255.255", false},
        {"128.0.0.0", false},
        {"127.0.0.1.a", false},
        {"[::1]", true},
        {"[::1]:8000", true},
        {"[::2]", false},
        {"[::1", false},
        {"[::1]:", true},
        {"[::1]one", false},
        {"[::1]@one", false},
        {"localhost:", true},
        {"localhost:1@one", false},
        {"localhost:a@one", false},
        {"127.0.0.1:80:80", false},
        {"", false},
        {":80", false},
        {"example", false},
        {"localhost.example", false},
    };
    struct hosts h;
    EXPECT_EQ(hosts_of(&h, "127.0.0.1", ""), 0);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        if (hosts_allow(&h, bytes_str(CASES[i].host)) != CASES[i].allowed)
            check_fail(__FILE__, __LINE__, "'%s'", CASES[i].host);
    hosts_release(&h);
}

TEST(names_of_hosts_are_those_of_the_list) {
    static const struct {
        const char *listen, *list;
        bool first, second, other;
    } CASES[] = {
        {"0.0.0.0", "", true, true, true}, /* nothing is checked */
        {"0.0.0.0", "one", true, false, false},    {"0.0.0.0", "one, two", true, true, false},
        {"0.0.0.0", "two,ONE", true, true, false}, {"127.0.0.1", "one,two", true, true, false},
        {"127.0.0.1", "*", true, true, true},      {"127.0.0.1", "*,one", true, true, true},
        {"127.0.0.1", "one,*", true, true, true},  {"localhost", "", false, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct hosts h;
        EXPECT_EQ(hosts_of(&h, CASES[i].listen, CASES[i].list), 0);
        if (hosts_allow(&h, bytes_str("one:1")) != CASES[i].first ||
            hosts_allow(&h, bytes_str("Two")) != CASES[i].second ||
            hosts_allow(&h, bytes_str("three")) != CASES[i].other)
            check_fail(__FILE__, __LINE__, "'%s' of '%s'", CASES[i].list, CASES[i].listen);
        hosts_release(&h);
    }
}

TEST(lists_of_hosts_have_a_bound_and_no_marks) {
    struct hosts h;
    struct buf list = {0};
    for (int i = 0; i < HOSTS_MAX; i++)
        buf_addf(&list, "%sh%d", i ? "," : "", i);
    EXPECT_EQ(hosts_of(&h, "0.0.0.0", buf_text(&list)), 0);
    EXPECT(hosts_allow(&h, bytes_str("h0")) && hosts_allow(&h, bytes_str("h255")));
    hosts_release(&h);
    buf_add_str(&list, ",more");
    EXPECT_EQ(hosts_of(&h, "0.0.0.0", buf_text(&list)), ERR_LIMIT);
    buf_release(&list);
    for (int byte = 1; byte < 256; byte++) {
        char name[4] = {'a', (char)byte, 'b'};
        bool refused = byte <= ' ' || byte >= 127 || strchr("/@?#\"'<>", byte);
        if (byte == ',')
            continue;
        EXPECT_EQ(hosts_of(&h, "0.0.0.0", name), refused ? ERR_INVALID : 0);
        hosts_release(&h);
    }
}

/* ---- keys ---- */

/* Of a file with this text. */
static int auth_of(struct auth *a, const char *text) {
    char path[] = "/tmp/trireme-keys-XXXXXX";
    struct error err;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(file_write_atomic(path, text, strlen(text), 0600, &err) == 0);
    int rc = auth_init(a, NULL, path, &err);
    unlink(path);
    return rc;
}

TEST(terms_of_keys_have_bounds) {
    char name[AUTH_NAME_MAX + 8] = "", longer[AUTH_NAME_MAX + 8] = "";
    memset(name, 'n', AUTH_NAME_MAX);
    memset(longer, 'n', AUTH_NAME_MAX + 1);
    const struct {
        const char *word, *value;
        bool taken;
    } CASES[] = {
        {"priority-min", "-1000000", true},
        {"priority-min", "1000000", true},
        {"priority-min", "-1000001", false},
        {"priority-min", "1000001", false},
        {"priority-min", "1x", false},
        {"requests", "0", true},
        {"requests", "1000000", true},
        {"requests", "1000001", false},
        {"requests", "+1", false},
        {"tokens-per-minute", "0", true},
        {"tokens-per-minute", "1000000000", true},
        {"tokens-per-minute", "1000000001", false},
        {"weight", "1", true},
        {"weight", "0", false},
        {"name", name, true},
        {"name", longer, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char text[128];
        struct auth a;
        snprintf(text, sizeof text, "key %s=%s\n", CASES[i].word, CASES[i].value);
        int rc = auth_of(&a, text);
        if ((rc == 0) != CASES[i].taken)
            check_fail(__FILE__, __LINE__, "'%s': %d", text, rc);
        if (!rc)
            auth_release(&a);
    }
}

/* A bound of one key alone is its own: the others stay as all have them. */
TEST(keys_have_the_bounds_of_all_where_they_say_none) {
    struct auth a;
    struct u128 tenant;
    const struct bytes none = {0};
    EXPECT_EQ(auth_of(&a, "one requests=0\ntwo tokens-per-minute=5\nthree weight=9\n"), 0);
    a.limits = (struct auth_limits){.requests = 7, .minute_tokens = 100};
    static const struct {
        const char *bearer;
        uint32_t requests, minute_tokens, weight;
    } CASES[] = {{"Bearer one", 0, 100, 0}, {"Bearer two", 7, 5, 0}, {"Bearer three", 7, 100, 9}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        EXPECT(auth_check(&a, bytes_str(CASES[i].bearer), none, &tenant));
        struct auth_limits limits = auth_limits(&a, tenant);
        EXPECT_EQ(limits.requests, CASES[i].requests);
        EXPECT_EQ(limits.minute_tokens, CASES[i].minute_tokens);
        EXPECT_EQ(limits.weight, CASES[i].weight);
    }
    auth_release(&a);
}

TEST(keys_have_a_length_and_a_number) {
    struct auth a;
    struct u128 tenant;
    const struct bytes none = {0};
    char header[AUTH_KEY_BYTES_MAX + 16] = "Bearer ", *key = header + 7;
    memset(key, 'k', AUTH_KEY_BYTES_MAX);
    EXPECT_EQ(auth_of(&a, key), 0);
    EXPECT(auth_check(&a, bytes_str(header), none, &tenant));
    EXPECT(auth_check(&a, none, bytes_str(key), &tenant));
    auth_release(&a);
    key[AUTH_KEY_BYTES_MAX] = 'k';
    EXPECT_EQ(auth_of(&a, key), ERR_LIMIT);
    EXPECT_EQ(auth_of(&a, "k"), 0);
    EXPECT(!auth_check(&a, none, bytes_str(key), &tenant));
    EXPECT(auth_check(&a, bytes_str("Bearer k"), none, &tenant)); /* the shortest */
    auth_release(&a);
    struct buf list = {0};
    for (int i = 0; i < AUTH_KEYS_MAX; i++)
        buf_addf(&list, "key-%d\n", i);
    EXPECT_EQ(auth_of(&a, buf_text(&list)), 0);
    EXPECT(auth_check(&a, bytes_str("Bearer key-0"), none, &tenant));
    EXPECT(auth_check(&a, bytes_str("Bearer key-1023"), none, &tenant));
    auth_release(&a);
    buf_add_str(&list, "one-more\n");
    EXPECT_EQ(auth_of(&a, buf_text(&list)), ERR_LIMIT);
    buf_release(&list);
}

/* ---- heads of requests ---- */

/* Pages send what they like without asking, but for JSON; who is no page may say anything. */
TEST(pages_say_that_they_send_json) {
    static const struct {
        const char *header, *type;
        int status;
    } CASES[] = {
        {"Origin", "application/json", 0},
        {"Origin", "APPLICATION/Json", 0},
        {"Origin", "application/json; charset=utf-8", 0},
        {"Origin", "application/json ;charset=utf-8", 0},
        {"Origin", "application/json\t", 0},
        {"Sec-Fetch-Site", "application/json", 0},
        {"Origin", "application/jsonp", 415},
        {"Origin", "application/jso", 415},
        {"Origin", "text/plain", 415},
        {"Origin", "", 415},
        {"Sec-Fetch-Site", "text/plain", 415},
        {"X-Nothing", "text/plain", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct http_header headers[] = {{bytes_str(CASES[i].header), bytes_str("http://localhost")},
                                        {bytes_str("Content-Type"), bytes_str(CASES[i].type)}};
        struct http_request req = {.headers = headers, .header_count = 2};
        struct api_error err = {0};
        int rc = caller_check_media_type(&req, &err);
        if (err.status != CASES[i].status || (rc != 0) != (err.status != 0))
            check_fail(__FILE__, __LINE__, "%s, '%s': %d %s", CASES[i].header, CASES[i].type,
                       err.status, err.text);
    }
}

TEST(bodies_are_sent_as_they_are) {
    static const struct {
        const char *coding;
        int status;
    } CASES[] = {{"", 0}, {"identity", 0}, {"Identity", 0}, {"gzip", 415}, {"identity, gzip", 415}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct http_header header = {bytes_str("Content-Encoding"), bytes_str(CASES[i].coding)};
        struct http_request req = {.headers = &header, .header_count = 1};
        struct api_error err = {0};
        EXPECT_EQ(caller_check_coding(&req, &err), CASES[i].status ? -1 : 0);
        EXPECT_EQ(err.status, CASES[i].status);
    }
}
