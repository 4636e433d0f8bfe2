/* From a model's name to its files: what a hub is asked for, in which order, what lies in the cache afterwards, and what
 * a person reads where it does not work. The hub is a server in the test's own process. */
#include "check.h"
#include "formats/hub/hub.h"
#include "hub_folder.h"
#include "send_all.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>

static struct error err;

/* ---- the hub ---- */

struct route {
    const char *path; /* with the query */
    int status;
    const char *fields; /* header lines, or NULL */
    const char *body;
};

enum { ROUTES_MAX = 16 };

static struct {
    int listens;
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t
        lock; /* of what follows: a client may be gone before its answer is sent whole */
    struct route routes[ROUTES_MAX];
    size_t count;
    bool has_no_end;    /* each page of a list names another */
    char log[4096];     /* "PATH", " TOKEN" where there is one, "\n", for each request */
    char accepted[200]; /* the last Accept */
} hub;

/* The value of a header line of what was asked, or "". */
static const char *field_of(const char *asked, const char *name, char out[200]) {
    const char *at = strstr(asked, name);
    out[0] = 0;
    if (at)
        sscanf(at + strlen(name), " %199[^\r\n]", out);
    return out;
}

static void answer(int fd, const char *asked) {
    char path[512] = "", token[200], head[2048], next[600] = "";
    struct route route = {.status = 404, .body = ""};
    sscanf(asked, "GET %511s ", path);
    pthread_mutex_lock(&hub.lock);
    for (size_t i = 0; i < hub.count; i++)
        if (!strcmp(hub.routes[i].path, path))
            route = hub.routes[i];
    field_of(asked, "Accept:", hub.accepted);
    field_of(asked, "Authorization:", token);
    size_t at = strlen(hub.log);
    snprintf(hub.log + at, sizeof hub.log - at, "%s%s%s\n", path, *token ? " " : "", token);
    if (hub.has_no_end && strstr(path, "/tree/"))
        snprintf(next, sizeof next, "Link: <http://127.0.0.1:%u%s>; rel=\"next\"\r\n", hub.port,
                 path);
    pthread_mutex_unlock(&hub.lock);
    int len = snprintf(head, sizeof head,
                       "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nConnection: close\r\n%s%s\r\n",
                       route.status, strlen(route.body), route.fields ? route.fields : "", next);
    send_all(fd, head, (size_t)len);
    send_all(fd, route.body, strlen(route.body));
}

/* One connection after the other. */
static void *serve(void *unused) {
    for (int fd; (fd = accept(hub.listens, NULL, NULL)) >= 0;) {
        char asked[4096] = "";
        size_t len = 0;
        for (ssize_t n; !strstr(asked, "\r\n\r\n") &&
                        (n = recv(fd, asked + len, sizeof asked - 1 - len, 0)) > 0;)
            asked[len += (size_t)n] = 0;
        answer(fd, asked);
        shutdown(fd, SHUT_WR);
        while (recv(fd, asked, sizeof asked, 0) > 0) {}
        close(fd);
    }
    return unused;
}

static void will_answer(const char *path, int status, const char *fields, const char *body) {
    pthread_mutex_lock(&hub.lock);
    CHECK(hub.count < ROUTES_MAX);
    hub.routes[hub.count++] = (struct route){path, status, fields, body};
    pthread_mutex_unlock(&hub.lock);
}

static void forget_answers(void) {
    pthread_mutex_lock(&hub.lock);
    hub.count = 0;
    pthread_mutex_unlock(&hub.lock);
}

static struct hub_places places;
static char url[64];

