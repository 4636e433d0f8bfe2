#include "scheduler/core/core.h"
#include "scheduler/core/place.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/worker.h"

/* ---- Groups ---- */

static struct suspect_group *group_new(struct sched *s) {
    struct suspect_group *group = mem_alloc(sizeof *group);
    *group = (struct suspect_group){.id = ++s->next_group};
    list_init(&group->members);
    list_push_front(&s->groups, &group->link);
    return group;
}

static void group_review(struct suspect_group *group) {
    if (group->count)
        return;
    if (group->replica)
        group->replica->testing = NULL;
    list_remove(&group->link);
    mem_free(group);
}

static void group_add(struct suspect_group *group, struct sequence *q) {
    q->group = group;
    list_push(&group->members, &q->group_link);
    group->count++;
}

static void group_remove(struct sequence *q) {
    struct suspect_group *group = q->group;
    if (!group)
        return;
    q->group = NULL;
    list_remove(&q->group_link);
    group->count--;
    group_review(group);
}

void groups_unassign(struct sched *s, struct replica *r) {
    if (r->testing)
        r->testing->replica = NULL;
    r->testing = NULL;
}

void suspect_clear(struct sched *s, struct sequence *q) {
    bool parked = q->group && q->state == SEQ_PARKED;
    group_remove(q);
    q->deaths = q->danger_until = 0;
    if (parked && q->finish == WIRE_FINISH_NONE)
        seq_requeue(s, q);
}

void suspect_review(struct sched *s, struct sequence *q) {
    if (q->computed_lo >= q->danger_until)
        suspect_clear(s, q);
}

/* ---- Deaths ---- */

/* It waits with its group; if it has a slot somewhere (its death was explained late) it leaves
 * that. */
static void isolate_suspect(struct sched *s, struct suspect_group *group, struct sequence *q) {
    group_remove(q);
    group_add(group, q);
    if (seq_in_slot(q))
        seq_preempt(s, q);
    else if (q->state == SEQ_QUEUED)
        seq_requeue(s, q); /* parks it */
}

void suspects_crashed(struct sched *s, struct sequence **suspects, const uint32_t *dangers,
                      size_t count) {
    size_t heavy = 0;
    for (size_t i = 0; i < count; i++) {
        struct sequence *q = suspects[i];
        if (q->finish != WIRE_FINISH_NONE)
            continue;
        q->deaths++;
        q->danger_until = MAX(q->danger_until, dangers[i]);
        if (q->deaths >= s->config.poison_deaths)
            suspects[heavy++] = q;
    }
    if (heavy == 1 && count == 1) {
        request_reject(s, suspects[0]->request, WIRE_REJECT_POISON);
        return;
    }
    size_t half = heavy / 2;
    if (half < heavy) {
        struct suspect_group *second = group_new(s);
        for (size_t i = half; i < heavy; i++)
            isolate_suspect(s, second, suspects[i]);
    }
    if (half) {
        struct suspect_group *first = group_new(s);
        for (size_t i = 0; i < half; i++)
            isolate_suspect(s, first, suspects[i]);
    }
}

/* ---- Deaths explained later ---- */

void crash_remember(struct sched *s, struct replica *r, struct sequence **suspects,
                    const uint32_t *dangers, size_t count) {
    if (!count)
        return;
    struct crash_record *crash = &s->crashes[s->next_crash++ % SCHED_CRASH_RECORDS];
    crash->suspects.count = crash->instance_count = 0;
    crash->until = s->now + s->config.fence_wait_ms;
    for (uint32_t i = 0; i < r->rank_count && crash->instance_count < ARRAY_LEN(crash->instances);
         i++)
        if (r->ranks[i])
            crash->instances[crash->instance_count++] = r->ranks[i]->instance;
    for (size_t i = 0; i < count; i++) {
        if (suspects[i]->finish != WIRE_FINISH_NONE)
            continue;
        struct crash_suspect suspect = {suspects[i]->request->id, suspects[i]->choice, dangers[i]};
        vec_push(&crash->suspects, suspect);
    }
}

void crash_rename(struct sched *s, struct u128 from, struct u128 to) {
    for (size_t i = 0; i < ARRAY_LEN(s->crashes); i++)
        for (size_t k = 0; k < s->crashes[i].suspects.count; k++)
            if (u128_equal(s->crashes[i].suspects.items[k].request, from))
                s->crashes[i].suspects.items[k].request = to;
}

static struct sequence *find(struct sched *s, const struct crash_suspect *suspect) {
    struct request *request = id_map_get(&s->request_ids, suspect->request);
    for (uint32_t i = 0; request && i < request->sequence_count; i++)
        if (request->sequences[i].choice == suspect->choice)
            return &request->sequences[i];
    return NULL;
}

