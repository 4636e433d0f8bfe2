/* What the keys of files mean that llama.cpp's converter writes, where it says less, or more, than
 * config.json would. */
#include "base/buf.h"
#include "formats/gguf_write.h"
#include "golden.h"
#include "model/read/gguf_model.h"
#include "model/read/gguf_names.h"

/* A key beyond those that every file has: a text, or a number (whole numbers as u32). "@name": a tensor. */
struct extra {
    const char *suffix, *text;
    double number;
};

static void put_number(struct gguf_writer *w, const char *arch, const char *suffix, double value) {
    char key[GGUF_NAME_MAX];
    snprintf(key, sizeof key, "%s.%s", arch, suffix);
    if (value == (double)(uint32_t)value)
        gguf_put_int(w, key, GGUF_U32, (int64_t)value);
    else
        gguf_put_f32(w, key, value);
}

static bool put_tensors(struct gguf_writer *w, const struct extra *extras, struct error *err) {
    static const float ZEROES[3 * 32];
    int count = 1,
        rc = gguf_put_tensor(w, "token_embd.weight", TENSOR_F32, (uint64_t[]){3, 32}, 2, err);
    for (; extras->suffix; extras++)
        if (*extras->suffix == '@' && ++count)
            rc = rc ? rc
                    : gguf_put_tensor(w, extras->suffix + 1, TENSOR_F32, (uint64_t[]){3, 32}, 2,
                                      err);
    rc = rc ? rc : gguf_write_begin(w, err);
    while (!rc && count--)
        rc = gguf_write_data(w, ZEROES, sizeof ZEROES, err) || gguf_write_pad(w, err);
    return !rc && !gguf_write_end(w, err);
}

static bool write_file(const char *path, const char *arch, const struct extra *extras) {
    static const struct extra COMMON[] = {
        {"block_count", NULL, 2},          {"embedding_length", NULL, 32},
        {"attention.head_count", NULL, 4}, {"context_length", NULL, 64},
        {"feed_forward_length", NULL, 48}, {"attention.layer_norm_epsilon", NULL, 1e-4}};
    const struct extra *all = extras;
    char key[GGUF_NAME_MAX];
    struct gguf_writer w;
    struct error err;
    gguf_writer_init(&w, path);
    gguf_put_string(&w, "general.architecture", bytes_str(arch));
    for (size_t i = 0; i < ARRAY_LEN(COMMON); i++)
        put_number(&w, arch, COMMON[i].suffix, COMMON[i].number);
    for (; extras->suffix; extras++) {
        snprintf(key, sizeof key, "%s.%s", arch, extras->suffix);
        if (*extras->suffix == '@')
            continue;
        if (extras->text)
            gguf_put_string(&w, key, bytes_str(extras->text));
        else
            put_number(&w, arch, extras->suffix, extras->number);
    }
    bool ok = put_tensors(&w, all, &err);
    gguf_writer_release(&w);
    return ok;
}

/* The config has the text `has` and not `lacks`. */
static void check_config(const char *arch, const struct extra *extras, const char *has,
                         const char *lacks) {
    char dir[] = "/tmp/trireme-keys-XXXXXX";
    struct gguf g;
    struct error err = {0};
    struct buf json;
    if (!mkdtemp(dir))
        abort();
    char *path = path_join(dir, "m.gguf");
    buf_init(&json, 0);
    EXPECT(write_file(path, arch, extras));
    EXPECT_EQ(gguf_open(&g, path, &err), 0);
    const struct gguf_arch *row = gguf_arch_of(&g, &err);
    if (!row || gguf_config_text(&g, row, &json, &err))
        check_fail(__FILE__, __LINE__, "%s: %s", arch, err.text);
    else if (!strstr(buf_text(&json), has) || (lacks && strstr(buf_text(&json), lacks)))
        check_fail(__FILE__, __LINE__, "%s: %s", arch, buf_text(&json));
    gguf_close(&g);
    buf_release(&json);
    golden_drop_dir(dir);
    mem_free(path);
}

