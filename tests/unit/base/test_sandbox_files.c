/* Which rules the kernel is asked for, by a Landlock of the test's own: so they are the same to see on a kernel without
 * it. test_sandbox.c has what the rules do where the kernel has it. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/sandbox.h"
#include "check.h"

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };

/* What the kernel can, what it refuses, and what it was asked for: a line for each call. */
static struct {
    bool answers; /* else calls go to the kernel */
    long version; /* of its Landlock; 0: it has none */
    long refuses; /* a call's number; 0: none */
    struct buf log;
    int rules; /* the descriptor of the rules */
} kernel;

static long refuse(int code) {
    errno = code;
    return -1;
}

static void add_path_of(int fd) {
    char name[64], path[256];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(name, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    buf_add_str(&kernel.log, path);
}

static long create_rules(const uint64_t *handled, size_t size, long flags) {
    if (!kernel.version)
        return refuse(ENOSYS);
    if (!handled)
        return size == 0 && flags == 1 ? kernel.version : refuse(EINVAL);
    buf_addf(&kernel.log, "rules %llx of %zu bytes\n", (unsigned long long)*handled, size);
    return kernel.rules = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static long add_rule(int rules, long type, const void *rule, long flags) {
    uint64_t allowed;
    int32_t parent;
    memcpy(&allowed, rule, sizeof allowed);
    memcpy(&parent, (const char *)rule + sizeof allowed, sizeof parent);
    if (rules != kernel.rules || type != 1 || flags)
        return refuse(EINVAL);
    buf_addf(&kernel.log, "%llx ", (unsigned long long)allowed);
    add_path_of(parent);
    buf_add_byte(&kernel.log, '\n');
    return 0;
}

/* In place of libc's. */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (size_t i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    if (!kernel.answers || number < CREATE_RULESET || number > RESTRICT_SELF)
        return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == kernel.refuses && a[0])
        return refuse(E2BIG);
    if (number == CREATE_RULESET)
        return create_rules((const uint64_t *)a[0], (size_t)a[1], a[2]);
    if (number == ADD_RULE)
        return add_rule((int)a[0], a[1], (const void *)a[2], a[3]);
    buf_addf(&kernel.log, "restricted %d\n", (int)a[0] == kernel.rules && !a[1]);
    return 0;
}

static char top[] =
    "/tmp/sandbox-files-XXXXXX"; /* with mine, given/f, linked/f, mine/link to it, f */

static const char *below(const char *name) {
    static char paths[8][64];
    static size_t count;
    char *path = paths[count++ % ARRAY_LEN(paths)];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static bool lay_out(void) {
    static const char *const FOLDERS[] = {"mine", "given", "linked"};
    static const char *const FILES[] = {"given/f", "linked/f", "f"};
    bool good = mkdtemp(top) && !chdir(top);
    for (size_t i = 0; i < ARRAY_LEN(FOLDERS); i++)
        good = good && !mkdir(below(FOLDERS[i]), 0700);
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++)
        good = good && !close(open(below(FILES[i]), O_WRONLY | O_CREAT, 0600));
    return good && !symlink("../linked/f", below("mine/link"));
}

/* The rules for places of the test, without its folder's name, one after the other. */
static const char *rules_of_places(void) {
    static struct buf out;
    buf_reset(&out);
    for (const char *line = buf_text(&kernel.log); *line; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n'), *at = strstr(line, top);
        if (at && at < end) {
            buf_add(&out, line, (size_t)(at - line));
            buf_add(&out, at + strlen(top), (size_t)(end - at) - strlen(top));
            buf_add_str(&out, "; ");
        }
    }
    return buf_text(&out);
}

static int enter(const struct sandbox_place *places, size_t count, struct error *err) {
    buf_reset(&kernel.log);
    kernel.answers = true;
    int rc = sandbox_enter_files(places, count, err);
    kernel.answers = false;
    return rc;
}

/* READING is c; WRITING 3ae, and 43ae where truncation is a right of its own. */
static const struct {
    const char *path;
    enum sandbox_use use;
    const char *rules;
} PLACES[] = {
    {"mine", SANDBOX_WRITES_BELOW, "43ae /mine; "},
    {"given/f", SANDBOX_READS_FILE, "c /given; c /given; "},
    {"mine/link", SANDBOX_READS_FILE, "c /mine; c /linked; "},
    {"given/absent", SANDBOX_READS_FILE, "c /given; "},
    {"made/socket", SANDBOX_WRITES_FILE, "43ae /made; "},
    {"made/below/it", SANDBOX_WRITES_BELOW, "43ae /made/below/it; "},
    {"f/no/folder", SANDBOX_WRITES_BELOW, ""},
    {"f/no/file", SANDBOX_WRITES_FILE, ""},
    {"no/such/file", SANDBOX_READS_FILE, ""},
};

TEST(each_place_has_the_rules_of_its_use) {
    struct error err = {0};
    EXPECT(lay_out());
    kernel.version = 3;
    for (size_t i = 0; i < ARRAY_LEN(PLACES); i++) {
        struct sandbox_place place = {below(PLACES[i].path), PLACES[i].use};
        EXPECT_EQ(enter(&place, 1, &err), 0);
        if (strcmp(rules_of_places(), PLACES[i].rules) != 0)
            check_fail(__FILE__, __LINE__, "%s: %s", PLACES[i].path, rules_of_places());
    }
    /* in the folder that the process is in, and in the topmost one */
    const struct sandbox_place named[] = {{"f", SANDBOX_READS_FILE},
                                          {"", SANDBOX_WRITES_BELOW},
                                          {NULL, SANDBOX_WRITES_FILE},
                                          {"/no-such-file", SANDBOX_READS_FILE},
                                          {below("mine"), SANDBOX_WRITES_BELOW}};
    EXPECT_EQ(enter(named, ARRAY_LEN(named), &err), 0);
    EXPECT_STR(rules_of_places(), "c ; c ; 43ae /mine; ");
    EXPECT(strstr(buf_text(&kernel.log), "\nc /\n"));
}

TEST(rules_are_for_the_system_and_what_the_kernel_can) {
    static const struct {
        long version;
        const char *handled, *mine;
    } KERNELS[] = {{1, "1fff", "3ae /mine; "},
                   {2, "1fff", "3ae /mine; "},
                   {3, "5fff", "43ae /mine; "},
                   {6, "5fff", "43ae /mine; "}};
    struct sandbox_place mine = {below("mine"), SANDBOX_WRITES_BELOW};
    struct error err = {0};
    Dl_info libc;
    char folder[PATH_MAX];
    EXPECT(dladdr((void *)&opendir, &libc) && realpath(libc.dli_fname, folder));
    *strrchr(folder, '/') = 0;
    for (size_t i = 0; i < ARRAY_LEN(KERNELS); i++) {
        char head[64], library[PATH_MAX + 8];
        int fds = dup(0);
        close(fds);
        kernel.version = KERNELS[i].version;
        EXPECT_EQ(enter(&mine, 1, &err), 0);
        const char *log = buf_text(&kernel.log);
        snprintf(head, sizeof head, "rules %s of 8 bytes\n", KERNELS[i].handled);
        snprintf(library, sizeof library, "\nc %s\n", folder);
        EXPECT(!strncmp(log, head, strlen(head)) && strstr(log, library));
        EXPECT(strstr(log, "\nc /usr\n") && strstr(log, "\nc /etc\n"));
        EXPECT(strstr(log, "\n4 /dev/null\n") && strstr(log, "\n4 /dev/urandom\n"));
        EXPECT_STR(rules_of_places(), KERNELS[i].mine);
        EXPECT_STR(strstr(log, "restricted"), "restricted 1\n");
        int after = dup(0); /* no descriptor is left open */
        close(after);
        EXPECT_EQ(after, fds);
    }
}

TEST(what_a_kernel_refuses_is_told) {
    static const struct {
        long version, refuses;
        int code;
        const char *text;
    } REFUSALS[] = {
        {0, 0, ERR_UNSUPPORTED, "this kernel has no Landlock"},
        {1, CREATE_RULESET, ERR_IO, "cannot make rules for files: Argument list too long"},
        {1, RESTRICT_SELF, ERR_IO, "cannot give up files: Argument list too long"},
        {1, ADD_RULE, ERR_IO, "' to the process: Argument list too long"},
    };
    struct sandbox_place mine = {below("mine"), SANDBOX_WRITES_BELOW};
    for (size_t i = 0; i < ARRAY_LEN(REFUSALS); i++) {
        struct error err = {0};
        kernel.version = REFUSALS[i].version;
        kernel.refuses = REFUSALS[i].refuses;
        EXPECT_EQ(enter(&mine, 1, &err), REFUSALS[i].code);
        EXPECT(strstr(err.text, REFUSALS[i].text));
        EXPECT(!strstr(buf_text(&kernel.log), "restricted"));
    }
    kernel.refuses = 0;
    buf_release(&kernel.log);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", top);
    EXPECT_EQ(chdir("/") | system(command), 0);
}
