/* GGUF files as they are written: byte for byte as the specification lays them out, and whole or not at all. */
#include "formats/gguf_write.h"

#include "base/fsutil.h"
#include "check.h"
#include "full_disk.h"
#include "gguf_build.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct error err;
static char place[32], path[64], part[100];

static void begin(struct gguf_writer *w) {
    snprintf(place, sizeof place, "/tmp/trm-test-XXXXXX");
    CHECK(mkdtemp(place));
    snprintf(path, sizeof path, "%s/m.gguf", place);
    snprintf(part, sizeof part, "%s.part%d", path, (int)getpid());
    gguf_writer_init(w, path);
}

/* Nothing but the file itself may be left. */
static void finish(void) {
    unlink(path);
    CHECK(!rmdir(place));
}

static bool file_is(const struct buf *want) {
    struct buf text;
    buf_init(&text, 0);
    bool same = !file_read(path, 1 << 20, &text, &err) && text.len == want->len &&
                !memcmp(text.data, want->data, want->len);
    buf_release(&text);
    return same;
}

static void want_key(struct buf *b, const char *key, uint32_t type) {
    put_text(b, key);
    put_u32(b, type);
}

TEST(gguf_writer_writes_what_the_specification_says) {
    static const struct {
        enum gguf_type type;
        size_t size;
    } INTS[] = {{GGUF_U8, 1},  {GGUF_I8, 1},   {GGUF_U16, 2}, {GGUF_I16, 2}, {GGUF_U32, 4},
                {GGUF_I32, 4}, {GGUF_BOOL, 1}, {GGUF_U64, 8}, {GGUF_I64, 8}};
    static const uint64_t CUBE[] = {2, 3, 5}, ROWS[] = {2, 64}, LINE[] = {3};
    struct gguf_writer w;
    struct buf want;
    int64_t value = INT64_C(0x0102030405060708);
    begin(&w);
    buf_init(&want, 0);
    put_head(&want, 3, 3, 9 + 9);
    for (size_t i = 0; i < ARRAY_LEN(INTS); i++) {
        gguf_put_int(&w, "int", INTS[i].type, value);
        want_key(&want, "int", INTS[i].type);
        buf_add(&want, &value, INTS[i].size);
    }
    gguf_put_f32(&w, "f", 0.1);
    want_key(&want, "f", 6);
    buf_add(&want, &(float){0.1f}, 4);
    gguf_put_string(&w, "s", bytes_str("text"));
    put_key_text(&want, "s", "text");

    gguf_put_array(&w, "strings", GGUF_STRING, 2);
    gguf_add_string(&w, bytes_str("a"));
    gguf_add_string(&w, bytes_str(""));
    want_key(&want, "strings", 9);
    put_u32(&want, 8);
    put_u64(&want, 2);
    put_text(&want, "a");
    put_text(&want, "");
    gguf_put_array(&w, "bools", GGUF_BOOL, 2);
    gguf_add_bool(&w, true);
    gguf_add_bool(&w, false);
    want_key(&want, "bools", 9);
    put_u32(&want, 7);
    put_u64(&want, 2);
    buf_add(&want, "\1\0", 2);
    gguf_put_array(&w, "ints", GGUF_I32, 1);
    gguf_add_i32(&w, -2);
    want_key(&want, "ints", 9);
    put_u32(&want, 5);
    put_u64(&want, 1);
    put_u32(&want, UINT32_MAX - 1);
    gguf_put_array(&w, "floats", GGUF_F32, 1);
    gguf_add_f32(&w, 1.5f);
    want_key(&want, "floats", 9);
    put_u32(&want, 6);
    put_u64(&want, 1);
    buf_add(&want, &(float){1.5f}, 4);
    gguf_put_array(&w, "empty", GGUF_F32, 0);
    want_key(&want, "empty", 9);
    put_u32(&want, 6);
    put_u64(&want, 0);

    const uint8_t copied[] = {1, 2, 3, 4};
    struct gguf_kv kv = {
        .key = bytes_str("copy"), .type = GGUF_U32, .count = 1, .data = copied, .byte_len = 4};
    gguf_put_copy(&w, &kv);
    want_key(&want, "copy", 4);
    buf_add(&want, copied, 4);
    kv.type = GGUF_U16;
    kv.is_array = true;
    kv.count = 2;
    gguf_put_copy(&w, &kv);
    want_key(&want, "copy", 9);
    put_u32(&want, 2);
    put_u64(&want, 2);
    buf_add(&want, copied, 4);

    EXPECT_EQ(gguf_put_tensor(&w, "cube", TENSOR_F32, CUBE, 3, &err), 0);
    EXPECT_EQ(gguf_put_tensor(&w, "rows", TENSOR_Q4_0, ROWS, 2, &err), 0);
    EXPECT_EQ(gguf_put_tensor(&w, "line", TENSOR_F16, LINE, 1, &err), 0);
    put_text(&want, "cube");
    put_u32(&want, 3);
    put_u64(&want, 5);
    put_u64(&want, 3);
    put_u64(&want, 2);
    put_u32(&want, 0);
    put_u64(&want, 0);
    put_tensor(&want, "rows", 64, 2, 2, 128); /* 120 bytes before it */
    put_tensor(&want, "line", 3, 0, 1, 224);  /* four blocks of 18 */
    put_padding(&want, 32);

    static uint8_t data[120];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i + 1);
    EXPECT_EQ(gguf_write_begin(&w, &err), 0);
    EXPECT(!file_exists(path) && file_exists(part));
    EXPECT_EQ(gguf_write_data(&w, data, 100, &err), 0);
    EXPECT_EQ(gguf_write_data(&w, data + 100, 20, &err), 0);
    EXPECT_EQ(gguf_write_data(&w, data, 0, &err), 0);
    EXPECT_EQ(gguf_write_pad(&w, &err), 0);
    EXPECT_EQ(gguf_write_pad(&w, &err), 0); /* nothing is missing */
    EXPECT_EQ(gguf_write_data(&w, data, 72, &err), 0);
    EXPECT_EQ(gguf_write_pad(&w, &err), 0);
    EXPECT_EQ(gguf_write_data(&w, data, 6, &err), 0);
    EXPECT_EQ(gguf_write_pad(&w, &err), 0);
    EXPECT_EQ(gguf_write_end(&w, &err), 0);
    buf_add(&want, data, 120);
    put_padding(&want, 32);
    buf_add(&want, data, 72);
    put_padding(&want, 32);
    buf_add(&want, data, 6);
    put_padding(&want, 32);
    EXPECT(file_exists(path) && !file_exists(part));
    EXPECT(file_is(&want));
    gguf_writer_release(&w); /* the file stays */
    EXPECT(file_is(&want));
    buf_release(&want);
    finish();
}

