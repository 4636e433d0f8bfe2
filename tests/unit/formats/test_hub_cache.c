/* The cache of models, files on their way into it, and what hosts may not make us believe. */
#include "base/fsutil.h"
#include "check.h"
#include "formats/hub/cache.h"
#include "formats/hub/digest.h"
#include "formats/hub/http.h"
#include "formats/hub/hub.h"
#include "formats/hub/unfinished.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct error err;
static struct buf text;

#define OID "0123456789012345678901234567890123456789"
#define SHA "0123456789012345678901234567890123456789012345678901234567890123"

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
