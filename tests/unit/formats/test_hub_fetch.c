/* Downloads from a host that does what each row says: which bytes are asked for, again or anew, what people are told,
 * and how it ends. */
#include "base/fsutil.h"
#include "check.h"
#include "formats/hub/cache.h"
#include "formats/hub/fetch.h"
#include "formats/hub/unfinished.h"
#include "send_all.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct error err;

/* Set: the file that is locked next is taken away just before, as by one who deletes from the cache; with another made in
 * its place, or not. */
static const char *lock_to_replace;
static bool is_made_anew;

/* In place of libc's. */
int flock(int fd, int operation) {
    if (lock_to_replace) {
        unlink(lock_to_replace);
        if (is_made_anew)
            close(open(lock_to_replace, O_RDWR | O_CREAT | O_CLOEXEC, 0644));
        lock_to_replace = NULL;
        errno = EINPROGRESS; /* of some call before */
    }
    return (int)syscall(SYS_flock, fd, operation);
}

/* ---- the host ---- */

enum { CONTENT_MAX = 2500000, SHORT_OF = 100 };
static uint8_t content[CONTENT_MAX];

enum manner {
    AS_ASKED,
    WITHOUT_RANGES,
    WITHOUT_RANGES_CUT_ONCE, /* the whole, of which the first time but half comes */
    CUT_ONCE,                /* half of the first answer comes */
    CUT_ALWAYS,              /* never more than SHORT_OF bytes at a time */
    SHORT_ONCE,              /* the first answer says itself that SHORT_OF bytes less come */
    BUSY_TWICE,
    BUSY,
    MISSING,
    CLOSED, /* and says why */
    FALSE_ONCE,
    FALSE,
    ONE_MORE,      /* byte than there are */
    ANOTHER_FIRST, /* byte than was asked for */
    ANOTHER_TOTAL,
    RANGE_UNASKED
};

static struct {
    int listens;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    enum manner manner;
    size_t size; /* of what it has */
    int moved;   /* the first answer is of this status and says where it is; 0: it is here */
    const char *location; /* there; NULL: /c */
    int hold;             /* no answer before this many are asked for at once; 0: at once */
    int asked, at_once, peak;
    char log[2000]; /* what was asked for: "FIRST-LAST " or "- " for all of it */
} host = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

/* Waits until as many are asked for as are wanted at once, and a little for one too many. */
static void hold_back(int hold) {
    struct timespec until, more = {.tv_nsec = 20000000};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    pthread_mutex_lock(&host.lock);
    while (host.peak < hold && !pthread_cond_timedwait(&host.change, &host.lock, &until)) {}
    pthread_mutex_unlock(&host.lock);
    nanosleep(&more, NULL);
}

/* The n-th request: its answer of what has `size` bytes, in manner m. The host's own fields may be another test's by
 * then, as a client that failed waits for no answer. */
static void answer(int fd, enum manner m, size_t size, int n, bool is_range, size_t first,
                   size_t end) {
    bool once = n == 1, whole = m == WITHOUT_RANGES || m == WITHOUT_RANGES_CUT_ONCE || !is_range;
    char head[256];
    if (m == BUSY || (m == BUSY_TWICE && n <= 2) || m == MISSING) {
        snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                 m == MISSING ? "404 Not Found" : "503 Busy");
        send_all(fd, head, strlen(head));
        return;
    }
    if (m == CLOSED) {
        static const char CLOSED_ANSWER[] =
            "HTTP/1.1 403 No\r\nContent-Length: 33\r\nConnection: close"
            "\r\n\r\n{\"code\": 3, \"error\": \"not today\"}\n";
        send_all(fd, CLOSED_ANSWER, strlen(CLOSED_ANSWER));
        return;
    }
    if (host.moved && n == 1) {
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close"
                 "\r\n\r\n",
                 host.moved, host.location ? host.location : "/c");
        send_all(fd, head, strlen(head));
        return;
    }
    if (whole)
        first = 0, end = size;
    size_t said = end - first + (m == ONE_MORE) - (m == SHORT_ONCE && once ? SHORT_OF : 0);
    int len = snprintf(head, sizeof head, "HTTP/1.1 %s\r\n",
                       whole && m != RANGE_UNASKED ? "200 OK" : "206 A Range");
    if (!whole || m == RANGE_UNASKED)
        len +=
            snprintf(head + len, sizeof head - (size_t)len, "Content-Range: bytes %zu-%zu/%zu\r\n",
                     first + (m == ANOTHER_FIRST), end - 1, size + (m == ANOTHER_TOTAL));
    snprintf(head + len, sizeof head - (size_t)len,
             "Content-Length: %zu\r\nConnection: close\r\n\r\n", said);
    send_all(fd, head, strlen(head));
    if ((m == CUT_ONCE && once) || (m == WITHOUT_RANGES_CUT_ONCE && n <= 2))
        said /= 2;
    if (m == CUT_ALWAYS)
        said = MIN(said, (size_t)SHORT_OF);
    if (m == FALSE || (m == FALSE_ONCE && once))
        send_all(fd, "?", 1), said--, first++;
    send_all(fd, content + first, said);
}

