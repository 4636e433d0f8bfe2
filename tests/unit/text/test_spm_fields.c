/* A SentencePiece model's own fields: each goes where it belongs, in whatever order a file has them. */
#include "check.h"
#include "text/tokenizer/spm.h"

/* A field of a protocol buffer that is a number below 128. */
static void put(struct buf *out, uint32_t number, uint8_t value) {
    uint32_t tag = number << 3;
    for (; tag >= 128; tag >>= 7)
        buf_add_byte(out, (uint8_t)(tag | 128));
    buf_add_byte(out, (uint8_t)tag);
    buf_add_byte(out, value);
}

/* One of bytes, fewer than 128. */
static void put_bytes(struct buf *out, uint32_t number, struct bytes bytes) {
    uint32_t tag = number << 3 | 2;
    for (; tag >= 128; tag >>= 7)
        buf_add_byte(out, (uint8_t)(tag | 128));
    buf_add_byte(out, (uint8_t)tag);
    buf_add_byte(out, (uint8_t)bytes.len);
    buf_add_bytes(out, bytes);
}

enum { TYPE = 3, SUFFIX = 24, BYTES = 35, UNK = 40, BOS, EOS, PAD, SURFACE };

/* The model with these parts, where they are not NULL; its memory is the caller's. */
static int read_model(struct buf *file, const struct buf *trainer, const struct buf *normalizer,
                      struct spm_model *m) {
    struct buf piece = {0};
    struct error err;
    buf_reset(file);
    for (char text[] = "a"; text[0] < 'h'; text[0]++) {
        buf_reset(&piece);
        put_bytes(&piece, 1, bytes_str(text));
        if (text[0] == 'a')
            put(&piece, 3, SPM_UNKNOWN);
        put_bytes(file, 1, buf_bytes(&piece));
    }
    if (trainer)
        put_bytes(file, 2, buf_bytes(trainer));
    if (normalizer)
        put_bytes(file, 3, buf_bytes(normalizer));
    buf_release(&piece);
    return spm_model_read(buf_bytes(file), m, &err);
}

TEST(a_trainers_fields_come_in_any_order) {
    static const uint32_t IDS[] = {UNK, BOS, EOS, PAD};
    struct buf file = {0}, trainer = {0};
    for (uint32_t first = 0; first < ARRAY_LEN(IDS); first++)
        for (uint32_t step = 1; step < ARRAY_LEN(IDS); step += 2) {
            struct spm_model m;
            buf_reset(&trainer);
            put(&trainer, TYPE, 2);
            for (uint32_t i = 0; i < ARRAY_LEN(IDS); i++) {
                uint32_t at = (first + i * step) % ARRAY_LEN(IDS);
                put(&trainer, IDS[at], (uint8_t)at);
            }
            EXPECT_EQ(read_model(&file, &trainer, NULL, &m), 0);
            EXPECT_EQ(m.unk_id, 0);
            EXPECT_EQ(m.bos_id, 1);
            EXPECT_EQ(m.eos_id, 2);
            EXPECT_EQ(m.pad_id, 3);
            EXPECT(m.pieces.count == 7 && !m.unigram && !m.words && !m.suffix && !m.byte_fallback);
            spm_model_release(&m);
        }
    buf_release(&file);
    buf_release(&trainer);
}

TEST(a_trainers_fields_go_where_they_belong) {
    struct buf file = {0}, trainer = {0};
    struct spm_model m;
    EXPECT_EQ(read_model(&file, &trainer, NULL, &m), 0); /* sentencepiece_model.proto's defaults */
    EXPECT(m.unigram && !m.words && !m.suffix && !m.byte_fallback);
    EXPECT(m.unk_id == 0 && m.bos_id == 1 && m.eos_id == 2 && m.pad_id == TOKEN_NONE);
    EXPECT(bytes_equal(m.unk_surface, bytes_str(" \xE2\x81\x87 ")));
    spm_model_release(&m);
    for (int one = 0; one < 4; one++) {
        buf_reset(&trainer);
        put(&trainer, TYPE, one == 0 ? 3 : 2);
        if (one == 1)
            put(&trainer, SUFFIX, 1);
        if (one == 2)
            put(&trainer, BYTES, 1);
        if (one == 3)
            put_bytes(&trainer, SURFACE, bytes_str("?"));
        EXPECT_EQ(read_model(&file, &trainer, NULL, &m), 0);
        EXPECT(!m.unigram && m.words == (one == 0) && m.suffix == (one == 1) &&
               m.byte_fallback == (one == 2));
        EXPECT(bytes_equal(m.unk_surface, bytes_str("?")) == (one == 3));
        spm_model_release(&m);
    }
    for (uint8_t type = 0; type < 6; type++) {
        buf_reset(&trainer);
        put(&trainer, TYPE, type);
        EXPECT_EQ(read_model(&file, &trainer, NULL, &m),
                  type >= 1 && type <= 4 ? 0 : ERR_UNSUPPORTED);
        spm_model_release(&m);
    }
    buf_release(&file);
    buf_release(&trainer);
}

TEST(a_normalizers_fields_go_where_they_belong) {
    struct buf file = {0}, normalizer = {0};
    struct spm_model m;
    EXPECT_EQ(read_model(&file, NULL, NULL, &m), 0);
    EXPECT(m.dummy_prefix && m.remove_extra && m.escape && !m.charsmap.len);
    spm_model_release(&m);
    for (uint32_t off = 3; off < 6; off++) {
        buf_reset(&normalizer);
        put_bytes(&normalizer, 2, bytes_str("map"));
        put(&normalizer, off, 0);
        EXPECT_EQ(read_model(&file, NULL, &normalizer, &m), 0);
        EXPECT(m.dummy_prefix == (off != 3) && m.remove_extra == (off != 4) &&
               m.escape == (off != 5));
        EXPECT(bytes_equal(m.charsmap, bytes_str("map")));
        spm_model_release(&m);
    }
    buf_release(&file);
    buf_release(&normalizer);
}
