#include "scheduler/core/streams.h"

#include "base/hash.h"
#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/timer.h"

/* ---- Names ---- */

/* Keyed: no client can find a name that falls together with another's. */
static struct u128 stream_id(const struct sched *s, struct u128 tenant, struct bytes name) {
    uint8_t text[sizeof tenant + WIRE_MAX_STREAM];
    CHECK(name.len > 0 && name.len <= WIRE_MAX_STREAM);
    memcpy(text, &tenant, sizeof tenant);
    memcpy(text + sizeof tenant, name.data, name.len);
    struct u128 id = hash128_keyed(&s->config.cache_key, text, sizeof tenant + name.len);
    id.hi |= 1; /* never zero */
    return id;
}

struct request *stream_find(struct sched *s, struct u128 tenant, struct bytes name) {
    if (!name.len || name.len > WIRE_MAX_STREAM)
        return NULL;
    struct request *request = id_map_get(&s->stream_ids, stream_id(s, tenant, name));
    CHECK(!request || !request->dropped);
    return request;
}

bool stream_is_free(struct sched *s, const struct wire_submit *submit) {
    struct request *before = stream_find(s, submit->tenant, submit->stream);
    return !before || !submit->resumed;
}

void stream_name(struct sched *s, struct request *request) {
    if (!request->stream.len || !request->resumable)
        return;
    struct request *before = stream_find(s, request->tenant_id, request->stream);
    if (before) {
        if (before->gateway)
            reject_send(s, before->model, before->gateway->instance, before->id, before->attempt,
                        WIRE_REJECT_MOVED);
        request_drop(s, before);
    }
    request->stream_id = stream_id(s, request->tenant_id, request->stream);
    id_map_put(&s->stream_ids, request->stream_id, request);
}

void stream_tell(struct sched *s, const struct request *request, struct u128 gateway) {
    struct wire_choice choices[WIRE_MAX_CHOICES];
    for (uint32_t i = 0; i < request->sequence_count; i++)
        choices[i] = (struct wire_choice){.choice = request->sequences[i].choice};
    int64_t left = request->deadline_at == NEVER ? 0 : MAX(request->deadline_at - s->now, 1);
    const struct wire_submit submit = {.request = request->id,
                                       .attempt = request->attempt,
                                       .kind = WIRE_GENERATE,
                                       .model = request->model_name,
                                       .revision = request->revision,
                                       .prompt = request->prompt,
                                       .sampling = request->sampling,
                                       .stop_tokens = request->stop_tokens,
                                       .max_tokens = request->max_tokens,
                                       .choices = choices,
                                       .choice_count = request->sequence_count,
                                       .grammar_kind = request->grammar_kind,
                                       .grammar = request->grammar,
                                       .deadline_ms = (uint32_t)MIN(left, (int64_t)UINT32_MAX),
                                       .priority = request->priority,
                                       .tenant = request->tenant_id,
                                       .cache_salt = request->salt,
                                       .presentation = request->presentation,
                                       .resumed = true,
                                       .resumable = request->resumable,
                                       .stream = request->stream};
    if (s->sink.attached)
        s->sink.attached(s->sink.ctx, gateway, &submit);
}

/* ---- Kept ones ---- */

static struct stream_owner *owner_get(struct sched *s, struct u128 tenant) {
    struct u128 key = {tenant.lo, tenant.hi ^ 1}; /* a tenant may be zero */
    struct stream_owner *owner = id_map_get(&s->stream_owners, key);
    if (owner)
        return owner;
    uint32_t accounts = u128_is_zero(tenant) ? STREAM_ADDRESSES : 1;
    owner = mem_alloc(sizeof *owner + accounts * sizeof owner->accounts[0]);
    *owner = (struct stream_owner){.tenant = tenant, .account_count = accounts};
    for (uint32_t i = 0; i < accounts; i++) {
        owner->accounts[i] = (struct stream_account){0};
        list_init(&owner->accounts[i].kept);
    }
    id_map_put(&s->stream_owners, key, owner);
    return owner;
}

static struct stream_account *account_of(const struct sched *s, struct stream_owner *owner,
                                         struct u128 share) {
    if (owner->account_count == 1)
        return &owner->accounts[0];
    uint64_t drawn = hash128_keyed(&s->config.cache_key, &share, sizeof share).lo;
    return &owner->accounts[drawn % owner->account_count];
}

static void leave_owner(struct sched *s, struct request *request) {
    struct stream_owner *owner = request->owner;
    if (!owner)
        return;
    struct stream_account *account = account_of(s, owner, request->share_id);
    CHECK(account->count > 0 && account->bytes >= request->kept_bytes);
    list_remove(&request->kept_link);
    account->count--;
    account->bytes -= request->kept_bytes;
    owner->count--;
    owner->bytes -= request->kept_bytes;
    request->owner = NULL;
    request->kept_bytes = 0;
    if (owner->count)
        return;
    list_remove(&owner->over_link);
    id_map_remove(&s->stream_owners, (struct u128){owner->tenant.lo, owner->tenant.hi ^ 1});
    mem_free(owner);
}