static void *serve(void *arg) {
    int fd = (int)(intptr_t)arg;
    char asked[4096];
    size_t len = 0, first = 0, last = 0;
    asked[0] = 0;
    for (ssize_t n; !strstr(asked, "\r\n\r\n");) {
        if ((n = recv(fd, asked + len, sizeof asked - 1 - len, 0)) <= 0)
            break;
        asked[len += (size_t)n] = 0;
    }
    const char *range = strstr(asked, "Range: bytes=");
    bool is_range = range && sscanf(range, "Range: bytes=%zu-%zu", &first, &last) == 2;
    pthread_mutex_lock(&host.lock);
    int n = ++host.asked, hold = host.hold;
    enum manner manner = host.manner;
    size_t size = host.size;
    size_t at = strlen(host.log);
    if (is_range)
        snprintf(host.log + at, sizeof host.log - at, "%zu-%zu ", first, last);
    else
        snprintf(host.log + at, sizeof host.log - at, "- ");
    host.at_once++;
    host.peak = MAX(host.peak, host.at_once);
    pthread_cond_broadcast(&host.change);
    pthread_mutex_unlock(&host.lock);
    if (hold)
        hold_back(hold);
    pthread_mutex_lock(&host.lock);
    host.at_once--;
    pthread_mutex_unlock(&host.lock);
    answer(fd, manner, size, n, is_range, first, last + 1);
    shutdown(fd, SHUT_WR);
    while (recv(fd, asked, sizeof asked, 0) > 0) {} /* what is closed with bytes unread is reset */
    close(fd);
    return NULL;
}

static void *listen_for_ever(void *unused) {
    for (int fd; (fd = accept(host.listens, NULL, NULL)) >= 0;) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd));
        CHECK(!pthread_detach(thread));
    }
    return unused;
}

/* ---- one who downloads ---- */

static struct download_world {
    struct hub_http *http;
    char *dir;
    struct hub_request last;
    struct buf notes; /* lines */
    int turns;        /* calls of on_bytes */
    uint64_t done, total;
    char steps[200]; /* each number of bytes that it told, once */
} world;

/* False: this build cannot download. */
static bool begin(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_len = sizeof at;
    setenv("no_proxy", "127.0.0.1", 1);
    setenv("TRIREME_HUB_RETRY_MS", "1", 1);
    setenv("TRIREME_HUB_RANGE_BYTES", "1000", 1);
    setenv("TRIREME_HUB_CONNECTIONS", "1", 1);
    bool is_made = content[1] != 0; /* once: someone may still send of it */
    for (size_t i = 0; i < CONTENT_MAX && !is_made; i++)
        content[i] = (uint8_t)(i * 7 + i / 250);
    world = (struct download_world){.dir = mem_strdup("/tmp/trm-fetch-XXXXXX")};
    buf_init(&world.notes, 0);
    CHECK(mkdtemp(world.dir));
    host.listens = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(!bind(host.listens, (struct sockaddr *)&at, sizeof at) && !listen(host.listens, 64) &&
          !getsockname(host.listens, (struct sockaddr *)&at, &at_len));
    snprintf(host.url, sizeof host.url, "http://127.0.0.1:%u/b", ntohs(at.sin_port));
    bool can = !hub_http_new(&world.http, host.url, NULL, 20, &err);
    CHECK(!pthread_create(&host.thread, NULL, listen_for_ever, NULL));
    return can;
}

static void finish(void) {
    char command[200];
    shutdown(host.listens, SHUT_RDWR);
    CHECK(!pthread_join(host.thread, NULL));
    close(host.listens);
    hub_http_free(&world.http);
    snprintf(command, sizeof command, "rm -rf '%s'", world.dir);
    CHECK(system(command) == 0);
    mem_free(world.dir);
    buf_release(&world.notes);
}