/* False: this build cannot download. */
static bool begin(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_len = sizeof at;
    struct hub_http *http;
    setenv("no_proxy", "127.0.0.1", 1);
    setenv("TRIREME_HUB_RETRY_MS", "1", 1);
    setenv("TRIREME_HUB_CONNECTIONS", "1", 1); /* one file after the other */
    folder_make();
    memset(&hub, 0, sizeof hub);
    CHECK(!pthread_mutex_init(&hub.lock, NULL));
    hub.listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(!bind(hub.listens, (struct sockaddr *)&at, sizeof at) && !listen(hub.listens, 64) &&
          !getsockname(hub.listens, (struct sockaddr *)&at, &at_len));
    hub.port = ntohs(at.sin_port);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", hub.port);
    CHECK(!pthread_create(&hub.thread, NULL, serve, NULL));
    places = (struct hub_places){.cache = folder,
                                 .endpoint = url,
                                 .registry = url,
                                 .ollama_cache = folder,
                                 .patience_s = 10};
    bool can = !hub_http_new(&http, url, NULL, 10, &err);
    if (can)
        hub_http_free(&http);
    return can;
}

static void finish(void) {
    shutdown(hub.listens, SHUT_RDWR);
    CHECK(!pthread_join(hub.thread, NULL));
    close(hub.listens);
    pthread_mutex_destroy(&hub.lock);
    folder_remove();
}

/* What was asked since the last call; until the next. */
static const char *asked(void) {
    static char log[sizeof hub.log];
    pthread_mutex_lock(&hub.lock);
    memcpy(log, hub.log, sizeof log);
    hub.log[0] = 0;
    pthread_mutex_unlock(&hub.lock);
    return log;
}

static char *path;
static uint64_t bytes;

static int pull(const char *text) {
    struct hub_name name;
    CHECK(!hub_name_parse(&name, text, &err));
    mem_free(path);
    path = NULL;
    bytes = 0;
    err.text[0] = 0;
    return hub_pull(&places, &name, NULL, &path, &bytes, &err);
}

static int locate(const char *text) {
    struct hub_name name;
    CHECK(!hub_name_parse(&name, text, &err));
    mem_free(path);
    path = NULL;
    err.text[0] = 0;
    return hub_locate(&places, &name, &path, &err);
}

static bool path_is(const char *want) {
    bool same =
        path && !strncmp(path, folder, strlen(folder)) && !strcmp(path + strlen(folder) + 1, want);
    if (!same)
        printf("path: '%s'\n", path ? path : "none");
    return same;
}

static int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        char link[64], target[600];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, target, sizeof target - 1);
        target[MAX(len, 0)] = 0;
        count += !strncmp(target, folder, strlen(folder)); /* locks and blobs */
    }
    return count;
}

/* ---- Hugging Face's ---- */

#define COMMIT       "abcdefabcdefabcdefabcdefabcdefabcdefabcd"
#define OTHER        "1234561234561234561234561234561234561234"
#define SAYS(commit) "{\"id\":\"o/n\",\"more\":{\"sha\":\"no\"},\"sha\":\"" commit "\",\"x\":[1]}"

#define INDEX                                                                                      \
    "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":"                           \
    "\"model-00002-of-00002.safetensors\"}}"
/* git hash-object and sha256sum of what the files hold */
#define CONFIG_HASH "9e26dfeeb6e641a33dae4961196235bdb965b21b" /* "{}" */
#define INDEX_HASH  "882e6caa44ebc3cd41ab452d1ab15048a4863294"
#define WWWW_HASH   "6b4a1673b225e8bf5f093b91be8c864427df32ca41b17cc0b82112b8f0185e41"
#define FIRST_HASH  "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e"
#define SECOND_HASH "16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4"

#define SMALL(path, hash, size)                                                                    \
    "{\"type\":\"file\",\"path\":\"" path "\",\"oid\":\"" hash "\",\"size\":" size "}"
#define LARGE(path, hash, size)                                                                    \
    "{\"type\":\"file\",\"path\":\"" path "\",\"oid\":\"" COMMIT "\",\"size\":" size               \
    ",\"lfs\":{\"oid\":\"" hash "\",\"size\":" size "}}"
#define REVISION "/api/models/o/n/revision/main"
#define TREE     "/api/models/o/n/tree/" COMMIT "?recursive=true"
#define RESOLVE  "/o/n/resolve/" COMMIT "/"

