#include "scheduler/core/models.h"
#include "scheduler/core/core.h"
#include "scheduler/core/replica.h"

struct model *model_find(struct sched *s, struct bytes name) {
    struct model *only = NULL;
    uint32_t count = 0;
    LIST_EACH(at, &s->models) {
        struct model *model = LIST_ITEM(at, struct model, link);
        if (!model->replicas.count)
            continue;
        if (bytes_equal(bytes_str(model->name), name))
            return model;
        only = model;
        count++;
    }
    return name.len == 0 && count == 1 ? only : NULL;
}

struct model *model_get(struct sched *s, struct bytes name) {
    LIST_EACH(at, &s->models) {
        struct model *model = LIST_ITEM(at, struct model, link);
        if (bytes_equal(bytes_str(model->name), name))
            return model;
    }
    struct model *model = mem_alloc(sizeof *model);
    *model = (struct model){.name = mem_strndup((const char *)name.data, name.len),
                            .empty_since = NEVER};
    list_push(&s->models, &model->link);
    s->status_version++;
    return model;
}

uint32_t *model_waiting_new(struct sched *s, struct model *model) {
    return model ? &model->waiting_new : &s->waiting_unbound;
}

struct waiting *model_waiting(struct sched *s, struct model *model) {
    return model ? &model->waiting : &s->unbound;
}

void model_free(struct sched *s, struct model *model) {
    CHECK(model->request_count == 0 && model->replicas.count == 0);
    waiting_release(&model->waiting);
    vec_release(&model->replicas);
    list_remove(&model->link);
    mem_free(model->name);
    mem_free(model);
    s->status_version++;
}

/* What it takes new requests with is what gateways are to write them with. */
static bool takes_work(const struct replica *r) {
    return r->state == REPLICA_READY && !r->draining;
}

void model_review(struct sched *s, struct model *model) {
    model->max_capacity = model->max_context = model->logits_width = 0;
    model->features = 0;
    model->names_alike = true;
    bool any = false;
    const struct replica *shown = NULL, *ready = NULL;
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        any = any || r->state != REPLICA_DOWN;
        if (r->state == REPLICA_READY) {
            model->names_alike = model->names_alike && (!ready || replica_names_as(r, ready));
            ready = r;
        }
        model->max_capacity = MAX(model->max_capacity, r->capacity);
        model->max_context = MAX(model->max_context, r->max_context);
        if (!r->capacity)
            continue;
        model->features |= r->features;
        model->logits_width =
            model->logits_width ? MIN(model->logits_width, r->logits_width) : r->logits_width;
        if (!shown || takes_work(r) || !takes_work(shown))
            shown = r;
    }
    if (shown) {
        model->revision = shown->revision;
        model->bundle = shown->bundle;
        model->bundle_bytes = shown->bundle_bytes;
        model->block_tokens = shown->groups[0].block_tokens;
        model->vectors = shown->vectors;
    }
    if (any)
        model->empty_since = NEVER;
    else if (model->empty_since == NEVER)
        model->empty_since = s->now;
    s->status_version++;
}
