/* The cache of models, files on their way into it, and what hosts may not make us believe. */
#include "base/fsutil.h"
#include "check.h"
#include "formats/hub/cache.h"
#include "formats/hub/digest.h"
#include "formats/hub/http.h"
#include "formats/hub/hub.h"
#include "formats/hub/unfinished.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct error err;
static struct buf text;

#define OID "0123456789012345678901234567890123456789"
#define SHA "0123456789012345678901234567890123456789012345678901234567890123"

/* In place of libc's: a disk that takes at most so many bytes at a time; 0: any number. */
static size_t bytes_at_a_time;

ssize_t pwrite(int fd, const void *data, size_t len, off_t at) {
    if (bytes_at_a_time)
        len = MIN(len, bytes_at_a_time);
    return syscall(SYS_pwrite64, fd, data, len, at);
}

/* ---- the cache ---- */

static char *new_folder(void) {
    char *dir = mem_strdup("/tmp/trm-hub-XXXXXX");
    CHECK(mkdtemp(dir));
    return dir;
}

static void remove_folder(char *dir) {
    struct buf command;
    buf_init(&command, 0);
    buf_addf(&command, "rm -rf '%s'", dir);
    CHECK(system(buf_text(&command)) == 0);
    buf_release(&command);
    mem_free(dir);
}

#define COMMIT "abcdefabcdefabcdefabcdefabcdefabcdefabcd"

TEST(hub_cache_paths_links_and_refs) {
    char *dir = new_folder(), commit[HUB_COMMIT_MAX];
    char *lock = hub_cache_lock("/c", "Org/Na-me", SHA), *blob = hub_cache_blob(dir, "o/n", OID);
    EXPECT_STR(lock, "/c/.locks/models--Org--Na-me/" SHA ".lock");
    EXPECT_EQ(hub_cache_commit(dir, "o/n", "main", commit, &err), ERR_NOT_FOUND);
    EXPECT_EQ(hub_cache_set_ref(dir, "o/n", "refs/pr/1", COMMIT, &err), 0);
    EXPECT_EQ(hub_cache_commit(dir, "o/n", "refs/pr/1", commit, &err), 0);
    EXPECT_STR(commit, COMMIT);
    EXPECT_EQ(hub_cache_link(dir, "o/n", COMMIT, "a/b/c.json", OID, &err), 0);
    EXPECT_EQ(hub_cache_link(dir, "o/n", COMMIT, "a/b/c.json", OID, &err), 0);
    char *snapshot = hub_cache_snapshot(dir, "o/n", COMMIT);
    char *file = path_join(snapshot, "a/b/c.json"), target[200] = {0};
    EXPECT(readlink(file, target, sizeof target - 1) > 0);
    EXPECT_STR(target, "../../../../blobs/" OID);
    EXPECT(!file_exists(file));
    mem_free(lock);
    mem_free(blob);
    mem_free(snapshot);
    mem_free(file);
    remove_folder(dir);
}

