#include "text/tokenizer/fast/compiled.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cache_folder.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "text/tokenizer/build.h"
#include "text/tokenizer/spm_normalize.h"

enum { SECTIONS_MAX = 48, ALIGNMENT = 64, CHUNK = 1 << 16, RULES_BYTES_MAX = 4 << 20 };

static const char MAGIC[8] = "TRIVOCAB";

/* Followed by the body: struct tokenizer and SentencePiece's normalizer without their pointers, the
 * sizes of their sections, the sections at multiples of 64. */
struct image_head {
    char magic[8];
    uint64_t size; /* of the file */
    struct u128 build, source, sum;
};

struct image_body {
    struct tokenizer tokenizer;
    struct spm_normalizer spm; /* where has_spm */
    bool has_spm;
    uint64_t sizes[SECTIONS_MAX]; /* in bytes; 0: the pointer is NULL */
};

static struct {
    char *path; /* NULL: none */
    struct u128 build;
} folder;

/* ---- the folder ---- */

void compiled_set_folder(const char *wanted) {
    mem_free(folder.path);
    folder.path = cache_folder_open(wanted, "vocabularies");
    folder.build = program_build();
    if (!u128_is_zero(folder.build))
        return;
    mem_free(folder.path);
    folder.path = NULL;
}

struct u128 compiled_key(const struct bytes *texts, size_t count) {
    if (!folder.path)
        return (struct u128){0, 0};
    struct hasher *h = hasher_new();
    for (size_t i = 0; i < count; i++) {
        uint64_t len = texts[i].len;
        hasher_add(h, &len, sizeof len);
        if (len)
            hasher_add(h, texts[i].data, texts[i].len);
    }
    struct u128 key = hasher_end(h);
    hasher_free(&h);
    return key;
}

static char *image_path(struct u128 key) {
    char hex[U128_TEXT_MAX], name[U128_TEXT_MAX + 8];
    u128_text(key, hex);
    snprintf(name, sizeof name, "%s.vocab", hex);
    return path_join(folder.path, name);
}

/* ---- what an image holds ---- */

struct image_section {
    void *pointer; /* the address of a pointer in the tokenizer */
    uint64_t size; /* of what it points to */
};

#define SECTION(field, count)                                                                      \
    (struct image_section) {                                                                       \
        &(field), (uint64_t)(count) * sizeof *(field)                                              \
    }

/* NULL: it has another normalizer. */
static struct spm_normalizer *spm_of(struct tokenizer *t) {
    const struct normalizer_step *step = &t->normalizer.steps[0];
    return t->normalizer.step_count && step->kind == NORMALIZE_SENTENCEPIECE ? step->spm : NULL;
}

/* Sizes as the tokenizer's own counts say; spm: its normalizer, or one that is empty. Returns how
 * many sections. */
static size_t list_sections(struct tokenizer *t, struct spm_normalizer *spm,
                            struct image_section out[SECTIONS_MAX]) {
    struct vocab *v = &t->vocab;
    struct bpe *b = &t->bpe;
    struct added_set *sets[] = {&t->added, &t->added_normalized, &t->greedy, &spm->symbols};
    size_t n = 0, ids = v->entries.count;
    out[n++] = SECTION(v->flags, ids);
    out[n++] = SECTION(v->pool.data, v->pool.len + 1);
    out[n++] = SECTION(v->entries.items, ids);
    out[n++] = SECTION(v->aliases.items, v->aliases.count);
    out[n++] = SECTION(v->slots, v->slot_count);
    out[n++] = SECTION(b->merge_tags, b->merge_slot_count);
    out[n++] = SECTION(b->merge_slots, b->merge_slot_count);
    out[n++] = SECTION(b->merges, b->merge_count);
    out[n++] = SECTION(b->inner_pairs, 65536 / 64);
    out[n++] = SECTION(b->byte_pairs, BPE_BYTE_PAIRS);
    out[n++] = SECTION(b->char_rows, BPE_CHARS);
    out[n++] = SECTION(b->chars, b->char_count);
    out[n++] = SECTION(b->unused, b->unused_count);
    out[n++] = SECTION(b->cuts.rows, BPE_CUTS_ROWS);
    out[n++] = SECTION(b->cuts.ids.items, b->cuts.ids.count);
    out[n++] = SECTION(b->cuts.cut_bits, ((uint64_t)1 << (32 - b->cuts.cut_shift)) / 64);
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        out[n++] = SECTION(sets[i]->tokens.items, sets[i]->tokens.count);
        out[n++] = SECTION(sets[i]->nodes.items, sets[i]->nodes.count);
    }
    out[n++] = SECTION(t->unigram.scores, ids);
    out[n++] = SECTION(t->unigram.edges, t->unigram.edge_slots);
    out[n++] = SECTION(spm->charsmap.units, spm->charsmap.unit_count);
    out[n++] = SECTION(spm->charsmap.strings, spm->charsmap.strings_len + 1);
    out[n++] = SECTION(t->texts.data, t->texts.len + 1);
    out[n++] = SECTION(t->token_texts, ids);
    out[n++] = SECTION(t->prefix.items, t->prefix.count);
    out[n++] = SECTION(t->suffix.items, t->suffix.count);
    for (size_t i = 0; i < ARRAY_LEN(t->rules); i++)
        out[n++] = SECTION(t->rules[i].data, t->rules[i].len + 1);
    return n;
}