static void will_have_a_folder(void) {
    will_answer(REVISION, 200, NULL, SAYS(COMMIT));
    will_answer(
        TREE, 200, NULL,
        "[" SMALL("config.json", CONFIG_HASH, "2") "," LARGE("model.safetensors", WWWW_HASH,
                                                             "4") "," //
        SMALL("tokenizer.json", CONFIG_HASH, "2") "," SMALL("README.md", INDEX_HASH, "7") "]");
    will_answer(RESOLVE "config.json", 200, NULL, "{}");
    will_answer(RESOLVE "model.safetensors", 200, NULL, "wwww");
}

#define FOLDER_TREE                                                                                \
    "blobs/" WWWW_HASH "\nblobs/" CONFIG_HASH "\nrefs/main\nsnapshots/" COMMIT                     \
    "/config.json@\nsnapshots/" COMMIT "/model.safetensors@\nsnapshots/" COMMIT                    \
    "/tokenizer.json@\ntrees/" COMMIT ".json\n"

TEST(pull_makes_a_folder_and_locate_finds_it) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    will_have_a_folder();
    places.token = "t";
    EXPECT_EQ(locate("o/n"), ERR_NOT_FOUND);
    EXPECT_EQ(pull("o/n"), 0);
    EXPECT_STR(asked(), REVISION " Bearer t\n" TREE " Bearer t\n" RESOLVE
                                 "config.json Bearer t\n" RESOLVE "model.safetensors Bearer t\n");
    EXPECT_EQ(bytes, 2 + 4 + 2); /* the same bytes twice are sent once */
    EXPECT(path_is("models--o--n/snapshots/" COMMIT));
    EXPECT_STR(folder_text("models--o--n"), FOLDER_TREE);
    EXPECT_EQ(open_descriptors(), 0);
    EXPECT_EQ(locate("o/n"), 0);
    EXPECT(path_is("models--o--n/snapshots/" COMMIT));
    EXPECT_EQ(locate("o/n@" COMMIT), 0);
    EXPECT_EQ(locate("o/n@other"), ERR_NOT_FOUND);
    EXPECT_STR(asked(), "");
    EXPECT_EQ(pull("o/n"), 0); /* asks what the name means now, and nothing else */
    EXPECT_STR(asked(), REVISION " Bearer t\n");
    EXPECT_STR(hub.accepted, "application/json");
    EXPECT(path_is("models--o--n/snapshots/" COMMIT) && bytes == 8);
    char gone[600];
    snprintf(gone, sizeof gone, "%s/config.json", path);
    EXPECT_EQ(unlink(gone), 0);
    EXPECT_EQ(locate("o/n"), ERR_NOT_FOUND);
    EXPECT(!path && !strncmp(err.text, "'o/n' is not wholly in the cache '", 34));
    EXPECT_EQ(pull("o/n"), 0); /* the link alone is made again */
    EXPECT_STR(asked(), REVISION " Bearer t\n");
    EXPECT_STR(folder_text("models--o--n"), FOLDER_TREE);
    places.token = NULL;
    finish();
}

