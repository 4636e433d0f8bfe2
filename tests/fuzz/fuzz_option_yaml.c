/* A settings file is a person's, but it may be cut, binary or hostile all the same. */
#include "base/fsutil.h"
#include "base/option.h"
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct settings {
    int64_t count, wait_ms;
    const char *name;
    uint64_t size;
    int kind;
    bool flag;
    double ratio;
};
#define AT(field) offsetof(struct settings, field)
static const struct option_row ROWS[] = {
    {"count", 0, OPTION_INT, AT(count), "1", .min = -5, .max = 100, .help = "."},
    {"wait", 0, OPTION_DURATION, AT(wait_ms), "1s", .help = "."},
    {"name", 0, OPTION_STRING, AT(name), "x", .help = "."},
    {"size", 0, OPTION_SIZE, AT(size), "1k", .help = "."},
    {"kind", 0, OPTION_ENUM, AT(kind), "a", .choices = "a|b", .help = "."},
    {"flag", 0, OPTION_BOOL, AT(flag), "no", .help = "."},
    {"ratio", 0, OPTION_FLOAT, AT(ratio), "0", .help = "."},
};
static const struct option_table TABLE = {
    .program = "fuzz", .synopsis = "", .summary = "", .rows = ROWS, .count = ARRAY_LEN(ROWS)};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    char path[64], *argv[] = {"fuzz", "--config", path, NULL};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct settings settings;
    struct error err = {0};
    if (option_parse(&TABLE, &settings, 3, argv, NULL, 0, NULL, &err) == 0) {
        CHECK(settings.count >= -5 && settings.count <= 100 && settings.kind >= 0 &&
              settings.kind <= 1 && settings.name);
        option_free(&TABLE, &settings);
    } else
        CHECK(err.text[0]);
    close(fd);
    return 0;
}
