/*
 * Quantized checkpoints: every form of tests/goldens/quant/forms decodes, bit for bit, to what
 * float64 formulas gave; their companions are gone from the set; and every cut or changed file is
 * loaded or refused, never more.
 */
#include <dirent.h>

#include "kernels/types.h"
#include "model/load/loader_quantized.h"
#include "model/load/quantized.h"
#include "model/load/storage_map.h"
#include "model/load/weight_memory.h"
#include "rig.h"

static const char FORMS[] = TRIREME_SOURCE_DIR "/tests/goldens/quant/forms";

static char *path_of(const char *name, const char *end) {
    struct buf b;
    buf_init(&b, 0);
    buf_addf(&b, "%s/%s%s", FORMS, name, end);
    return b.data;
}

/* Values of a tensor as the kernels see them. */
static float *decode(const struct tensor *t) {
    struct matrix m = {.type = storage_of(t),
                       .rows = (uint32_t)t->dims[0],
                       .cols = (uint32_t)t->dims[1],
                       .segment_count = 1};
    m.segments[0] = (struct matrix_segment){.data = t->data, .rows = m.rows};
    if (t->scales) {
        m.segments[0].scale_rows = t->scales->rows_each;
        m.segments[0].scale_cols = t->scales->cols_each;
        m.segments[0].scale_stride = t->scales->stride;
        m.segments[0].zero = t->scales->zero;
        m.segments[0].scales = t->scales->scales;
        m.segments[0].zeros = t->scales->zeros;
        m.segments[0].groups = t->scales->groups;
    }
    float *out = calloc((size_t)m.rows * m.cols, sizeof *out);
    for (uint32_t r = 0; r < m.rows; r++)
        matrix_dequantize(&m, r, 0, m.cols, out + (size_t)r * m.cols);
    return out;
}

/* A form's tensors after reading, and what its reference says. */
struct form {
    struct safetensors set, want;
    struct quantized q;
    const struct tensor *t, *w;
    struct error err;
};

static bool form_open(struct form *f, const char *name) {
    char *config_path = path_of(name, ".json"), *path = path_of(name, ".safetensors"),
         *want_path = path_of(name, ".expected.safetensors");
    struct buf config;
    *f = (struct form){0};
    buf_init(&config, 0);
    bool ok = !file_read(config_path, 1 << 20, &config, &f->err) &&
              !safetensors_open(&f->want, want_path, &f->err) &&
              !safetensors_open(&f->set, path, &f->err) &&
              !quantized_open(&f->q, &f->set, buf_bytes(&config), &f->err);
    f->t = ok ? safetensors_find(&f->set, "m.q.weight") : NULL;
    f->w = ok ? safetensors_find(&f->want, "m.q.weight") : NULL;
    ok = f->t && f->w && f->t->dim_count == 2 && f->t->dims[0] == f->w->dims[0] &&
         f->t->dims[1] == f->w->dims[1];
    if (!ok)
        check_fail(__FILE__, __LINE__, "%s: %s", name, f->err.text);
    buf_release(&config);
    mem_free(config_path);
    mem_free(path);
    mem_free(want_path);
    return ok;
}

static void form_close(struct form *f) {
    quantized_close(&f->q);
    safetensors_close(&f->set);
    safetensors_close(&f->want);
}

static void check_form(const char *name) {
    struct form f;
    if (!form_open(&f, name))
        return;
    float *got = decode(f.t);
    if (f.set.tensor_count != 1)
        check_fail(__FILE__, __LINE__, "%s: %zu tensors are left", name, f.set.tensor_count);
    if (memcmp(got, f.w->data, f.w->byte_len))
        check_fail(__FILE__, __LINE__, "%s decodes to other values", name);
    free(got);
    form_close(&f);
}