TEST(pull_reads_the_index_first) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    will_answer(REVISION, 200, NULL, SAYS(COMMIT));
    will_answer(TREE, 200, NULL,
                "[" SMALL("config.json", CONFIG_HASH, "2") "," SMALL(
                    "model.safetensors.index.json", INDEX_HASH,
                    "94") "," LARGE("model-00001-of-00002.safetensors", FIRST_HASH, "5") "," //
                LARGE("model-00002-of-00002.safetensors", SECOND_HASH,
                      "6") "," LARGE("other.safetensors", WWWW_HASH, "4") "]");
    will_answer(RESOLVE "config.json", 200, NULL, "{}");
    will_answer(RESOLVE "model.safetensors.index.json", 200, NULL, INDEX);
    will_answer(RESOLVE "model-00001-of-00002.safetensors", 200, NULL, "first");
    will_answer(RESOLVE "model-00002-of-00002.safetensors", 200, NULL, "second");
    EXPECT_EQ(pull("o/n"), 0);
    EXPECT_STR(asked(),
               REVISION "\n" TREE "\n" RESOLVE "model.safetensors.index.json\n" RESOLVE
                        "config.json\n" RESOLVE "model-00001-of-00002.safetensors\n" RESOLVE
                        "model-00002-of-00002.safetensors\n");
    EXPECT_EQ(bytes, 94 + 2 + 5 + 6);
    EXPECT_EQ(locate("o/n"), 0);
    char gone[600];
    snprintf(gone, sizeof gone, "%s/model.safetensors.index.json", path);
    EXPECT_EQ(unlink(gone), 0);
    EXPECT_EQ(locate("o/n"), ERR_NOT_FOUND); /* which weights there are is not known */
    EXPECT_EQ(pull("o/n"), 0);
    snprintf(gone, sizeof gone, "%s/model-00002-of-00002.safetensors", path);
    EXPECT_EQ(unlink(gone), 0);
    EXPECT_EQ(locate("o/n"), ERR_NOT_FOUND);
    finish();
}

TEST(pull_refuses_an_index_that_is_too_large) {
    static const struct {
        const char *size;
        int code;
    } ROWS[] = {{"67108865", ERR_LIMIT}, {"67108864", ERR_NOT_FOUND}}; /* then it is asked for */
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char list[1000];
        if (!begin())
            SKIP("hub", "this build cannot download");
        snprintf(
            list, sizeof list,
            "[" SMALL(
                "config.json", CONFIG_HASH,
                "2") ","
                     "{\"type\":\"file\",\"path\":\"model.safetensors.index.json\",\"oid\":\"" INDEX_HASH
                     "\",\"size\":%s}," LARGE("model-00001-of-00002.safetensors", FIRST_HASH,
                                              "5") "]",
            ROWS[i].size);
        will_answer(REVISION, 200, NULL, SAYS(COMMIT));
        will_answer(TREE, 200, NULL, list);
        EXPECT_EQ(pull("o/n"), ROWS[i].code);
        if (ROWS[i].code == ERR_LIMIT)
            EXPECT_STR(err.text, "'o/n': its index of weights is larger than 67108864 bytes");
        finish();
    }
}

TEST(pull_takes_one_file_and_writes_addresses_as_they_must_be) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    will_answer("/api/models/o/n/revision/refs%2Fpr%2F1", 200, NULL, SAYS(COMMIT));
    will_answer(TREE, 200, NULL,
                "[" LARGE("sub/a b#-Q8_0.gguf", FIRST_HASH, "5") "," //
                LARGE("c-Q4_K_M.gguf", SECOND_HASH, "6") "]");
    will_answer(RESOLVE "sub/a%20b%23-Q8_0.gguf", 200, NULL, "first");
    EXPECT_EQ(pull("o/n@refs/pr/1:Q8_0"), 0);
    EXPECT_STR(asked(), "/api/models/o/n/revision/refs%2Fpr%2F1\n" TREE "\n" RESOLVE
                        "sub/a%20b%23-Q8_0.gguf\n");
    EXPECT(path_is("models--o--n/snapshots/" COMMIT "/sub/a b#-Q8_0.gguf") && bytes == 5);
    EXPECT_STR(folder_text("models--o--n/refs"), "refs/pr/1\n");
    EXPECT_EQ(locate("o/n@refs/pr/1:Q8_0"), 0);
    EXPECT(path_is("models--o--n/snapshots/" COMMIT "/sub/a b#-Q8_0.gguf"));
    EXPECT_EQ(locate("o/n@refs/pr/1:Q4_K_M"), ERR_NOT_FOUND); /* it was not pulled */
    EXPECT_EQ(locate("o/n@refs/pr/1:Q2_K"), ERR_NOT_FOUND);
    char want[200];
    snprintf(want, sizeof want, "'o/n' in the cache '%s': ", folder);
    EXPECT(!strncmp(err.text, want, strlen(want)));
    EXPECT_EQ(hub_pull(&places,
                       &(struct hub_name){.repo = "o/n", .revision = "refs/pr/1", .quant = "Q8_0"},
                       NULL, &path, NULL, &err),
              0); /* nobody needs to know the bytes */
    finish();
}