static void *get_pointer(const struct image_section *p) {
    void *value;
    memcpy(&value, p->pointer, sizeof value);
    return value;
}
static void set_pointer(const struct image_section *p, const void *value) {
    memcpy(p->pointer, &value, sizeof value);
}

static uint64_t aligned(uint64_t at) {
    return (at + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

/* What is not plain data, or made anew. */
static void clear_links(struct tokenizer *t) {
    size_t stage_count = t->splitter.stage_count;
    memset(&t->normalizer, 0, sizeof t->normalizer);
    memset(&t->splitter, 0, sizeof t->splitter);
    memset(&t->chain, 0, sizeof t->chain);
    memset(&t->lock, 0, sizeof t->lock);
    t->splitter.stage_count = stage_count;
    t->free_scratch = NULL;
    t->bpe.vocab = t->unigram.vocab = t->wordpiece.vocab = t->wordlevel.vocab = NULL;
}

/* ---- writing ---- */

bool compiled_is_on(void) {
    return folder.path;
}

const char *compiled_folder(void) {
    return folder.path;
}

void compiled_note_rules(struct tokenizer *t, struct bytes normalizer, struct bytes pre_tokenizer,
                         struct bytes decoder) {
    CHECK(t);
    const struct bytes rules[] = {normalizer, pre_tokenizer, decoder};
    if (!folder.path || t->image.data)
        return;
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        buf_reset(&t->rules[i]);
        buf_add_bytes(&t->rules[i], rules[i]);
    }
}

/* Its rules are texts, and not too long (a SentencePiece model's words are cut by a rule that is
 * none). */
static bool can_keep(struct tokenizer *t) {
    size_t len = 0;
    if (t->splitter.stage_count && !t->rules[1].len)
        return false;
    if (t->normalizer.step_count && !t->rules[0].len && !spm_of(t))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(t->rules); i++)
        len += t->rules[i].len;
    return folder.path && len <= RULES_BYTES_MAX;
}

static void add_padding(struct buf *out) {
    static const char ZEROS[ALIGNMENT];
    buf_add(out, ZEROS, aligned(out->len) - out->len);
}

static void add_body(struct tokenizer *t, struct buf *out) {
    struct image_body *body = mem_alloc(sizeof *body);
    struct image_section from[SECTIONS_MAX], to[SECTIONS_MAX];
    struct spm_normalizer none = {0}, *spm = spm_of(t);
    size_t count = list_sections(t, spm ? spm : &none, from);
    body->tokenizer = *t;
    body->has_spm = spm;
    body->spm = spm ? *spm : none;
    clear_links(&body->tokenizer);
    list_sections(&body->tokenizer, &body->spm, to);
    for (size_t i = 0; i < count; i++) {
        set_pointer(&to[i], NULL);
        body->sizes[i] = get_pointer(&from[i]) ? from[i].size : 0;
    }
    buf_add(out, body, sizeof *body);
    for (size_t i = 0; i < count; i++) {
        add_padding(out);
        if (body->sizes[i])
            buf_add(out, get_pointer(&from[i]), body->sizes[i]);
    }
    mem_free(body);
}

static bool write_image(struct u128 key, struct tokenizer *t) {
    struct image_head head = {.build = folder.build, .source = key};
    struct buf out = {0};
    struct error err;
    char *path = image_path(key);
    memcpy(head.magic, MAGIC, sizeof head.magic);
    buf_add(&out, &head, sizeof head);
    add_padding(&out);
    add_body(t, &out);
    head.size = out.len;
    bool written = !out.failed;
    if (written) {
        head.sum = hash128(out.data + sizeof head, out.len - sizeof head, 0);
        memcpy(out.data, &head, sizeof head);
        written = !file_write_atomic(path, out.data, out.len, 0600, &err);
    }
    buf_release(&out);
    mem_free(path);
    return written;
}

void compiled_keep(struct u128 key, struct tokenizer **t) {
    CHECK(t && *t);
    if ((*t)->image.data || !can_keep(*t) || !write_image(key, *t))
        return;
    struct tokenizer *mapped = compiled_open(key);
    if (!mapped)
        return;
    tokenizer_free(t);
    *t = mapped;
}