TEST(gguf_writer_refuses_tensors_that_the_format_lacks) {
    static const uint64_t DIMS[] = {1, 1, 1, 1, 1};
    struct gguf_writer w;
    begin(&w);
    EXPECT_EQ(gguf_put_tensor(&w, "t", TENSOR_F32, DIMS, 5, &err), ERR_UNSUPPORTED);
    EXPECT_STR(err.text, "'t': GGUF has no tensors of type F32 with 5 dimensions");
    EXPECT_EQ(gguf_put_tensor(&w, "t", TENSOR_F32, DIMS, 0, &err), ERR_UNSUPPORTED);
    EXPECT_EQ(gguf_put_tensor(&w, "t", TENSOR_F8_E5M2, DIMS, 1, &err), ERR_UNSUPPORTED);
    EXPECT_EQ(gguf_put_tensor(&w, "t", TENSOR_F32, DIMS, 4, &err), 0);
    EXPECT(w.tensor_count == 1 && w.data_len == 32);
    gguf_writer_release(&w);
    finish();
}

/* What was not ended is taken away, and whoever had the name before keeps it. */
TEST(gguf_writer_that_stops_leaves_nothing) {
    static const uint64_t DIMS[] = {8};
    struct gguf_writer w;
    struct buf old = {0};
    begin(&w);
    buf_add_str(&old, "before");
    EXPECT_EQ(file_write_atomic(path, "before", 6, 0600, &err), 0);
    EXPECT_EQ(gguf_put_tensor(&w, "t", TENSOR_F32, DIMS, 1, &err), 0);
    EXPECT_EQ(gguf_write_begin(&w, &err), 0);
    EXPECT(file_exists(part));
    gguf_writer_release(&w);
    EXPECT(!file_exists(part) && file_is(&old));
    gguf_writer_init(&w, path); /* never begun */
    gguf_writer_release(&w);
    EXPECT(file_is(&old));
    buf_release(&old);
    finish();
}

