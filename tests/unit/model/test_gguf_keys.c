/* What the keys of files mean that llama.cpp's converter writes, where it says less, or more, than
 * config.json would. */
#include "base/buf.h"
#include "formats/gguf_write.h"
#include "golden.h"
#include "model/read/gguf_model.h"

/* A key beyond those that every file has: a text, or a number (whole numbers as u32). */
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

static bool write_file(const char *path, const char *arch, const struct extra *extras) {
    static const struct extra COMMON[] = {
        {"block_count", NULL, 2},          {"embedding_length", NULL, 32},
        {"attention.head_count", NULL, 4}, {"context_length", NULL, 64},
        {"feed_forward_length", NULL, 48}, {"attention.layer_norm_epsilon", NULL, 1e-4}};
    static const float EMBEDDING[3 * 32];
    char key[GGUF_NAME_MAX];
    struct gguf_writer w;
    struct error err;
    gguf_writer_init(&w, path);
    gguf_put_string(&w, "general.architecture", bytes_str(arch));
    for (size_t i = 0; i < ARRAY_LEN(COMMON); i++)
        put_number(&w, arch, COMMON[i].suffix, COMMON[i].number);
    for (; extras->suffix; extras++) {
        snprintf(key, sizeof key, "%s.%s", arch, extras->suffix);
        if (extras->text)
            gguf_put_string(&w, key, bytes_str(extras->text));
        else
            put_number(&w, arch, extras->suffix, extras->number);
    }
    bool ok = !gguf_put_tensor(&w, "token_embd.weight", TENSOR_F32, (uint64_t[]){3, 32}, 2, &err) &&
              !gguf_write_begin(&w, &err) &&
              !gguf_write_data(&w, EMBEDDING, sizeof EMBEDDING, &err) &&
              !gguf_write_pad(&w, &err) && !gguf_write_end(&w, &err);
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
