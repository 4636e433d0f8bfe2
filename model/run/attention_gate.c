#include "model/run/attention_gate.h"

#include "model/run/recurrent.h"

/* The tensor has each head's query and gate behind each other; the product all queries, then all
 * gates. */
int attention_gate_load(struct loader *l, uint32_t layer, const struct attention_spec *a,
                        struct shard_range q_own, struct shard_range kv_own,
                        struct attention_weights *w) {
    uint32_t q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim, n = 0;
    const struct product_segment queries = {ROLE_Q, ROLE_Q_BIAS, 2 * q},
                                 rest[] = {{ROLE_K, ROLE_K_BIAS, kv}, {ROLE_V, ROLE_V_BIAS, kv}};
    if (!q_own.count)
        q_own.count = q;
    const struct cut cut = {.rows = {0, 2 * q_own.count}},
                     cuts[] = {{.rows = kv_own}, {.rows = kv_own}};
    uint32_t *order = mem_calloc(2 * (size_t)q_own.count, sizeof *order);
    for (uint32_t kind = 0; kind < 2; kind++)
        for (uint32_t i = q_own.first; i < q_own.first + q_own.count; i++)
            order[n++] = (i / a->head_dim * 2 + kind) * a->head_dim + i % a->head_dim;
    int rc =
        loader_cut(l, &w->q_gate, &queries, &cut, 1, l->spec->hidden, a->qkv_bias, layer, order);
    mem_free(order);
    return rc ? rc
              : loader_cut(l, &w->kv, rest, kv_own.count ? cuts : NULL, 2, l->spec->hidden,
                           a->qkv_bias, layer, NULL);
}

void attention_gate_product(struct forward *f, struct stream *s, const struct attention_spec *a,
                            const struct attention_weights *w, void *qkv, void *buffer) {
    uint32_t q = a->heads * a->head_dim, kv = 2 * a->kv_heads * a->head_dim;
    void *kv_rows = recurrent_columns(f, buffer, (size_t)f->max_rows * 2 * q);
    forward_product(f, s, buffer, f->in, &w->q_gate);
    forward_product(f, s, kv_rows, f->in, &w->kv);
    recurrent_copy(f, s, qkv, buffer, q, 2 * q, q + kv);
    recurrent_copy(f, s, recurrent_columns(f, qkv, q), kv_rows, kv, kv, q + kv);
}

void attention_gate_apply(struct forward *f, struct stream *s, const struct attention_spec *a,
                          void *mixed, const void *buffer) {
    uint32_t q = a->heads * a->head_dim;
    f->dev->ops->state->gate(s, &(struct op_gate){.out = mixed,
                                                  .x = mixed,
                                                  .gate = recurrent_columns(f, buffer, q),
                                                  .rows = f->batch.row_count,
                                                  .width = q,
                                                  .x_stride = q,
                                                  .gate_stride = 2 * q,
                                                  .out_stride = q,
                                                  .kind = GATE_SIGMOID});
}
