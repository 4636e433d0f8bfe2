/* Encoders' keys as fields of a config.json, and the labels of models that score. */
#include "model/read/gguf_reader.h"

/* Rows of a matrix; 0: there is none. */
static uint64_t rows_of(const struct reader *r, const char *tensor) {
    const struct tensor *t = safetensors_find(&r->g->set, tensor);
    return t && t->dim_count == 2 ? t->dims[0] : 0;
}

static int write_rows(const struct reader *r, const char *tensor, const char *field,
                      struct error *err) {
    uint64_t rows = rows_of(r, tensor);
    if (!rows)
        return error_set(err, ERR_INVALID, "the GGUF file has no matrix '%s'", tensor);
    json_key(r->w, field);
    json_uint(r->w, rows);
    return 0;
}

static int write_needed(const struct reader *r, const char *suffix, const char *field,
                        enum key_kind kind, struct error *err) {
    return write_value(r, suffix, field, kind)
               ? 0
               : error_set(err, ERR_INVALID, "the GGUF file lacks '%s.%s'", r->arch->name, suffix);
}

/* A classifier's row for each label; a vector where there is one label. */
void gguf_write_labels(const struct reader *r) {
    const struct tensor *t = safetensors_find(&r->g->set, "cls.output.weight");
    const struct gguf_kv *names = find(r, "classifier.output_labels");
    uint64_t count = !t ? 0 : t->dim_count == 2 ? t->dims[0] : 1;
    struct gguf_strings strings = {0};
    struct bytes name;
    char key[24], label[32];
    bool named = names && names->is_array && names->type == GGUF_STRING && names->count == count;
    if (!count || count > SPEC_LABELS_MAX)
        return;
    if (named)
        strings = gguf_strings_of(names);
    json_key(r->w, "id2label");
    json_begin_object(r->w);
    for (uint64_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%llu", (unsigned long long)i);
        snprintf(label, sizeof label, "LABEL_%llu", (unsigned long long)i);
        json_key(r->w, key);
        json_string_bytes(r->w,
                          named && gguf_strings_next(&strings, &name) ? name : bytes_str(label));
    }
    json_end_object(r->w);
}

/* ModernBERT sees all positions in every third layer, unless a file says another number. */
static int write_modern(const struct reader *r, struct error *err) {
    int rc = write_needed(r, "context_length", "max_position_embeddings", KEY_INT, err);
    if (!rc)
        rc = write_needed(r, "attention.sliding_window", "sliding_window", KEY_INT, err);
    if (rc)
        return rc;
    json_key(r->w, "hidden_act");
    json_string(r->w, "gelu");
    write_value(r, "attention.layer_norm_epsilon", "norm_eps", KEY_REAL);
    write_value(r, "rope.freq_base", "rope_theta", KEY_REAL);
    write_value(r, "rope.freq_base_swa", "rope_local_base_freq", KEY_REAL);
    write_value(r, "attention.sliding_window_pattern", "global_attn_every_n_layers", KEY_INT);
    return 0;
}

/* BERT and its kin. Of RoBERTa's table of positions the rows before the first one were left out; others
 * have no table. */
static int write_bert(const struct reader *r, struct error *err) {
    bool table = is_listed(r, ",bert,");
    write_value(r, "attention.layer_norm_epsilon", "layer_norm_eps", KEY_REAL);
    if (is_listed(r, ",nomic-bert,"))
        write_value(r, "rope.freq_base", "rope_theta", KEY_REAL);
    int rc = table ? write_rows(r, "position_embd.weight", "max_position_embeddings", err)
                   : write_needed(r, "context_length", "max_position_embeddings", KEY_INT, err);
    return rc ? rc : write_rows(r, "token_types.weight", "type_vocab_size", err);
}

int gguf_write_encoder(const struct reader *r, struct error *err) {
    int64_t causal = 0;
    if (find_int(r, "attention.causal", &causal) && causal)
        return error_set(err, ERR_UNSUPPORTED, "GGUF key '%s.attention.causal' is true",
                         r->arch->name);
    int rc = write_rows(r, "token_embd.weight", "vocab_size", err);
    if (!rc)
        rc = write_needed(r, "embedding_length", "hidden_size", KEY_INT, err);
    if (!rc)
        rc = write_needed(r, "attention.head_count", "num_attention_heads", KEY_INT, err);
    if (!rc)
        rc = write_needed(r, "feed_forward_length", "intermediate_size", KEY_INT, err);
    if (rc)
        return rc;
    return is_listed(r, ",modern-bert,") ? write_modern(r, err) : write_bert(r, err);
}
