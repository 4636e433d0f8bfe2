/*
 * A GGUF file is the model it was made from: its golden tokens, and a config in which nothing is
 * lost. Tensors keep their types.
 */
#include "model/read/gguf_model.h"
#include "rig.h"

static const char GGUF[] = "weights/stories260k/stories260K.gguf";

TEST(a_gguf_file_gives_its_golden_tokens) {
    const char *found = check_shared(GGUF);
    if (!found)
        SKIP("shared", "weights/stories260k");
    char path[512];
    struct rig r;
    struct error err = {0};
    struct golden g = {0};
    snprintf(path, sizeof path, "%s", found);
    if (!rig_open(&r, path, NULL, 2, STORAGE_F32, 32, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    EXPECT(golden_read(&g, check_shared("weights/stories260k/golden_greedy.json")));
    for (size_t i = 0; i < g.cases.count; i++) {
        const struct golden_case *c = &g.cases.items[i];
        uint32_t slot = 0, sampled[1];
        rig_admit(&r, slot, c->prompt.items, (uint32_t)c->prompt.count, (struct slot_state){0});
        for (size_t k = 0; k < c->greedy.count; k++) {
            uint32_t samples = rig_step(&r, &slot, 1, 64, sampled);
            rig_sample(&r, sampled, samples);
            if (r.out.tokens[0] != c->greedy.items[k])
                check_fail(__FILE__, __LINE__, "case %zu: token %zu is %u, expected %u", i, k,
                           r.out.tokens[0], c->greedy.items[k]);
        }
        slots_remove(&r.slots, r.stream, slot);
    }
    golden_free(&g);
    rig_close(&r);
}

TEST(gguf_metadata_becomes_a_config) {
    const char *path = check_shared(GGUF);
    struct gguf g;
    struct error err = {0};
    struct buf json;
    if (!path)
        SKIP("shared", "weights/stories260k");
    buf_init(&json, 0);
    EXPECT_EQ(gguf_open(&g, path, &err), 0);
    const struct gguf_arch *arch = gguf_arch_of(&g, &err);
    EXPECT(arch && arch->permuted);
    EXPECT_EQ(gguf_config_text(&g, arch, &json, &err), 0);
    EXPECT_STR(buf_text(&json), "{\"architectures\":[\"LlamaForCausalLM\"],"
                                "\"model_type\":\"llama\","
                                "\"num_hidden_layers\":5,"
                                "\"hidden_size\":64,"
                                "\"num_attention_heads\":8,"
                                "\"max_position_embeddings\":2048,"
                                "\"rms_norm_eps\":1e-05,"
                                "\"intermediate_size\":172,"
                                "\"num_key_value_heads\":4,"
                                "\"head_dim\":8,"
                                "\"vocab_size\":512,"
                                "\"tie_word_embeddings\":false,"
                                "\"attention_bias\":false,"
                                "\"mlp_bias\":false}");
    buf_release(&json);
    gguf_close(&g);
}
