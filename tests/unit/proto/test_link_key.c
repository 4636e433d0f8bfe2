/*
 * test_link_key.c - key files and allow lists: who may read them, what may stand in them.
 */
#include <dirent.h>
#include <fcntl.h>

#include "check.h"
#include "tcp_keys.h"

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
static char folder[32], path[64];

static void begin(void) {
    strcpy(folder, "/tmp/trmXXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
}
static void end(void) {
    unlink(path);
    rmdir(folder);
}

static void write_text(const char *text) {
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static int file_count(void) {
    int count = 0;
    DIR *dir = opendir(folder);
    CHECK(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

TEST(key_file_keeps_a_pair_for_its_owner_alone) {
    struct link_key_pair made, read;
    struct error err;
    struct stat st;
    begin();
    umask(0);
    link_key_pair_make(&made, WIRE_ROLE_WORKER);
    EXPECT_EQ(link_key_file_write(path, &made, &err), 0);
    umask(022);
    EXPECT_EQ(stat(path, &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0600);
    EXPECT_EQ(file_count(), 1); /* nothing lies beside it */
    EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_WORKER, &read, &err), 0);
    EXPECT(!memcmp(&made, &read, sizeof made));
    end();
}

/* The descriptor that the next open file has. */
static int next_descriptor(void) {
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    return fd;
}

TEST(key_file_is_closed_once_it_is_read_or_refused) {
    struct link_key_pair made, read;
    struct error err;
    begin();
    link_key_pair_make(&made, WIRE_ROLE_WORKER);
    int before = next_descriptor();
    EXPECT_EQ(link_key_file_write(path, &made, &err), 0);
    EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_WORKER, &read, &err), 0);
    EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_GATEWAY, &read, &err), ERR_INVALID);
    EXPECT_EQ(chmod(path, 0644), 0);
    EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_WORKER, &read, &err), ERR_INVALID);
    EXPECT_EQ(next_descriptor(), before);
    end();
}

TEST(key_file_is_never_written_over_nor_through_a_link) {
    struct link_key_pair made, read;
    struct error err;
    char target[64];
    begin();
    link_key_pair_make(&made, WIRE_ROLE_WORKER);
    EXPECT_EQ(link_key_file_write(path, &made, &err), 0);
    EXPECT_EQ(link_key_file_write(path, &made, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "there already"));
    EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_WORKER, &read, &err), 0);
    unlink(path);
    snprintf(target, sizeof target, "%s/elsewhere", folder);
    EXPECT_EQ(symlink(target, path), 0);
    EXPECT_EQ(link_key_file_write(path, &made, &err), ERR_INVALID);
    EXPECT(access(target, F_OK) != 0);
    EXPECT_EQ(file_count(), 1);
    end();
}

TEST(key_file_that_others_can_read_is_refused) {
    static const int MODES[] = {0640, 0604, 0610, 0620, 0602, 0677};
    struct link_key_pair made, read;
    struct error err;
    begin();
    link_key_pair_make(&made, WIRE_ROLE_GATEWAY);
    EXPECT_EQ(link_key_file_write(path, &made, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(MODES); i++) {
        EXPECT_EQ(chmod(path, (mode_t)MODES[i]), 0);
        EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_GATEWAY, &read, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "chmod 600"));
    }
    EXPECT_EQ(chmod(path, 0400), 0);
    EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_GATEWAY, &read, &err), 0);
    if (geteuid() == 0) {
        EXPECT_EQ(chown(path, 12345, (gid_t)-1), 0);
        EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_GATEWAY, &read, &err), ERR_INVALID);
    }
    end();
}

TEST(key_file_of_another_role_or_of_nonsense_is_refused) {
    struct link_key_pair made, other, read;
    struct error err;
    char secret[LINK_KEY_TEXT_MAX], public[LINK_KEY_TEXT_MAX], text[512];
    begin();
    link_key_pair_make(&made, WIRE_ROLE_GATEWAY);
    link_key_pair_make(&other, WIRE_ROLE_GATEWAY);
    EXPECT_EQ(link_key_file_write(path, &made, &err), 0);
    EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_WORKER, &read, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "a gateway's key, not a worker's"));
    link_key_text(&made.secret_key, secret);
    link_key_text(&other.public_key, public); /* not its own */
    chmod(path, 0600);
    snprintf(text, sizeof text, "role gateway\npublic %s\nsecret %s\n", public, secret);
    write_text(text);
    EXPECT_EQ(link_key_file_read(path, WIRE_ROLE_GATEWAY, &read, &err), ERR_INVALID);
    static const char *const BAD[] = {
        "", "role gateway\n", "role admin\n", "secret 12\n", "role gateway extra\n", "\xff\xfe\n"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        write_text(BAD[i]);
        EXPECT_EQ(link_key_file_read(path, (enum wire_role)0, &read, &err), ERR_INVALID);
        static const struct link_key_pair NONE;
        EXPECT(!memcmp(&read, &NONE, sizeof read)); /* nothing is left of a secret */
    }
    end();
}