static void host_does(enum manner manner, size_t size) {
    pthread_mutex_lock(&host.lock);
    host.manner = manner;
    host.size = size;
    host.hold = host.asked = host.peak = host.moved = 0;
    host.location = NULL;
    host.log[0] = 0;
    pthread_mutex_unlock(&host.lock);
    buf_reset(&world.notes);
    world.turns = 0;
    world.done = world.total = 0;
    world.steps[0] = 0;
}

/* What the host has, in its place in the cache; the caller releases it. */
static struct hub_blob blob_of(const char *name, size_t size) {
    char *made = path_join(world.dir, "made"), path[200];
    struct hub_blob b = {
        .label = mem_strdup(name), .url = mem_strdup(host.url), .size = size, .digest = HUB_SHA256};
    snprintf(path, sizeof path, "%s/blobs/%s", world.dir, name);
    b.path = mem_strdup(path);
    snprintf(path, sizeof path, "%s/locks/%s.lock", world.dir, name);
    b.lock = mem_strdup(path);
    CHECK(!file_write_atomic(made, content, size, 0644, &err));
    int fd = open(made, O_RDONLY);
    CHECK(!hub_digest_file(b.digest, fd, size, b.hash, &err));
    close(fd);
    mem_free(made);
    return b;
}

static void note(void *unused, const char *text) {
    (void)unused;
    buf_addf(&world.notes, "%s\n", text);
}

static void count_bytes(void *unused, uint64_t done, uint64_t total) {
    (void)unused;
    size_t at = strlen(world.steps);
    if (!world.turns++ || done != world.done)
        snprintf(world.steps + at, sizeof world.steps - at, "%llu ", (unsigned long long)done);
    world.done = done;
    world.total = total;
}

static int fetch(const struct hub_blob *blobs, size_t count) {
    struct hub_watch watch = {.on_bytes = count_bytes, .on_note = note};
    return hub_fetch(world.http, blobs, count, &watch, &world.last, &err);
}

static bool has_content(const char *path, size_t size) {
    struct buf text;
    buf_init(&text, 0);
    bool same = !file_read(path, CONTENT_MAX + 1, &text, &err) && text.len == size &&
                (!size || !memcmp(text.data, content, size));
    buf_release(&text);
    return same;
}

static bool is_unfinished(const struct hub_blob *b) {
    char path[220];
    snprintf(path, sizeof path, "%s%s", b->path, UNFINISHED_SUFFIX);
    return file_exists(path);
}

/* Descriptors of ours that lead into the folder: none, once a fetch has ended. */
static int open_files(void) {
    char link[64], path[300];
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, path, sizeof path - 1);
        path[MAX(len, 0)] = 0;
        count += !strncmp(path, world.dir, strlen(world.dir));
    }
    return count;
}

static const struct ends {
    enum manner manner;
    size_t size; /* in ranges of 1000, one connection */
    int rc;
    long status;       /* of the request that failed */
    const char *log;   /* what the host was asked for */
    const char *note;  /* what people were told, a line, or "" */
    const char *error; /* how the error ends, or "" */
    bool is_left;      /* what came so far stays for the next try */
} ENDS[] = {
    {AS_ASKED, 2500, 0, 0, "0-999 1000-1999 2000-2499 ", "", "", false},
    {AS_ASKED, 2000, 0, 0, "0-999 1000-1999 ", "", "", false},
    {AS_ASKED, 1001, 0, 0, "0-999 1000-1000 ", "", "", false},
    {AS_ASKED, 1000, 0, 0, "- ", "", "", false},
    {AS_ASKED, 1, 0, 0, "- ", "", "", false},
    {AS_ASKED, 0, 0, 0, "", "", "", false},
    {WITHOUT_RANGES, 2500, 0, 0, "0-999 - ", "b: the host gives no ranges; downloading it in one\n",
     "", false},
    {WITHOUT_RANGES_CUT_ONCE, 2500, 0, 0, "0-999 - - ",
     "b: the host gives no ranges; downloading it in one\n", "", false},
    {CUT_ONCE, 1000, 0, 0, "- 500-999 ", "", "", false},
    {CUT_ALWAYS, 800, 0, 0, "- 100-799 200-799 300-799 400-799 500-799 600-799 700-799 ", "", "",
     false},
    {SHORT_ONCE, 1000, 0, 0, "- 900-999 ", "", "", false},
    {BUSY_TWICE, 1000, 0, 0, "- - - ", "", "", false},
    {BUSY, 1000, ERR_AGAIN, 503, "- - - - - - ", "", "/b' answers 503", true},
    {MISSING, 1000, ERR_NOT_FOUND, 404, "- ", "", "/b' answers 404", true},
    {CLOSED, 1000, ERR_CLOSED, 403, "- ", "", "/b' answers 403: not today", true},
    {FALSE_ONCE, 1000, 0, 0, "- - ", "b is not what its hash says; downloading it again\n", "",
     false},
    {FALSE, 1000, ERR_INVALID, 0, "- - ", "b is not what its hash says; downloading it again\n",
     NULL, false},
    {ONE_MORE, 1000, ERR_INVALID, 0, "- ", "",
     "'b': the host sends more than the 1000 bytes that the hub says it has", true},
    {ANOTHER_FIRST, 2000, ERR_INVALID, 0, "0-999 ", "",
     "'b': the host sends other bytes than were asked for", true},
    {ANOTHER_TOTAL, 2000, ERR_INVALID, 0, "0-999 ", "",
     "'b': the host sends other bytes than were asked for", true},
    {RANGE_UNASKED, 1000, ERR_INVALID, 0, "- ", "",
     "'b': the host sends other bytes than were asked for", true},
};