TEST(a_factor_without_a_type_scales_linearly) {
    static const char LINEAR[] = "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":4";
    check_config("llama", (struct extra[]){{"rope.scaling.factor", NULL, 4}, {0}}, LINEAR, NULL);
    check_config("llama", (struct extra[]){{"rope.scale_linear", NULL, 4}, {0}}, LINEAR, NULL);
    check_config(
        "llama",
        (struct extra[]){{"rope.scaling.type", "none", 0}, {"rope.scaling.factor", NULL, 4}, {0}},
        "{", "rope_scaling");
    check_config("llama", (struct extra[]){{"rope.scaling.factor", NULL, 1}, {0}}, "{",
                 "rope_scaling");
}

TEST(an_epsilon_the_family_does_not_have_is_passed_over) {
    check_config("nemotron",
                 (struct extra[]){{"attention.layer_norm_rms_epsilon", NULL, 1e-5}, {0}},
                 "\"norm_eps\":0.0001", "rms_norm_eps");
}

TEST(a_file_without_a_window_has_none) {
    check_config("exaone4", (struct extra[]){{0}}, "\"sliding_window\":null", NULL);
    check_config("gemma3", (struct extra[]){{0}}, "\"sliding_window\":null", NULL);
    check_config("exaone4", (struct extra[]){{"attention.sliding_window", NULL, 9}, {0}},
                 "\"sliding_window\":9", "null");
}

/* ---- which architecture a file is of ---- */

static void check_arch(const char *arch, struct extra extra, const char *expected) {
    char dir[] = "/tmp/trireme-keys-XXXXXX";
    struct gguf g;
    struct error err = {0};
    CHECK(mkdtemp(dir));
    char *path = path_join(dir, "m.gguf");
    EXPECT(write_file(path, arch, (struct extra[]){extra, {0}}));
    EXPECT_EQ(gguf_open(&g, path, &err), 0);
    const struct gguf_arch *row = gguf_arch_of(&g, &err);
    EXPECT_STR(row ? row->model_type : err.text, expected);
    if (row) /* Q and K are permuted in these */
        EXPECT_EQ(row->permuted, !strcmp(arch, "llama") || !strcmp(arch, "granitehybrid"));
    gguf_close(&g);
    golden_drop_dir(dir);
    mem_free(path);
}