static void explain(struct sched *s, struct crash_record *crash) {
    size_t count = 0;
    struct sequence **suspects = mem_calloc(crash->suspects.count + 1, sizeof(struct sequence *));
    uint32_t *dangers = mem_calloc(crash->suspects.count + 1, sizeof *dangers);
    for (size_t i = 0; i < crash->suspects.count; i++) {
        struct sequence *q = find(s, &crash->suspects.items[i]);
        if (!q)
            continue;
        dangers[count] = crash->suspects.items[i].danger_until;
        suspects[count++] = q;
    }
    s->counts.attributable_deaths++;
    suspects_crashed(s, suspects, dangers, count);
    mem_free(suspects);
    mem_free(dangers);
}

void crash_explained(struct sched *s, struct u128 instance, bool fault) {
    for (int i = 0; i < SCHED_CRASH_RECORDS; i++) {
        struct crash_record *crash = &s->crashes[i];
        for (uint32_t k = 0; k < crash->instance_count; k++) {
            if (!u128_equal(crash->instances[k], instance))
                continue;
            crash->instance_count = 0;
            if (fault && crash->until >= s->now)
                explain(s, crash);
        }
    }
}

void crash_survived(struct sched *s, struct u128 instance) {
    for (int i = 0; i < SCHED_CRASH_RECORDS; i++) {
        struct crash_record *crash = &s->crashes[i];
        for (uint32_t k = crash->instance_count; k-- > 0;)
            if (u128_equal(crash->instances[k], instance))
                crash->instances[k] = crash->instances[--crash->instance_count];
    }
}

/* ---- Testing a group ---- */

static bool can_test(const struct replica *r, const struct suspect_group *group) {
    for (const struct list_node *at = group->members.next; at != &group->members; at = at->next) {
        const struct sequence *q = LIST_ITEM(at, const struct sequence, group_link);
        if (r->state == REPLICA_READY && q->request->model == r->model && seq_is_runnable(q) &&
            replica_fits(r, q))
            return true;
    }
    return false;
}

static struct replica *find_replica(struct sched *s, const struct suspect_group *group) {
    struct replica *best = NULL;
    for (size_t i = 0; i < s->replicas.count; i++) {
        struct replica *r = s->replicas.items[i];
        if (can_test(r, group) && (!best || r->running_count < best->running_count))
            best = r;
    }
    return best;
}

static void assign(struct sched *s, struct suspect_group *group, struct replica *r) {
    group->replica = r;
    r->testing = group;
    for (uint32_t i = r->running_count; i-- > 0;)
        if (i < r->running_count && !seq_is_leaving(r->running[i]) && r->running[i]->group != group)
            seq_preempt(s, r->running[i]);
}

/* Members that are paused, or whose gateway is silent, cannot prove themselves now. */
static bool waits_for_nobody(const struct suspect_group *group) {
    for (const struct list_node *at = group->members.next; at != &group->members; at = at->next)
        if (seq_is_runnable(LIST_ITEM(at, const struct sequence, group_link)))
            return false;
    return true;
}

/* Those cleared already keep their slots, but give them up when no member finds room. */
static void place_members(struct sched *s, struct suspect_group *group) {
    struct replica *r = group->replica;
    bool any = false;
    LIST_EACH(at, &group->members) {
        struct sequence *q = LIST_ITEM(at, struct sequence, group_link);
        any = any || seq_in_slot(q);
        if (q->state == SEQ_PARKED && seq_is_runnable(q) && replica_fits(r, q) &&
            !grammar_is_ready(s, r, q->request)) {
            any = true; /* soon */
            continue;
        }
        if (q->state != SEQ_PARKED || !seq_is_runnable(q) || !replica_fits(r, q) ||
            !r->free_slot_count)
            continue;
        prefix_find(s, q, r);
        if (!replica_has_room(r, q))
            continue;
        place_on(s, q, r);
        any = true;
    }
    if (!any)
        assign(s, group, r);
}

static struct suspect_group *active_group(struct sched *s) {
    LIST_EACH(at, &s->groups) {
        struct suspect_group *group = LIST_ITEM(at, struct suspect_group, link);
        if (!group->replica)
            continue;
        if (!waits_for_nobody(group))
            return group;
        struct replica *r = group->replica;
        groups_unassign(s, r);
        for (uint32_t i = r->running_count; i-- > 0;)
            if (i < r->running_count && r->running[i]->group == group)
                seq_preempt(s, r->running[i]);
        list_remove(&group->link);
        list_push(&s->groups, &group->link);
        break;
    }
    LIST_EACH(at, &s->groups) {
        struct suspect_group *group = LIST_ITEM(at, struct suspect_group, link);
        struct replica *r = find_replica(s, group);
        if (!r)
            continue;
        assign(s, group, r);
        return group;
    }
    return NULL;
}

void groups_place(struct sched *s) {
    if (list_is_empty(&s->groups))
        return;
    struct suspect_group *group = active_group(s);
    if (group && group->replica->leaving_count == 0)
        place_members(s, group);
}