TEST(hub_fetch_does_with_each_host_what_it_should) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    for (size_t i = 0; i < ARRAY_LEN(ENDS); i++) {
        const struct ends *want = &ENDS[i];
        struct hub_blob b = blob_of("b", want->size);
        char path[220];
        host_does(want->manner, want->size);
        err.text[0] = 0;
        int rc = fetch(&b, 1);
        size_t end = want->error ? strlen(want->error) : 0, len = strlen(err.text);
        if (rc != want->rc || world.last.status != want->status || strcmp(host.log, want->log) ||
            strcmp(buf_text(&world.notes), want->note) || len < end ||
            (end && strcmp(err.text + len - end, want->error)))
            check_fail(__FILE__, __LINE__, "row %zu: %d, status %ld, asked '%s', told '%s', '%s'",
                       i, rc, world.last.status, host.log, buf_text(&world.notes), err.text);
        if (want->manner == FALSE)
            EXPECT(strstr(err.text, "'b' is broken where it comes from: its SHA-256 is ") &&
                   strstr(err.text, ", the hub says "));
        EXPECT_EQ(has_content(b.path, want->size), rc == 0);
        EXPECT_EQ(is_unfinished(&b), want->is_left);
        EXPECT_EQ(open_files(), 0);
        EXPECT(world.total == want->size && (rc || world.done == want->size));
        EXPECT(!world.last.url);
        snprintf(path, sizeof path, "%s%s", b.path, UNFINISHED_SUFFIX);
        unlink(path);
        unlink(b.path);
        hub_blob_release(&b);
    }
    finish();
}

/* A host that cannot be reached may be there in a moment; a URL that is none stays so. */
TEST(hub_fetch_tries_again_what_may_pass) {
    static const struct {
        const char *url;
        int rc;
    } ROWS[] = {{"http://127.0.0.1:1/b", ERR_AGAIN},
                {"https://127.0.0.1:1/b", ERR_AGAIN},
                {"http://127.0.0.1:99999/b", ERR_CLOSED},
                {"ftp://127.0.0.1:1/b", ERR_CLOSED}};
    if (!begin())
        SKIP("hub", "this build cannot download");
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct hub_blob b = blob_of("b", 500);
        host_does(AS_ASKED, 500);
        mem_free(b.url);
        b.url = mem_strdup(ROWS[i].url);
        int rc = fetch(&b, 1);
        if (rc != ROWS[i].rc || !strstr(err.text, ROWS[i].url))
            check_fail(__FILE__, __LINE__, "%s: %d, '%s'", ROWS[i].url, rc, err.text);
        hub_blob_release(&b);
    }
    EXPECT_STR(host.log, "");
    finish();
}

