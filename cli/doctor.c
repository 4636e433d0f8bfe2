/*
 * trireme doctor: what this machine offers and what serving a model on it takes, before a byte of
 * weights is read. The sizes are the worker's own plan (model.h: memory_plan_make), made from
 * config and headers alone.
 */
#include "base/cpu_features.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/report.h"
#include "model/load/storage_map.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct doctor_settings {
    const char *model, *device, *isa;
    int64_t layers_on_gpu, slots, blocks, block_tokens, max_step_tokens, max_context;
    uint64_t kv_bytes;
    double memory_fraction;
    int kv_type;
    bool json;
};

#define ROW(field_, name_, type_, ...)                                                             \
    {                                                                                              \
        .name = name_, .type = type_, .offset = offsetof(struct doctor_settings, field_),          \
        __VA_ARGS__                                                                                \
    }
static const struct option_row ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm',
        .help = "folder of a model, or a GGUF file; none: the machine"),
    ROW(device, "device", OPTION_STRING, .fallback = "auto", .aliases = "-dev",
        .alias_words = DEVICE_ALIAS_WORDS, .help = "auto, cpu or cuda"),
    ROW(layers_on_gpu, "layers-on-gpu", OPTION_INT, .fallback = "-1", .min = -1, .max = INT32_MAX,
        .unit = "layers", .aliases = "-ngl --n-gpu-layers --gpu-layers",
        .alias_words = "all=-1 auto=-1", .help = "as of trireme worker"),
    ROW(isa, "isa", OPTION_STRING, .fallback = "auto", .help = "instruction set of the CPU device"),
    ROW(slots, "slots", OPTION_INT, .fallback = "256", .min = 1, .max = 16384, .unit = "sequences",
        .aliases = "-np --parallel --max-num-seqs --max-running-requests --max-batch-size",
        .help = "as of trireme worker"),
    ROW(blocks, "blocks", OPTION_INT, .max = 1 << 24, .unit = "blocks",
        .aliases = "--num-gpu-blocks-override", .help = "as of trireme worker"),
    ROW(kv_bytes, "kv-bytes", OPTION_SIZE, .fallback = "0", .unit = "bytes",
        .aliases = "--kv-cache-memory-bytes --kv-cache-memory", .help = "as of trireme worker"),
    ROW(memory_fraction, "memory-fraction", OPTION_FLOAT, .max = 1,
        .aliases = "--gpu-memory-utilization --mem-fraction-static",
        .help = "as of trireme worker"),
    ROW(block_tokens, "block-tokens", OPTION_INT, .fallback = "32", .min = 16, .max = 256,
        .unit = "tokens", .aliases = "--block-size --page-size", .help = "as of trireme worker"),
    ROW(kv_type, "kv-type", OPTION_ENUM, .choices = KV_TYPE_CHOICES, .fallback = "auto",
        .aliases = "-ctk --cache-type-k -ctv --cache-type-v --kv-cache-dtype",
        .alias_words =
            "fp8_e4m3=fp8 float8_e4m3fn=fp8 q8_0=int8 float16=f16 half=f16 bfloat16=bf16 float32=f32 float=f32",
        .help = "as of trireme worker"),
    ROW(max_step_tokens, "max-step-tokens", OPTION_INT, .max = 65536, .unit = "tokens",
        .aliases = "-ub --ubatch-size --max-num-batched-tokens", .help = "as of trireme worker"),
    ROW(max_context, "max-context", OPTION_INT, .max = 1 << 20, .unit = "tokens",
        .aliases = "-c --ctx-size --max-model-len --context-length --max-seq-len --num-ctx",
        .alias_words = "auto=0 -1=0", .help = "as of trireme worker"),
    ROW(json, "json", OPTION_BOOL, .help = "print one JSON object instead"),
};
const struct option_table doctor_options = {
    .program = "trireme doctor",
    .synopsis = "[OPTIONS] [MODEL]",
    .summary = "Tells what this machine offers and whether a model "
               "fits, with the worker's own plan of its memory.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .arguments = "model"};

static void tell_features(const struct report *r) {
    char text[CPU_FEATURES_TEXT_MAX];
    const char *hidden = getenv("TRIREME_CPU_FEATURES");
    cpu_features_text(cpu_features(), text, sizeof text);
    report_row(r, "features", "%s", text);
    report_text(r, "features", text);
    if (hidden && *hidden)
        report_row(r, "hidden", "%s (TRIREME_CPU_FEATURES)", hidden);
    report_text(r, "hidden_features", hidden && *hidden ? hidden : NULL);
}

static void tell_machine(const struct report *r, struct device *dev) {
    char all[HUMAN_MAX], free[HUMAN_MAX];
    report_row(r, "device", "%s, %s, %u threads", dev->name, dev->isa, dev->thread_count);
    report_text(r, "device", dev->name);
    report_text(r, "isa", dev->isa);
    report_number(r, "threads", dev->thread_count);
    if (dev->kind == DEVICE_CPU)
        tell_features(r);
    uint64_t available = device_memory_available(dev);
    report_row(r, "memory", "%s, of which %s are free", human(dev->memory_bytes, "B", all),
               human(available, "B", free));
    report_number(r, "memory_bytes", (double)dev->memory_bytes);
    report_number(r, "memory_free_bytes", (double)available);
}

/* What the loader would find, from the headers. */
static void count_weights(struct model *m) {
    for (size_t i = 0; i < m->files.tensor_count; i++) {
        const struct tensor *t = &m->files.tensors[i];
        m->weights.byte_count += t->byte_len;
        if (m->weights.main_type == STORAGE_NONE && t->dim_count == 2)
            m->weights.main_type = storage_of(t);
    }
}

/* A part of the plan: its size, and what it is for. */
static void tell_size(const struct report *r, const char *name, const char *key, uint64_t bytes,
                      const char *what) {
    char size[HUMAN_MAX];
    report_row(r, name, "%s%s", human(bytes, "B", size), what);
    report_number(r, key, (double)bytes);
}

static void tell_sizes(const struct report *r, const struct model *m,
                       const struct memory_plan *plan, const struct memory_request *request,
                       const struct kv_geometry *kv) {
    char what[128];
    tell_size(r, "weights", "weight_bytes", plan->weight_bytes,
              m->dev->kind == DEVICE_CPU ? ", mapped from the files where they need no change"
                                         : "");
    snprintf(what, sizeof what, " for steps of %u tokens", request->max_step_tokens);
    tell_size(r, "buffers", "buffer_bytes", plan->activation_bytes, what);
    snprintf(what, sizeof what, " for %u sequences of %u tokens", request->slot_count,
             request->max_context);
    tell_size(r, "slots", "slot_bytes", plan->slot_bytes, what);
    snprintf(what, sizeof what, ": %u blocks of %u tokens, %s", plan->block_count, kv->block_tokens,
             storage_name(kv->type));
    tell_size(r, "KV cache", "kv_bytes", plan->kv_bytes, what);
    report_number(r, "blocks", plan->block_count);
    report_number(r, "block_tokens", kv->block_tokens);
    report_number(r, "context_tokens", request->max_context);
    tell_size(r, "together", "together_bytes",
              plan->weight_bytes + plan->activation_bytes + plan->slot_bytes + plan->kv_bytes, "");
}

static int tell_plan(const struct report *r, const struct doctor_settings *o, struct model *m,
                     struct error *err) {
    struct kv_geometry kv;
    struct memory_plan plan;
    uint32_t context = m->spec.max_context;
    if (o->max_context)
        context = MIN(context, (uint32_t)o->max_context);
    count_weights(m);
    int rc = kv_geometry_of(&kv, m, KV_TYPES[o->kv_type], (uint32_t)o->block_tokens, err);
    if (rc)
        return rc;
    struct memory_request request = {
        .slot_count = (uint32_t)o->slots,
        .max_step_tokens = o->max_step_tokens ? (uint32_t)o->max_step_tokens : m->dev->step_tokens,
        .max_context = context,
        .block_count = (uint32_t)o->blocks,
        .kv_bytes = o->kv_bytes,
        .memory_free = device_memory_available(m->dev),
        .memory_max = (uint64_t)(o->memory_fraction * (double)m->dev->memory_bytes)};
    rc = memory_plan_make(&plan, m, &kv, &request, err);
    tell_sizes(r, m, &plan, &request, &kv);
    return rc;
}

static int doctor(const struct report *r, const struct doctor_settings *o, struct error *err) {
    struct device_options device = {.kind = model_device_kind(o->device, o->layers_on_gpu),
                                    .isa = o->isa};
    struct device *dev = NULL;
    struct model m = {0};
    struct buf config;
    struct model_options options = {.dir = o->model};
    int rc = device_open(&device, &dev, err);
    if (rc)
        return rc;
    buf_init(&config, 0);
    tell_machine(r, dev);
    if (o->model) {
        report_row(r, "model", "%s", o->model);
        report_text(r, "model", o->model);
        m.dev = dev;
        rc = model_open_files(&m, &options, &config, err);
        if (!rc && dev->kind != DEVICE_CPU)
            rc = model_check_layers_on_gpu(model_layers_wanted(o->layers_on_gpu),
                                           m.spec.layer_count, err);
        if (!rc)
            rc = tell_plan(r, o, &m, err);
        report_row(r, "fits", "%s", rc ? "no" : "yes");
        report_bool(r, "fits", !rc);
        model_close(&m);
    }
    buf_release(&config);
    device_close(&dev);
    return rc;
}

int doctor_main(int argc, char **argv) {
    struct error err = {0};
    struct doctor_settings o;
    struct report report;
    int rc = option_parse(&doctor_options, &o, argc, argv, NULL, 0, NULL, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (rc)
        return command_misused("doctor", &doctor_options, &o, &err);
    report_begin(&report, o.json);
    rc = model_path_of_option(&o.model, &err);
    if (!rc)
        rc = doctor(&report, &o, &err);
    if (rc) {
        fprintf(stderr, "trireme doctor: %s\n", err.text);
        report_add(&report, "errors", cJSON_CreateString(err.text));
    }
    report_end(&report);
    option_free(&doctor_options, &o);
    return rc ? 1 : 0;
}