/* A list of several pages, and each thing that can be wrong with one. */
TEST(pull_reads_all_pages_of_a_list) {
    char fields[300];
    if (!begin())
        SKIP("hub", "this build cannot download");
    will_answer(REVISION, 200, NULL, SAYS(COMMIT));
    snprintf(fields, sizeof fields, "Link: <%s/page2>; rel=\"next\"\r\n", url);
    will_answer(TREE, 200, fields, "[" SMALL("config.json", CONFIG_HASH, "2") "]");
    will_answer("/page2", 200, NULL, "[" LARGE("model.safetensors", WWWW_HASH, "4") "]");
    will_answer(RESOLVE "config.json", 200, NULL, "{}");
    will_answer(RESOLVE "model.safetensors", 200, NULL, "wwww");
    EXPECT_EQ(pull("o/n"), 0);
    EXPECT_STR(asked(), REVISION "\n" TREE "\n/page2\n" RESOLVE "config.json\n" RESOLVE
                                 "model.safetensors\n");
    finish();
    CHECK(begin());
    will_answer(REVISION, 200, NULL, SAYS(COMMIT));
    will_answer(TREE, 200, "Link: <http://127.0.0.1:1/page2>; rel=\"next\"\r\n", "[]");
    EXPECT_EQ(pull("o/n"), ERR_INVALID);
    EXPECT_STR(err.text, "'o/n': its list of files goes on at another host");
    EXPECT_STR(asked(), REVISION "\n" TREE "\n");
    EXPECT_STR(folder_text("models--o--n"), ""); /* nothing of it is believed */
    finish();
    CHECK(begin());
    will_answer(REVISION, 200, NULL, SAYS(COMMIT));
    will_answer(TREE, 200, NULL, "[]");
    hub.has_no_end = true;
    EXPECT_EQ(pull("o/n"), ERR_LIMIT);
    EXPECT_STR(err.text, "'o/n': its list of files has no end");
    int pages = 0;
    for (const char *at = hub.log; (at = strstr(at, "/tree/")); at++)
        pages++;
    EXPECT(pages == 64 || strlen(hub.log) >= sizeof hub.log - 200);
    EXPECT_EQ(open_descriptors(), 0);
    finish();
}

TEST(pull_wants_a_commit) {
    static const struct {
        const char *body;
        bool is_good;
    } ROWS[] = {
        {SAYS(COMMIT), true},
        {"{\"sha\":\"" COMMIT "\",\"sha\":7}", false},
        {"{\"sha\":\"" COMMIT "0\"}", false},
        {"{\"sha\":\"ABCDEFabcdefabcdefabcdefabcdefabcdefabcd\"}", false},
        {"{\"id\":\"x\"}", false},
        {"[]", false},
        {"<html>", false},
        {"", false},
    };
    char want[200];
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (!begin())
            SKIP("hub", "this build cannot download");
        will_answer(REVISION, 200, NULL, ROWS[i].body);
        int rc = pull("o/n");
        snprintf(want, sizeof want, "%s does not say which commit 'main' of 'o/n' is: is it a hub?",
                 url);
        if (rc == 0 || (rc == ERR_INVALID && !strcmp(err.text, want)) == ROWS[i].is_good)
            check_fail(__FILE__, __LINE__, "row %zu: %d, '%s'", i, rc, err.text);
        finish();
    }
}

