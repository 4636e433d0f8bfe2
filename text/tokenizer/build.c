#include "text/tokenizer/build.h"

#include "text/tokenizer/fast/compiled.h"
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

static int parse(struct arena *a, const char *json, struct json_value *out, struct error *err) {
    *out = (struct json_value){0};
    return json ? json_parse(a, bytes_str(json), out, err) : 0;
}

int tokenizer_set_rules(struct tokenizer *t, const struct tokenizer_rules *rules,
                        struct error *err) {
    CHECK(t && rules);
    struct json_value normalizer, split;
    struct arena a;
    arena_init(&a, RULES_BUDGET, CALLS);
    int rc = parse(&a, rules->normalizer, &normalizer, err);
    if (!rc)
        rc = parse(&a, rules->pre_tokenizer, &split, err);
    if (!rc)
        rc = normalizer_load(&t->normalizer, normalizer, err);
    if (!rc)
        rc = splitter_load(&t->splitter, split, err);
    arena_release(&a);
    if (!rc)
        compiled_note_rules(t, bytes_str(rules->normalizer), bytes_str(rules->pre_tokenizer),
                            bytes_str(rules->decoder));
    return rc;
}

int tokenizer_set_chain(struct tokenizer *t, const struct tokenizer_rules *rules,
                        struct error *err) {
    struct json_value decoder;
    struct arena a;
    arena_init(&a, RULES_BUDGET, CALLS);
    int rc = parse(&a, rules->decoder, &decoder, err);
    if (!rc)
        rc = decoder_chain_load(&t->chain, decoder, err);
    arena_release(&a);
    return rc;
}

int tokenizer_finish(struct tokenizer *t, const struct tokenizer_rules *rules, struct error *err) {
    CHECK(t && rules && t->vocab.slots);
    struct json_value decoder;
    struct arena a;
    arena_init(&a, RULES_BUDGET, CALLS);
    int rc = parse(&a, rules->decoder, &decoder, err);
    if (!rc)
        rc = decoder_load(t, decoder, err);
    arena_release(&a);
    return rc;
}

/* ---- BOS and EOS ---- */

/* "<s>" or {"content": "<s>"}. */
static uint32_t named_token(const struct tokenizer *t, struct json_value v) {
    if (v.kind == JSON_IS_OBJECT)
        v = json_get(v, "content");
    return v.kind == JSON_IS_STRING ? vocab_find_spelling(&t->vocab, json_text(v)) : TOKEN_NONE;
}

void tokenizer_add_eos(struct tokenizer *t, uint32_t id) {
    for (uint32_t i = 0; i < t->eos_count; i++)
        if (t->eos[i] == id)
            return;
    if (id != TOKEN_NONE && t->eos_count < TOKENIZER_EOS_MAX)
        t->eos[t->eos_count++] = id;
}

static uint32_t id_of(struct json_value v) {
    return v.kind == JSON_IS_INT && v.integer >= 0 && v.integer < VOCAB_IDS_MAX
               ? (uint32_t)v.integer
               : TOKEN_NONE;
}

/* The one token before (or after) a text, as the configuration wants it; without a word from it
 * nothing changes. */
static void set_end(struct token_vec *end, struct json_value wanted, uint32_t id) {
    if (wanted.kind != JSON_IS_BOOL)
        return;
    end->count = 0;
    if (wanted.boolean && id != TOKEN_NONE)
        vec_push(end, id);
}

/* HF transformers 5 puts a post-processor of its own in the file's place when the configuration
 * says either. */
static void replace_post(struct tokenizer *t, struct json_value config, uint32_t bos,
                         uint32_t eos) {
    struct json_value before = json_get(config, "add_bos_token"),
                      after = json_get(config, "add_eos_token");
    if (before.kind == JSON_IS_ABSENT && after.kind == JSON_IS_ABSENT)
        return;
    t->prefix.count = t->suffix.count = 0;
    t->pair = (struct pair_rule){0};
    t->trims_offsets = false;
    set_end(&t->prefix, before, bos);
    set_end(&t->suffix, after, eos);
}

static void set_ends(struct tokenizer *t, struct json_value config, struct json_value generation,
                     bool with_prefix) {
    uint32_t bos = named_token(t, json_get(config, "bos_token")),
             eos = named_token(t, json_get(config, "eos_token"));
    if (bos == TOKEN_NONE)
        bos = id_of(json_get(generation, "bos_token_id"));
    if (bos != TOKEN_NONE)
        t->bos = bos;
    tokenizer_add_eos(t, eos);
    struct json_value list = json_get(generation, "eos_token_id");
    tokenizer_add_eos(t, id_of(list));
    for (size_t i = 0; i < json_count(list); i++)
        tokenizer_add_eos(t, id_of(json_at(list, i)));
    if (!with_prefix) {
        replace_post(t, config, bos, eos);
        return;
    }
    set_end(&t->prefix, json_get(config, "add_bos_token"), t->bos);
    set_end(&t->suffix, json_get(config, "add_eos_token"), t->eos_count ? t->eos[0] : TOKEN_NONE);
}

int tokenizer_load_ends(struct tokenizer *t, struct bytes config_json, struct bytes generation_json,
                        bool with_prefix, struct error *err) {
    struct json_value config = (struct json_value){0}, generation = (struct json_value){0};
    struct error local;
    struct arena a;
    if (!err)
        err = &local;
    arena_init(&a, CONFIG_BUDGET, CALLS);
    int rc = config_json.len ? json_parse(&a, config_json, &config, err) : 0;
    if (rc)
        error_wrap(err, "tokenizer_config.json");
    else if (generation_json.len && (rc = json_parse(&a, generation_json, &generation, err)))
        error_wrap(err, "generation_config.json");
    if (!rc)
        set_ends(t, config, generation, with_prefix);
    arena_release(&a);
    return rc;
}
