#include "scheduler/core/capabilities.h"
#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/models.h"
#include "scheduler/core/place.h"
#include "scheduler/core/submit.h"
#include "scheduler/core/timer.h"
#include "scheduler/core/worker.h"

void sched_config_default(struct sched_config *config) {
    *config = (struct sched_config){
        .waiting_max = 1024,
        .wait_max_ms = 10000,
        .itl_target_ms = 100,
        .resume_credits = 8,
        .slot_wait_ms = 100,
        .share_linger_ms = 100,
        .silence_drop_ms = 10000,
        .retransmit_ms = 1000,
        .probe_ms = 10000,
        .start_grace_ms = 5000,
        .model_grace_ms = 300000,
        .revision_grace_ms = 10000,
        .record_ttl_ms = 60000,
        .record_bytes = 256 << 20,
        .table_bytes = 512 << 20,
        .tenant_streams = 4096,
        .tenant_stream_bytes = 64 << 20,
        .stuck_floor_ms = 30000,
        .lost_plan_ms = 2000,
        .fence_wait_ms = 10000,
        .poison_deaths = 2,
        .isolate_tenants = true,
    };
}

struct sched *sched_new(const struct sched_config *config, const struct sched_sink *sink) {
    struct sched *s = mem_alloc(sizeof *s);
    *s = (struct sched){
        .config = *config, .sink = *sink, .now = INT64_MIN, .started_at = NEVER, .plan_at = NEVER};
    word_pool_init(&s->word_pool, 64 << 20);
    list_init(&s->gateways);
    list_init(&s->models);
    list_init(&s->unready);
    list_init(&s->to_plan);
    list_init(&s->parked);
    list_init(&s->records);
    list_init(&s->groups);
    list_init(&s->fresh);
    list_init(&s->streams_over);
    list_init(&s->dropped);
    quotas_init(&s->quotas);
    return s;
}

void sched_free(struct sched **at) {
    struct sched *s = *at;
    if (!s)
        return;
    LIST_EACH(item, &s->gateways) {
        struct gateway *gateway = LIST_ITEM(item, struct gateway, link);
        LIST_EACH(next, &gateway->requests)
        request_drop(s, LIST_ITEM(next, struct request, gateway_link));
        gateway_drop(s, gateway);
    }
    for (size_t i = 0;
         i < s->request_ids.cap;) { /* detached ones; removal moves entries, so look again */
        struct request *request = s->request_ids.entries[i].value;
        if (request)
            request_drop(s, request);
        else
            i++;
    }
    while (s->replicas.count)
        replica_free(s, s->replicas.items[0]);
    requests_sweep(s, true);
    LIST_EACH(item, &s->models) model_free(s, LIST_ITEM(item, struct model, link));
    for (int i = 0; i < SCHED_CRASH_RECORDS; i++)
        vec_release(&s->crashes[i].suspects);
    waiting_release(&s->unbound);
    CHECK(s->stream_ids.count == 0 && s->stream_owners.count == 0);
    id_map_release(&s->request_ids);
    id_map_release(&s->stream_ids);
    id_map_release(&s->stream_owners);
    quotas_release(&s->quotas);
    id_map_release(&s->gateway_ids);
    id_map_release(&s->worker_ids);
    id_map_release(&s->replica_ids);
    vec_release(&s->timers);
    vec_release(&s->replicas);
    vec_release(&s->scratch);
    vec_release(&s->status_models);
    deliver_release(s);
    plan_release(s);
    word_pool_release(&s->word_pool);
    mem_free(s);
    *at = NULL;
}

void sched_at(struct sched *s, int64_t now) {
    s->now = MAX(s->now, now);
    if (s->started_at == NEVER)
        s->started_at = s->now;
}

int64_t sched_run(struct sched *s, int64_t now) {
    sched_at(s, now);
    gateways_run(s);
    replicas_run(s);
    timers_run(s);
    streams_run(s);
    place_all(s);
    plan_all(s);
    new_requests_finish(s);
    deliver_flush(s);
    requests_sweep(s, false);
    return MIN(MIN(timers_next(s), plan_next(s)), MIN(gateways_next(s), replicas_next(s)));
}

void sched_drain(struct sched *s, int64_t now) {
    sched_at(s, now);
    s->draining = true;
    s->status_version++;
}

bool sched_is_idle(const struct sched *s) {
    if (s->running || s->waiting_new || s->waiting_resumed)
        return false;
    for (const struct list_node *at = s->gateways.next; at != &s->gateways; at = at->next) {
        const struct gateway *gateway = LIST_ITEM(at, const struct gateway, link);
        for (const struct list_node *next = gateway->requests.next; next != &gateway->requests;
             next = next->next)
            if (request_is_owed(LIST_ITEM(next, const struct request, gateway_link)))
                return false;
    }
    return true;
}