/* Calls check for each form; their count. */
static int each_form(void (*check)(const char *name)) {
    int count = 0;
    DIR *dir = opendir(FORMS);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t len = strlen(e->d_name);
        if (len < 6 || strcmp(e->d_name + len - 5, ".json"))
            continue;
        char *name = mem_strndup(e->d_name, len - 5);
        check(name);
        mem_free(name);
        count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

TEST(every_form_decodes_as_its_reference) {
    EXPECT_EQ(each_form(check_form), 20);
}

/* Some columns, between what shares a scale, of rows in another order: the values of the whole. */
static uint32_t cut_forms;
static void cut_form(const char *name) {
    struct form f;
    if (!form_open(&f, name))
        return;
    uint32_t rows = (uint32_t)f.t->dims[0], cols = (uint32_t)f.t->dims[1],
             unit = quantized_column_unit(f.t, cols);
    uint32_t order[5], units = unit == UINT32_MAX ? 0 : cols / unit;
    struct device_options options = {0};
    struct model_weights weights = {.memory = mem_calloc(1, sizeof *weights.memory)};
    EXPECT_EQ(device_open(&options, &weights.dev, &f.err), 0);
    struct loader l = {
        .w = &weights, .files = &f.set, .stream = stream_new(weights.dev), .err = &f.err};
    for (int i = 0; i < 5; i++)
        order[i] = (uint32_t)(check_random() % rows);
    for (uint32_t first = 0; first < units; first++) {
        uint32_t count = 1 + (uint32_t)(check_random() % (units - first));
        const struct product_segment part = {.rows = rows};
        const struct cut cut = {.rows = {0, 5}, .cols = {first * unit, count * unit}};
        struct matrix m = {.type = storage_of(f.t), .rows = 5, .cols = count * unit};
        m.segments[0].type = m.type;
        if (loader_take_scaled(&l, &m, &f.t, &part, &cut, 1, cols, order))
            check_fail(__FILE__, __LINE__, "%s: %s", name, f.err.text);
        float *got = calloc(m.cols, sizeof *got);
        for (uint32_t i = 0; i < 5; i++) {
            matrix_dequantize(&m, i, 0, m.cols, got);
            const uint8_t *want =
                f.w->data + ((size_t)order[i] * cols + first * unit) * sizeof *got;
            if (memcmp(got, want, m.cols * sizeof *got))
                check_fail(__FILE__, __LINE__, "%s: other values from column %u on", name,
                           first * unit);
        }
        free(got);
    }
    cut_forms += units > 1;
    stream_free(&l.stream);
    struct device *dev = weights.dev;
    weights_release(&weights);
    device_close(&dev);
    form_close(&f);
}

TEST(forms_are_cut_between_their_groups) {
    cut_forms = 0;
    EXPECT_EQ(each_form(cut_form), 20);
    EXPECT(cut_forms >= 15);
}

/* Bytes changed here and there: refused, or decoded without leaving anything's bounds (the
 * sanitizer sees). */
static void mutate_form(const char *name) {
    char *config_path = path_of(name, ".json"), *path = path_of(name, ".safetensors");
    struct buf config, file;
    struct error err = {0};
    buf_init(&config, 0);
    buf_init(&file, 0);
    if (file_read(config_path, 1 << 20, &config, &err) || file_read(path, 1 << 20, &file, &err))
        check_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
    for (int i = 0; i < 300; i++) {
        char *copy = malloc(file.len);
        struct safetensors set;
        struct quantized q;
        memcpy(copy, file.data, file.len);
        for (int k = 0; k < 3; k++)
            copy[check_random() % (k ? MIN(file.len, 900) : file.len)] ^=
                (char)(1 << check_random() % 8);
        if (!safetensors_open_bytes(&set, bytes_of(copy, file.len), "mutant", &err)) {
            if (!quantized_open(&q, &set, buf_bytes(&config), &err)) {
                for (size_t t = 0; t < set.tensor_count; t++)
                    if (set.tensors[t].scales)
                        free(decode(&set.tensors[t]));
                quantized_close(&q);
            }
            safetensors_close(&set);
        }
        free(copy);
    }
    buf_release(&config);
    buf_release(&file);
    mem_free(config_path);
    mem_free(path);
}

TEST(mutants_of_every_form_are_loaded_or_refused) {
    EXPECT_EQ(each_form(mutate_form), 20);
}

TEST(forms_that_are_not_read_are_refused_in_words) {
    static const struct {
        const char *config, *why; /* NULL: read */
    } ROWS[] = {
        {"\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\"", NULL},
        {"},\"quantization\":{\"group_size\":64,\"bits\":4,\"lm_head\":{\"bits\":8}", "of 4 bits"},
        {"},\"quantization\":\"none\",\"a\":{", NULL},
        {"\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"", "quant_algo 'NVFP4'"},
        {"\"quant_method\":\"modelopt\"", "quant_algo ''"},
        {"\"group_size\":64,\"bits\":4", "weights of 4 bits without a 'quant_method': MLX"},
        {"\"group_size\":64,\"bits\":4,\"quant_method\":\"gptq\"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct quantized_config c = {0};
        struct error err = {0};
        char text[200];
        int len = snprintf(text, sizeof text, "{\"quantization_config\":{%s}}", ROWS[i].config);
        int rc = quantized_config_read(&c, bytes_of(text, (size_t)len), &err);
        if (rc != (ROWS[i].why ? ERR_UNSUPPORTED : 0) || (rc && !strstr(err.text, ROWS[i].why)))
            check_fail(__FILE__, __LINE__, "%s: %d '%s'", text, rc, err.text);
    }
}

TEST(unknown_methods_are_refused_by_name) {
    struct safetensors set = {0};
    struct quantized q;
    struct error err = {0};
    EXPECT(quantized_open(&q, &set,
                          bytes_str("{\"quantization_config\":{\"quant_method\":\"hqq\"}}"),
                          &err) != 0);
    EXPECT(strstr(err.text, "hqq"));
    EXPECT_EQ(quantized_open(&q, &set,
                             bytes_str("{\"time_step_limit\":[0, Infinity],"
                                       "\"quantization_config\":{\"quant_method\":\"awq\"}}"),
                             &err),
              0);
    quantized_close(&q);
    EXPECT_EQ(quantized_open(&q, &set, bytes_str("{\"a\":[{}]}"), &err), 0);
    quantized_close(&q);
    mem_free(set.tensors);
}