/* What a person reads: URL stands for the hub's address. */
TEST(pull_explains_each_refusal) {
#define GATED                                                                                      \
    " does not open it: accept its terms at URL/o/n, then set HF_TOKEN to a token of that account"
#define UNSEEN                                                                                     \
    "URL has no model 'o/n' for all to see: look at its spelling; if it is private, set HF_TOKEN"
#define REFUSED_TOKEN "URL does not take the token (of HF_TOKEN or the file HF_HOME/token) for "
    static const struct {
        int status;
        const char *code, *token; /* X-Error-Code, or NULL */
        int rc;
        const char *text;
    } ROWS[] = {
        {404, "RevisionNotFound", NULL, ERR_NOT_FOUND, "'o/n' has no revision 'main'"},
        {404, "RepoNotFound", NULL, ERR_NOT_FOUND, UNSEEN},
        {404, NULL, "t", ERR_NOT_FOUND, UNSEEN},
        {401, "RepoNotFound", NULL, ERR_NOT_FOUND, UNSEEN},
        {401, "RepoNotFound", "t", ERR_CLOSED, REFUSED_TOKEN "'o/n': or there is no such model"},
        {401, NULL, "t", ERR_CLOSED, REFUSED_TOKEN "'o/n': it may have expired"},
        {401, "RevisionNotFound", NULL, ERR_NOT_FOUND, UNSEEN},
        {401, "GatedRepo", NULL, ERR_CLOSED, "'o/n' is gated, and no token" GATED},
        {403, "GatedRepo", "t", ERR_CLOSED, "'o/n' is gated, and the token that was sent" GATED},
        {403, "Else", "t", ERR_CLOSED,
         "URL forbids 'o/n' (Else): the token that was sent may not read it"},
        {403, NULL, NULL, ERR_CLOSED, "URL forbids 'o/n' (403): no token may not read it"},
        {429, NULL, NULL, ERR_AGAIN,
         "URL answers 429, too many requests, also after waiting; try later, or set HF_TOKEN, "
         "which raises the limit"},
        {429, NULL, "t", ERR_AGAIN,
         "URL answers 429, too many requests, also after waiting; try later"},
        {500, NULL, NULL, ERR_AGAIN, "URL answers 500, also after waiting; try later"},
        {503, NULL, NULL, ERR_AGAIN, "URL answers 503, also after waiting; try later"},
        {418, NULL, NULL, ERR_CLOSED, "'URL" REVISION "' answers 418"},
    };
    if (!begin())
        SKIP("hub", "this build cannot download");
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char fields[100] = "";
        struct buf want = {0};
        if (ROWS[i].code)
            snprintf(fields, sizeof fields, "X-Error-Code: %s\r\n", ROWS[i].code);
        for (const char *c = ROWS[i].text; *c; c++)
            if (!strncmp(c, "URL", 3))
                buf_add_str(&want, url), c += 2;
            else
                buf_add_byte(&want, (uint8_t)*c);
        forget_answers();
        will_answer(REVISION, ROWS[i].status, fields, "");
        places.token = ROWS[i].token ? mem_strdup(ROWS[i].token) : NULL;
        int rc = pull("o/n");
        if (rc != ROWS[i].rc || strcmp(err.text, buf_text(&want)))
            check_fail(__FILE__, __LINE__, "row %zu: %d, '%s'", i, rc, err.text);
        mem_free(places.token);
        buf_release(&want);
    }
    places.token = NULL;
    EXPECT_EQ(open_descriptors(), 0);
    finish();
}