TEST(allow_list_says_whose_key_it_is) {
    struct allow_list list;
    struct allow_row row = {.role = WIRE_ROLE_GATEWAY, .name = "front-1"};
    struct link_key_pair pair;
    struct error err;
    begin();
    for (int role = WIRE_ROLE_GATEWAY; role <= WIRE_ROLE_SCHEDULER; role++) {
        link_key_pair_make(&pair, (enum wire_role)role);
        row.role = (enum wire_role)role;
        row.key = pair.public_key;
        EXPECT_EQ(allow_list_add(path, &row, &err), 0);
        EXPECT_EQ(allow_list_add(path, &row, &err), 0); /* once */
    }
    EXPECT_EQ(allow_list_open(&list, path, &err), 0);
    EXPECT_EQ(list.rows.count, 4);
    EXPECT_EQ(allow_list_find(&list, &row.key)->role, WIRE_ROLE_SCHEDULER);
    EXPECT_STR(allow_list_find(&list, &row.key)->name, "front-1");
    link_key_pair_make(&pair, WIRE_ROLE_GATEWAY);
    EXPECT(!allow_list_find(&list, &pair.public_key));
    row.role = WIRE_ROLE_WORKER; /* one key, two roles */
    EXPECT_EQ(allow_list_add(path, &row, &err), ERR_INVALID);
    allow_list_release(&list);
    end();
}

TEST(allow_list_is_refused_where_others_write_or_a_line_is_wrong) {
    struct allow_list list;
    struct error err;
    static const char *const BAD[] = {"gateway " KEY "0\n", "admin " KEY " name\n", "gateway 00\n",
                                      "gateway " KEY " a b\n",
                                      "gateway " KEY " x\nworker " KEY " y\n"};
    begin();
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        write_text(BAD[i]);
        EXPECT_EQ(allow_list_open(&list, path, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "line 1") || (i == 4 && strstr(err.text, "line 2")));
        allow_list_release(&list);
    }
    write_text("# a comment\n\n  gateway   " KEY "\r\n");
    EXPECT_EQ(allow_list_open(&list, path, &err), 0);
    EXPECT_EQ(list.rows.count, 1);
    EXPECT(!allow_list_refresh(&list)); /* nothing changed */
    write_text("gateway nonsense\n");
    EXPECT(!allow_list_refresh(&list)); /* what it knew stays */
    EXPECT_EQ(list.rows.count, 1);
    write_text("");
    EXPECT(allow_list_refresh(&list));
    EXPECT_EQ(list.rows.count, 0);
    allow_list_release(&list);
    EXPECT_EQ(chmod(path, 0666), 0);
    EXPECT_EQ(allow_list_open(&list, path, &err), ERR_INVALID);
    allow_list_release(&list);
    end();
}

/* A comment of so many bytes and one row, in a list of mode 0644. */
static void write_list(size_t comment) {
    FILE *f = fopen(path, "w");
    CHECK(f && fputc('#', f) != EOF);
    for (size_t i = 0; i < comment - 2; i++)
        CHECK(fputc('x', f) != EOF);
    CHECK(fputs("\ngateway " KEY "\n", f) >= 0 && fclose(f) == 0);
}

TEST(allow_list_may_be_a_megabyte) {
    static const char ROW[] = "gateway " KEY "\n";
    struct allow_list list;
    struct error err;
    begin();
    for (size_t more = 0; more < 2; more++) {
        write_list((1 << 20) - strlen(ROW) + more);
        EXPECT_EQ(allow_list_open(&list, path, &err), more ? ERR_LIMIT : 0);
        EXPECT_EQ(list.rows.count, more ? 0 : 1);
        allow_list_release(&list);
    }
    EXPECT(strstr(err.text, "is larger than 1048576 bytes"));
    end();
}

TEST(folder_of_keys_is_made_once) {
    struct tcp_keys k;
    struct link_key_pair first, second;
    struct allow_list list;
    struct error err;
    EXPECT(tcp_keys_make(&k));
    EXPECT_EQ(link_key_file_read(k.files[WIRE_ROLE_WORKER], WIRE_ROLE_WORKER, &first, &err), 0);
    EXPECT_EQ(link_keys_make(k.folder, &err), 0);
    EXPECT_EQ(link_key_file_read(k.files[WIRE_ROLE_WORKER], WIRE_ROLE_WORKER, &second, &err), 0);
    EXPECT(!memcmp(&first, &second, sizeof first));
    EXPECT_EQ(allow_list_open(&list, k.allow, &err), 0);
    EXPECT_EQ(list.rows.count, 4);
    allow_list_release(&list);
    EXPECT_EQ(unlink(k.files[WIRE_ROLE_WORKER]), 0); /* that one anew, and both are allowed */
    EXPECT_EQ(link_keys_make(k.folder, &err), 0);
    EXPECT_EQ(allow_list_open(&list, k.allow, &err), 0);
    EXPECT_EQ(list.rows.count, 5);
    allow_list_release(&list);
    tcp_keys_remove(&k);
}

TEST(link_roles_have_names_and_others_are_nobodys) {
    EXPECT_STR(link_role_name(WIRE_ROLE_GATEWAY), "gateway");
    EXPECT_STR(link_role_name(WIRE_ROLE_SCHEDULER), "scheduler");
    EXPECT_STR(link_role_name(0), "nobody");
    EXPECT_STR(link_role_name(WIRE_ROLE_SCHEDULER + 1), "nobody");
}