TEST(hub_fetch_goes_where_a_host_says) {
    static const int MOVED[] = {301, 302, 303, 307, 308}, OTHERS[] = {300, 304, 305};
    if (!begin())
        SKIP("hub", "this build cannot download");
    struct hub_blob b = blob_of("a", 500);
    for (size_t i = 0; i < ARRAY_LEN(MOVED); i++) {
        host_does(AS_ASKED, 500);
        host.moved = MOVED[i];
        EXPECT_EQ(fetch(&b, 1), 0);
        EXPECT(has_content(b.path, 500));
        EXPECT_STR(host.log, "- - ");
        unlink(b.path);
    }
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++) {
        host_does(AS_ASKED, 500);
        host.moved = OTHERS[i];
        EXPECT_EQ(fetch(&b, 1), ERR_CLOSED);
        EXPECT_STR(host.log, "- ");
    }
    static const char *const ELSEWHERE[] = {"ftp://127.0.0.1:1/c", "file:///etc/passwd"};
    for (size_t i = 0; i < ARRAY_LEN(ELSEWHERE); i++) {
        host_does(AS_ASKED, 500);
        host.moved = 302;
        host.location = ELSEWHERE[i];
        EXPECT_EQ(fetch(&b, 1), ERR_INVALID);
        EXPECT(strstr(err.text, "is redirected to another protocol: '") &&
               strstr(err.text, ELSEWHERE[i]));
        EXPECT_STR(host.log, "- ");
    }
    hub_blob_release(&b);
    finish();
}

TEST(hub_fetch_tells_how_far_it_is) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    struct hub_blob blobs[2] = {blob_of("a", 2500), blob_of("b", 1000)};
    struct hub_watch nothing = {.on_bytes = NULL};
    host_does(AS_ASKED, 2500);
    EXPECT_EQ(fetch(&blobs[0], 1), 0);
    EXPECT_STR(world.steps, "0 1000 2000 2500 ");
    EXPECT_EQ(world.total, 2500);
    host_does(AS_ASKED, 1000);
    EXPECT_EQ(fetch(blobs, 2), 0);
    EXPECT_STR(world.steps, "2500 3500 ");
    EXPECT_EQ(world.total, 3500);
    unlink(blobs[1].path); /* nobody needs to watch */
    EXPECT_EQ(hub_fetch(world.http, blobs, 2, NULL, &world.last, &err), 0);
    unlink(blobs[1].path);
    EXPECT_EQ(hub_fetch(world.http, blobs, 2, &nothing, &world.last, &err), 0);
    EXPECT(has_content(blobs[1].path, 1000));
    host_does(WITHOUT_RANGES, 2500);
    unlink(blobs[0].path);
    EXPECT_EQ(hub_fetch(world.http, blobs, 2, &nothing, &world.last, &err), 0);
    EXPECT(has_content(blobs[0].path, 2500));
    hub_blob_release(&blobs[0]);
    hub_blob_release(&blobs[1]);
    finish();
}

/* What is there already needs no room, and each file that is not there does. */
TEST(hub_fetch_looks_for_room_on_the_disk) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    struct hub_blob blobs[3] = {blob_of("a", 1000), blob_of("b", 1000), blob_of("c", 1000)};
    char *dir = path_join(world.dir, "blobs"), path[220];
    CHECK(!dir_make(dir, 0755, &err));
    snprintf(path, sizeof path, "%s%s", blobs[1].path, UNFINISHED_SUFFIX);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && !posix_fallocate(fd, 0, 10 << 20));
    close(fd);
    host_does(AS_ASKED, 1000);
    blobs[1].size = blobs[2].size = 4000000000000000;
    EXPECT_EQ(fetch(blobs, 3), ERR_LIMIT);
    const char *end = strstr(err.text, " GB are to be downloaded, and the disk of '");
    EXPECT(end);
    EXPECT(!strncmp(err.text, "7999999.99", 10));
    EXPECT(strstr(end, dir) && strstr(end, "' has room for ") && strstr(end, "free some"));
    EXPECT_EQ(world.last.status, 0);
    EXPECT_EQ(world.turns, 0);
    EXPECT_STR(host.log, "");
    CHECK(!file_write_atomic(blobs[2].path, content, 1000, 0644, &err));
    EXPECT_EQ(fetch(blobs, 3), ERR_LIMIT);
    EXPECT(!strncmp(err.text, "3999999.99 GB", 13));
    CHECK(!file_write_atomic(blobs[1].path, content, 1000, 0644, &err));
    EXPECT_EQ(fetch(blobs, 3), 0);
    EXPECT_EQ(open_files(), 0);
    mem_free(dir);
    for (int i = 0; i < 3; i++)
        hub_blob_release(&blobs[i]);
    finish();
}

