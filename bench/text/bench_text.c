/*
 * bench_text TOKENIZER FILE...: how fast one thread encodes, as JSON lines, for
 * bench/text/text_bench.py.
 *
 * For the tokenizer: milliseconds to open it and the memory that it took. For each file: MB/s of
 * its first megabyte in this process (only true for the first file of a process), of the whole file
 * as one text, and cut into texts of 1 kB; warm, the median of seven. Without files: the worst
 * cases, milliseconds for 1 MB of one letter, of spaces, of emoji.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fsutil.h"
#include "text/tokenizer/fast/compiled.h"
#include "text/tokenizer/open.h"
#include "text/tokenizer/tokenizer.h"

enum { RUNS = 7, MEGABYTE = 1000 * 1000, PIECE = 1000 };

static struct tokenizer *tokenizer;
static struct token_vec ids;

static double resident_mb(void) {
    long pages = 0, all;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * 4096 / 1e6;
}

static void encode(const uint8_t *text, size_t len) {
    struct error err;
    ids.count = 0;
    if (tokenizer_encode(tokenizer, bytes_of(text, len), 0, &ids, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

/* Bytes of `len` that end where a character ends. */
static size_t whole_characters(const uint8_t *text, size_t len, size_t max) {
    while (len < max && (text[len] & 0xC0) == 0x80)
        len++;
    return len;
}

static double encode_whole(const uint8_t *text, size_t len) {
    int64_t start = clock_ns();
    encode(text, len);
    return (double)(clock_ns() - start);
}

static double encode_pieces(const uint8_t *text, size_t len) {
    int64_t start = clock_ns();
    for (size_t at = 0; at < len;) {
        size_t n = whole_characters(text + at, MIN((size_t)PIECE, len - at), len - at);
        encode(text + at, n);
        at += n;
    }
    return (double)(clock_ns() - start);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ns(double (*run)(const uint8_t *, size_t), const uint8_t *text, size_t len) {
    double times[RUNS];
    run(text, len);
    for (int i = 0; i < RUNS; i++)
        times[i] = run(text, len);
    qsort(times, RUNS, sizeof *times, compare);
    return times[RUNS / 2];
}

static void bench_file(const char *path) {
    struct error err;
    struct buf text;
    buf_init(&text, 0);
    if (file_read(path, (size_t)1 << 30, &text, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    const uint8_t *data = (const uint8_t *)buf_text(&text);
    size_t first = whole_characters(data, MIN(text.len, (size_t)MEGABYTE), text.len);
    double cold = encode_whole(data, first);
    double whole = median_ns(encode_whole, data, text.len),
           pieces = median_ns(encode_pieces, data, text.len);
    printf("{\"file\":\"%s\",\"cold\":%.1f,\"document\":%.1f,\"pieces\":%.1f}\n", path,
           (double)first / cold * 1e3, (double)text.len / whole * 1e3,
           (double)text.len / pieces * 1e3);
    buf_release(&text);
}

static void bench_worst(const char *name, const char *unit) {
    size_t len = strlen(unit), count = MEGABYTE / len;
    uint8_t *text = malloc(count * len);
    CHECK(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * len, unit, len);
    printf("{\"worst\":\"%s\",\"ms\":%.2f}\n", name,
           median_ns(encode_whole, text, count * len) / 1e6);
    free(text);
}

int main(int argc, char **argv) {
    struct error err;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_text TOKENIZER [FILE...]\n");
        return 2;
    }
    if (getenv("TRIREME_CACHE_DIR"))
        compiled_set_folder(getenv("TRIREME_CACHE_DIR"));
    double before = resident_mb();
    int64_t start = clock_ns();
    if (tokenizer_open(argv[1], &tokenizer, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("{\"load_ms\":%.1f,\"load_mb\":%.1f}\n", (double)(clock_ns() - start) / 1e6,
           resident_mb() - before);
    for (int i = 2; i < argc; i++)
        bench_file(argv[i]);
    if (argc > 2)
        return 0;
    bench_worst("one letter", "a");
    bench_worst("spaces", " ");
    bench_worst("emoji", "\xF0\x9F\x99\x82");
    return 0;
}