TEST(gguf_writer_says_what_it_cannot_write) {
    static const uint64_t DIMS[] = {1 << 18};
    static uint8_t data[1 << 20];
    struct gguf_writer w;
    char want[200];
    begin(&w);
    gguf_writer_release(&w);
    gguf_writer_init(&w, "/nowhere/m.gguf");
    EXPECT(gguf_write_begin(&w, &err) < 0);
    EXPECT(!strncmp(err.text, "cannot write '/nowhere/m.gguf.part", 34));
    gguf_writer_release(&w);
    gguf_writer_init(&w, path);
    EXPECT_EQ(gguf_put_tensor(&w, "t", TENSOR_F32, DIMS, 1, &err), 0);
    EXPECT_EQ(gguf_write_begin(&w, &err), 0);
    struct rlimit before = full_disk_begin(65536);
    int rc = gguf_write_data(&w, data, sizeof data, &err);
    full_disk_end(before);
    EXPECT_EQ(rc, ERR_IO);
    snprintf(want, sizeof want, "cannot write '%s'", part);
    EXPECT(!strncmp(err.text, want, strlen(want)));
    gguf_writer_release(&w);
    EXPECT(!file_exists(part));
    finish();
}

/* Where the last bytes do not fit, or the name is a folder's: an error, and no file. */
TEST(gguf_writer_that_cannot_end_leaves_nothing) {
    static const uint64_t DIMS[] = {8};
    struct gguf_writer w;
    uint8_t data[32] = {0};
    for (int full = 0; full <= 1; full++) {
        begin(&w);
        if (!full)
            EXPECT_EQ(dir_make(path, 0700, &err), 0);
        EXPECT_EQ(gguf_put_tensor(&w, "t", TENSOR_F32, DIMS, 1, &err), 0);
        EXPECT_EQ(gguf_write_begin(&w, &err), 0);
        EXPECT_EQ(gguf_write_data(&w, data, sizeof data, &err), 0);
        struct rlimit before = full_disk_begin(full ? 16 : 65536);
        int rc = gguf_write_end(&w, &err);
        full_disk_end(before);
        EXPECT(rc < 0 && rc == err.code);
        EXPECT(!strncmp(err.text, "cannot write '", 14));
        EXPECT(!file_exists(part) && !file_exists(path));
        gguf_writer_release(&w);
        rmdir(path);
        finish();
    }
}

/* The invariants: each of these ends the process. */
static void misuse(int which) {
    static const uint64_t DIMS[] = {8};
    struct gguf_writer w;
    uint8_t data[64] = {0};
    gguf_writer_init(&w, path);
    CHECK(!gguf_put_tensor(&w, "t", TENSOR_F32, DIMS, 1, &err));
    if (which == 0)
        gguf_put_array(&w, "a", GGUF_I32, 1), gguf_put_f32(&w, "f", 1);
    if (which == 1)
        gguf_put_array(&w, "a", GGUF_I32, 1), gguf_add_i32(&w, 1), gguf_add_i32(&w, 2);
    if (which == 2)
        gguf_put_array(&w, "a", GGUF_I32, 1),
            (void)!gguf_put_tensor(&w, "u", TENSOR_F32, DIMS, 1, &err);
    if (which == 3)
        gguf_put_array(&w, "a", GGUF_I32, 1), (void)!gguf_write_begin(&w, &err);
    if (which == 4)
        gguf_put_int(&w, "f", GGUF_F32, 1);
    if (which == 5)
        gguf_put_int(&w, "f", GGUF_F64, 1);
    if (which == 6)
        (void)!gguf_write_data(&w, data, 1, &err);
    if (which == 7)
        (void)!gguf_write_end(&w, &err);
    CHECK(!gguf_write_begin(&w, &err));
    if (which == 8)
        gguf_put_f32(&w, "f", 1);
    if (which == 9)
        (void)!gguf_put_tensor(&w, "u", TENSOR_F32, DIMS, 1, &err);
    if (which == 10)
        (void)!gguf_write_begin(&w, &err);
    CHECK(!gguf_write_data(&w, data, 31, &err));
    if (which == 11)
        (void)!gguf_write_end(&w, &err);
    CHECK(!gguf_write_data(&w, data, 2, &err));
    if (which == 12)
        (void)!gguf_write_end(&w, &err);
    gguf_writer_release(&w);
}

TEST(gguf_writer_ends_a_process_that_misuses_it) {
    struct gguf_writer w;
    begin(&w);
    gguf_writer_release(&w);
    for (int which = 0; which <= 13; which++) { /* the last is none */
        int status;
        pid_t child = fork();
        if (!child) {
            signal(SIGABRT, SIG_DFL);
            CHECK(freopen("/dev/null", "w", stderr));
            misuse(which);
            _exit(0);
        }
        EXPECT_EQ(waitpid(child, &status, 0), child);
        snprintf(part, sizeof part, "%s.part%d", path, (int)child);
        unlink(part);
        unlink(path);
        if (which == 13)
            EXPECT_EQ(status, 0);
        else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            check_fail(__FILE__, __LINE__, "misuse %d ends with %d", which, status);
    }
    finish();
}