TEST(hub_fetch_goes_on_where_an_earlier_one_ended) {
    struct unfinished u;
    if (!begin())
        SKIP("hub", "this build cannot download");
    setenv("TRIREME_HUB_RANGE_BYTES", "1000000", 1);
    struct hub_blob blobs[2] = {blob_of("a", 2500000), blob_of("b", 1000)};
    char *dir = path_join(world.dir, "blobs");
    CHECK(!dir_make(dir, 0755, &err));
    EXPECT_EQ(unfinished_open(&u, blobs[0].path, 2500000, &err), 0);
    EXPECT_EQ(unfinished_add(&u, 1, content + 1000000, 1000000, &err), 0);
    unfinished_close(&u);
    EXPECT_EQ(file_write_atomic(blobs[1].path, content, 1000, 0644, &err), 0);
    host_does(AS_ASKED, 2500000);
    EXPECT_EQ(fetch(blobs, 2), 0);
    EXPECT_STR(host.log, "0-999999 2000000-2499999 "); /* nothing for what is in its place */
    EXPECT_STR(buf_text(&world.notes), "a: 1.0 of 2.5 MB are here from an earlier download\n");
    EXPECT(has_content(blobs[0].path, 2500000));
    EXPECT(world.done == 2501000 && world.total == 2501000);
    host_does(AS_ASKED, 2500000);
    EXPECT_EQ(fetch(blobs, 2), 0);
    EXPECT_STR(host.log, "");
    EXPECT_EQ(world.turns, 1);
    EXPECT_EQ(world.done, 2501000);
    mem_free(dir);
    hub_blob_release(&blobs[0]);
    hub_blob_release(&blobs[1]);
    finish();
}

static const struct at_once {
    const char *connections; /* NULL: nothing is said */
    int want;
} AT_ONCE[] = {{"1", 1}, {"2", 2}, {"32", 32}, {"33", 8}, {"0", 8}, {NULL, 8}};

TEST(hub_fetch_asks_for_as_much_at_once_as_it_may) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    struct hub_blob b = blob_of("b", 40000);
    for (size_t i = 0; i < ARRAY_LEN(AT_ONCE); i++) {
        if (AT_ONCE[i].connections)
            setenv("TRIREME_HUB_CONNECTIONS", AT_ONCE[i].connections, 1);
        else
            unsetenv("TRIREME_HUB_CONNECTIONS");
        setenv("TRIREME_HUB_RANGE_BYTES", AT_ONCE[i].want < 8 ? "20000" : "1000", 1);
        host_does(AS_ASKED, 40000);
        pthread_mutex_lock(&host.lock);
        host.hold = AT_ONCE[i].want;
        pthread_mutex_unlock(&host.lock);
        EXPECT_EQ(fetch(&b, 1), 0);
        EXPECT_EQ(host.peak, AT_ONCE[i].want);
        EXPECT_EQ(host.asked, AT_ONCE[i].want < 8 ? 2 : 40);
        EXPECT(has_content(b.path, 40000));
        unlink(b.path);
    }
    hub_blob_release(&b);
    finish();
}

/* Of several files as many are begun as there are connections. */
static int most_begun;
static void count_begun(void *ctx, uint64_t done, uint64_t total) {
    const struct hub_blob *blobs = ctx;
    int begun = 0;
    for (int i = 0; i < 4; i++)
        begun += is_unfinished(&blobs[i]);
    most_begun = MAX(most_begun, begun);
    count_bytes(NULL, done, total);
}

TEST(hub_fetch_begins_no_more_files_than_it_can_work_on) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    struct hub_blob blobs[4] = {blob_of("a", 3000), blob_of("b", 3000), blob_of("c", 3000),
                                blob_of("d", 3000)};
    for (int at_once = 1; at_once <= 2; at_once++) {
        struct hub_watch watch = {.ctx = blobs, .on_bytes = count_begun};
        char count[2] = {(char)('0' + at_once), 0};
        setenv("TRIREME_HUB_CONNECTIONS", count, 1);
        host_does(AS_ASKED, 3000);
        most_begun = 0;
        EXPECT_EQ(hub_fetch(world.http, blobs, 4, &watch, &world.last, &err), 0);
        EXPECT_EQ(most_begun, at_once);
        EXPECT_EQ(host.asked, 12);
        EXPECT(world.done == 12000 && world.total == 12000);
        for (int i = 0; i < 4; i++) {
            EXPECT(has_content(blobs[i].path, 3000));
            unlink(blobs[i].path);
        }
    }
    for (int i = 0; i < 4; i++)
        hub_blob_release(&blobs[i]);
    finish();
}