TEST(hub_unfinished_files_go_on_where_they_were) {
    char *dir = new_folder(), *path = path_join(dir, "blob");
    struct unfinished u;
    uint8_t data[3000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    setenv("TRIREME_HUB_RANGE_BYTES", "1000", 1);
    EXPECT_EQ(unfinished_open(&u, path, 2500, &err), 0);
    EXPECT(u.range_count == 3 && unfinished_range_len(&u, 2) == 500 && !u.found);
    EXPECT_EQ(unfinished_add(&u, 1, data + 1000, 1000, &err), 0);
    EXPECT_EQ(unfinished_add(&u, 2, data + 2000, 500, &err), 0);
    unfinished_close(&u);
    setenv("TRIREME_HUB_RANGE_BYTES", "700", 1); /* the record counts */
    EXPECT_EQ(unfinished_open(&u, path, 2500, &err), 0);
    EXPECT(u.range_count == 3 && u.found == 1500 && !u.done[0] && u.done[1] == 1000);
    EXPECT_EQ(unfinished_add(&u, 0, data, 1000, &err), 0);
    EXPECT_EQ(unfinished_finish(&u, path, &err), 0);
    unfinished_close(&u);
    buf_reset(&text);
    EXPECT_EQ(file_read(path, 1 << 20, &text, &err), 0);
    EXPECT(text.len == 2500 && !memcmp(text.data, data, 2500));
    EXPECT_EQ(unfinished_open(&u, path, 2400, &err), 0); /* another size: begun anew */
    EXPECT(u.range_count == 4 && !u.found);
    unfinished_close(&u);
    EXPECT_EQ(unfinished_open(&u, path, 0, &err), 0);
    EXPECT(u.range_count == 0 && unfinished_bytes(&u) == 0);
    unfinished_close(&u);
    unsetenv("TRIREME_HUB_RANGE_BYTES");
    mem_free(path);
    remove_folder(dir);
}

TEST(hub_unfinished_files_are_whole_whatever_a_write_takes) {
    char *dir = new_folder(), *path = path_join(dir, "blob");
    struct unfinished u;
    uint8_t data[2500];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    bytes_at_a_time = 37; /* no divisor of a range */
    EXPECT_EQ(unfinished_open(&u, path, sizeof data, &err), 0);
    EXPECT_EQ(unfinished_add(&u, 0, data, 1000, &err), 0);
    EXPECT_EQ(unfinished_add(&u, 0, data + 1000, 1500, &err), 0);
    EXPECT_EQ(unfinished_finish(&u, path, &err), 0);
    unfinished_close(&u);
    bytes_at_a_time = 0;
    buf_reset(&text);
    EXPECT_EQ(file_read(path, 1 << 20, &text, &err), 0);
    EXPECT(text.len == sizeof data && !memcmp(text.data, data, sizeof data));
    mem_free(path);
    remove_folder(dir);
}

/* Bytes of a range, without and with a wish of the environment's; the files have no content. */
TEST(hub_ranges_are_neither_too_many_nor_too_small) {
    enum { MIB = 1 << 20 };
    static const struct row {
        uint64_t size;
        const char *wish;
        uint64_t range_bytes;
        uint32_t count;
    } ROWS[] = {
        {100, NULL, 100, 1},
        {(uint64_t)8 * MIB, NULL, (uint64_t)8 * MIB, 1},
        {(uint64_t)8 * MIB + 1, NULL, (uint64_t)8 * MIB, 2},
        {(uint64_t)64 * 9 * MIB, NULL, (uint64_t)9 * MIB, 64},
        {(uint64_t)64 * 9 * MIB + 64, NULL, (uint64_t)9 * MIB + 1, 64},
        {(uint64_t)64 * 127 * MIB, NULL, (uint64_t)127 * MIB, 64},
        {(uint64_t)64 * 129 * MIB, NULL, (uint64_t)128 * MIB, 65},
        {MIB, "2", 2, MIB / 2},
        {MIB, "1", MIB, 1}, /* a million ranges: not as asked */
        {MIB - 1, "1", 1, MIB - 1},
        {MIB, "0", MIB, 1},
    };
    char *dir = new_folder(), *path = path_join(dir, "blob"), unfinished[200];
    struct unfinished u;
    snprintf(unfinished, sizeof unfinished, "%s%s", path, UNFINISHED_SUFFIX);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (ROWS[i].wish)
            setenv("TRIREME_HUB_RANGE_BYTES", ROWS[i].wish, 1);
        EXPECT_EQ(unfinished_open(&u, path, ROWS[i].size, &err), 0);
        if (u.range_bytes != ROWS[i].range_bytes || u.range_count != ROWS[i].count || u.found)
            check_fail(__FILE__, __LINE__, "row %zu: %u ranges of %llu", i, u.range_count,
                       (unsigned long long)u.range_bytes);
        unfinished_close(&u);
        EXPECT_EQ(unlink(unfinished), 0);
        unsetenv("TRIREME_HUB_RANGE_BYTES");
    }
    mem_free(path);
    remove_folder(dir);
}

