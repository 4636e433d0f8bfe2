/*
 * spm_read.c - sentencepiece_model.proto, as much of it as encoding and decoding need. Unknown
 * fields are passed over.
 */
#include "base/utf8.h"
#include "text/tokenizer/spm.h"

void spm_model_init(struct spm_model *m) {
    *m = (struct spm_model){.unigram = true,
                            .dummy_prefix = true,
                            .remove_extra = true,
                            .escape = true,
                            .unk_surface = bytes_str(" \xE2\x81\x87 "),
                            .unk_id = 0,
                            .bos_id = 1,
                            .eos_id = 2,
                            .pad_id = TOKEN_NONE};
}

void spm_model_release(struct spm_model *m) {
    vec_release(&m->pieces);
}

/* ---- protocol buffers ---- */

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct field {
    uint32_t number, encoding;
    uint64_t value;     /* of a number */
    struct bytes bytes; /* WIRE_BYTES */
};

static bool take_varint(struct bytes *in, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->len; shift += 7) {
        uint8_t byte = *in->data;
        *in = bytes_of(in->data + 1, in->len - 1);
        *out |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return true;
    }
    return false;
}

static bool take_fixed(struct bytes *in, size_t len, uint64_t *out) {
    if (in->len < len)
        return false;
    *out = 0;
    for (size_t i = 0; i < len; i++)
        *out |= (uint64_t)in->data[i] << 8 * i;
    *in = bytes_of(in->data + len, in->len - len);
    return true;
}

