/*
 * Runs a fuzz target without libFuzzer: over each file of the folders given, then over changes of
 * them (cut, flipped, doubled, spliced, overwritten with telling bytes), the same ones every time.
 * A crash, a sanitizer's report or a run-away time is the failure.
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_FILES = 4096, MAX_LEN = 1 << 20, CHANGES_EACH = 300, SECONDS = 20 };

static struct {
    uint8_t *data;
    size_t len;
} files[MAX_FILES];
static size_t file_count;
static uint64_t random_state = 1;

static uint64_t next_random(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void load(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || file_count == MAX_FILES) {
        fprintf(stderr, "cannot take '%s'\n", path);
        exit(1);
    }
    uint8_t *data = malloc(MAX_LEN);
    files[file_count].len = fread(data, 1, MAX_LEN, f);
    files[file_count].data = realloc(data, files[file_count].len + 1);
    file_count++;
    fclose(f);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_folder(const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            load(name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* The input lies in a block of exactly its size, so that reading past it is seen. */
static void run(const uint8_t *data, size_t len) {
    uint8_t *exact = malloc(len ? len : 1);
    if (len)
        memcpy(exact, data, len);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

static size_t change(uint8_t *data, size_t len, size_t max) {
    static const uint8_t TELLING[] = {0,   1,    0x7f, 0x80, 0xff, '"', '\\', '{',
                                      '[', '\n', '\r', '-',  '0',  '9', ' '};
    size_t at = len ? next_random() % len : 0, n = len - at ? next_random() % (len - at) : 0;
    switch (next_random() % 6) {
    case 0: return at;
    case 1:
        if (len)
            data[at] ^= (uint8_t)(1u << next_random() % 8);
        return len;
    case 2:
        if (len)
            data[at] = TELLING[next_random() % sizeof TELLING];
        return len;
    case 3: /* leave a piece out */ memmove(data + at, data + at + n, len - at - n); return len - n;
    case 4: /* say a piece twice */
        if (len + n > max)
            return len;
        memmove(data + at + n, data + at, len - at);
        return len + n;
    default: { /* put a piece of another file in */
        size_t other = next_random() % file_count,
               from = files[other].len ? next_random() % files[other].len : 0;
        size_t piece = files[other].len - from < max - at ? files[other].len - from : max - at;
        memcpy(data + at, files[other].data + from, piece);
        return at + piece > len ? at + piece : len;
    }
    }
}

int main(int argc, char **argv) {
    static uint8_t scratch[MAX_LEN];
    size_t runs = 0;
    time_t end = time(NULL) + SECONDS;
    for (int i = 1; i < argc; i++)
        load_folder(argv[i]);
    run(NULL, 0);
    for (size_t i = 0; i < file_count; i++, runs++)
        run(files[i].data, files[i].len);
    for (size_t i = 0; i < file_count * CHANGES_EACH && time(NULL) < end; i++, runs++) {
        size_t len = files[i % file_count].len;
        memcpy(scratch, files[i % file_count].data, len);
        for (uint64_t steps = 1 + next_random() % 4; steps; steps--)
            len = change(scratch, len, MAX_LEN);
        run(scratch, len);
    }
    for (size_t i = 0; i < file_count; i++)
        free(files[i].data);
    printf("%zu files, %zu runs\n", file_count, runs);
    return 0;
}
