/*
 * test_run_dir.c - whose folders lead to the run folder.
 */
#include "base/fsutil.h"
#include "check.h"
#include "cli/run_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    char root[64], path[160], other[160];
    struct error err;
};

static bool place_new(struct place *p) {
    snprintf(p->root, sizeof p->root, "/tmp/trireme-run-XXXXXX");
    return mkdtemp(p->root) != NULL;
}

static const char *in(struct place *p, const char *name) {
    snprintf(p->path, sizeof p->path, "%s/%s", p->root, name);
    return p->path;
}

static void place_end(struct place *p) {
    static const char *const names[] = {
        "a/b", "a",   "link",          "real/b",        "real",        "file",  "near",
        "one", "two", "theirs/ours/b", "theirs/ours/c", "theirs/ours", "theirs"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)remove(in(p, names[i]));
    EXPECT(rmdir(p->root) == 0);
}

TEST(run_folder_is_made_with_its_parents) {
    struct place p;
    struct stat st;
    EXPECT(place_new(&p));
    EXPECT_EQ(run_dir_make(in(&p, "a/b"), &p.err), 0);
    EXPECT(stat(p.path, &st) == 0 && (st.st_mode & 0777) == 0700);
    EXPECT(chmod(p.path, 0755) == 0);
    EXPECT_EQ(run_dir_make(in(&p, "a//b/"), &p.err), 0);
    EXPECT(stat(p.path, &st) == 0 && (st.st_mode & 0777) == 0700);
    place_end(&p);
}

TEST(run_folder_is_refused_where_others_may_write) {
    static const struct {
        const char *name;
        mode_t mode;
        bool good;
    } cases[] = {{"a", 0777, false},
                 {"a", 0770, false},
                 {"a", 01777, true},
                 {"a", 0755, true},
                 {"a/b", 0722, false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct place p;
        EXPECT(place_new(&p));
        EXPECT(mkdir(in(&p, "a"), 0700) == 0 && mkdir(in(&p, "a/b"), 0700) == 0);
        EXPECT(chmod(in(&p, cases[i].name), cases[i].mode) == 0);
        int rc = run_dir_make(in(&p, "a/b"), &p.err);
        EXPECT_EQ(rc, cases[i].good ? 0 : ERR_INVALID);
        EXPECT(cases[i].good || strstr(p.err.text, "others may write into"));
        place_end(&p);
    }
}

/* Another user who came first to a place in /tmp has neither it nor a link in it. */
TEST(run_folder_is_refused_behind_another_user) {
    struct place p;
    if (geteuid() != 0)
        return; /* only root can make another's */
    EXPECT(place_new(&p));
    EXPECT(mkdir(in(&p, "a"), 0700) == 0 && chown(p.path, 65534, 65534) == 0);
    EXPECT_EQ(run_dir_make(in(&p, "a/b"), &p.err), ERR_INVALID);
    EXPECT(strstr(p.err.text, "another user's"));
    EXPECT(mkdir(in(&p, "real"), 0700) == 0);
    snprintf(p.other, sizeof p.other, "%s", p.path);
    EXPECT(symlink(p.other, in(&p, "link")) == 0 && lchown(p.path, 65534, 65534) == 0);
    EXPECT_EQ(run_dir_make(in(&p, "link/b"), &p.err), ERR_INVALID);
    EXPECT(strstr(p.err.text, "is a link"));
    place_end(&p);
}

/* A link of our own leads to a folder of ours: who owns one between could put another in its place. */
TEST(run_folder_is_refused_behind_a_link_through_another_users) {
    struct place p;
    if (geteuid() != 0)
        return; /* only root can make another's */
    EXPECT(place_new(&p));
    EXPECT(mkdir(in(&p, "theirs"), 0700) == 0 && mkdir(in(&p, "theirs/ours"), 0700) == 0);
    snprintf(p.other, sizeof p.other, "%s", p.path);
    EXPECT(symlink(p.other, in(&p, "link")) == 0 && symlink("theirs/ours", in(&p, "near")) == 0);
    EXPECT_EQ(run_dir_make(in(&p, "link/b"), &p.err), 0);
    EXPECT_EQ(run_dir_make(in(&p, "near/c"), &p.err), 0);
    EXPECT(dir_exists(in(&p, "theirs/ours/b")) && dir_exists(in(&p, "theirs/ours/c")));
    EXPECT(chown(in(&p, "theirs"), 65534, 65534) == 0);
    EXPECT_EQ(run_dir_make(in(&p, "link/b"), &p.err), ERR_INVALID);
    EXPECT(strstr(p.err.text, "another user's") && strstr(p.err.text, "theirs"));
    EXPECT_EQ(run_dir_make(in(&p, "near/c"), &p.err), ERR_INVALID);
    place_end(&p);
}

TEST(run_folder_is_behind_no_ring_of_links) {
    struct place p;
    EXPECT(place_new(&p));
    EXPECT(symlink("two", in(&p, "one")) == 0 && symlink("one", in(&p, "two")) == 0);
    EXPECT_EQ(run_dir_make(in(&p, "one/b"), &p.err), ERR_INVALID);
    EXPECT(strstr(p.err.text, "do not end"));
    place_end(&p);
}

TEST(run_folder_is_no_link) {
    struct place p;
    EXPECT(place_new(&p));
    EXPECT(mkdir(in(&p, "real"), 0700) == 0);
    snprintf(p.other, sizeof p.other, "%s", p.path);
    EXPECT(symlink(p.other, in(&p, "link")) == 0);
    EXPECT_EQ(run_dir_make(in(&p, "link"), &p.err), ERR_INVALID);
    EXPECT(strstr(p.err.text, "is a link"));
    EXPECT_EQ(run_dir_make(in(&p, "link/b"), &p.err), 0); /* one of our own on the way */
    FILE *f = fopen(in(&p, "file"), "w");
    EXPECT(f && fclose(f) == 0);
    EXPECT(run_dir_make(p.path, &p.err) != 0 && run_dir_make(in(&p, "file/b"), &p.err) != 0);
    place_end(&p);
}
