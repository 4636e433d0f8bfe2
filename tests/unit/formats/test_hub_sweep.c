/* What caches of models hold, and how they get smaller: which files stay and which go. */
#include "check.h"
#include "formats/hub/hub.h"
#include "hub_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/time.h>

static struct error err;
static uint64_t bytes;

/* Names of commits and hashes: one letter over and over. */
#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccc"
#define X "1111111111111111111111111111111111111111"
#define Y "2222222222222222222222222222222222222222"
#define Z "3333333333333333333333333333333333333333"

#define REPO         "models--o--n/"
#define LOCKS        ".locks/models--o--n/"
#define TRIREME_LOCK ".locks/models--o--n/trireme.lock\n"

/* Commits A (main), B (a tag); both need X, A alone Y, B alone nothing; Z is loose. */
static void make_repo(void) {
    folder_make();
    put_file(REPO "blobs/" X, "x");
    put_file(REPO "blobs/" Y, "yyyyyyy");
    put_file(REPO "blobs/" Z, "zzzzz");
    put_link(REPO "snapshots/" A "/config.json", "../../blobs/" X);
    put_link(REPO "snapshots/" A "/sub/w.gguf", "../../../blobs/" Y);
    put_link(REPO "snapshots/" B "/config.json", "../../blobs/" X);
    put_file(REPO "snapshots/" B "/plain", "four");
    put_file(REPO "refs/main", A);
    put_file(REPO "refs/tags/v1", B "\n");
    put_file(REPO "trees/" A ".json", "{}");
    put_file(REPO "trees/" B ".json", "{}");
    put_file(REPO ".no_exist/" A "/x", "");
    put_file(REPO ".no_exist/" B "/y", "");
}

/* A lock of another process's, until the descriptor is closed. */
static int locked_elsewhere(const char *name) {
    put_file(name, "");
    int fd = open(in_folder(name), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && !flock(fd, LOCK_EX));
    return fd;
}

static bool is_free(const char *name) {
    int fd;
    bool good = hub_lock_try(in_folder(name), &fd);
    if (good && fd >= 0)
        close(fd);
    return good;
}

