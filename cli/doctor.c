/*
 * trireme doctor: what this machine offers and what serving a model on it takes, before a byte of weights is read. The
 * sizes are the worker's own plan (model.h: memory_plan_make), made from config and headers alone.
 */
#include "cli/commands.h"
#include "model/model.h"
#include "model/storage_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct doctor_settings {
    const char *model, *device, *isa;
    int64_t slots, blocks, block_tokens, max_step_tokens, max_context;
    uint64_t kv_bytes;
    int kv_type;
};

#define ROW(field_, name_, type_, ...)                                                                                 \
    { .name = name_, .type = type_, .offset = offsetof(struct doctor_settings, field_), __VA_ARGS__ }
static const struct option_row ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm',
        .help = "folder of a model, or a GGUF file; none: the machine"),
    ROW(device, "device", OPTION_STRING, .fallback = "auto", .help = "auto, cpu or cuda"),
    ROW(isa, "isa", OPTION_STRING, .fallback = "auto", .help = "instruction set of the CPU device"),
    ROW(slots, "slots", OPTION_INT, .fallback = "256", .min = 1, .max = 16384, .unit = "sequences",
        .help = "as of trireme worker"),
    ROW(blocks, "blocks", OPTION_INT, .max = 1 << 24, .unit = "blocks", .help = "as of trireme worker"),
    ROW(kv_bytes, "kv-bytes", OPTION_SIZE, .fallback = "0", .unit = "bytes", .help = "as of trireme worker"),
    ROW(block_tokens, "block-tokens", OPTION_INT, .fallback = "32", .min = 16, .max = 256, .unit = "tokens",
        .help = "as of trireme worker"),
    ROW(kv_type, "kv-type", OPTION_ENUM, .choices = KV_TYPE_CHOICES, .fallback = "auto",
        .help = "as of trireme worker"),
    ROW(max_step_tokens, "max-step-tokens", OPTION_INT, .fallback = "512", .min = 1, .max = 65536, .unit = "tokens",
        .help = "as of trireme worker"),
    ROW(max_context, "max-context", OPTION_INT, .max = 1 << 20, .unit = "tokens", .help = "as of trireme worker"),
};
const struct option_table doctor_options = {
    "trireme doctor", "[--model MODEL] [OPTIONS]",
    "Tells what this machine offers and whether a model fits, with the worker's own plan of its memory.", ROWS,
    ARRAY_LEN(ROWS)};

static void tell_machine(struct device *dev) {
    command_row("device", "%s, %s, %u threads", dev->name, dev->isa, dev->thread_count);
    command_row("memory", "%" PRIu64 " MB, of which %" PRIu64 " MB are free", dev->memory_bytes >> 20,
                device_memory_available(dev) >> 20);
}

/* What the loader would find, from the headers. */
static void count_weights(struct model *m) {
    for (size_t i = 0; i < m->files.tensor_count; i++) {
        const struct tensor *t = &m->files.tensors[i];
        m->weights.byte_count += t->byte_len;
        if (m->weights.main_type == STORAGE_NONE && t->dim_count == 2) m->weights.main_type = storage_of(t);
    }
}

static int tell_plan(const struct doctor_settings *o, struct model *m, struct error *err) {
    struct kv_geometry kv;
    struct memory_plan plan;
    uint32_t context = m->spec.max_context;
    if (o->max_context) context = MIN(context, (uint32_t)o->max_context);
    count_weights(m);
    int rc = kv_geometry_of(&kv, m, KV_TYPES[o->kv_type], (uint32_t)o->block_tokens, err);
    if (rc) return rc;
    struct memory_request request = {.slot_count = (uint32_t)o->slots,
                                     .max_step_tokens = (uint32_t)o->max_step_tokens,
                                     .max_context = context,
                                     .block_count = (uint32_t)o->blocks,
                                     .kv_bytes = o->kv_bytes,
                                     .memory_free = device_memory_available(m->dev)};
    rc = memory_plan_make(&plan, m, &kv, &request, err);
    command_row("weights", "%" PRIu64 " bytes%s", plan.weight_bytes,
                m->dev->kind == DEVICE_CPU ? ", mapped from the files where they need no change" : "");
    command_row("buffers", "%" PRIu64 " bytes for steps of %u tokens", plan.activation_bytes, request.max_step_tokens);
    command_row("slots", "%" PRIu64 " bytes for %u sequences of %u tokens", plan.slot_bytes, request.slot_count,
                context);
    command_row("KV cache", "%" PRIu64 " bytes: %u blocks of %u tokens, %s", plan.kv_bytes, plan.block_count,
                kv.block_tokens, storage_name(kv.type));
    command_row("together", "%" PRIu64 " bytes",
                plan.weight_bytes + plan.activation_bytes + plan.slot_bytes + plan.kv_bytes);
    return rc;
}

static int doctor(const struct doctor_settings *o, struct error *err) {
    struct device_options device = {.kind = o->device, .isa = o->isa};
    struct device *dev = NULL;
    struct model m = {0};
    struct buf config;
    struct model_options options = {.dir = o->model};
    int rc = device_open(&device, &dev, err);
    if (rc) return rc;
    buf_init(&config, 0);
    tell_machine(dev);
    if (o->model) {
        command_row("model", "%s", o->model);
        m.dev = dev;
        rc = model_open_files(&m, &options, &config, err);
        if (!rc) rc = tell_plan(o, &m, err);
        command_row("fits", "%s", rc ? "no" : "yes");
        model_close(&m);
    }
    buf_release(&config);
    device_close(&dev);
    return rc;
}

int doctor_main(int argc, char **argv) {
    struct error err = {0};
    struct doctor_settings o;
    size_t count = 0;
    int rc = option_parse(&doctor_options, &o, argc, argv, NULL, 0, &count, &err);
    if (rc == OPTION_HELP_PRINTED) return 0;
    if (rc) return command_misused("doctor", &err);
    rc = doctor(&o, &err);
    if (rc) fprintf(stderr, "trireme doctor: %s\n", err.text);
    option_free(&doctor_options, &o);
    return rc ? 1 : 0;
}