TEST(keys_and_tensors_tell_families_of_one_architecture_apart) {
    static const struct {
        const char *arch;
        struct extra extra;
        const char *model_type;
    } CASES[] = {
        {"llama", {"expert_count", NULL, 8}, "mixtral"},
        {"llama", {"expert_count", NULL, 0}, "llama"},
        {"llama", {"attention.sliding_window", NULL, 1}, "mistral"},
        {"llama", {"attention.sliding_window", NULL, 0}, "llama"},
        {"llama", {"attention.sliding_window", "1", 0}, "llama"},
        {"deepseek2", {"expert_gating_func", NULL, 1}, "deepseek_v2"},
        {"deepseek2", {"expert_gating_func", NULL, 2}, "deepseek_v3"},
        {"deepseek2", {"expert_gating_func", NULL, 3}, "deepseek_v2"},
        {"olmo2", {"attention.sliding_window", NULL, 64}, "olmo3"},
        {"olmo2", {NULL, NULL, 0}, "olmo2"},
        {"mamba", {"ssm.dt_b_c_rms", NULL, 1}, "falcon_mamba"},
        {"mamba", {"ssm.dt_b_c_rms", NULL, 0}, "mamba"},
        {"granitehybrid", {"embedding_scale", NULL, 12}, "granitemoehybrid"},
        {"granitehybrid", {"rope.scaling.finetuned", NULL, 0}, "granitemoehybrid"},
        {"granitehybrid", {"rope.scaling.finetuned", NULL, 1}, "bamba"},
        {"granitehybrid", {NULL, NULL, 0}, "bamba"},
        {"qwen3next", {"@blk.0.attn_qkv.weight", NULL, 0}, "qwen3_next"},
        {"qwen3next", {NULL, NULL, 0}, "qwen3_next"},
        {"falcon", {"@blk.0.attn_norm_2.weight", NULL, 0}, "falcon"},
        {"nomic-bert", {NULL, NULL, 0}, "nomic_bert"},
        {"mixtral", {NULL, NULL, 0}, "GGUF architecture 'mixtral' is not supported"},
        {"llam", {NULL, NULL, 0}, "GGUF architecture 'llam' is not supported"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        check_arch(CASES[i].arch, CASES[i].extra, CASES[i].model_type);
}

/* The names of a file's tensors differ by what is in it, though its family is one. */
TEST(tensors_tell_the_tables_of_names) {
    static const struct {
        const char *arch, *tensor, *architecture;
        const struct name_table *with, *without;
    } CASES[] = {
        {"qwen3", "@cls.output.weight", "Qwen3ForSequenceClassification", &GGUF_RANK_NAMES,
         &GGUF_NAMES},
        {"falcon", "@blk.0.attn_norm_2.weight", "FalconForCausalLM", &GGUF_TWO_NORM_NAMES,
         &GGUF_QKV_NAMES},
        {"qwen3next", "@blk.0.attn_qkv.weight", "Qwen3NextForCausalLM", &GGUF_DELTA_NAMES,
         &GGUF_DELTA_FUSED_NAMES},
        {"bert", "@cls.output.weight", "BertForSequenceClassification", &GGUF_ENCODER_SCORE_NAMES,
         &GGUF_ENCODER_NAMES},
        {"jina-bert-v2", "@blk.0.ffn_gate.weight", "JinaBertModel", &GGUF_ENCODER_NAMES,
         &GGUF_ENCODER_FUSED_NAMES},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        for (int with = 0; with < 2; with++) {
            char dir[] = "/tmp/trireme-keys-XXXXXX";
            struct gguf g;
            struct error err = {0};
            CHECK(mkdtemp(dir));
            char *path = path_join(dir, "m.gguf");
            EXPECT(write_file(path, CASES[i].arch,
                              (struct extra[]){{with ? CASES[i].tensor : NULL, NULL, 0}, {0}}));
            EXPECT_EQ(gguf_open(&g, path, &err), 0);
            const struct gguf_arch *row = gguf_arch_of(&g, &err);
            EXPECT(row && row->names == (with ? CASES[i].with : CASES[i].without));
            EXPECT(!row->permuted);
            EXPECT(!with || !strcmp(row->architecture, CASES[i].architecture));
            gguf_close(&g);
            golden_drop_dir(dir);
            mem_free(path);
        }
}

/* ---- what a folder's model is written as ---- */

/* PERMUTED: llama.cpp's converter permutes the rows of Q and K. */
enum { EXPERTS = 1, SCORES = 2, BOTH_WAYS = 4, PERMUTED = 8 };

struct written {
    const char *family, *arch; /* arch NULL: it cannot be */
    unsigned flags;
};

static void check_written(const struct written *w) {
    struct layer_spec layers[2] = {0}; /* in many families the first layers are dense */
    struct error err = {0};
    layers[1].ffn.kind = w->flags & EXPERTS ? FFN_MOE : layers[0].ffn.kind;
    const struct model_spec spec = {.family = w->family,
                                    .layers = layers,
                                    .layer_count = 2,
                                    .bidirectional = w->flags & BOTH_WAYS,
                                    .score.kind = w->flags & SCORES ? SCORE_LINEAR : SCORE_NONE};
    const struct gguf_arch *row = gguf_arch_for(&spec, &err);
    char refusal[100];
    snprintf(refusal, sizeof refusal, "a %s model cannot be written as GGUF", w->family);
    EXPECT_STR(row ? row->name : err.text, w->arch ? w->arch : refusal);
    EXPECT(!row || !(w->flags & SCORES) == (row->names != &GGUF_RANK_NAMES));
    EXPECT(!row || row->permuted == !!(w->flags & PERMUTED));
}

TEST(each_family_has_the_architecture_of_llama_cpp) {
    static const struct written CASES[] = {
        {"mixtral", "llama", EXPERTS | PERMUTED},
        {"mixtral", NULL, 0},
        {"qwen2_moe", "qwen2moe", EXPERTS},
        {"qwen3_moe", "qwen3moe", EXPERTS},
        {"olmoe", "olmoe", EXPERTS},
        {"gpt_oss", "gpt-oss", EXPERTS},
        {"granitemoe", "granitemoe", EXPERTS | PERMUTED},
        {"glm4_moe", "glm4moe", EXPERTS},
        {"dots1", "dots1", EXPERTS},
        {"minimax_m2", "minimax-m2", EXPERTS},
        {"llama4", "llama4", EXPERTS},
        {"llama4_text", "llama4", EXPERTS},
        {"deepseek", "deepseek", EXPERTS | PERMUTED},
        {"deepseek_v3", "deepseek2", EXPERTS},
        {"deepseek_v2", "deepseek2", 0},
        {"mistral", "llama", PERMUTED},
        {"llama", "llama", PERMUTED},
        {"llama", "llama", EXPERTS | PERMUTED},
        {"llama", NULL, SCORES},
        {"llama", NULL, BOTH_WAYS},
        {"ministral3", "mistral3", PERMUTED},
        {"arcee", "arcee", PERMUTED},
        {"qwen2", "qwen2", 0},
        {"qwen3", "qwen3", 0},
        {"qwen3", "qwen3", SCORES},
        {"gemma", "gemma", 0},
        {"gemma2", "gemma2", 0},
        {"gemma3", "gemma3", 0},
        {"phi", "phi2", 0},
        {"phi3", "phi3", 0},
        {"smollm3", "smollm3", PERMUTED},
        {"granite", "granite", PERMUTED},
        {"olmo", "olmo", PERMUTED},
        {"olmo2", "olmo2", 0},
        {"olmo3", "olmo2", 0},
        {"stablelm", "stablelm", 0},
        {"starcoder2", "starcoder2", 0},
        {"cohere", "command-r", 0},
        {"cohere2", "cohere2", 0},
        {"glm", "chatglm", 0},
        {"glm4", "glm4", 0},
        {"exaone4", "exaone4", 0},
        {"seed_oss", "seed_oss", 0},
        {"nemotron", "nemotron", 0},
        {"ernie4_5", "ernie4_5", 0},
        {"falcon", "falcon", 0},
        {"gpt2", "gpt2", 0},
        {"gpt_neox", "gptneox", 0},
        {"bloom", "bloom", 0},
        {"mpt", "mpt", 0},
        {"falcon_mamba", "mamba", 0},
        {"mamba", "mamba", 0},
        {"mamba2", "mamba2", 0},
        {"jamba", "jamba", 0},
        {"granitemoehybrid", "granitehybrid", PERMUTED},
        {"bamba", "granitehybrid", PERMUTED},
        {"nemotron_h", "nemotron_h", PERMUTED},
        {"nemotron_h", "nemotron_h_moe", EXPERTS | PERMUTED},
        {"qwen3_next", "qwen3next", 0},
        {"qwen3_5", "qwen35", 0},
        {"lfm2", "lfm2", 0},
        {"bert", NULL, BOTH_WAYS},
        {"modernbert", NULL, SCORES | BOTH_WAYS},
        {"gemm", NULL, 0},
        {"qwen", NULL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        check_written(&CASES[i]);
}

/* Falcon's folders name the norms of new models otherwise, and so do their files. */
TEST(a_folder_with_two_norms_keeps_both) {
    const struct model_spec two = {.family = "falcon", .folder_names = &FALCON_TWO_NORM_NAMES},
                            one = {.family = "falcon"};
    struct error err;
    EXPECT(gguf_arch_for(&two, &err)->names == &GGUF_TWO_NORM_NAMES);
    EXPECT(gguf_arch_for(&one, &err)->names == &GGUF_QKV_NAMES);
}