static int open_descriptors(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static void set_time(const char *name, time_t s) {
    const struct timeval times[2] = {{s, 0}, {s, 0}};
    CHECK(!utimes(in_folder(name), times));
}

TEST(cache_read_tells_what_each_repository_takes) {
    struct hub_cached_list list;
    make_repo();
    put_file("models--b--a/blobs/" X, "12");
    put_file("models--a--long-name/blobs/" X, "1");
    put_file("models--none/blobs/" X, "1");
    put_file("models--a--b--c/blobs/" X, "1");
    put_file("datasets--a--b/blobs/" X, "1");
    put_file("models--..--b/blobs/" X, "1");
    put_file("version.txt", "1");
    set_time(REPO "blobs/" X, 5000);
    set_time(REPO "blobs/" Y, 9000);
    set_time(REPO "blobs/" Z, 7000);
    CHECK(!mkdir(in_folder(REPO "blobs/folder"), 0755));
    int before = open_descriptors();
    EXPECT_EQ(hub_cache_read(folder, &list, &err), 0);
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(list.repos.count, 3);
    EXPECT_STR(list.repos.items[0].repo, "a/long-name");
    EXPECT_STR(list.repos.items[1].repo, "b/a");
    EXPECT_STR(list.repos.items[2].repo, "o/n");
    const struct hub_cached *c = &list.repos.items[2];
    EXPECT_EQ(c->bytes, 1 + 7 + 5 + 4);
    EXPECT_EQ(c->loose_bytes, 5);
    EXPECT_EQ(c->snapshots, 2);
    EXPECT_EQ(c->changed_s, 9000);
    EXPECT(list.repos.items[1].bytes == 2 && list.repos.items[1].loose_bytes == 2 &&
           list.repos.items[1].snapshots == 0);
    hub_cached_list_release(&list);
    EXPECT_EQ(hub_cache_read(in_folder("nowhere"), &list, &err), 0);
    EXPECT_EQ(list.repos.count, 0);
    hub_cached_list_release(&list);
    EXPECT_EQ(hub_cache_read(in_folder("version.txt"), &list, &err), ERR_IO);
    EXPECT(!strncmp(err.text, "cannot read the cache '", 23));
    folder_remove();
}

/* Files with holes take what lies on the disk. */
TEST(cache_read_counts_what_lies_on_the_disk) {
    struct hub_cached_list list;
    make_repo();
    put_file(REPO "blobs/" Z ".trireme.incomplete", "");
    EXPECT_EQ(truncate(in_folder(REPO "blobs/" Z ".trireme.incomplete"), 1 << 30), 0);
    EXPECT_EQ(hub_cache_read(folder, &list, &err), 0);
    EXPECT(list.repos.items[0].bytes < 1 << 20);
    hub_cached_list_release(&list);
    EXPECT_EQ(hub_cache_prune(folder, "o/n", false, &bytes, &err), 0);
    EXPECT(bytes < 1 << 20);
    EXPECT(!file_exists(in_folder(REPO "blobs/" Z ".trireme.incomplete")));
    folder_remove();
}

#define TREE_A REPO "snapshots/" A "/config.json@\n" REPO "snapshots/" A "/sub/w.gguf@\n"
#define TREE_B REPO "snapshots/" B "/config.json@\n" REPO "snapshots/" B "/plain\n"

TEST(cache_prune_takes_what_nothing_needs) {
    make_repo();
    int before = open_descriptors();
    EXPECT_EQ(hub_cache_prune(folder, "o/n", true, &bytes, &err), 0); /* only counts */
    EXPECT_EQ(bytes, 5);
    EXPECT(file_exists(in_folder(REPO "blobs/" Z)));
    EXPECT_EQ(hub_cache_prune(folder, "o/n", false, &bytes, &err), 0);
    EXPECT_EQ(bytes, 5);
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_STR(folder_text("."), TRIREME_LOCK REPO
               ".no_exist/" A "/x\n" REPO ".no_exist/" B "/y\n" REPO "blobs/" X "\n" REPO "blobs/" Y
               "\n" REPO "refs/main\n" REPO "refs/tags/v1\n" TREE_A TREE_B REPO "trees/" A
               ".json\n" REPO "trees/" B ".json\n");
    EXPECT_EQ(hub_cache_prune(folder, "o/n", false, &bytes, &err), 0);
    EXPECT_EQ(bytes, 0);
    EXPECT(is_free(LOCKS "trireme.lock"));
    folder_remove();
}

TEST(cache_prune_takes_snapshots_that_no_ref_means) {
    make_repo();
    put_file(REPO "refs/main", B);
    EXPECT_EQ(hub_cache_prune(folder, "o/n", true, &bytes, &err), 0);
    EXPECT_EQ(bytes, 7 + 5);
    EXPECT(dir_exists(in_folder(REPO "snapshots/" A)));
    EXPECT_EQ(hub_cache_prune(folder, "o/n", false, &bytes, &err), 0);
    EXPECT_EQ(bytes, 7 + 5);
    EXPECT_STR(folder_text("models--o--n"),
               ".no_exist/" B "/y\nblobs/" X "\nrefs/main\nrefs/tags/v1\nsnapshots/" B
               "/config.json@\nsnapshots/" B "/plain\ntrees/" B ".json\n");
    EXPECT(!dir_exists(in_folder(REPO "snapshots/" A)));
    folder_remove();
}

TEST(cache_prune_without_refs_keeps_all_snapshots) {
    make_repo();
    unlink(in_folder(REPO "refs/main"));
    unlink(in_folder(REPO "refs/tags/v1"));
    EXPECT_EQ(hub_cache_prune(folder, "o/n", false, &bytes, &err), 0);
    EXPECT_EQ(bytes, 5);
    EXPECT(file_exists(in_folder(REPO "snapshots/" A "/sub/w.gguf")));
    EXPECT(file_exists(in_folder(REPO "snapshots/" B "/config.json")));
    folder_remove();
}

TEST(cache_prune_leaves_what_is_being_written) {
    make_repo();
    put_file(REPO "blobs/" Z ".trireme.incomplete", "333");
    int fd = locked_elsewhere(LOCKS Z ".lock");
    EXPECT_EQ(hub_cache_prune(folder, "o/n", false, &bytes, &err), 0);
    EXPECT_EQ(bytes, 0);
    EXPECT(file_exists(in_folder(REPO "blobs/" Z)));
    EXPECT(file_exists(in_folder(REPO "blobs/" Z ".trireme.incomplete")));
    close(fd);
    EXPECT_EQ(hub_cache_prune(folder, "o/n", true, &bytes, &err), 0);
    EXPECT_EQ(bytes, 8);
    EXPECT(is_free(LOCKS Z ".lock"));
    int held;
    EXPECT_EQ(hub_cache_hold(folder, "o/n", false, &held, &err), 0); /* a pull */
    EXPECT_EQ(hub_cache_prune(folder, "o/n", false, &bytes, &err), ERR_AGAIN);
    EXPECT(file_exists(in_folder(REPO "blobs/" Z)));
    close(held);
    EXPECT_EQ(hub_cache_prune(folder, "o/n", false, &bytes, &err), 0);
    EXPECT_EQ(bytes, 8);
    folder_remove();
}

/* A revision goes with its ref; its snapshot stays while another ref means it. */
TEST(cache_delete_revision_takes_what_it_alone_needs) {
    make_repo();
    int before = open_descriptors();
    EXPECT_EQ(hub_cache_delete_revision(folder, "o/n", "main", &bytes, &err), 0);
    EXPECT_EQ(bytes, 7 + 5);
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_STR(folder_text("models--o--n"),
               ".no_exist/" B "/y\nblobs/" X "\nrefs/tags/v1\nsnapshots/" B
               "/config.json@\nsnapshots/" B "/plain\ntrees/" B ".json\n");
    folder_remove();
    make_repo();
    put_file(REPO "refs/main", B);
    EXPECT_EQ(hub_cache_delete_revision(folder, "o/n", "tags/v1", &bytes, &err), 0);
    EXPECT_EQ(bytes, 5); /* main means it, too; the loose one goes; A is not asked for */
    EXPECT_STR(folder_text("models--o--n"),
               ".no_exist/" A "/x\n.no_exist/" B "/y\nblobs/" X "\nblobs/" Y
               "\nrefs/main\nsnapshots/" A "/config.json@\nsnapshots/" A
               "/sub/w.gguf@\nsnapshots/" B "/config.json@\nsnapshots/" B "/plain\ntrees/" A
               ".json\ntrees/" B ".json\n");
    folder_remove();
}

TEST(cache_delete_revision_by_commit_takes_its_refs) {
    make_repo();
    put_file(REPO "refs/other", A);
    EXPECT_EQ(hub_cache_delete_revision(folder, "o/n", A, &bytes, &err), 0);
    EXPECT_EQ(bytes, 7 + 5);
    EXPECT_STR(folder_text("models--o--n/refs"), "tags/v1\n");
    EXPECT(!dir_exists(in_folder(REPO "snapshots/" A)));
    EXPECT_EQ(hub_cache_delete_revision(folder, "o/n", A, &bytes, &err), ERR_NOT_FOUND);
    EXPECT(!strncmp(err.text, "'o/n", 4) && strstr(err.text, "' is not in the cache '"));
    EXPECT_EQ(bytes, 0);
    EXPECT_EQ(hub_cache_delete_revision(folder, "o/n", "none", &bytes, &err), ERR_NOT_FOUND);
    int held;
    EXPECT_EQ(hub_cache_hold(folder, "o/n", false, &held, &err), 0);
    EXPECT_EQ(hub_cache_delete_revision(folder, "o/n", B, &bytes, &err), ERR_AGAIN);
    EXPECT(dir_exists(in_folder(REPO "snapshots/" B)));
    close(held);
    EXPECT_EQ(hub_cache_delete_revision(folder, "o/n", B, &bytes, &err), 0);
    EXPECT(!dir_exists(in_folder("models--o--n"))); /* it was the last one */
    folder_remove();
}

TEST(cache_delete_takes_all_of_a_repository) {
    make_repo();
    put_file("models--o--m/blobs/" X, "1");
    put_file(LOCKS X ".lock", "");
    put_file(".locks/models--o--m/" X ".lock", "");
    int before = open_descriptors();
    EXPECT_EQ(hub_cache_delete(folder, "o/n", &bytes, &err), 0);
    EXPECT_EQ(bytes, 1 + 7 + 5 + 4);
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_STR(folder_text("."), ".locks/models--o--m/" X ".lock\nmodels--o--m/blobs/" X "\n");
    EXPECT(!dir_exists(in_folder("models--o--n")) && !dir_exists(in_folder(LOCKS)));
    EXPECT_EQ(hub_cache_delete(folder, "o/n", &bytes, &err), ERR_NOT_FOUND);
    EXPECT(strstr(err.text, "'o/n' is not in the cache '"));
    EXPECT_EQ(bytes, 0);
    EXPECT_EQ(open_descriptors(), before);
    folder_remove();
}

TEST(cache_delete_waits_for_downloads_to_end) {
    make_repo();
    put_file(REPO "blobs/" Z ".incomplete", "333"); /* another program's */
    int fd = locked_elsewhere(LOCKS Z ".lock");
    EXPECT_EQ(hub_cache_delete(folder, "o/n", &bytes, &err), ERR_AGAIN);
    EXPECT_STR(err.text, "'o/n' is being downloaded; end that first");
    close(fd);
    int held;
    EXPECT_EQ(hub_cache_hold(folder, "o/n", false, &held, &err), 0);
    EXPECT_EQ(hub_cache_delete(folder, "o/n", &bytes, &err), ERR_AGAIN);
    EXPECT(file_exists(in_folder(REPO "blobs/" X)));
    close(held);
    fd = locked_elsewhere(LOCKS X ".lock"); /* nothing of it is unfinished */
    EXPECT_EQ(hub_cache_delete(folder, "o/n", &bytes, &err), 0);
    close(fd);
    EXPECT_STR(folder_text("."), "");
    folder_remove();
}

static struct buf visited;

static void note_visit(void *ctx, const char *path, const struct stat *st) {
    CHECK(ctx == &visited);
    buf_addf(&visited, "%s%s\n", path + strlen(folder) + 1, S_ISDIR(st->st_mode) ? "/" : "");
}

TEST(walks_see_folders_last_and_follow_no_links) {
    struct buf deep = {0};
    folder_make();
    put_file("d/x/1", "");
    put_link("d/x/up", "../..");
    hub_walk(in_folder("d/x"), note_visit, &visited);
    EXPECT(!strcmp(buf_text(&visited), "d/x/1\nd/x/up\n") ||
           !strcmp(buf_text(&visited), "d/x/up\nd/x/1\n"));
    unlink(in_folder("d/x/up"));
    buf_reset(&visited);
    hub_walk(in_folder("d"), note_visit, &visited);
    EXPECT_STR(buf_text(&visited), "d/x/1\nd/x/\n");
    buf_reset(&visited);
    hub_walk(in_folder("none"), note_visit, &visited);
    EXPECT_EQ(visited.len, 0);
    for (int i = 0; i < 25; i++) /* 20 below the folder itself are gone into */
        buf_add_str(&deep, "e/");
    buf_add_str(&deep, "file");
    put_file(buf_text(&deep), "");
    hub_walk(in_folder("e"), note_visit, &visited);
    int lines = 0;
    for (const char *c = buf_text(&visited); *c; c++)
        lines += *c == '\n';
    EXPECT_EQ(lines, 21);
    folder_remove();
    buf_release(&deep);
    buf_release(&visited);
}

/* ---- Ollama's ---- */

#define HASH(c)   c c c c c c c c c c c c c c c c
#define ONE       HASH("1111")
#define TWO       HASH("2222")
#define THREE     HASH("3333")
#define FOUR      HASH("4444")
#define MANIFESTS "manifests/registry.ollama.ai/"
#define LAYER(kind, hash, size)                                                                    \
    "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"sha256:" hash           \
    "\",\"size\":" size "}"

static struct hub_places places;

static void make_ollama(void) {
    folder_make();
    places = (struct hub_places){.ollama_cache = folder};
    put_file(MANIFESTS "library/m/latest",
             "{\"layers\":[" LAYER("model", ONE, "7") "," LAYER("license", TWO, "3") "]}");
    put_file(MANIFESTS "library/m/8b", "{\"layers\":[" LAYER("model", THREE, "9") "]}");
    put_file(MANIFESTS "who/z/latest", "{\"layers\":[" LAYER("model", THREE, "9") "]}");
    put_file("blobs/sha256-" ONE, "1234567");
    put_file("blobs/sha256-" TWO, "123");
    put_file("blobs/sha256-" THREE, "123456789");
    put_file("blobs/sha256-" FOUR, "1234");
    put_file("blobs/else", "1");
}

static struct hub_name name_of(const char *text) {
    struct hub_name name;
    CHECK(!hub_name_parse(&name, text, &err));
    return name;
}

TEST(ollama_read_tells_each_model) {
    struct hub_cached_list list;
    make_ollama();
    put_file(MANIFESTS "library/m/broken", "nonsense");
    put_file(MANIFESTS "library/m/adapted",
             "{\"layers\":[" LAYER("adapter", FOUR, "4") "]}"); /* not served, but kept */
    put_file(MANIFESTS "stray", "{}");
    set_time(MANIFESTS "library/m/8b", 777);
    EXPECT_EQ(ollama_read(&places, &list, &err), 0);
    static const struct {
        const char *name;
        uint64_t bytes;
    } ROWS[] = {{"ollama:m:8b", 9},
                {"ollama:m:adapted", 4},
                {"ollama:m:broken", 0},
                {"ollama:m:latest", 10},
                {"ollama:who/z:latest", 9}};
    EXPECT_EQ(list.repos.count, ARRAY_LEN(ROWS));
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct hub_cached *c = &list.repos.items[i];
        EXPECT_STR(c->repo, ROWS[i].name);
        EXPECT_EQ(c->bytes, ROWS[i].bytes);
        EXPECT(c->snapshots == 1 && c->loose_bytes == 0);
    }
    EXPECT_EQ(list.repos.items[0].changed_s, 777);
    hub_cached_list_release(&list);
    folder_remove();
    EXPECT_EQ(ollama_read(&places, &list, &err), 0); /* there is no cache */
    EXPECT_EQ(list.repos.count, 0);
    hub_cached_list_release(&list);
}

