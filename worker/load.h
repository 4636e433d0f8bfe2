/*
 * load.h - what a rank has once it is loaded: the device, the model's weights, and all memory that
 * its steps use. Nothing is allocated after it.
 *
 * Order matters: the ranks' places decide what of the model is read, the model's geometry how large
 * blocks and states are, and what memory is left how many of them there are.
 *
 * Threading: the compute thread; `about` and `bundle` never change after loading.
 */
#ifndef WORKER_LOAD_H
#define WORKER_LOAD_H

#include "base/buf.h"
#include "base/error.h"
#include "model/run/step.h"
#include "proto/messages.h"
#include "worker/progress.h"
#include "worker/ranks.h"
#include "worker/settings.h"

struct loaded {
    struct worker_progress *progress; /* borrowed */
    struct device *dev;
    struct stream *stream;
    struct model model;
    struct kv_geometry geometry;
    struct slots slots;
    struct forward forward;
    struct stepper stepper;
    struct ranks ranks;
    uint32_t max_step_tokens;
    uint32_t steps_in_flight;
    struct buf bundle; /* the model's text files, packed */
    char served_name[WORKER_NAME_MAX];
    struct wire_vectors vectors; /* that it makes of prompts */
    struct vector_head head;     /* of the model's modules, or of two tokens; owned */
    struct wire_kv_group group;
    struct wire_hello about; /* model, sizes, groups and fingerprint; nothing of the process */
};

/* Opens the device, maps and checks the model, plans and takes its memory. May take minutes; counts
 * progress up as it goes. l is zero; release it also after an error. Borrows settings and
 * progress. */
MUST_CHECK int worker_load(struct loaded *l, const struct worker_settings *settings,
                           struct worker_progress *progress, struct error *err);
/* What makes a vector of what was pooled; NULL: nothing does. */
static inline const struct vector_head *loaded_head(const struct loaded *l) {
    const struct vector_head *head = l->head.count ? &l->head : &l->model.weights.score;
    return head->count ? head : NULL;
}
/* Also of what is loaded in part, or not at all. */
void loaded_release(struct loaded *l);

#endif