/* ---- Looking in ---- */

/* What its replicas do, and what was done for it. */
static void add_figures(const struct sched *s, const struct model *model,
                        struct wire_model_status *status) {
    const struct model_counts *counts = &model->counts;
    status->waiting = model->waiting.count;
    LIST_EACH(at, &s->parked)
    status->waiting += LIST_ITEM(at, struct sequence, link)->request->model == model;
    status->steps = counts->steps;
    status->step_tokens = counts->step_tokens;
    status->output_tokens = counts->output_tokens;
    status->prefix_queries = counts->prefix_queries;
    status->prefix_hits = counts->prefix_hits;
    status->preemptions = counts->preemptions;
    status->evictions = counts->evictions;
    status->compute_us = counts->compute_us;
    status->step_buckets = counts->step_buckets;
    status->step_bucket_count = WIRE_STEP_BUCKETS;
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        bool ready = r->state == REPLICA_READY;
        status->replicas_ready += ready;
        status->replicas_loading += !ready && r->state != REPLICA_DOWN;
        status->running += r->running_count;
        status->slots += ready ? r->slot_count : 0;
        for (uint32_t group = 0; group < r->group_count; group++) {
            const struct block_pool *pool = &r->pools[group];
            status->evictions += pool->eviction_count;
            status->blocks += ready ? pool->block_count : 0;
            status->blocks_used += ready ? pool->block_count - pool->free_count : 0;
            status->blocks_cached += ready ? pool->cached_count : 0;
        }
    }
}

struct wire_status sched_status(struct sched *s) {
    s->status_models.count = 0;
    LIST_EACH(at, &s->models) {
        const struct model *model = LIST_ITEM(at, struct model, link);
        struct wire_model_status status = {.model = bytes_str(model->name),
                                           .revision = model->revision,
                                           .bundle = model->bundle,
                                           .bundle_bytes = model->bundle_bytes,
                                           .max_context = model->max_capacity,
                                           .logits_width = model->logits_width,
                                           .block_tokens = model->block_tokens,
                                           .vectors = model->vectors,
                                           .replicas_known = (uint32_t)model->replicas.count};
        add_figures(s, model, &status);
        vec_push(&s->status_models, status);
    }
    return (struct wire_status){.models = s->status_models.items,
                                .model_count = s->status_models.count,
                                .waiting = s->waiting_new + s->waiting_resumed,
                                .running = s->running,
                                .waiting_max = s->config.waiting_max,
                                .draining = s->draining};
}

uint64_t sched_status_version(const struct sched *s) {
    return s->status_version;
}

struct u128 sched_bundle_source(const struct sched *s, struct u128 bundle) {
    struct u128 any = {0};
    for (size_t i = 0; i < s->replicas.count; i++) {
        const struct replica *r = s->replicas.items[i];
        for (uint32_t rank = 0; rank < r->rank_count && u128_equal(r->bundle, bundle); rank++) {
            if (!r->ranks[rank])
                continue;
            any = r->ranks[rank]->instance;
            if (!r->ranks[rank]->loading)
                return any;
        }
    }
    return any;
}

struct u128 sched_worker_replica(const struct sched *s, struct u128 instance) {
    const struct worker *worker = id_map_get(&s->worker_ids, instance);
    return worker ? worker->replica->id : (struct u128){0};
}

struct sched_counts sched_counts(const struct sched *s) {
    struct sched_counts counts = s->counts;
    counts.waiting = s->waiting_new;
    counts.resumed_waiting = s->waiting_resumed;
    counts.running = s->running;
    counts.records = (uint32_t)s->request_ids.count;
    counts.gateways = (uint32_t)s->gateway_ids.count;
    counts.record_bytes = s->record_bytes;
    for (size_t i = 0; i < s->replicas.count; i++) {
        const struct replica *r = s->replicas.items[i];
        for (uint32_t group = 0; group < r->group_count; group++)
            counts.evictions += r->pools[group].eviction_count;
        if (r->state != REPLICA_READY)
            continue;
        counts.replicas_ready++;
        for (uint32_t group = 0; group < r->group_count; group++) {
            counts.blocks_total += r->pools[group].block_count;
            counts.blocks_used += r->pools[group].block_count - r->pools[group].free_count;
            counts.blocks_cached += r->pools[group].cached_count;
        }
    }
    return counts;
}