/* A file that does not come leaves the name as it was. */
TEST(pull_that_fails_changes_no_name) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    put_file("models--o--n/refs/main", OTHER);
    will_have_a_folder();
    hub.routes[3].status = 403;
    EXPECT_EQ(pull("o/n"), ERR_CLOSED);
    char want[200];
    snprintf(want, sizeof want, "'o/n': %s forbids 'o/n' (403): no token may not read it", url);
    EXPECT_STR(err.text, want);
    EXPECT(!path);
    struct buf text = {0};
    EXPECT_EQ(file_read(in_folder("models--o--n/refs/main"), 100, &text, &err), 0);
    EXPECT_STR(buf_text(&text), OTHER);
    EXPECT_STR(folder_text("models--o--n/snapshots"), "");
    hub.routes[3].status = 200;
    asked();
    EXPECT_EQ(pull("o/n"), 0); /* what came is not asked for again */
    EXPECT_STR(asked(), REVISION "\n" RESOLVE "model.safetensors\n");
    buf_reset(&text);
    EXPECT_EQ(file_read(in_folder("models--o--n/refs/main"), 100, &text, &err), 0);
    EXPECT_STR(buf_text(&text), COMMIT);
    buf_release(&text);
    finish();
}

TEST(pull_asks_nobody_when_offline) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    places.offline = true;
    EXPECT_EQ(pull("o/n"), ERR_UNSUPPORTED);
    EXPECT_STR(err.text, "'o/n' is not (or not all) in the cache, and HF_HUB_OFFLINE forbids to "
                         "download it");
    EXPECT_EQ(pull("ollama:m"), ERR_UNSUPPORTED);
    EXPECT_STR(asked(), "");
    finish();
}

/* A snapshot of another program's, without its list of files. */
TEST(locate_takes_what_other_programs_left) {
    folder_make();
    places = (struct hub_places){.cache = folder, .ollama_cache = folder};
    put_file("models--o--n/refs/main", COMMIT "\n");
    EXPECT_EQ(locate("o/n"), ERR_NOT_FOUND);
    put_file("models--o--n/snapshots/" COMMIT "/config.json", "{}");
    EXPECT_EQ(locate("o/n"), ERR_NOT_FOUND);
    put_file("models--o--n/snapshots/" COMMIT "/model.safetensors", "wwww");
    EXPECT_EQ(locate("o/n"), 0);
    EXPECT(path_is("models--o--n/snapshots/" COMMIT));
    put_file("models--o--n/refs/main", "nonsense");
    EXPECT_EQ(locate("o/n"), ERR_INVALID);
    folder_remove();
}

/* ---- Ollama's ---- */

#define LAYER(kind, hash, size)                                                                    \
    "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"sha256:" hash           \
    "\",\"size\":" size "}"
#define MANIFEST                                                                                   \
    "{\"layers\":[" LAYER("model", FIRST_HASH, "5") "," LAYER(                                     \
        "license", SECOND_HASH, "6") "," LAYER("license", SECOND_HASH, "6") "]}"
#define ASK_MANIFEST "/v2/library/m/manifests/8b"
#define ASK_BLOB     "/v2/library/m/blobs/sha256:"

TEST(pull_makes_an_ollama_model_and_locate_finds_it) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    places.token = "t"; /* of another host: it is not sent */
    will_answer(ASK_MANIFEST, 200, NULL, MANIFEST);
    will_answer(ASK_BLOB FIRST_HASH, 200, NULL, "first");
    will_answer(ASK_BLOB SECOND_HASH, 200, NULL, "second");
    EXPECT_EQ(locate("ollama:m:8b"), ERR_NOT_FOUND);
    EXPECT_EQ(pull("ollama:m:8b"), 0);
    EXPECT_STR(asked(), ASK_MANIFEST "\n" ASK_BLOB FIRST_HASH "\n" ASK_BLOB SECOND_HASH "\n");
    EXPECT_EQ(bytes, 5 + 6 + 6);
    EXPECT(path_is("blobs/sha256-" FIRST_HASH));
    EXPECT_STR(folder_text("manifests"), "registry.ollama.ai/library/m/8b\n");
    EXPECT_STR(folder_text("blobs"), "sha256-" SECOND_HASH "\nsha256-" FIRST_HASH "\n");
    EXPECT_EQ(open_descriptors(), 0);
    EXPECT_EQ(locate("ollama:m:8b"), 0);
    EXPECT(path_is("blobs/sha256-" FIRST_HASH));
    EXPECT_EQ(locate("ollama:m"), ERR_NOT_FOUND);
    EXPECT_EQ(pull("ollama:m:8b"), 0);
    EXPECT_STR(asked(), ASK_MANIFEST "\n");
    EXPECT_STR(hub.accepted, "application/vnd.docker.distribution.manifest.v2+json");
    unlink(in_folder("blobs/sha256-" FIRST_HASH));
    EXPECT_EQ(locate("ollama:m:8b"), ERR_NOT_FOUND);
    EXPECT(!path && !strncmp(err.text, "'library/m' is not wholly in '", 30));
    places.token = NULL;
    finish();
}