/* The next field of a message; false at its end or when it is damaged (then in->len is not 0). */
static bool take_field(struct bytes *in, struct field *f) {
    struct bytes at = *in;
    uint64_t key, len;
    *f = (struct field){0};
    if (!at.len || !take_varint(&at, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return false;
    f->number = (uint32_t)(key >> 3);
    f->encoding = key & 7;
    switch (f->encoding) {
    case WIRE_VARINT:
        if (!take_varint(&at, &f->value))
            return false;
        break;
    case WIRE_FIXED64:
        if (!take_fixed(&at, 8, &f->value))
            return false;
        break;
    case WIRE_FIXED32:
        if (!take_fixed(&at, 4, &f->value))
            return false;
        break;
    case WIRE_BYTES:
        if (!take_varint(&at, &len) || len > at.len)
            return false;
        f->bytes = bytes_of(at.data, (size_t)len);
        at = bytes_of(at.data + len, at.len - len);
        break;
    default: return false;
    }
    *in = at;
    return true;
}

static int damaged(struct error *err) {
    return error_set(err, ERR_INVALID, "tokenizer.model is no SentencePiece model, or damaged");
}

/* ---- the messages ---- */

static float as_float(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

static int read_piece(struct bytes in, struct spm_model *m, struct error *err) {
    struct spm_piece piece = {.type = SPM_NORMAL};
    struct field f;
    while (take_field(&in, &f)) {
        if (f.number == 1 && f.encoding == WIRE_BYTES)
            piece.text = f.bytes;
        if (f.number == 2 && f.encoding == WIRE_FIXED32)
            piece.score = as_float(f.value);
        if (f.number == 3 && f.encoding == WIRE_VARINT)
            piece.type = (uint8_t)MIN(f.value, (uint64_t)255);
    }
    if (in.len)
        return damaged(err);
    if (m->pieces.count >= VOCAB_IDS_MAX)
        return error_set(err, ERR_LIMIT, "tokenizer.model has too many pieces");
    vec_push(&m->pieces, piece);
    return 0;
}

static uint32_t id_or_none(uint64_t value) {
    return value < VOCAB_IDS_MAX ? (uint32_t)value : TOKEN_NONE; /* -1 is a large varint */
}

enum { SPM_MODEL_UNIGRAM = 1, SPM_MODEL_BPE, SPM_MODEL_WORD, SPM_MODEL_CHAR };

static int read_trainer(struct bytes in, struct spm_model *m, struct error *err) {
    uint64_t type = SPM_MODEL_UNIGRAM;
    struct field f;
    while (take_field(&in, &f)) {
        switch (f.number) {
        case 3: type = f.value; break;
        case 24: m->suffix = f.value; break;
        case 35: m->byte_fallback = f.value; break;
        case 40: m->unk_id = id_or_none(f.value); break;
        case 41: m->bos_id = id_or_none(f.value); break;
        case 42: m->eos_id = id_or_none(f.value); break;
        case 43: m->pad_id = id_or_none(f.value); break;
        case 44:
            if (f.encoding == WIRE_BYTES)
                m->unk_surface = f.bytes;
            break;
        }
    }
    m->unigram = type == SPM_MODEL_UNIGRAM;
    m->words = type == SPM_MODEL_WORD;
    if (in.len)
        return damaged(err);
    if (type >= SPM_MODEL_UNIGRAM && type <= SPM_MODEL_CHAR)
        return 0;
    return error_set(err, ERR_UNSUPPORTED, "tokenizer.model: model_type %llu is none that we know",
                     (unsigned long long)type);
}

static int read_normalizer(struct bytes in, struct spm_model *m, struct error *err) {
    struct field f;
    while (take_field(&in, &f)) {
        switch (f.number) {
        case 2:
            if (f.encoding == WIRE_BYTES)
                m->charsmap = f.bytes;
            break;
        case 3: m->dummy_prefix = f.value; break;
        case 4: m->remove_extra = f.value; break;
        case 5: m->escape = f.value; break;
        }
    }
    return in.len ? damaged(err) : 0;
}

int spm_model_read(struct bytes file, struct spm_model *m, struct error *err) {
    CHECK(m);
    struct field f;
    int rc = 0;
    spm_model_init(m);
    while (!rc && take_field(&file, &f)) {
        if (f.encoding != WIRE_BYTES)
            continue;
        if (f.number == 1)
            rc = read_piece(f.bytes, m, err);
        if (f.number == 2)
            rc = read_trainer(f.bytes, m, err);
        if (f.number == 3)
            rc = read_normalizer(f.bytes, m, err);
    }
    if (!rc && (file.len || !m->pieces.count))
        rc = damaged(err);
    m->unk_id = TOKEN_NONE;
    for (size_t i = 0; i < m->pieces.count && !rc; i++) {
        struct bytes text = m->pieces.items[i].text;
        if (m->pieces.items[i].type == SPM_UNKNOWN)
            m->unk_id = (uint32_t)i;
        if (!text.len || !utf8_valid(text.data, text.len))
            rc = error_set(err, ERR_INVALID, "tokenizer.model: piece %zu is empty or not UTF-8", i);
    }
    if (rc)
        spm_model_release(m);
    return rc;
}

/* ---- tiktoken lines ---- */

static const char BYTE_NAMES[] = "<0x00><0x01><0x02><0x03><0x04><0x05><0x06><0x07>"
                                 "<0x08><0x09><0x0A><0x0B><0x0C><0x0D><0x0E><0x0F>"
                                 "<0x10><0x11><0x12><0x13><0x14><0x15><0x16><0x17>"
                                 "<0x18><0x19><0x1A><0x1B><0x1C><0x1D><0x1E><0x1F>"
                                 "<0x20><0x21><0x22><0x23><0x24><0x25><0x26><0x27>"
                                 "<0x28><0x29><0x2A><0x2B><0x2C><0x2D><0x2E><0x2F>"
                                 "<0x30><0x31><0x32><0x33><0x34><0x35><0x36><0x37>"
                                 "<0x38><0x39><0x3A><0x3B><0x3C><0x3D><0x3E><0x3F>"
                                 "<0x40><0x41><0x42><0x43><0x44><0x45><0x46><0x47>"
                                 "<0x48><0x49><0x4A><0x4B><0x4C><0x4D><0x4E><0x4F>"
                                 "<0x50><0x51><0x52><0x53><0x54><0x55><0x56><0x57>"
                                 "<0x58><0x59><0x5A><0x5B><0x5C><0x5D><0x5E><0x5F>"
                                 "<0x60><0x61><0x62><0x63><0x64><0x65><0x66><0x67>"
                                 "<0x68><0x69><0x6A><0x6B><0x6C><0x6D><0x6E><0x6F>"
                                 "<0x70><0x71><0x72><0x73><0x74><0x75><0x76><0x77>"
                                 "<0x78><0x79><0x7A><0x7B><0x7C><0x7D><0x7E><0x7F>"
                                 "<0x80><0x81><0x82><0x83><0x84><0x85><0x86><0x87>"
                                 "<0x88><0x89><0x8A><0x8B><0x8C><0x8D><0x8E><0x8F>"
                                 "<0x90><0x91><0x92><0x93><0x94><0x95><0x96><0x97>"
                                 "<0x98><0x99><0x9A><0x9B><0x9C><0x9D><0x9E><0x9F>"
                                 "<0xA0><0xA1><0xA2><0xA3><0xA4><0xA5><0xA6><0xA7>"
                                 "<0xA8><0xA9><0xAA><0xAB><0xAC><0xAD><0xAE><0xAF>"
                                 "<0xB0><0xB1><0xB2><0xB3><0xB4><0xB5><0xB6><0xB7>"
                                 "<0xB8><0xB9><0xBA><0xBB><0xBC><0xBD><0xBE><0xBF>"
                                 "<0xC0><0xC1><0xC2><0xC3><0xC4><0xC5><0xC6><0xC7>"
                                 "<0xC8><0xC9><0xCA><0xCB><0xCC><0xCD><0xCE><0xCF>"
                                 "<0xD0><0xD1><0xD2><0xD3><0xD4><0xD5><0xD6><0xD7>"
                                 "<0xD8><0xD9><0xDA><0xDB><0xDC><0xDD><0xDE><0xDF>"
                                 "<0xE0><0xE1><0xE2><0xE3><0xE4><0xE5><0xE6><0xE7>"
                                 "<0xE8><0xE9><0xEA><0xEB><0xEC><0xED><0xEE><0xEF>"
                                 "<0xF0><0xF1><0xF2><0xF3><0xF4><0xF5><0xF6><0xF7>"
                                 "<0xF8><0xF9><0xFA><0xFB><0xFC><0xFD><0xFE><0xFF>";

static struct bytes line_text(const struct tiktoken_file *f, size_t i) {
    return bytes_of(f->bytes.data + f->lines[i].start, f->lines[i].len);
}

/* Where lines of the bytes 0 to 255 stand in order; SIZE_MAX: nowhere. */
static size_t find_bytes(const struct tiktoken_file *f) {
    for (size_t first = 1; first + 256 < f->count && first < 4096; first++) {
        size_t n = 0;
        while (n < 256 && line_text(f, first + n).len == 1 && line_text(f, first + n).data[0] == n)
            n++;
        if (n == 256)
            return first;
    }
    return SIZE_MAX;
}

bool tiktoken_to_spm(const struct tiktoken_file *f, struct spm_model *m) {
    size_t bytes = f->count && f->lines[0].rank == 0 && f->lines[f->count - 1].rank == f->count - 1
                       ? find_bytes(f)
                       : SIZE_MAX;
    bool metaspaced = false;
    for (size_t i = 0; i < f->count && bytes != SIZE_MAX && !metaspaced; i++)
        metaspaced = i > bytes + 255 && bytes_equal(line_text(f, i), bytes_str("\xE2\x96\x81t"));
    if (!metaspaced || !bytes_equal(line_text(f, 0), bytes_str("<unk>")))
        return false;
    spm_model_init(m);
    m->unigram = m->remove_extra = false;
    m->byte_fallback = true;
    for (size_t i = 0; i < f->count; i++) {
        struct spm_piece piece = {line_text(f, i), -(float)i, SPM_NORMAL};
        if (i < bytes)
            piece.type = i ? SPM_CONTROL : SPM_UNKNOWN;
        if (i >= bytes && i < bytes + 256) {
            piece.type = SPM_BYTE;
            piece.text = bytes_of(BYTE_NAMES + 6 * (i - bytes), 6);
        }
        /* no piece of text */
        if (!utf8_valid(piece.text.data, piece.text.len))
            piece.type = SPM_CONTROL;
        vec_push(&m->pieces, piece);
    }
    return true;
}
