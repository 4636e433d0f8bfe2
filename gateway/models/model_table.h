/*
 * model_table.h - the models this gateway can serve: what Status says of them, and their compiled
 * tokenizers and templates.
 *
 * The control thread feeds it (Status, bundles); event threads look models up. A model found is a
 * `struct served_model`: immutable, reference-counted, so a request keeps the tokenizer it began
 * with whatever happens to the table. Bundles are compiled on a thread of their own, because a
 * large tokenizer takes longer than a heartbeat; equal bundles are compiled once.
 *
 * A model that Status no longer names stays known (not ready) for MODEL_GRACE_MS, unless it was removed: a new
 * scheduler knows nothing until its workers have registered, and that must not turn requests into 404.
 *
 * Threading: every call may be made from any thread; one mutex, held briefly.
 */
#ifndef GATEWAY_MODELS_MODEL_TABLE_H
#define GATEWAY_MODELS_MODEL_TABLE_H

#include <stdatomic.h>

#include "base/error.h"
#include "gateway/prompts/pair_template.h"
#include "proto/messages.h"
#include "text/chat.h"

enum { MODEL_GRACE_MS = 60000, SERVED_NAMES_MAX = 128 };

/* Defaults of generation_config.json; a negative number: not there. */
struct model_defaults {
    double temperature, top_p, min_p, repetition_penalty;
    int64_t top_k; /* -1: not there */
};

/* What stands in for the models' own; all may be absent. */
struct text_settings {
    struct bytes chat_template;                      /* borrowed while the table lives */
    const char *reasoning_parser, *tool_call_parser; /* names, "auto" or "none" */
    /* requests may bring a template of their own */
    bool trust_request_template;
    /* "a,b,c;d,e": a model registered as a is also found as b and c, one registered as d also as e;
     * of several models a is found by requests that name none. At most SERVED_NAMES_MAX names;
     * NULL: none */
    const char *served_names;
    /* models may have no workers, and get some when they are asked for: served names are known
     * whether they have been heard of or not */
    bool on_demand;
};
/* Whether the template can be read, the parsers are known and the served names are names. */
MUST_CHECK int text_settings_check(const struct text_settings *settings, struct error *err);

/* What a classifier's scores are called, in their order. */
struct text_labels {
    char **names;   /* owned, each too; no name has a zero byte */
    uint32_t count; /* 0: the files do not say */
};

/* A compiled bundle. */
struct text_model {
    _Atomic int refs;
    struct u128 bundle;
    struct tokenizer *tokenizer;
    size_t token_bytes_most; /* tokenizer_token_bytes_most */
    struct chat *chat;
    char *family; /* owned: model_type of its config.json, or "" */
    struct model_defaults defaults;
    struct text_labels labels;
    struct pair_template pairs;           /* how it is asked about two texts, where it scores */
    struct constraint_cache *constraints; /* owned; has a lock */
    struct breaker_cache *breakers;       /* owned; has a lock */
    bool trust_request_template;          /* as the settings */
    /* for the log: "model", "option", a probed one's name, or "none" */
    const char *template_origin;
};
/* Compiles; *packed is only read. Returns owned (refs 1). */
MUST_CHECK int text_model_new(struct bytes packed, const struct text_settings *settings,
                              struct text_model **out, struct error *err);
/* Gives a reference back; the last one frees it. */
void text_model_put(struct text_model *t);

struct served_model {
    _Atomic int refs;
    char *name;
    struct u128 revision;
    uint32_t max_context, logits_width;
    struct wire_vectors vectors; /* that it makes of prompts */
    struct text_model *text;     /* a reference */
};
/* One reference more, for the caller. Returns m. */
struct served_model *served_model_ref(struct served_model *m);
void served_model_put(struct served_model *m); /* NULL is fine */

struct model_table;
/* changed(ctx) is called (any thread, no lock held) whenever a model became servable. */
struct model_table *model_table_new(const struct text_settings *settings,
                                    void (*changed)(void *ctx), void *ctx);
void model_table_free(struct model_table **table); /* waits for a compilation in progress */

