/*
 * serve_models.h - the models that `trireme serve` was told, each with the settings of its workers.
 *
 * A word of --model is [NAME=]PATH[,OPTION=VALUE...]: a folder, a GGUF file or a hub's name; what
 * requests call it; and options of its workers that stand in for those of all. `alias` may be there
 * again and again: a further name each. A word that is a path as a whole is taken as one.
 */
#ifndef CLI_SERVE_MODELS_H
#define CLI_SERVE_MODELS_H

#include "base/vec.h"
#include "cli/merged_options.h"
#include "cli/supervisor.h"
#include "worker/settings.h"

enum { SERVE_RANKS_MAX = 64 };

struct serve_settings {
    const char *model, *host, *run_dir, *listen, *exe;
    const char *stage_devices, *keys;
    int64_t tp, pp;
    int64_t port, thread_count, worker_count, gateway_count, admin_port, drain_ms, stop_ms,
        silence_ms;
    bool on_demand;
    int64_t idle_unload_ms, models_max;
    uint64_t models_memory, memory;
    int log_level, log_format;
};

struct serve_model {
    char *path;                      /* owned, absolute */
    char *public_name;               /* owned: of a hub's model; else NULL */
    char *names;                     /* owned: "name,alias"; NULL: what the worker calls it */
    char *name;                      /* owned: the first of them; NULL: none */
    char called[WORKER_NAME_MAX];    /* what its worker registers it by; once its flags are built */
    struct merged_options options;   /* serve's, with what this model has of its own */
    struct serve_settings *settings; /* at the head of them */
    struct buf notes;                /* said already where serve's own were read */
    char *devices;                   /* owned: stage_devices, cut into words */
    const char *device_words[SERVE_RANKS_MAX];
    struct flags flags;          /* of its workers */
    char *given;                 /* owned: the path or name as it was told */
    char *word;                  /* owned: all that was told of one that was added; else NULL */
    char *now;                   /* owned: what it leads to since it was renewed; NULL: path */
    VEC(struct flags *) renewed; /* owned: of later revisions' workers */
};

struct serve_models {
    struct serve_model items[SUPERVISOR_MODELS_MAX]; /* without a path: a free place */
    uint32_t count;
    bool offline; /* nothing is downloaded */
    struct supervisor_model supervised[SUPERVISOR_MODELS_MAX];
};

/* Finds the models of `words` (lines; NULL: none was given) and reads the command line again for each.
 * Models of hubs are downloaded. */
MUST_CHECK int serve_models_find(struct serve_models *m, const char *words, int argc, char **argv,
                                 struct error *err);
/* The first free place; SUPERVISOR_MODELS_MAX: there is none. */
uint32_t serve_models_place(const struct serve_models *m);
/* One more at a free place, with a name that no other has. Nothing is downloaded. On failure all is as it
 * was. */
MUST_CHECK int serve_models_add(struct serve_models *m, uint32_t place, const char *word, int argc,
                                char **argv, struct error *err);
/* One that was added goes; its place is free. */
void serve_models_remove(struct serve_models *m, uint32_t idx);
/* What its worker registers it by: the first name of its flags, where they are built, else that of the hub or
 * the folder. */
void serve_model_public_name(const struct serve_model *m, char out[WORKER_NAME_MAX]);
/* Appends "a,b;c": for the gateways. Nothing where one model goes by the name its worker gives. */
void serve_models_names(const struct serve_models *m, struct buf *out);
/* Replicas of the models that are loaded from the start, and of this one. */
int64_t serve_models_replicas(const struct serve_models *m, const struct serve_model *one);
/* Whether a model is loaded only when it is needed. */
bool serve_models_any_on_demand(const struct serve_models *m);
/* What a model counts for in models_memory: as its settings say, else its files and its KV caches. Its
 * flags have been built. */
uint64_t serve_model_memory(const struct serve_model *m);
/* Looks again for what the model was told by: a folder's link may lead elsewhere now, a hub's name to
 * another snapshot of the cache; nothing is downloaded. *flags, of workers for what is there now, lives as
 * long as the model. Its flags have been built. */
MUST_CHECK int serve_model_renew(struct serve_model *m, const struct flags **flags,
                                 struct error *err);
/* Frees what serve_models_find made, also after it failed. */
void serve_models_release(struct serve_models *m);

#endif
