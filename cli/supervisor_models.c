/*
 * supervisor_models.c - which models have workers now: loaded by a command or on first use, unloaded
 * by a command, when nobody uses them, or to make room for another.
 *
 * The scheduler's Status tells what each has to do. A model that has a stream or a queue is never
 * unloaded for another's sake, nor one that was loaded for a request which is still to come. Room is
 * counted in models and in bytes as the settings say them, and a model takes its own until its last
 * process has ended.
 */
#include "cli/supervisor_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>

enum { FAILED_AGAIN_MS = 60000, ASKED_MS = 60000, FIRST_USE_MS = 10000 };

void models_init(struct supervisor *s) {
    const struct supervisor_role *role = &s->config->roles[CHILD_WORKER];
    s->model_count = MAX(s->config->model_count, 1u);
    s->configured_count = s->model_count - s->config->added_count;
    for (uint32_t i = 0; i < s->model_count; i++) {
        struct managed_model *m = &s->models[i];
        m->later = i >= s->configured_count;
        m->terms = s->config->model_count
                       ? s->config->models[i]
                       : (struct supervisor_model){.flags = role->flags,
                                                   .count = role->count,
                                                   .replicas = s->config->replicas,
                                                   .takes_gpu = role->takes_gpu};
        /* one that was added has what the state file says */
        m->wanted = m->terms.on_demand || m->later ? 0 : m->terms.count;
        m->used_ms = s->turn_ms;
    }
}

/* The places of several models' workers alternate, so each keeps its own when another is scaled. */
uint32_t models_of(const struct supervisor *s, uint32_t idx) {
    return idx < ADDED_BASE ? idx % s->configured_count
                            : s->configured_count + (idx - ADDED_BASE) % SUPERVISOR_MODELS_MAX;
}

uint32_t models_place(const struct supervisor *s, uint32_t idx) {
    return idx < ADDED_BASE ? idx / s->configured_count
                            : (idx - ADDED_BASE) / SUPERVISOR_MODELS_MAX;
}

uint32_t models_idx(const struct supervisor *s, uint32_t model, uint32_t place) {
    return model < s->configured_count
               ? place * s->configured_count + model
               : ADDED_BASE + place * SUPERVISOR_MODELS_MAX + (model - s->configured_count);
}

int models_add(struct supervisor *s, const char *word, struct managed_model **out,
               struct error *err) {
    struct supervisor_model next;
    if (s->phase != PHASE_SERVING)
        return error_set(err, ERR_CLOSED, "draining");
    if (!s->config->add)
        return error_set(err, ERR_LIMIT, "no model can be added");
    models_forget_leaving(s);
    uint32_t place = 0;
    int rc = s->config->add(s->config->renew_ctx, word, &place, &next, err);
    if (rc)
        return rc;
    CHECK(place >= s->configured_count && place <= s->model_count &&
          place < SUPERVISOR_MODELS_MAX && !s->models[place].terms.name);
    s->model_count = MAX(s->model_count, place + 1);
    *out = &s->models[place];
    **out =
        (struct managed_model){.terms = next, .later = true, .is_new = true, .used_ms = s->turn_ms};
    log_info("added model=%s", next.name);
    children_save(s);
    return 0;
}

static bool is_waited_for(const struct supervisor *s, uint32_t model) {
    for (size_t i = 0; i < CONTROLS_MAX; i++) {
        const struct control *c = &s->controls[i];
        if (c->fd >= 0 && c->waits_for && c->model == model)
            return true;
    }
    return false;
}

bool models_has_children(const struct supervisor *s, const struct managed_model *m) {
    uint32_t model = (uint32_t)(m - s->models);
    for (size_t i = 0; i < s->children.count; i++) {
        const struct child *c = s->children.items[i];
        if (c->role == CHILD_WORKER && models_of(s, c->idx) == model)
            return true;
    }
    return false;
}

void models_forget_leaving(struct supervisor *s) {
    bool any = false;
    for (uint32_t i = s->configured_count; i < s->model_count; i++) {
        struct managed_model *m = &s->models[i];
        if (!m->leaves || models_has_children(s, m) || is_waited_for(s, i))
            continue;
        log_info("forgetting model=%s", m->terms.name);
        const struct wire_outcome outcome = {.model = bytes_str(m->terms.name), .gone = true};
        if (!supervisor_send_outcome(s, &outcome))
            log_debug("gateways list the model for a while");
        *m = (struct managed_model){0};
        s->config->forget(s->config->renew_ctx, i);
        any = true;
    }
    while (s->model_count > s->configured_count && !s->models[s->model_count - 1].terms.name)
        s->model_count--;
    if (any)
        children_save(s);
}