enum model_found {
    MODEL_READY,     /* *out is a reference */
    MODEL_NOT_READY, /* known, or nothing known yet: wait */
    MODEL_BROKEN,    /* its bundle cannot be used here */
    MODEL_UNKNOWN,   /* there are models, and none has this name */
    MODEL_AMBIGUOUS, /* no name given, and there is more than one */
};
/* Looks a model up by name (empty: the only one, else the first served name's); NAME:latest also
 * finds NAME. A served name whose model has not been heard of is not ready yet. MODEL_READY alone
 * sets *out, to a reference that the caller puts. */
enum model_found model_table_find(struct model_table *table, struct bytes name,
                                  struct served_model **out);

/* Whether the workers of this model (as model_table_find's) are to be asked for now: it is known and has
 * none that are ready, and was not asked for in the last second. Fills in the name that they register. */
enum { MODEL_NAME_MAX = 512 };
bool model_table_asks(struct model_table *table, struct bytes name, int64_t now_ms,
                      char own[MODEL_NAME_MAX]);
/* The name that workers register for this one, whether they have or not; false: unknown. */
bool model_table_own_name(struct model_table *table, struct bytes name, char own[MODEL_NAME_MAX]);

/* A supervisor says that this model, by the name that workers register, cannot be loaded, and why. One whose
 * workers are loading or ready elsewhere, and one that is unknown, are none of its business. Requests that wait
 * are told (changed). */
void model_table_failed(struct model_table *table, struct bytes own, struct bytes why,
                        int64_t now_ms);
/* It is being loaded after all: what was told before counts no more. */
void model_table_loads(struct model_table *table, struct bytes own);
/* It had been added while serving and has left: unknown at once where no worker of it is ready, else as soon as
 * Status names it no more. */
void model_table_removed(struct model_table *table, struct bytes own, int64_t now_ms);
/* Whether the latest word of this model (as model_table_find's), not older than MODEL_FAILURE_MS, is that it
 * cannot be loaded. Fills in why, for a client: UTF-8, without folders. */
enum { MODEL_FAILURE_MS = 1000, MODEL_FAILURE_MAX = 256 };
bool model_table_failure(struct model_table *table, struct bytes name, int64_t now_ms,
                         char why[MODEL_FAILURE_MAX]);

/* A model that has a ready replica and a compiled bundle, as a reference: the first served name's, or
 * any. NULL: none. */
struct served_model *model_table_any_ready(struct model_table *table);
/* Whether no model can be served, and the bundle of one that has ready replicas cannot be used here:
 * waiting does not help. */
bool model_table_is_broken(struct model_table *table);
/* Takes a Status. */
void model_table_status(struct model_table *table, const struct wire_status *status,
                        int64_t now_ms);
/* The scheduler is gone: nothing is ready, everything stays known. */
void model_table_lost(struct model_table *table, int64_t now_ms);
/* A bundle that is wanted and not here yet; false: none. The same one until it is given or
 * fails. */
bool model_table_wants(struct model_table *table, struct u128 *bundle, uint64_t *bytes);
/* Takes the bytes of a wanted bundle (moved out of *packed), checks the hash, and compiles it in
 * the background. A wrong hash is ERR_INVALID: it stays wanted. ERR_AGAIN: another compilation
 * runs. */
MUST_CHECK int model_table_set_bundle(struct model_table *table, struct u128 bundle,
                                      struct buf *packed, struct error *err);

/* Calls visit for every known model, in order of name. */
enum model_state { MODEL_UNLOADED, MODEL_LOADING, MODEL_LOADED };
struct model_info {
    const char *name, *own_name; /* own: that workers register */
    enum model_state state;
    const char *family; /* text_model.family; "": not here yet, or unknown */
    struct u128 revision;
    uint32_t max_context, replicas_ready;
    int64_t created_s; /* when it was first known here; UTC */
    bool was_loaded;   /* or is being loaded: no name alone */
    bool servable;
};
/* info and what it points to are borrowed during the call; visit runs under the lock and must not
 * call the table. */
void model_table_each(struct model_table *table,
                      void (*visit)(void *ctx, const struct model_info *info), void *ctx);

#endif
