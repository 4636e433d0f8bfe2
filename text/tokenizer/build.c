#include "text/tokenizer/build.h"

#include "text/tokenizer/compiled.h"
#include "text/unicode.h"

enum { RULES_BUDGET = 64 << 20, CONFIG_BUDGET = 64 << 20, CALLS = 4 << 20 };

struct tokenizer *tokenizer_new(uint32_t id_limit) {
    struct tokenizer *t = mem_alloc(sizeof *t);
    unicode_init();
    vocab_init(&t->vocab);
    t->vocab.id_limit = id_limit;
    t->bos = TOKEN_NONE;
    added_init(&t->added);
    added_init(&t->added_normalized);
    added_init(&t->greedy);
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

static int parse(struct arena *a, const char *json, struct tvalue *out, struct error *err) {
    *out = tvalue_none();
    return json ? tvalue_from_json(a, bytes_str(json), out, err) : 0;
}

int tokenizer_set_rules(struct tokenizer *t, const struct tokenizer_rules *rules, struct error *err) {
    struct tvalue normalizer, split;
    struct arena a;
    arena_init(&a, RULES_BUDGET, CALLS);
    int rc = parse(&a, rules->normalizer, &normalizer, err);
    if (!rc) rc = parse(&a, rules->pre_tokenizer, &split, err);
    if (!rc) rc = normalizer_load(&t->normalizer, normalizer, err);
    if (!rc) rc = splitter_load(&t->splitter, split, err);
    arena_release(&a);
    if (!rc)
        compiled_note_rules(t, bytes_str(rules->normalizer), bytes_str(rules->pre_tokenizer),
                            bytes_str(rules->decoder));
    return rc;
}

int tokenizer_set_chain(struct tokenizer *t, const struct tokenizer_rules *rules, struct error *err) {
    struct tvalue decoder;
    struct arena a;
    arena_init(&a, RULES_BUDGET, CALLS);
    int rc = parse(&a, rules->decoder, &decoder, err);
    if (!rc) rc = decode_chain_load(&t->chain, decoder, err);
    arena_release(&a);
    return rc;
}

int tokenizer_finish(struct tokenizer *t, const struct tokenizer_rules *rules, struct error *err) {
    struct tvalue decoder;
    struct arena a;
    arena_init(&a, RULES_BUDGET, CALLS);
    int rc = parse(&a, rules->decoder, &decoder, err);
    if (!rc) rc = decoder_load(t, decoder, err);
    arena_release(&a);
    return rc;
}

/* ---- BOS and EOS ---- */

static struct tvalue member(struct tvalue v, const char *name) { return tvalue_dict_get(v, bytes_str(name)); }

/* "<s>" or {"content": "<s>"}. */
static uint32_t named_token(const struct tokenizer *t, struct tvalue v) {
    if (v.kind == TVALUE_DICT) v = member(v, "content");
    return v.kind == TVALUE_STRING ? vocab_find_spelling(&t->vocab, tvalue_text(v)) : TOKEN_NONE;
}

void tokenizer_add_eos(struct tokenizer *t, uint32_t id) {
    for (uint32_t i = 0; i < t->eos_count; i++)
        if (t->eos[i] == id) return;
    if (id != TOKEN_NONE && t->eos_count < TOKENIZER_EOS_MAX) t->eos[t->eos_count++] = id;
}

static uint32_t id_of(struct tvalue v) {
    return v.kind == TVALUE_INT && v.integer >= 0 && v.integer < VOCAB_IDS_MAX ? (uint32_t)v.integer : TOKEN_NONE;
}

/* The one token before (or after) a text, as the configuration wants it; without a word from it nothing changes. */
static void set_end(struct token_vec *end, struct tvalue wanted, uint32_t id) {
    if (wanted.kind != TVALUE_BOOL) return;
    end->count = 0;
    if (wanted.boolean && id != TOKEN_NONE) vec_push(end, id);
}

/* HF transformers 5 puts a post-processor of its own in the file's place when the configuration says either. */
static void replace_post(struct tokenizer *t, struct tvalue config, uint32_t bos, uint32_t eos) {
    struct tvalue before = member(config, "add_bos_token"), after = member(config, "add_eos_token");
    if (before.kind == TVALUE_UNDEFINED && after.kind == TVALUE_UNDEFINED) return;
    t->prefix.count = t->suffix.count = 0;
    t->trims_offsets = false;
    set_end(&t->prefix, before, bos);
    set_end(&t->suffix, after, eos);
}

static void take_ends(struct tokenizer *t, struct tvalue config, struct tvalue generation, bool with_prefix) {
    uint32_t bos = named_token(t, member(config, "bos_token")), eos = named_token(t, member(config, "eos_token"));
    if (bos == TOKEN_NONE) bos = id_of(member(generation, "bos_token_id"));
    if (bos != TOKEN_NONE) t->bos = bos;
    tokenizer_add_eos(t, eos);
    struct tvalue list = member(generation, "eos_token_id");
    tokenizer_add_eos(t, id_of(list));
    for (size_t i = 0; i < tvalue_count(list); i++) tokenizer_add_eos(t, id_of(tvalue_list_at(list, i)));
    if (!with_prefix) {
        replace_post(t, config, bos, eos);
        return;
    }
    set_end(&t->prefix, member(config, "add_bos_token"), t->bos);
    set_end(&t->suffix, member(config, "add_eos_token"), t->eos_count ? t->eos[0] : TOKEN_NONE);
}

int tokenizer_load_ends(struct tokenizer *t, struct bytes config_json, struct bytes generation_json, bool with_prefix,
                        struct error *err) {
    struct tvalue config = tvalue_none(), generation = tvalue_none();
    struct error local;
    struct arena a;
    if (!err) err = &local;
    arena_init(&a, CONFIG_BUDGET, CALLS);
    int rc = config_json.len ? tvalue_from_json(&a, config_json, &config, err) : 0;
    if (rc)
        error_wrap(err, "tokenizer_config.json");
    else if (generation_json.len && (rc = tvalue_from_json(&a, generation_json, &generation, err)))
        error_wrap(err, "generation_config.json");
    if (!rc) take_ends(t, config, generation, with_prefix);
    arena_release(&a);
    return rc;
}