struct managed_model *models_find(struct supervisor *s, struct bytes name) {
    for (uint32_t i = 0; i < s->model_count; i++) {
        const char *own = s->models[i].terms.name;
        if (own ? bytes_equal(bytes_str(own), name) : s->model_count == 1)
            return &s->models[i];
    }
    return NULL;
}

uint32_t models_processes(const struct supervisor *s, const struct managed_model *m) {
    uint32_t count = 0, model = (uint32_t)(m - s->models);
    for (size_t i = 0; i < s->children.count; i++) {
        const struct child *c = s->children.items[i];
        count += c->role == CHILD_WORKER && models_of(s, c->idx) == model &&
                 (c->state == CHILD_RUNNING || c->state == CHILD_STOPPING);
    }
    return count;
}

static bool is_among(uint32_t place, uint32_t base, uint32_t count) {
    return place >= base && place - base < count;
}

const struct supervisor_model *models_terms(const struct managed_model *m, uint32_t place) {
    return is_among(place, m->before_base, m->before_count) ? &m->before : &m->terms;
}

bool models_want_place(const struct managed_model *m, uint32_t place) {
    return is_among(place, m->base, m->wanted) || is_among(place, m->before_base, m->before_count);
}

const char *models_state(const struct supervisor *s, const struct managed_model *m) {
    if (m->before_count)
        return "reloading";
    if (m->wanted)
        return m->replicas_ready ? "loaded" : "loading";
    if (models_processes(s, m))
        return "unloading";
    if (m->asked_ms)
        return "loading";
    return m->failed_ms ? "failed" : "unloaded";
}

static const char *name_of(const struct managed_model *m) {
    return m->terms.name ? m->terms.name : "the model";
}

/* --- room --- */

static bool takes_room(const struct supervisor *s, const struct managed_model *m) {
    return m->wanted || models_processes(s, m);
}

static bool has_room(const struct supervisor *s, const struct managed_model *m) {
    uint64_t bytes = m->terms.memory_bytes;
    uint32_t count = 1;
    for (uint32_t i = 0; i < s->model_count; i++) {
        const struct managed_model *other = &s->models[i];
        if (other == m || !takes_room(s, other))
            continue;
        bytes += other->terms.memory_bytes;
        count++;
    }
    return (!s->config->models_max || count <= s->config->models_max) &&
           (!s->config->models_memory || bytes <= s->config->models_memory);
}

/* Whoever asked for it has not got to it yet; Status tells of that up to a second late. */
static bool waits_for_first_use(const struct managed_model *m, int64_t now_ms) {
    return m->is_awaited && now_ms - m->ready_ms < FIRST_USE_MS;
}

/* Whether the models that nothing but a command unloads leave room for this one. */
static bool may_have_room(const struct supervisor *s, const struct managed_model *m) {
    uint64_t bytes = m->terms.memory_bytes;
    uint32_t count = 1;
    for (uint32_t i = 0; i < s->model_count; i++) {
        const struct managed_model *other = &s->models[i];
        if (other == m || !other->wanted || other->terms.on_demand)
            continue;
        bytes += other->terms.memory_bytes;
        count++;
    }
    return (!s->config->models_max || count <= s->config->models_max) &&
           (!s->config->models_memory || bytes <= s->config->models_memory);
}

/* The one that was used longest ago, of those that may go; NULL: all have work, or none may. */
static struct managed_model *choose_leaving(struct supervisor *s, const struct managed_model *for_,
                                            int64_t now_ms) {
    struct managed_model *chosen = NULL;
    for (uint32_t i = 0; i < s->model_count; i++) {
        struct managed_model *m = &s->models[i];
        if (m == for_ || !m->terms.on_demand || !m->wanted || m->busy || !m->replicas_ready ||
            waits_for_first_use(m, now_ms))
            continue;
        if (!chosen || m->used_ms < chosen->used_ms)
            chosen = m;
    }
    return chosen;
}

static bool any_is_leaving(const struct supervisor *s) {
    for (uint32_t i = 0; i < s->model_count; i++)
        if (!s->models[i].wanted && models_processes(s, &s->models[i]))
            return true;
    return false;
}

/* --- loading and unloading --- */

