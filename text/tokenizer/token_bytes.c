/*
 * token_bytes.c - how much of a text one token can stand for, so that a text that is far too long
 * is known by its bytes.
 *
 * It is said only where nothing of a text is lost on its way to the model: no pattern drops pieces,
 * no added token takes white space along, no run of unknown characters becomes one token.
 */
#include "text/tokenizer/spm_normalize.h"
#include "text/tokenizer/tokenizer_data.h"

#define UNBOUNDED SIZE_MAX

/* Unicode's longest way to spell a composed character, in bytes of each of its own, is 3.5. */
enum { NFC_SHRINKS = 4, CHARACTER_BYTES = 4 };

/* Bytes of text that can become one byte; UNBOUNDED: any number. */
static size_t normalizer_shrinks(const struct normalizer *n) {
    size_t all = 1;
    for (size_t i = 0; i < n->step_count; i++) {
        const struct normalizer_step *step = &n->steps[i];
        switch (step->kind) {
        case NORMALIZE_PREPEND:
        case NORMALIZE_BYTE_LEVEL: break;
        case NORMALIZE_NFC: all *= NFC_SHRINKS; break;
        case NORMALIZE_REPLACE:
            if (!step->content_len)
                return UNBOUNDED;
            all *= (step->pattern_len + step->content_len - 1) / step->content_len;
            break;
        case NORMALIZE_SENTENCEPIECE:
            if (!spm_only_spaces(step->spm))
                return UNBOUNDED;
            break;
        default: return UNBOUNDED;
        }
        if (all > VOCAB_TOKEN_BYTES_MAX)
            return UNBOUNDED;
    }
    return all;
}

static bool splitter_keeps_all(const struct splitter *s) {
    for (size_t i = 0; i < s->stage_count; i++) {
        const struct split_stage *stage = &s->stages[i];
        switch (stage->kind) {
        case SPLIT_SCAN:
        case SPLIT_PREFIX_SPACE:
        case SPLIT_BYTE_MAP:
        case SPLIT_LENGTH:
        case SPLIT_GROUPS: break;
        case SPLIT_METASPACE:
            if (!stage->literal_len)
                return false;
            break;
        case SPLIT_SCRIPTS: return false; /* drops what stands before the first script */
        default:
            if (stage->behavior == SPLIT_REMOVED)
                return false;
        }
    }
    return true;
}

static bool added_take_spaces(const struct added_set *set) {
    for (size_t i = 0; i < set->tokens.count; i++)
        if (set->tokens.items[i].lstrip || set->tokens.items[i].rstrip)
            return true;
    return false;
}

/* Bytes of UTF-8: no others occur in it. */
static bool has_every_byte(const uint32_t ids[256]) {
    for (unsigned i = 0; i < 0xF5; i++)
        if (ids[i] == UINT32_MAX && i != 0xC0 && i != 0xC1)
            return false;
    return true;
}

/* Bytes of what the vocabulary lacks that one token can stand for; 0: it lacks nothing. */
static size_t unknown_bytes(const struct bpe *b, bool byte_level) {
    if (byte_level ? has_every_byte(b->ascii_ids)
                   : b->byte_fallback && has_every_byte(b->fallback_ids))
        return 0;
    return b->unk_id == UINT32_MAX || b->fuse_unk ? UNBOUNDED : CHARACTER_BYTES;
}

static size_t longest_key(const struct vocab *v) {
    size_t longest = 1;
    for (size_t i = 0; i < v->entries.count; i++)
        longest = MAX(longest, vocab_key(v, (uint32_t)i).len);
    for (size_t i = 0; i < v->aliases.count; i++)
        longest = MAX(longest, (size_t)v->aliases.items[i].key.len);
    return longest;
}

size_t tokenizer_token_bytes_most(const struct tokenizer *t) {
    size_t shrinks = normalizer_shrinks(&t->normalizer), unknown = 0;
    if (shrinks == UNBOUNDED || !splitter_keeps_all(&t->splitter) || added_take_spaces(&t->added) ||
        added_take_spaces(&t->added_normalized))
        return UNBOUNDED;
    if (t->model == MODEL_BPE)
        unknown = unknown_bytes(&t->bpe, t->vocab.byte_level);
    else if (t->model != MODEL_GREEDY)
        return UNBOUNDED; /* unknown words and runs of unknown characters are one token */
    return unknown == UNBOUNDED ? UNBOUNDED : MAX(longest_key(&t->vocab), unknown) * shrinks;
}