/* What it holds, and may come to hold while nobody reads. */
static uint64_t most_bytes(const struct request *request) {
    uint64_t words = (uint64_t)request->max_tokens *
                     (1 + logprob_stride(request) + (request->sampling.steering ? 1 : 0)),
             room = 0;
    for (uint32_t i = 0; i < request->sequence_count; i++)
        if (request->sequences[i].finish == WIRE_FINISH_NONE)
            room += 4 * (words + request->prompt.count);
    return request_bytes(request) + room;
}

static bool holds_too_much(const struct sched *s, const struct stream_owner *owner) {
    return owner->count > s->config.tenant_streams || owner->bytes > s->config.tenant_stream_bytes;
}

void stream_keep(struct sched *s, struct request *request) {
    CHECK(request->resumable && !request->dropped);
    leave_owner(s, request);
    struct stream_owner *owner = owner_get(s, request->tenant_id);
    struct stream_account *account = account_of(s, owner, request->share_id);
    request->owner = owner;
    request->kept_bytes = most_bytes(request);
    list_push(&account->kept, &request->kept_link);
    account->count++;
    account->bytes += request->kept_bytes;
    owner->count++;
    owner->bytes += request->kept_bytes;
    request->expire_at = s->now + s->config.record_ttl_ms;
    timer_update(s, request);
    if (holds_too_much(s, owner) && !list_node_is_linked(&owner->over_link))
        list_push(&s->streams_over, &owner->over_link);
}

/* Whose oldest goes: the account with most streams where those are too many, else with most bytes. */
static struct stream_account *largest_account(const struct sched *s, struct stream_owner *owner) {
    bool by_count = owner->count > s->config.tenant_streams;
    struct stream_account *largest = &owner->accounts[0];
    for (uint32_t i = 1; i < owner->account_count; i++) {
        struct stream_account *account = &owner->accounts[i];
        if (by_count ? account->count > largest->count : account->bytes > largest->bytes)
            largest = account;
    }
    return largest;
}

void streams_run(struct sched *s) {
    while (!list_is_empty(&s->streams_over)) {
        struct stream_owner *owner =
            LIST_ITEM(s->streams_over.next, struct stream_owner, over_link);
        if (holds_too_much(s, owner)) /* the last one takes the owner with it */
            request_forget(
                s, LIST_ITEM(largest_account(s, owner)->kept.next, struct request, kept_link));
        else
            list_remove(&owner->over_link);
    }
}

void stream_reopen(struct sched *s, struct request *request) {
    leave_owner(s, request);
    request->expire_at = NEVER;
}

void stream_taken(struct sched *s, struct request *request) {
    if (!request->owner)
        return;
    if (request->open_count) {
        stream_reopen(s, request);
        return;
    }
    request->expire_at =
        s->now + s->config.record_ttl_ms; /* it has ended, and stays as long again */
    timer_update(s, request);
}

void stream_forget(struct sched *s, struct request *request) {
    leave_owner(s, request);
    if (u128_is_zero(request->stream_id))
        return;
    id_map_remove(&s->stream_ids, request->stream_id);
    request->stream_id = (struct u128){0};
}

/* ---- Invariants ---- */

void stream_check(const struct sched *s, const struct request *request) {
    bool kept = request->owner != NULL;
    CHECK(kept == list_node_is_linked(&request->kept_link));
    CHECK(!kept || (request->resumable && request->expire_at != NEVER && !request->dropped));
    CHECK(kept || request->gateway || !request->resumable || request->dropped);
    if (!u128_is_zero(request->stream_id))
        CHECK(!request->dropped && id_map_get(&s->stream_ids, request->stream_id) == request);
}

void stream_owners_check(const struct sched *s) {
    for (size_t i = 0; i < s->stream_owners.cap; i++) {
        const struct stream_owner *owner = s->stream_owners.entries[i].value;
        uint32_t count = 0;
        uint64_t bytes = 0;
        if (!owner)
            continue;
        for (uint32_t k = 0; k < owner->account_count; k++) {
            const struct stream_account *account = &owner->accounts[k];
            uint32_t count_before = count;
            uint64_t bytes_before = bytes;
            for (const struct list_node *at = account->kept.next; at != &account->kept;
                 at = at->next) {
                count++;
                bytes += LIST_ITEM(at, const struct request, kept_link)->kept_bytes;
            }
            CHECK(account->count == count - count_before);
            CHECK(account->bytes == bytes - bytes_before);
        }
        CHECK(count > 0 && count == owner->count && bytes == owner->bytes);
        CHECK(!holds_too_much(s, owner) || list_node_is_linked(&owner->over_link));
    }
}