static void begin_load(struct supervisor *s, struct managed_model *m, int64_t now_ms) {
    log_info("loading model=%s", name_of(m));
    m->wanted = m->terms.count;
    m->asked_ms = m->failed_ms = 0;
    m->tells_failure = false;
    m->tells_load = true;
    m->replicas_ready = m->failed_ends = 0;
    m->ready_ms = 0;
    m->later = true;
    m->was_ready = false;
    m->used_ms = now_ms;
    children_want(s, now_ms);
    children_save(s);
}

int models_load(struct supervisor *s, struct managed_model *m, int64_t now_ms, struct error *err) {
    if (s->phase != PHASE_SERVING)
        return error_set(err, ERR_CLOSED, "draining");
    if (s->config->models_memory && m->terms.memory_bytes > s->config->models_memory)
        return error_set(err, ERR_LIMIT,
                         "'%s' takes %" PRIu64 " bytes, and --models-memory is %" PRIu64,
                         name_of(m), m->terms.memory_bytes, s->config->models_memory);
    if (m->wanted)
        return 0;
    if (!may_have_room(s, m))
        return error_set(
            err, ERR_LIMIT,
            "there is no room for '%s': --models-max or --models-memory, and the models "
            "that are loaded are not on demand; unload one first",
            name_of(m));
    if (!m->asked_ms)
        m->first_asked_ms = now_ms;
    m->asked_ms = now_ms;
    m->failed_ms = 0;
    m->leaves = false;
    m->had_no_room = false;
    models_turn(s, now_ms);
    return 0;
}

void models_unload(struct supervisor *s, struct managed_model *m, int64_t now_ms) {
    m->asked_ms = 0;
    m->had_no_room = m->is_awaited = false;
    if (!m->wanted)
        return;
    m->before_count = 0;
    log_info("unloading model=%s", name_of(m));
    m->wanted = 0;
    children_want(s, now_ms);
    children_save(s);
}

int models_remove(struct supervisor *s, struct managed_model *m, int64_t now_ms,
                  struct error *err) {
    if ((uint32_t)(m - s->models) < s->configured_count)
        return error_set(err, ERR_UNSUPPORTED,
                         "'%s' was given to trireme serve at its start and stays; trireme unload "
                         "ends its workers",
                         name_of(m));
    models_unload(s, m, now_ms);
    m->leaves = true;
    return 0;
}

/* --- a new revision --- */

int models_reload(struct supervisor *s, struct managed_model *m, int64_t now_ms,
                  struct error *err) {
    struct supervisor_model next;
    uint64_t bytes = m->terms.memory_bytes;
    if (s->phase != PHASE_SERVING)
        return error_set(err, ERR_CLOSED, "draining");
    if (m->before_count)
        return error_set(err, ERR_AGAIN, "a revision of it is being loaded");
    if (!s->config->renew)
        return error_set(err, ERR_UNSUPPORTED, "its files cannot be looked for again");
    for (uint32_t i = 0; i < s->model_count; i++)
        if (takes_room(s, &s->models[i]))
            bytes += s->models[i].terms.memory_bytes;
    if (m->wanted && s->config->models_memory && bytes > s->config->models_memory)
        return error_set(
            err, ERR_LIMIT,
            "--models-memory has no room for both revisions of '%s'; unload and load it",
            name_of(m));
    int rc = s->config->renew(s->config->renew_ctx, (uint32_t)(m - s->models), &next, err);
    if (rc)
        return rc;
    m->failed_ms = 0;
    if (m->wanted) {
        log_info("loading a new revision of model=%s", name_of(m));
        m->before = m->terms;
        m->before_base = m->base;
        m->before_count = m->wanted;
        m->base = m->wanted <= m->base ? 0 : m->base + m->wanted;
        m->renewed_ms = now_ms;
    }
    m->terms = next;
    children_want(s, now_ms);
    children_save(s);
    return 0;
}

/* The new ones stay, the others may end their streams. */
static void end_before(struct supervisor *s, struct managed_model *m, int64_t now_ms) {
    log_info("the new revision of model=%s is ready: the one before it ends", name_of(m));
    m->before_count = 0;
    m->ends_streams = true;
    children_want(s, now_ms);
    m->ends_streams = false;
    children_save(s);
}

/* It stays as it was. */
static void give_revision_up(struct supervisor *s, struct managed_model *m, int64_t now_ms) {
    m->terms = m->before;
    m->base = m->before_base;
    m->before_count = 0;
    children_want(s, now_ms);
    children_save(s);
}

/* Processes of the revision before that run since before the new one was begun; others may be ones that
 * end again and again. */