/* ---- reading ---- */

/* Reads past the mapping, so that only pages in use count as this process's memory. */
static bool sum_is_right(int fd, const struct image_head *head) {
    struct hasher *h = hasher_new();
    uint8_t *chunk = mem_alloc(CHUNK);
    uint64_t at = sizeof *head;
    for (ssize_t n; at < head->size && (n = pread(fd, chunk, CHUNK, (off_t)at)) > 0;
         at += (uint64_t)n)
        hasher_add(h, chunk, (size_t)n);
    struct u128 sum = hasher_end(h);
    hasher_free(&h);
    mem_free(chunk);
    return at == head->size && u128_equal(sum, head->sum);
}

static bool is_ours(int fd, uint64_t len, struct u128 key) {
    struct image_head head;
    if (pread(fd, &head, sizeof head, 0) != sizeof head ||
        memcmp(head.magic, MAGIC, sizeof head.magic))
        return false;
    return head.size == len && head.size >= aligned(sizeof head) + sizeof(struct image_body) &&
           u128_equal(head.source, key) && u128_equal(head.build, folder.build) &&
           sum_is_right(fd, &head);
}

static bool map_image(struct u128 key, struct file_map *map) {
    char *path = image_path(key);
    uint64_t len;
    int fd = cache_file_open(path, &len);
    void *data = MAP_FAILED;
    if (fd >= 0 && is_ours(fd, len, key))
        data = mmap(NULL, (size_t)len, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    mem_free(path);
    if (data == MAP_FAILED)
        return false;
    *map = (struct file_map){data, (size_t)len};
    return true;
}

/* Points the tokenizer into its image. */
static bool map_sections(struct tokenizer *t, struct spm_normalizer *spm,
                         const uint64_t sizes[SECTIONS_MAX]) {
    struct image_section sections[SECTIONS_MAX];
    size_t count = list_sections(t, spm, sections);
    uint64_t at = aligned(sizeof(struct image_head)) + sizeof(struct image_body);
    for (size_t i = 0; i < count; i++) {
        at = aligned(at);
        if (sizes[i] &&
            (sizes[i] != sections[i].size || at > t->image.len || sizes[i] > t->image.len - at))
            return false;
        set_pointer(&sections[i], sizes[i] ? t->image.data + at : NULL);
        at += sizes[i];
    }
    return true;
}

static const char *rule_text(const struct tokenizer *t, size_t i) {
    return t->rules[i].len ? t->rules[i].data : NULL;
}

static bool load_rules(struct tokenizer *t) {
    bool idle = !t->splitter.stage_count;
    struct error err;
    struct tokenizer_rules rules = {rule_text(t, 0), rule_text(t, 1), rule_text(t, 2)};
    t->splitter.stage_count = 0;
    if (tokenizer_set_rules(t, &rules, &err))
        return false;
    if (idle)
        splitter_release(&t->splitter);
    return t->decoder.kind != DECODER_CHAIN || !tokenizer_set_chain(t, &rules, &err);
}

/* SentencePiece's normalizer, whose tables lie in the image. */
static void set_spm(struct tokenizer *t, const struct spm_normalizer *from) {
    struct spm_normalizer *spm = mem_alloc(sizeof *spm);
    *spm = *from;
    t->normalizer.steps[0] = (struct normalizer_step){.kind = NORMALIZE_SENTENCEPIECE, .spm = spm};
    t->normalizer.step_count = 1;
}

struct tokenizer *compiled_open(struct u128 key) {
    struct file_map map;
    if (!folder.path || !map_image(key, &map))
        return NULL;
    const struct image_body *body =
        (const struct image_body *)(const void *)(map.data + aligned(sizeof(struct image_head)));
    struct tokenizer *t = mem_alloc(sizeof *t);
    struct spm_normalizer spm = body->spm;
    *t = body->tokenizer;
    clear_links(t);
    pthread_mutex_init(&t->lock, NULL);
    t->image = map;
    t->bpe.vocab = t->unigram.vocab = t->wordpiece.vocab = t->wordlevel.vocab = &t->vocab;
    bool good = map_sections(t, &spm, body->sizes) && load_rules(t);
    if (good && body->has_spm)
        set_spm(t, &spm);
    if (!good)
        tokenizer_free(&t);
    return t;
}

void compiled_detach(struct tokenizer *t) {
    struct image_section sections[SECTIONS_MAX];
    struct spm_normalizer none = {0}, *spm = spm_of(t);
    if (!t->image.data)
        return;
    size_t count = list_sections(t, spm ? spm : &none, sections);
    for (size_t i = 0; i < count; i++)
        set_pointer(&sections[i], NULL);
    file_map_close(&t->image);
}
