/*
 * text_encode: tokenizes or decodes what comes on standard input, for tokenizer_diff.py and for
 * timing.
 *
 *   text_encode TOKENIZER encode [FLAGS]   in: u32 length, text; out: u32 count, u32 ids
 *   text_encode TOKENIZER offsets [FLAGS]  the same; behind the ids begin and end of each, in characters, u32 each
 *   text_encode TOKENIZER decode [FLAGS]   in: u32 count, ids; out: u32 length, text
 *   text_encode TOKENIZER stream [FLAGS]   as decode, through the incremental detokenizer
 *   text_encode TOKENIZER spans  [FLAGS]   in: as decode; out: u32 count of ids, begin and end of each, u32 each
 *   text_encode TOKENIZER bench FILE...    prints load time and encoding speed
 *
 * FLAGS is the number of the flags in tokenizer.h. Numbers are little-endian.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/fsutil.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/fast/compiled.h"
#include "text/tokenizer/open.h"

static bool read_u32(uint32_t *v) {
    return fread(v, 4, 1, stdin) == 1;
}

static void write_all(const void *data, size_t size) {
    if (size && fwrite(data, size, 1, stdout) != 1)
        exit(1);
}

static void encode_loop(const struct tokenizer *t, unsigned flags, bool with_offsets) {
    struct token_vec ids = {0};
    struct offset_map offsets = {0};
    struct error err;
    uint32_t len;
    while (read_u32(&len)) {
        char *text = mem_alloc((size_t)len + 1);
        if (len && fread(text, len, 1, stdin) != 1)
            exit(1);
        ids.count = 0;
        offsets.spans.count = 0;
        uint32_t count = UINT32_MAX;
        if (!(with_offsets
                  ? tokenizer_encode_offsets(t, bytes_of(text, len), flags, &ids, &offsets, &err)
                  : tokenizer_encode(t, bytes_of(text, len), flags, &ids, &err)))
            count = (uint32_t)ids.count;
        else
            fprintf(stderr, "%s\n", err.text);
        write_all(&count, 4);
        write_all(ids.items, ids.count * 4);
        write_all(offsets.spans.items, offsets.spans.count * 8);
        fflush(stdout);
        mem_free(text);
    }
    vec_release(&ids);
    vec_release(&offsets.spans);
}

static void stream(const struct tokenizer *t, struct tokens ids, unsigned flags, struct buf *out) {
    struct detok d;
    detok_init(&d, t, flags);
    for (size_t i = 0; i < ids.count; i++)
        detok_push(&d, ids.ids[i], out);
    detok_flush(&d, out);
}

static void decode_loop(const struct tokenizer *t, unsigned flags, bool streamed) {
    struct buf out = {0};
    uint32_t count;
    while (read_u32(&count)) {
        uint32_t *ids = mem_calloc((size_t)count + 1, 4);
        if (count && fread(ids, 4, count, stdin) != count)
            exit(1);
        buf_reset(&out);
        if (streamed)
            stream(t, (struct tokens){ids, count}, flags, &out);
        else
            tokenizer_detokenize(t, (struct tokens){ids, count}, flags, &out);
        uint32_t len = (uint32_t)out.len;
        write_all(&len, 4);
        write_all(out.data, out.len);
        fflush(stdout);
        mem_free(ids);
    }
    buf_release(&out);
}

static void spans_loop(const struct tokenizer *t, unsigned flags) {
    struct buf out = {0};
    uint32_t count;
    while (read_u32(&count)) {
        uint32_t *ids = mem_calloc((size_t)count + 1, 4);
        struct token_span *spans = mem_calloc((size_t)count + 1, sizeof *spans);
        if (count && fread(ids, 4, count, stdin) != count)
            exit(1);
        buf_reset(&out);
        detok_spans(t, (struct tokens){ids, count}, flags, spans, &out);
        write_all(&count, 4);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t span[2] = {(uint32_t)spans[i].begin, (uint32_t)spans[i].end};
            write_all(span, sizeof span);
        }
        fflush(stdout);
        mem_free(ids);
        mem_free(spans);
    }
    buf_release(&out);
}

/* Processor time: other processes do not count. */
static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static double seconds_since(int64_t start_ns) {
    return (double)(cpu_ns() - start_ns) * 1e-9;
}

static void bench_file(const struct tokenizer *t, const char *path) {
    struct buf text = {0};
    struct error err;
    struct token_vec ids = {0};
    if (file_read(path, 1u << 30, &text, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    double whole = 1e9, pieces = 1e9, first = 0;
    for (int round = 0; round < 7; round++) {
        int64_t start = cpu_ns();
        ids.count = 0;
        if (tokenizer_encode(t, buf_bytes(&text), 0, &ids, &err))
            exit(1);
        double s = seconds_since(start);
        if (!round)
            first = s;
        whole = MIN(whole, s);
        start = cpu_ns();
        for (size_t at = 0; at < text.len;) {
            size_t end = MIN(text.len, at + 1000);
            while (end < text.len && (text.data[end] & 0xC0) == 0x80)
                end++;
            ids.count = 0;
            if (tokenizer_encode(t, bytes_of(text.data + at, end - at), 0, &ids, &err))
                exit(1);
            at = end;
        }
        pieces = MIN(pieces, seconds_since(start));
    }
    double mb = (double)text.len * 1e-6;
    printf("%-60s %7.1f MB/s whole, %7.1f MB/s in pieces of 1 kB, %7.1f MB/s first time\n", path,
           mb / whole, mb / pieces, mb / first);
    vec_release(&ids);
    buf_release(&text);
}

int main(int argc, char **argv) {
    struct tokenizer *t = NULL;
    struct error err;
    if (argc < 3)
        return 2;
    if (getenv("TRIREME_CACHE_DIR"))
        compiled_set_folder(getenv("TRIREME_CACHE_DIR"));
    int64_t start = cpu_ns();
    if (tokenizer_open(argv[1], &t, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    unsigned flags = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    if (!strcmp(argv[2], "encode"))
        encode_loop(t, flags, false);
    if (!strcmp(argv[2], "offsets"))
        encode_loop(t, flags, true);
    if (!strcmp(argv[2], "decode"))
        decode_loop(t, flags, false);
    if (!strcmp(argv[2], "stream"))
        decode_loop(t, flags, true);
    if (!strcmp(argv[2], "spans"))
        spans_loop(t, flags);
    if (!strcmp(argv[2], "bench")) {
        printf("load %.1f ms\n", 1e3 * seconds_since(start));
        for (int i = 3; i < argc; i++)
            bench_file(t, argv[i]);
    }
    tokenizer_free(&t);
    return 0;
}