TEST(locate_finds_what_ollama_pulled_itself) {
    folder_make();
    places = (struct hub_places){.cache = folder, .ollama_cache = folder};
    put_file("own/manifests/registry.ollama.ai/library/m/latest", MANIFEST);
    put_file("own/blobs/sha256-" FIRST_HASH, "first");
    EXPECT_EQ(locate("ollama:m"), ERR_NOT_FOUND);
    places.ollama_models = mem_strdup(in_folder("own"));
    EXPECT_EQ(locate("ollama:m"), 0);
    EXPECT(path_is("own/blobs/sha256-" FIRST_HASH));
    put_file("manifests/registry.ollama.ai/library/m/latest", MANIFEST);
    EXPECT_EQ(locate("ollama:m"), 0); /* ours is not whole */
    EXPECT(path_is("own/blobs/sha256-" FIRST_HASH));
    put_file("blobs/sha256-" FIRST_HASH, "first");
    EXPECT_EQ(locate("ollama:m"), 0);
    EXPECT(path_is("blobs/sha256-" FIRST_HASH));
    put_file("manifests/registry.ollama.ai/library/m/latest", "{}");
    unlink(in_folder("own/blobs/sha256-" FIRST_HASH));
    EXPECT_EQ(locate("ollama:m"), ERR_UNSUPPORTED); /* what is wrong with ours is said */
    mem_free(places.ollama_models);
    folder_remove();
}

TEST(pull_explains_each_refusal_of_the_registry) {
    static const struct {
        int status;
        const char *body;
        int rc;
        const char *text; /* URL: as above */
    } ROWS[] = {
        {404, "", ERR_NOT_FOUND, "URL has no model 'library/m' with the tag '8b'"},
        {401, "", ERR_NOT_FOUND, "URL has no model 'library/m' with the tag '8b'"},
        {429, "", ERR_AGAIN, "URL answers 429, also after waiting; try later"},
        {500, "", ERR_AGAIN, "URL answers 500, also after waiting; try later"},
        {403, "", ERR_CLOSED, "'URL" ASK_MANIFEST "' answers 403"},
        {200, "{}", ERR_UNSUPPORTED, "'library/m': it has no layer with a model"},
        {200, MANIFEST, ERR_NOT_FOUND,
         "'library/m': URL has no model 'library/m' with the tag '8b'"}, /* a layer is missing */
    };
    if (!begin())
        SKIP("hub", "this build cannot download");
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct buf want = {0};
        for (const char *c = ROWS[i].text; *c; c++)
            if (!strncmp(c, "URL", 3))
                buf_add_str(&want, url), c += 2;
            else
                buf_add_byte(&want, (uint8_t)*c);
        forget_answers();
        will_answer(ASK_MANIFEST, ROWS[i].status, NULL, ROWS[i].body);
        int rc = pull("ollama:m:8b");
        if (rc != ROWS[i].rc || strcmp(err.text, buf_text(&want)))
            check_fail(__FILE__, __LINE__, "row %zu: %d, '%s'", i, rc, err.text);
        EXPECT_STR(folder_text("manifests"), ""); /* a manifest is kept with its layers */
        buf_release(&want);
    }
    EXPECT_EQ(open_descriptors(), 0);
    finish();
}