static uint32_t steady_before(const struct supervisor *s, const struct managed_model *m) {
    uint32_t count = 0, model = (uint32_t)(m - s->models);
    for (size_t i = 0; i < s->children.count; i++) {
        const struct child *c = s->children.items[i];
        count += c->role == CHILD_WORKER && models_of(s, c->idx) == model &&
                 is_among(models_place(s, c->idx), m->before_base, m->before_count) &&
                 c->state == CHILD_RUNNING && c->started_ms < m->renewed_ms;
    }
    return count;
}

static bool revision_is_ready(const struct supervisor *s, const struct managed_model *m) {
    uint32_t ranks = supervisor_rank_count(&m->terms.replicas);
    return s->registered && m->replicas_ready >= (m->wanted + steady_before(s, m)) / ranks;
}

bool models_worker_ended(struct supervisor *s, uint32_t model, bool gave_up) {
    struct managed_model *m = &s->models[model];
    if (!m->later || !m->wanted || m->was_ready || m->before_count)
        return false;
    return gave_up || ++m->failed_ends >= CHILD_FAILED_STARTS;
}

bool models_failed(struct supervisor *s, uint32_t model, uint32_t place, const char *why,
                   int64_t now_ms) {
    struct managed_model *m = &s->models[model];
    bool of_new = m->before_count && is_among(place, m->base, m->wanted);
    if (!m->later && !of_new)
        return false;
    log_error("model '%s' cannot be loaded: %s", name_of(m), why);
    if (of_new)
        give_revision_up(s, m, now_ms);
    else
        models_unload(s, m, now_ms);
    m->leaves = m->is_new;
    m->failed_ms = now_ms;
    snprintf(m->failure, sizeof m->failure, "%s", why);
    for (char *c = m->failure; *c; c++) /* a status' rows end with one */
        *c = *c == ';' || *c == '\n' ? ',' : *c;
    m->tells_failure = !of_new;
    m->tells_load = false;
    return true;
}

/* --- what is told of them --- */

/* By itself: a model that could not be loaded just now is not tried again and again. */
static void load_by_itself(struct supervisor *s, struct managed_model *m, int64_t now_ms) {
    struct error err;
    if (m->failed_ms && now_ms - m->failed_ms < FAILED_AGAIN_MS) {
        m->tells_failure = true;
        return;
    }
    if (!m->wanted)
        m->is_awaited = true;
    int rc = models_load(s, m, now_ms, &err);
    if (!rc)
        return;
    LOG_LIMITED(LOG_WARN, "a model is asked for and not loaded: %s", err.text);
    if (rc != ERR_LIMIT)
        return;
    snprintf(m->failure, sizeof m->failure, "%s", err.text);
    m->tells_failure = true;
}

/* An operator's word: also one that could not be loaded just now is tried again. */
static void load_as_told(struct supervisor *s, struct managed_model *m, int64_t now_ms) {
    m->failed_ms = 0;
    load_by_itself(s, m, now_ms);
}

static void reload_by_itself(struct supervisor *s, struct managed_model *m, int64_t now_ms) {
    struct error err;
    if (models_reload(s, m, now_ms, &err))
        LOG_LIMITED(LOG_WARN, "a new revision is asked for and not loaded: %s", err.text);
}

void models_take_want(struct supervisor *s, const struct wire_want *want, int64_t now_ms) {
    struct managed_model *m = models_find(s, want->model);
    if (want->wish == WIRE_WISH_ADD || want->wish == WIRE_WISH_REMOVE)
        adds_begin(s, want);
    else if (!m)
        return;
    else if (want->wish == WIRE_WISH_UNLOAD)
        models_unload(s, m, now_ms);
    else if (want->wish == WIRE_WISH_RELOAD)
        reload_by_itself(s, m, now_ms);
    else if (want->wish == WIRE_WISH_LOAD)
        load_as_told(s, m, now_ms);
    else if (m->terms.on_demand)
        load_by_itself(s, m, now_ms);
}

/* A scheduler learns of a model from its workers, and gateways from the scheduler: after a restart
 * of it, one that was added and is not loaded would be known to nobody. */
static void find_unknown(struct supervisor *s, const bool *told) {
    for (uint32_t i = s->configured_count; i < s->model_count; i++) {
        struct managed_model *m = &s->models[i];
        if (s->awaits_status)
            m->is_unknown = m->terms.name && m->terms.on_demand && !m->leaves;
        m->is_unknown = m->is_unknown && !told[i];
    }
    s->awaits_status = false;
}

