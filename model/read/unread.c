#include "model/read/unread.h"

#include <ctype.h>

/* Beginnings of words (between underscores, in lower case) that name mathematics; a number that
 * equals `neutral` changes nothing. */
static const struct {
    const char *word;
    double neutral;
} MATHEMATICS[] = {
    {"act", 0},      {"alibi", 0},       {"bias", 0},       {"cap", 0},         {"capping", 0},
    {"causal", 0},   {"chunk", 0},       {"clip", 0},       {"conv", 0},        {"divisor", 1},
    {"eps", 0},      {"expert", 0},      {"experts", 0},    {"factor", 1},      {"gate", 0},
    {"gated", 0},    {"gating", 0},      {"layernorm", 0},  {"ln", 0},          {"mask", 0},
    {"moe", 0},      {"mrope", 0},       {"multiplier", 1}, {"multipliers", 1}, {"mup", 0},
    {"norm", 0},     {"norms", 0},       {"ntk", 0},        {"parallel", 0},    {"qk", 0},
    {"residual", 0}, {"rmsnorm", 0},     {"rope", 0},       {"rotary", 0},      {"router", 0},
    {"scale", 1},    {"scaling", 1},     {"sink", 0},       {"sinks", 0},       {"sliding", 0},
    {"softcap", 0},  {"softcapping", 0}, {"softmax", 0},    {"swiglu", 0},      {"temper", 0},
    {"theta", 0},    {"topk", 0},        {"window", 0},     {"yarn", 0},
};
/* Words that say that a field is about something else, whatever other words it has. */
static const char *const OTHERWISE[] = {
    "checkpointing", "coef",  "degree",    "dropout", "dtype",    "grad",     "gradient", "init",
    "jitter",        "loss",  "lora",      "noise",   "path",     "pipeline", "sequence", "std",
    "tensor",        "token", "tokenizer", "train",   "training", "version"};

/* The word of `name` at *at, in lower case; advances. False: no more. */
static bool next_word(const char **at, char out[32]) {
    size_t len = strcspn(*at, "_.-/"), n = MIN(len, (size_t)31);
    if (!**at)
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower((unsigned char)(*at)[i]);
    out[n] = 0;
    *at += len + ((*at)[len] != 0);
    return true;
}

/* Whether a name has mathematics in it; *neutral: the number that changes nothing. */
static bool names_mathematics(const char *name, double *neutral) {
    char word[32];
    bool found = false;
    for (const char *at = name; next_word(&at, word);) {
        for (size_t i = 0; i < ARRAY_LEN(OTHERWISE); i++)
            if (!strcmp(word, OTHERWISE[i]))
                return false;
        for (size_t i = 0; i < ARRAY_LEN(MATHEMATICS); i++)
            if (!strcmp(word, MATHEMATICS[i].word)) {
                *neutral = found ? *neutral : MATHEMATICS[i].neutral;
                found = true;
            }
    }
    return found;
}

static bool could_change_something(const char *object, const char *name,
                                   const struct config_node *n) {
    double neutral = 0;
    if (!names_mathematics(name, &neutral))
        return names_mathematics(object, &neutral);
    return n->kind != CONFIG_NUMBER || n->number != neutral;
}

int unread_check(struct config *c, const struct spec_options *o, struct buf *list,
                 struct error *err) {
    const char *accept = o ? o->accept : NULL;
    if (config_failed(c) || (o && o->strict))
        return config_finish(c, accept, err);
    for (uint32_t i = 0; (i = config_next_unread(c, accept, i));) {
        const struct config_node *n = &c->nodes[i], *parent = &c->nodes[n->parent];
        const char *object = n->parent ? config_node_name(c, parent) : "",
                   *name = config_node_name(c, n), *dot = n->parent ? "." : "";
        if (could_change_something(object, name, n))
            return error_set(err, ERR_UNSUPPORTED,
                             "config.json: field '%s%s%s' is not known to this version, and may "
                             "change what the model computes",
                             object, dot, name);
        buf_addf(list, "%s%s%s%s", list->len ? ", " : "", object, dot, name);
    }
    return 0;
}