TEST(hub_digests_are_those_of_git_and_sha256sum) {
    char *dir = new_folder(), *path = path_join(dir, "f"), hash[HUB_HASH_MAX];
    EXPECT_EQ(file_write_atomic(path, "hello\n", 6, 0644, &err), 0);
    int fd = open(path, O_RDONLY);
    int rc = hub_digest_file(HUB_GIT_SHA1, fd, 6, hash, &err);
    if (rc == ERR_UNSUPPORTED)
        SKIP("hub", "this build has no OpenSSL");
    EXPECT_STR(hash, "ce013625030ba8dba906f756967f9e9ca394464a"); /* git hash-object */
    EXPECT_EQ(hub_digest_file(HUB_SHA256, fd, 6, hash, &err), 0);
    EXPECT_STR(hash, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    EXPECT_EQ(hub_digest_file(HUB_SHA256, fd, 7, hash, &err), ERR_IO);
    close(fd);
    mem_free(path);
    remove_folder(dir);
}

/* ---- what comes over the network ---- */

TEST(hub_urls_and_origins) {
    buf_reset(&text);
    hub_url_add("refs/pr 1#?%&", false, &text);
    EXPECT_STR(buf_text(&text), "refs%2Fpr%201%23%3F%25%26");
    EXPECT(hub_url_same_origin("https://a.co/x", "https://a.co/y"));
    EXPECT(!hub_url_same_origin("https://a.co/", "http://a.co/") &&
           !hub_url_same_origin("https://a.co/", "https://a.co.evil/") &&
           !hub_url_same_origin("https://a.co/", "https://a.co@evil/"));
}

/* Headers of one answer each, and what is read from them. */
static const struct heads {
    const char *lines, *before; /* `before`: lines of an answer that announces it, or NULL */
    int64_t first, total, retry_after_s;
    const char *code, *next;
} HEADS[] = {
    {"Content-Range: bytes 0-4/5\r\n", NULL, 0, 5, -1, "", ""},
    {"content-range:bytes 90-94/95\r\n", NULL, 90, 95, -1, "", ""},
    {"Content-Range: Bytes 7-11/000012\r\n", NULL, 7, 12, -1, "", ""},
    {"Content-Range: bytes 4999999995-4999999999/5000000000\r\n", NULL, 4999999995, 5000000000, -1,
     "", ""},
    {"Content-Range: bytes 0-4/*\r\n", NULL, -1, -1, -1, "", ""},
    {"Content-Range: bytes 0-4//5\r\n", NULL, -1, -1, -1, "", ""},
    {"Content-Range: bytes 0-4/:5\r\n", NULL, -1, -1, -1, "", ""},
    {"Content-Range: bytes 0-4\r\n", NULL, -1, -1, -1, "", ""},
    {"Content-Range: bytes 5/5\r\n", NULL, -1, -1, -1, "", ""},
    {"Content-Range: bytes -4/5\r\n", NULL, -1, -1, -1, "", ""},
    {"Content-Range: items 0-4/5\r\n", NULL, -1, -1, -1, "", ""},
    {"X-Content-Range: bytes 0-4/5\r\n", NULL, -1, -1, -1, "", ""},
    {"Retry-After: 0\r\nX-Error-Code: GatedRepo\r\n", NULL, -1, -1, 0, "GatedRepo", ""},
    {"Retry-After: \t 90 \r\n", NULL, -1, -1, 90, "", ""},
    {"Retry-After: :1\r\n", NULL, -1, -1, -1, "", ""},
    {"Retry-After: /1\r\nX-Error-Code: a\033[1mb\177\r\n", NULL, -1, -1, -1, "a [1mb ", ""},
    {"Link: <https://a.co/?x=1>; rel=\"next\"\r\n", NULL, -1, -1, -1, "", "https://a.co/?x=1"},
    {"Link: <https://a.co/>; rel=\"last\"\r\n", NULL, -1, -1, -1, "", ""},
    {"",
     "Content-Range: bytes 0-4/5\r\nRetry-After: 7\r\nX-Error-Code: Early\r\n"
     "Link: <https://a.co/>; rel=\"next\"\r\n",
     -1, -1, -1, "", ""},
};

static void *answer_with_heads(void *arg) {
    const int *listens = arg;
    for (size_t i = 0; i < ARRAY_LEN(HEADS); i++) {
        char asked[4096], answer[512];
        size_t len = 0;
        int fd = accept(*listens, NULL, NULL);
        for (ssize_t n; (n = recv(fd, asked + len, sizeof asked - 1 - len, 0)) > 0;) {
            len += (size_t)n;
            asked[len] = 0;
            if (strstr(asked, "\r\n\r\n"))
                break;
        }
        const char *before = HEADS[i].before;
        snprintf(
            answer, sizeof answer,
            "%s%s%sHTTP/1.1 206 A Range\r\n%sContent-Length: 5\r\nConnection: close\r\n\r\nabcde",
            before ? "HTTP/1.1 100 Continue\r\n" : "", before ? before : "", before ? "\r\n" : "",
            HEADS[i].lines);
        CHECK(send(fd, answer, strlen(answer), MSG_NOSIGNAL) == (ssize_t)strlen(answer));
        close(fd);
    }
    return NULL;
}

static bool take_five(void *ctx, const struct hub_request *r, const uint8_t *data, size_t len) {
    (void)r;
    buf_add(ctx, data, len);
    return true;
}

TEST(hub_answers_say_their_range_when_to_ask_again_and_where_the_rest_is) {
    struct hub_http *http;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_len = sizeof at;
    char url[64];
    pthread_t server;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setenv("no_proxy", "127.0.0.1", 1);
    CHECK(!bind(fd, (struct sockaddr *)&at, sizeof at) && !listen(fd, 1) &&
          !getsockname(fd, (struct sockaddr *)&at, &at_len));
    snprintf(url, sizeof url, "http://127.0.0.1:%u/x", ntohs(at.sin_port));
    if (hub_http_new(&http, url, NULL, 20, &err)) {
        close(fd);
        SKIP("hub", "this build cannot download");
    }
    CHECK(!pthread_create(&server, NULL, answer_with_heads, &fd));
    for (size_t i = 0; i < ARRAY_LEN(HEADS); i++) {
        const struct heads *want = &HEADS[i];
        struct hub_request r = {.url = url, .take_body = take_five, .ctx = &text};
        buf_reset(&text);
        hub_http_start(http, &r);
        EXPECT(hub_http_wait(http, 20000) == &r);
        EXPECT_EQ(r.outcome, HUB_OK);
        EXPECT_STR(buf_text(&text), "abcde");
        if (r.range_first != want->first || r.range_total != want->total ||
            r.retry_after_s != want->retry_after_s || strcmp(r.code, want->code) != 0 ||
            strcmp(r.next, want->next) != 0)
            check_fail(__FILE__, __LINE__, "of '%s': %lld / %lld, after %lld, '%s', '%s'",
                       want->lines, (long long)r.range_first, (long long)r.range_total,
                       (long long)r.retry_after_s, r.code, r.next);
    }
    CHECK(!pthread_join(server, NULL));
    hub_http_free(&http);
    close(fd);
}

/* Of a host: what it does with each request in turn, the last of it with all further ones: 'c'loses without a word, is
 * 'b'usy, or 'g'ives five bytes. */
struct small_host {
    int listens;
    const char *manners;
    int asked;
};

static void *give_small_answers(void *arg) {
    static const char BUSY[] =
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                      GIVES[] =
                          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabcde";
    struct small_host *host = arg;
    char asked[4096];
    for (int fd; (fd = accept(host->listens, NULL, NULL)) >= 0; close(fd)) {
        char manner = host->manners[MIN((size_t)host->asked, strlen(host->manners) - 1)];
        const char *answer = manner == 'b' ? BUSY : GIVES;
        host->asked++;
        CHECK(recv(fd, asked, sizeof asked, 0) > 0);
        if (manner != 'c')
            CHECK(send(fd, answer, strlen(answer), MSG_NOSIGNAL) == (ssize_t)strlen(answer));
    }
    return NULL;
}

/* Three times without a word are the end, and six failures in all. */
static const struct small_get {
    const char *manners;
    size_t limit;
    int rc, asked;
} SMALL_GETS[] = {
    {"g", 5, 0, 1},      {"g", 4, ERR_LIMIT, 1}, {"c", 5, ERR_AGAIN, 3},     {"ccg", 5, 0, 3},
    {"ccbccg", 5, 0, 6}, {"b", 5, ERR_AGAIN, 6}, {"bcbccc", 5, ERR_AGAIN, 6}};

TEST(hub_small_answers_are_asked_for_again_and_have_a_limit) {
    setenv("TRIREME_HUB_RETRY_MS", "1", 1);
    setenv("no_proxy", "127.0.0.1", 1);
    for (size_t i = 0; i < ARRAY_LEN(SMALL_GETS); i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t at_len = sizeof at;
        struct small_host host = {socket(AF_INET, SOCK_STREAM, 0), SMALL_GETS[i].manners, 0};
        struct hub_http *http;
        pthread_t server;
        char url[64];
        CHECK(!bind(host.listens, (struct sockaddr *)&at, sizeof at) && !listen(host.listens, 8) &&
              !getsockname(host.listens, (struct sockaddr *)&at, &at_len));
        snprintf(url, sizeof url, "http://127.0.0.1:%u/x", ntohs(at.sin_port));
        if (hub_http_new(&http, url, NULL, 20, &err)) {
            close(host.listens);
            SKIP("hub", "this build cannot download");
        }
        CHECK(!pthread_create(&server, NULL, give_small_answers, &host));
        buf_reset(&text);
        int rc = hub_http_get(http, url, NULL, SMALL_GETS[i].limit, &text, NULL, &err);
        shutdown(host.listens, SHUT_RDWR);
        CHECK(!pthread_join(server, NULL));
        close(host.listens);
        hub_http_free(&http);
        if (rc != SMALL_GETS[i].rc || host.asked != SMALL_GETS[i].asked)
            check_fail(__FILE__, __LINE__, "'%s': %d after %d requests: %s", host.manners, rc,
                       host.asked, err.text);
        else if (!rc)
            EXPECT_STR(buf_text(&text), "abcde");
        else if (rc == ERR_LIMIT)
            EXPECT(strstr(err.text, "' is larger than 4 bytes"));
    }
    text.limit = 0;
    unsetenv("TRIREME_HUB_RETRY_MS");
}

TEST(hub_waits_grow_and_end) {
    struct hub_retry retry = {.attempts = 0};
    struct hub_request r = {.outcome = HUB_LATER, .retry_after_s = -1};
    int count = 0;
    while (!hub_retry_later(&retry, &r))
        count++;
    EXPECT_EQ(count, HUB_ATTEMPTS_MAX - 1);
    retry.attempts = 0;
    r.retry_after_s = 86400;
    EXPECT(hub_retry_later(&retry, &r) != 0);
    r = (struct hub_request){.outcome = HUB_REFUSED, .retry_after_s = -1};
    EXPECT(hub_retry_later(&retry, &r) != 0);
}

TEST(hub_manifests_of_strangers_are_refused) {
    struct ollama_manifest m;
#define LAYER(kind, digest)                                                                        \
    "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"" digest "\",\"size\":5}"
    EXPECT_EQ(
        ollama_manifest_read(bytes_str("{\"layers\":[" LAYER("license", "sha256:" SHA) "," LAYER(
                                 "model", "sha256:" SHA) "]}"),
                             &m, &err),
        0);
    EXPECT(m.count == 2 && m.model == &m.layers[1] && m.model->size == 5);
    static const char *const BAD[] = {
        "",
        "[]",
        "{}",
        "{\"layers\":{}}",
        "{\"layers\":[]}",
        "{\"layers\":[" LAYER("license", "sha256:" SHA) "]}",
        "{\"layers\":[" LAYER("model", "sha256:../../../x") "]}",
        "{\"layers\":[" LAYER("model", "md5:" SHA) "]}",
        "{\"layers\":[" LAYER("model", "sha256:" SHA) "," LAYER("model", "sha256:" SHA) "]}",
        "{\"layers\":[" LAYER("model", "sha256:" SHA) "," LAYER("projector", "sha256:" SHA) "]}"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        if (!ollama_manifest_read(bytes_str(BAD[i]), &m, &err))
            check_fail(__FILE__, __LINE__, "it is taken: %s", BAD[i]);
}