/* As many layers as one may have, and one more. */
TEST(ollama_read_counts_each_layer) {
    struct hub_cached_list list;
    for (int count = OLLAMA_LAYERS_MAX; count <= OLLAMA_LAYERS_MAX + 1; count++) {
        struct buf text = {0};
        folder_make();
        places = (struct hub_places){.ollama_cache = folder};
        buf_add_str(&text, "{\"layers\":[" LAYER("model", ONE, "1000"));
        for (int i = 1; i < count; i++)
            buf_add_str(&text, "," LAYER("license", TWO, "1"));
        buf_add_str(&text, "]}");
        put_file(MANIFESTS "library/m/latest", buf_text(&text));
        buf_release(&text);
        EXPECT_EQ(ollama_read(&places, &list, &err), 0);
        EXPECT_EQ(list.repos.count, 1);
        EXPECT_EQ(list.repos.items[0].bytes, 1000 + OLLAMA_LAYERS_MAX - 1);
        hub_cached_list_release(&list);
        struct hub_name name = name_of("ollama:m");
        char *path = NULL;
        EXPECT_EQ(hub_locate(&places, &name, &path, &err),
                  count > OLLAMA_LAYERS_MAX ? ERR_INVALID : ERR_NOT_FOUND);
        mem_free(path);
        folder_remove();
    }
}