/* All replicas of the model are ready: each of its workers can start. */
static void note_lived(struct supervisor *s, const struct managed_model *m) {
    uint32_t ranks = supervisor_rank_count(&m->terms.replicas), model = (uint32_t)(m - s->models);
    if (m->before_count || !m->wanted || m->replicas_ready < m->wanted / ranks)
        return;
    for (size_t i = 0; i < s->children.count; i++) {
        struct child *c = s->children.items[i];
        if (c->role == CHILD_WORKER && models_of(s, c->idx) == model)
            c->has_lived = true;
    }
}

void models_take_status(struct supervisor *s, const struct wire_status *status, int64_t now_ms) {
    bool told[SUPERVISOR_MODELS_MAX] = {0};
    for (size_t i = 0; i < status->model_count; i++) {
        const struct wire_model_status *one = &status->models[i];
        struct managed_model *m = models_find(s, one->model);
        if (!m)
            continue;
        told[m - s->models] = true;
        m->busy = one->waiting + one->running;
        m->replicas_ready = one->replicas_ready;
        if (m->replicas_ready) {
            m->was_ready = true;
            m->is_new = false;
        }
        note_lived(s, m);
        if (!m->replicas_ready)
            m->ready_ms = 0;
        else if (!m->ready_ms)
            m->ready_ms = now_ms;
        if (m->ready_ms && (m->busy || one->steps > m->steps))
            m->is_awaited = false;
        if (m->busy || m->steps != one->steps)
            m->used_ms = now_ms;
        m->steps = one->steps;
        if (m->terms.on_demand && one->waiting && !m->wanted)
            load_by_itself(s, m, now_ms);
    }
    for (uint32_t i = 0; i < s->model_count; i++)
        if (!told[i])
            s->models[i].busy = s->models[i].replicas_ready = 0;
    find_unknown(s, told);
}

void models_tell_outcomes(struct supervisor *s) {
    for (uint32_t i = 0; i < s->model_count; i++) {
        struct managed_model *m = &s->models[i];
        const struct wire_outcome outcome = {.model = bytes_str(m->terms.name ? m->terms.name : ""),
                                             .done = m->tells_load,
                                             .text = bytes_str(m->tells_load ? "" : m->failure)};
        bool tells = (m->tells_failure || m->tells_load) && outcome.model.len;
        m->tells_failure = m->tells_load = false;
        if (tells && !supervisor_send_outcome(s, &outcome))
            log_debug("whether a model can be loaded is told when it is asked for again");
    }
}

/* --- what is due --- */

static struct managed_model *first_asked(struct supervisor *s) {
    struct managed_model *first = NULL;
    for (uint32_t i = 0; i < s->model_count; i++) {
        struct managed_model *m = &s->models[i];
        if (m->asked_ms && (!first || m->first_asked_ms < first->first_asked_ms))
            first = m;
    }
    return first;
}

/* In the order in which they were asked for, so that a large one's turn comes, too. */
static void load_asked(struct supervisor *s, int64_t now_ms) {
    struct managed_model *m, *leaving;
    while ((m = first_asked(s))) {
        if (now_ms - m->asked_ms > ASKED_MS) {
            m->asked_ms = 0; /* nobody asks any more */
            m->had_no_room = true;
            m->leaves = m->is_new;
        } else if (has_room(s, m))
            begin_load(s, m, now_ms);
        else if (any_is_leaving(s) || !s->registered || !(leaving = choose_leaving(s, m, now_ms)))
            return;
        else
            models_unload(s, leaving, now_ms);
    }
}

/* Once, where no other has to go for it; then it is unloaded as any other that nobody uses. */
static void load_unknown(struct supervisor *s, int64_t now_ms) {
    for (uint32_t i = s->configured_count; i < s->model_count; i++) {
        struct managed_model *m = &s->models[i];
        if (m->is_unknown && !m->leaves && !m->failed_ms && !takes_room(s, m) && has_room(s, m))
            begin_load(s, m, now_ms);
    }
}

void models_turn(struct supervisor *s, int64_t now_ms) {
    if (s->phase != PHASE_SERVING)
        return;
    for (uint32_t i = 0; i < s->model_count; i++) {
        struct managed_model *m = &s->models[i];
        if (m->before_count && revision_is_ready(s, m))
            end_before(s, m, now_ms);
        if (!s->registered || !m->replicas_ready)
            m->used_ms = now_ms; /* who uses it is not known, or nobody could */
        if (m->terms.on_demand && m->wanted && !m->busy && m->terms.idle_unload_ms &&
            now_ms - m->used_ms >= m->terms.idle_unload_ms)
            models_unload(s, m, now_ms);
    }
    load_asked(s, now_ms);
    load_unknown(s, now_ms);
}