/* Another process has the lock of the first file, and lets it go after a few turns; where it made
 * the file meanwhile, nothing is asked for. */
static struct other {
    int fd;
    bool makes_it;
} other;

static void let_go_later(void *ctx, uint64_t done, uint64_t total) {
    const struct hub_blob *b = ctx;
    count_bytes(NULL, done, total);
    CHECK(world.turns < 100); /* it is never asked for again */
    if (other.fd < 0 || world.turns < 3)
        return;
    if (other.makes_it)
        CHECK(!file_write_atomic(b->path, content, b->size, 0644, &err));
    close(other.fd);
    other.fd = -1;
}

TEST(hub_fetch_waits_for_another_process) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    struct hub_blob blobs[2] = {blob_of("a", 1000), blob_of("b", 1000)};
    struct hub_watch watch = {.ctx = blobs, .on_bytes = let_go_later, .on_note = note};
    char *dir = path_join(world.dir, "locks");
    CHECK(!dir_make(dir, 0755, &err));
    for (int makes_it = 0; makes_it < 2; makes_it++) {
        int fd = open(blobs[0].lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        CHECK(fd >= 0 && !flock(fd, LOCK_EX));
        other = (struct other){fd, makes_it};
        host_does(AS_ASKED, 1000);
        EXPECT_EQ(hub_fetch(world.http, blobs, 2, &watch, &world.last, &err), 0);
        EXPECT_EQ(host.asked, makes_it ? 1 : 2); /* the second file does not wait */
        EXPECT_STR(buf_text(&world.notes),
                   "a is being downloaded by another process; waiting for it\n");
        EXPECT(has_content(blobs[0].path, 1000) && has_content(blobs[1].path, 1000));
        EXPECT_EQ(world.done, 2000);
        fd = open(blobs[0].lock, O_RDWR | O_CLOEXEC);
        EXPECT(!flock(fd, LOCK_EX | LOCK_NB)); /* and the lock is free again */
        close(fd);
        unlink(blobs[0].path);
        unlink(blobs[1].path);
    }
    mem_free(dir);
    hub_blob_release(&blobs[0]);
    hub_blob_release(&blobs[1]);
    finish();
}

static void expect_locked(void *ctx, uint64_t done, uint64_t total) {
    const struct hub_blob *b = ctx;
    count_bytes(NULL, done, total);
    if (!host.asked || done == total)
        return;
    int fd = open(b->lock, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)); /* who comes now waits */
    close(fd);
}

TEST(hub_fetch_holds_the_lock_that_is_in_its_place) {
    if (!begin())
        SKIP("hub", "this build cannot download");
    struct hub_blob b = blob_of("a", 3000);
    struct hub_watch watch = {.ctx = &b, .on_bytes = expect_locked};
    for (int anew = 0; anew < 2; anew++) {
        host_does(AS_ASKED, 3000);
        lock_to_replace = b.lock;
        is_made_anew = anew;
        EXPECT_EQ(hub_fetch(world.http, &b, 1, &watch, &world.last, &err), 0);
        EXPECT(!lock_to_replace && has_content(b.path, 3000));
        EXPECT_STR(host.log, "0-999 1000-1999 2000-2999 ");
        EXPECT_EQ(open_files(), 0);
        unlink(b.path);
    }
    hub_blob_release(&b);
    finish();
}

TEST(a_cache_is_held_by_the_lock_that_is_in_its_place) {
    char dir[] = "/tmp/trm-hold-XXXXXX", path[64];
    EXPECT(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/.locks/trireme.lock", dir);
    for (int anew = 0; anew < 2; anew++) {
        struct stat held, there;
        int fd = -1;
        lock_to_replace = path;
        is_made_anew = anew;
        EXPECT_EQ(hub_cache_hold(dir, NULL, true, &fd, &err), 0);
        EXPECT(!lock_to_replace && !fstat(fd, &held) && !stat(path, &there));
        EXPECT_EQ(held.st_ino, there.st_ino);
        close(fd);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/.locks", dir);
    EXPECT(!rmdir(path) && !rmdir(dir));
}