TEST(ollama_prune_takes_layers_of_no_manifest) {
    make_ollama();
    int before = open_descriptors();
    EXPECT_EQ(ollama_prune(&places, true, &bytes, &err), 0);
    EXPECT_EQ(bytes, 4);
    EXPECT(file_exists(in_folder("blobs/sha256-" FOUR)));
    put_file(".locks/sha256-" FOUR ".lock", "");
    int fd = locked_elsewhere(".locks/sha256-" FOUR ".lock");
    EXPECT_EQ(ollama_prune(&places, false, &bytes, &err), 0);
    EXPECT_EQ(bytes, 0);
    EXPECT(file_exists(in_folder("blobs/sha256-" FOUR)));
    close(fd);
    put_file("blobs/sha256-" FOUR ".trireme.incomplete", "12");
    int held;
    EXPECT_EQ(hub_cache_hold(folder, NULL, false, &held, &err), 0);
    EXPECT_EQ(ollama_prune(&places, false, &bytes, &err), ERR_AGAIN);
    close(held);
    EXPECT_EQ(ollama_prune(&places, false, &bytes, &err), 0);
    EXPECT_EQ(bytes, 6);
    EXPECT_EQ(open_descriptors(), before);
    EXPECT(is_free(".locks/sha256-" FOUR ".lock"));
    EXPECT_STR(folder_text("blobs"), "else\nsha256-" ONE "\nsha256-" TWO "\nsha256-" THREE "\n");
    folder_remove();
}

