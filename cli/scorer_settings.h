/*
 * scorer_settings.h - what commands that score let a person say of the model and the device: the
 * rows of the option table that `trireme logits` and `trireme perplexity` share, and what they make
 * of a scorer's options.
 */
#ifndef CLI_SCORER_SETTINGS_H
#define CLI_SCORER_SETTINGS_H

#include "base/option.h"
#include "cli/scorer.h"

struct scorer_settings {
    const char *device, *isa;
    int64_t threads, layers_on_gpu;
    int compute, quantize, kv_type;
};

/* Rows of a struct type_ that has a struct scorer_settings called scorer. */
#define SCORER_ROW(type_, name_, kind, member, ...)                                                \
    { .name = name_, .type = kind, .offset = offsetof(type_, scorer.member), __VA_ARGS__ }
#define SCORER_ROWS(type_)                                                                         \
    SCORER_ROW(type_, "compute", OPTION_ENUM, compute,                                             \
               .choices = "auto|f32|bf16|int8|fp8|fp8-prompts", .fallback = "auto",                \
               .help = "as of trireme worker; f32 keeps keys and values in f32, too"),             \
        SCORER_ROW(type_, "quantize", OPTION_ENUM, quantize, .choices = "none|fp8|int8|int4",      \
                   .fallback = "none",                                                             \
                   .help = "what the matrices of layers become while they are loaded"),            \
        SCORER_ROW(type_, "kv-type", OPTION_ENUM, kv_type, .choices = KV_TYPE_CHOICES,             \
                   .fallback = "auto", .help = "how keys and values are stored"),                  \
        SCORER_ROW(type_, "device", OPTION_STRING, device, .fallback = "auto", .aliases = "-dev",  \
                   .alias_words = DEVICE_ALIAS_WORDS, .help = "auto, cpu or cuda"),                \
        SCORER_ROW(type_, "layers-on-gpu", OPTION_INT, layers_on_gpu, .fallback = "-1", .min = -1, \
                   .max = INT32_MAX, .unit = "layers",                                             \
                   .aliases = "-ngl --n-gpu-layers --gpu-layers", .alias_words = "all=-1 auto=-1", \
                   .help = "as of trireme worker"),                                                \
        SCORER_ROW(type_, "isa", OPTION_STRING, isa, .fallback = "auto",                           \
                   .help =                                                                         \
                       "instruction set of the CPU device: auto, scalar, avx2, avx512, amx, ref"), \
        SCORER_ROW(type_, "threads", OPTION_INT, threads, .short_name = 't', .max = 1024,          \
                   .help = "threads that compute; 0: one for each core")

/* max_context: as in scorer_options. The settings' texts are borrowed. */
struct scorer_options scorer_options_of(const struct scorer_settings *s, const char *model,
                                        uint32_t max_context);

#endif