TEST(ollama_delete_takes_a_model_and_the_layers_that_it_alone_needs) {
    make_ollama();
    struct hub_name name = name_of("ollama:m"), again = name_of("ollama:m:8b");
    int before = open_descriptors();
    EXPECT_EQ(ollama_delete(&places, &name, &bytes, &err), 0);
    EXPECT_EQ(bytes, 7 + 3 + 4);
    EXPECT_STR(folder_text("manifests/registry.ollama.ai"), "library/m/8b\nwho/z/latest\n");
    EXPECT_STR(folder_text("blobs"), "else\nsha256-" THREE "\n");
    EXPECT_EQ(ollama_delete(&places, &again, &bytes, &err), 0);
    EXPECT_EQ(bytes, 0); /* another needs its layer */
    EXPECT_STR(folder_text("blobs"), "else\nsha256-" THREE "\n");
    EXPECT_EQ(ollama_delete(&places, &again, &bytes, &err), ERR_NOT_FOUND);
    EXPECT(!strncmp(err.text, "'library/m' is not in '", 23));
    EXPECT_EQ(open_descriptors(), before);
    int held;
    name = name_of("ollama:who/z");
    EXPECT_EQ(hub_cache_hold(folder, NULL, false, &held, &err), 0);
    EXPECT_EQ(ollama_delete(&places, &name, &bytes, &err), ERR_AGAIN);
    EXPECT(file_exists(in_folder(MANIFESTS "who/z/latest")));
    close(held);
    EXPECT_EQ(ollama_delete(&places, &name, &bytes, &err), 0);
    EXPECT_EQ(bytes, 9);
    put_file(MANIFESTS "who/z/latest/x", "");
    EXPECT_EQ(ollama_delete(&places, &name, &bytes, &err), ERR_IO); /* a folder */
    EXPECT(!strncmp(err.text, "cannot remove '", 15));
    folder_remove();
}
