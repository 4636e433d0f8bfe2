#include "gateway/models/model_table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"

struct entry {
    char *name; /* NULL: free */
    struct u128 revision, bundle;
    uint64_t bundle_bytes;
    uint32_t max_context, logits_width, replicas_ready, replicas_loading;
    struct wire_vectors vectors;
    int64_t created_s, missing_since_ms; /* 0: in the latest Status */
    struct served_model *served;         /* a reference; NULL: no bundle yet */
};

struct load_failure {
    char *model; /* owned: the name that workers register */
    char why[MODEL_FAILURE_MAX];
    int64_t told_ms;
};

struct model_table {
    pthread_mutex_t mutex;
    struct entry entries[WIRE_MAX_MODELS];
    size_t entry_count;
    bool heard;                                /* a Status came, ever */
    struct text_model *texts[WIRE_MAX_MODELS]; /* compiled bundles, references */
    /* bundles that cannot be compiled, newest over oldest */
    struct u128 broken[WIRE_MAX_MODELS];
    size_t broken_count;
    bool compiling;
    struct u128 compiling_bundle;
    struct buf packed; /* being compiled */
    pthread_t compiler;
    bool compiler_started; /* to be joined */
    struct text_settings settings;
    struct served_name {
        char *text;   /* owned */
        size_t first; /* of its model's: the name that workers register */
        int64_t named_s;
        int64_t asked_ms; /* its workers were asked for; 0: never */
    } names[SERVED_NAMES_MAX];
    size_t name_count;
    bool names_many; /* of more than one model */
    VEC(struct load_failure) failures;
    VEC(char *) removed; /* owned names: of entries, or of models that Status may still name */
    void (*changed)(void *ctx);
    void *ctx;
};

struct served_model *served_model_ref(struct served_model *m) {
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void served_model_put(struct served_model *m) {
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    text_model_put(m->text);
    mem_free(m->name);
    mem_free(m);
}

static void read_names(struct model_table *t, const char *at) {
    size_t first = 0;
    while (at && *at) {
        size_t len = strcspn(at, ",;");
        CHECK(t->name_count < SERVED_NAMES_MAX); /* text_settings_check */
        t->names[t->name_count++] = (struct served_name){
            .text = mem_strndup(at, len), .first = first, .named_s = wall_ms() / 1000};
        at += len;
        if (*at == ';') {
            first = t->name_count;
            t->names_many = true;
        }
        at += *at != 0;
    }
}

struct model_table *model_table_new(const struct text_settings *settings,
                                    void (*changed)(void *ctx), void *ctx) {
    struct model_table *t = mem_alloc(sizeof *t);
    pthread_mutex_init(&t->mutex, NULL);
    buf_init(&t->packed, 0);
    t->settings = *settings;
    read_names(t, settings->served_names);
    t->changed = changed;
    t->ctx = ctx;
    return t;
}

/* ---- models that were removed ---- */

/* -1: it was not. */
static int find_removed(const struct model_table *t, struct bytes name) {
    for (size_t i = 0; i < t->removed.count; i++)
        if (bytes_equal(bytes_str(t->removed.items[i]), name))
            return (int)i;
    return -1;
}

static void forget_removed(struct model_table *t, size_t i) {
    mem_free(t->removed.items[i]);
    t->removed.items[i] = t->removed.items[--t->removed.count];
}

/* The scheduler names it as long as it keeps a request of it. One whose workers load was added again. */
static bool stays_removed(struct model_table *t, const struct wire_model_status *s) {
    int i = find_removed(t, s->model);
    if (i >= 0 && s->replicas_loading)
        forget_removed(t, (size_t)i);
    return i >= 0 && !s->replicas_loading && !s->replicas_ready;
}

static void entry_release(struct entry *e) {
    served_model_put(e->served);
    mem_free(e->name);
    *e = (struct entry){0};
}

void model_table_free(struct model_table **table) {
    struct model_table *t = *table;
    if (!t)
        return;
    if (t->compiler_started)
        pthread_join(t->compiler, NULL);
    for (size_t i = 0; i < t->entry_count; i++)
        entry_release(&t->entries[i]);
    for (size_t i = 0; i < ARRAY_LEN(t->texts); i++)
        text_model_put(t->texts[i]);
    for (size_t i = 0; i < t->name_count; i++)
        mem_free(t->names[i].text);
    for (size_t i = 0; i < t->failures.count; i++)
        mem_free(t->failures.items[i].model);
    vec_release(&t->failures);
    while (t->removed.count)
        forget_removed(t, t->removed.count - 1);
    vec_release(&t->removed);
    buf_release(&t->packed);
    pthread_mutex_destroy(&t->mutex);
    mem_free(t);
    *table = NULL;
}

static struct entry *find_entry(struct model_table *t, struct bytes name) {
    for (size_t i = 0; i < t->entry_count; i++)
        if (bytes_equal(bytes_str(t->entries[i].name), name))
            return &t->entries[i];
    return NULL;
}

static struct served_name *find_name(struct model_table *t, struct bytes name) {
    for (size_t i = 0; i < t->name_count; i++)
        if (bytes_equal(bytes_str(t->names[i].text), name))
            return &t->names[i];
    return NULL;
}

/* The model that a served name leads to. */
static struct entry *name_entry(struct model_table *t, const struct served_name *name) {
    return find_entry(t, bytes_str(t->names[name->first].text));
}

/* By its own name, or by one that leads to it. */
static struct entry *find_named(struct model_table *t, struct bytes name) {
    struct entry *e = find_entry(t, name);
    const struct served_name *served = e ? NULL : find_name(t, name);
    return served ? name_entry(t, served) : e;
}

static struct text_model *find_text(struct model_table *t, struct u128 bundle) {
    for (size_t i = 0; i < ARRAY_LEN(t->texts); i++)
        if (t->texts[i] && u128_equal(t->texts[i]->bundle, bundle))
            return t->texts[i];
    return NULL;
}

static bool is_broken(const struct model_table *t, struct u128 bundle) {
    for (size_t i = 0; i < MIN(t->broken_count, ARRAY_LEN(t->broken)); i++)
        if (u128_equal(t->broken[i], bundle))
            return true;
    return false;
}

bool model_table_is_broken(struct model_table *t) {
    bool broken = false, served = false;
    pthread_mutex_lock(&t->mutex);
    for (size_t i = 0; i < t->entry_count; i++) {
        const struct entry *e = &t->entries[i];
        served |= e->served != NULL;
        broken |= e->replicas_ready && is_broken(t, e->bundle);
    }
    pthread_mutex_unlock(&t->mutex);
    return broken && !served;
}

/* Makes the entry's served model when its bundle is here. */
static bool serve(struct model_table *t, struct entry *e) {
    struct text_model *text = find_text(t, e->bundle);
    if (e->served || !text)
        return false;
    struct served_model *m = mem_alloc(sizeof *m);
    atomic_init(&m->refs, 1);
    m->name = mem_strdup(e->name);
    m->revision = e->revision;
    m->max_context = e->max_context;
    m->logits_width = e->logits_width;
    m->vectors = e->vectors;
    atomic_fetch_add(&text->refs, 1);
    m->text = text;
    e->served = m;
    return true;
}

static bool vectors_are_same(const struct wire_vectors *a, const struct wire_vectors *b) {
    return a->pooling == b->pooling && a->width == b->width && a->normalize == b->normalize &&
           a->only == b->only && a->scores == b->scores && a->bare == b->bare;
}

static void describe_entry(struct entry *e, const struct wire_model_status *s) {
    bool same = u128_equal(e->revision, s->revision) && u128_equal(e->bundle, s->bundle) &&
                e->max_context == s->max_context && e->logits_width == s->logits_width &&
                vectors_are_same(&e->vectors, &s->vectors);
    if (!same) {
        served_model_put(e->served);
        e->served = NULL;
    }
    e->revision = s->revision;
    e->bundle = s->bundle;
    e->bundle_bytes = s->bundle_bytes;
    e->max_context = s->max_context;
    e->logits_width = s->logits_width;
    e->vectors = s->vectors;
}

/* A scheduler that has forgotten the last worker of a model names it with a width of 0 while requests
 * wait for it: what it was stays. */
static void update_entry(struct entry *e, const struct wire_model_status *s) {
    if (s->logits_width || !e->logits_width)
        describe_entry(e, s);
    e->replicas_ready = s->replicas_ready;
    e->replicas_loading = s->replicas_loading;
    e->missing_since_ms = 0;
}

static struct entry *add_entry(struct model_table *t, struct bytes name) {
    if (t->entry_count == ARRAY_LEN(t->entries))
        return NULL;
    struct entry *e = &t->entries[t->entry_count++];
    *e = (struct entry){.name = mem_strndup((const char *)name.data, name.len),
                        .created_s = wall_ms() / 1000};
    return e;
}

static void mark_missing(struct model_table *t, int64_t now_ms) {
    for (size_t i = 0; i < t->entry_count; i++) {
        t->entries[i].replicas_ready = t->entries[i].replicas_loading = 0;
        if (t->entries[i].missing_since_ms == 0)
            t->entries[i].missing_since_ms = now_ms;
    }
}

static bool bundle_in_use(const struct model_table *t, struct u128 bundle) {
    for (size_t i = 0; i < t->entry_count; i++)
        if (u128_equal(t->entries[i].bundle, bundle))
            return true;
    return false;
}

/* Those that Status names no more cannot come back by it. */
static void forget_old_removed(struct model_table *t, const struct wire_status *status) {
    for (size_t i = 0; i < t->removed.count; i++) {
        bool named = false;
        for (size_t k = 0; k < status->model_count; k++)
            named |= bytes_equal(bytes_str(t->removed.items[i]), status->models[k].model);
        if (!named)
            forget_removed(t, i--);
    }
}

/* Forgets models missing for too long, and bundles no model has any more. */
static void forget_old(struct model_table *t, int64_t now_ms) {
    for (size_t i = 0; i < t->entry_count;) {
        struct entry *e = &t->entries[i];
        bool old = e->missing_since_ms != 0 && (find_removed(t, bytes_str(e->name)) >= 0 ||
                                                now_ms - e->missing_since_ms > MODEL_GRACE_MS);
        if (!old) {
            i++;
            continue;
        }
        entry_release(e);
        *e = t->entries[--t->entry_count];
        t->entries[t->entry_count] = (struct entry){0};
    }
    for (size_t i = 0; i < ARRAY_LEN(t->texts); i++) {
        if (!t->texts[i] || bundle_in_use(t, t->texts[i]->bundle))
            continue;
        text_model_put(t->texts[i]);
        t->texts[i] = NULL;
    }
}

void model_table_status(struct model_table *t, const struct wire_status *status, int64_t now_ms) {
    bool changed = false;
    pthread_mutex_lock(&t->mutex);
    bool missing[WIRE_MAX_MODELS] = {0};
    for (size_t i = 0; i < t->entry_count; i++)
        missing[i] = t->entries[i].missing_since_ms != 0;
    mark_missing(t, now_ms);
    for (size_t i = 0; i < status->model_count; i++) {
        const struct wire_model_status *s = &status->models[i];
        struct entry *e = find_entry(t, s->model);
        if (stays_removed(t, s))
            continue;
        if (!e)
            e = add_entry(t, status->models[i].model);
        if (!e)
            continue;
        changed |= missing[e - t->entries];
        update_entry(e, &status->models[i]);
        changed |= serve(t, e);
    }
    if (status->model_count > 0)
        t->heard = true;
    forget_old(t, now_ms);
    forget_old_removed(t, status);
    pthread_mutex_unlock(&t->mutex);
    if (changed)
        t->changed(t->ctx);
}

void model_table_lost(struct model_table *t, int64_t now_ms) {
    pthread_mutex_lock(&t->mutex);
    mark_missing(t, now_ms);
    pthread_mutex_unlock(&t->mutex);
}

static struct bytes without_latest(struct bytes name) {
    static const char tag[] = ":latest";
    size_t len = sizeof tag - 1;
    bool tagged = name.len > len && !memcmp(name.data + name.len - len, tag, len);
    return bytes_of(name.data, name.len - (tagged ? len : 0));
}

/* By the name asked for, or by what it is without the tag of Ollama's clients. */
static struct entry *find_asked(struct model_table *t, struct bytes name) {
    struct entry *e = find_named(t, name);
    e = e ? e : find_named(t, without_latest(name));
    bool gone = e && !e->replicas_ready && find_removed(t, bytes_str(e->name)) >= 0;
    return gone ? NULL : e; /* it stays in the table until a Status does not name it */
}

/* The one that requests without a name are for. */
static struct entry *find_default(struct model_table *t) {
    if (t->names_many || (t->name_count && t->entry_count > 1))
        return name_entry(t, &t->names[0]);
    return t->entry_count == 1 ? &t->entries[0] : NULL;
}

/* Its workers will come, or come back. */
static bool is_expected(struct model_table *t, struct bytes name) {
    if (!t->names_many && !t->settings.on_demand)
        return false;
    return name.len == 0 || find_name(t, name) || find_name(t, without_latest(name));
}

static enum model_found find_locked(struct model_table *t, struct bytes name,
                                    struct served_model **out) {
    if (!t->heard)
        return MODEL_NOT_READY;
    struct entry *e = name.len ? find_asked(t, name) : find_default(t);
    if (!e && (!t->entry_count || is_expected(t, name)))
        return MODEL_NOT_READY;
    if (e && t->settings.on_demand && e->missing_since_ms)
        return MODEL_NOT_READY; /* the scheduler does not know it any more */
    if (!e)
        return name.len ? MODEL_UNKNOWN : MODEL_AMBIGUOUS;
    if (!e->served)
        return is_broken(t, e->bundle) ? MODEL_BROKEN : MODEL_NOT_READY;
    *out = served_model_ref(e->served);
    return MODEL_READY;
}

enum model_found model_table_find(struct model_table *t, struct bytes name,
                                  struct served_model **out) {
    pthread_mutex_lock(&t->mutex);
    enum model_found found = find_locked(t, name, out);
    pthread_mutex_unlock(&t->mutex);
    return found;
}

/* The served name of a model: the first of its names. */
static struct served_name *first_name(struct model_table *t, struct bytes name) {
    if (name.len == 0)
        return t->name_count ? &t->names[0] : NULL;
    struct served_name *n = find_name(t, name);
    n = n ? n : find_name(t, without_latest(name));
    return n ? &t->names[n->first] : NULL;
}

bool model_table_asks(struct model_table *t, struct bytes name, int64_t now_ms,
                      char own[MODEL_NAME_MAX]) {
    pthread_mutex_lock(&t->mutex);
    struct served_name *n = first_name(t, name);
    const struct entry *e = n ? find_entry(t, bytes_str(n->text)) : NULL;
    bool asks = n && !(e && e->replicas_ready) && (!n->asked_ms || now_ms - n->asked_ms >= 1000);
    if (asks) {
        n->asked_ms = now_ms;
        snprintf(own, MODEL_NAME_MAX, "%s", n->text);
    }
    pthread_mutex_unlock(&t->mutex);
    return asks;
}

/* The name that workers register; NULL: unknown. */
static const char *own_name(struct model_table *t, struct bytes name) {
    const struct served_name *n = first_name(t, name);
    const struct entry *e = n ? NULL : find_asked(t, name);
    return n ? n->text : e ? e->name : NULL;
}

bool model_table_own_name(struct model_table *t, struct bytes name, char own[MODEL_NAME_MAX]) {
    pthread_mutex_lock(&t->mutex);
    const char *found = own_name(t, name);
    if (found)
        snprintf(own, MODEL_NAME_MAX, "%s", found);
    pthread_mutex_unlock(&t->mutex);
    return found != NULL;
}

/* ---- models that cannot be loaded ---- */

static void forget_failure(struct model_table *t, size_t i) {
    mem_free(t->failures.items[i].model);
    t->failures.items[i] = t->failures.items[--t->failures.count];
}

static void forget_failures_of(struct model_table *t, struct bytes own) {
    for (size_t i = 0; i < t->failures.count; i++)
        if (bytes_equal(bytes_str(t->failures.items[i].model), own))
            forget_failure(t, i--);
}

/* Clients learn no folder of this machine: of a path only what follows its last slash is left. */
static void copy_without_folders(char *out, size_t size, struct bytes text) {
    size_t len = 0, begin = 0; /* begin: of the path's last part in out */
    bool in_path = false;
    for (size_t i = 0; i < text.len && len + 1 < size; i++) {
        char c = (char)text.data[i];
        bool is_start = c == '/' && (len == 0 || strchr(" '\"=(", out[len - 1]));
        if (is_start || (in_path && c == '/')) {
            begin = is_start ? len : begin;
            len = begin;
            in_path = true;
            continue;
        }
        in_path = in_path && !strchr(" '\")", c);
        out[len++] = c;
    }
    out[len] = 0;
}

static bool has_replicas(struct model_table *t, struct bytes own) {
    const struct entry *e = find_entry(t, own);
    return e && (e->replicas_ready || e->replicas_loading);
}

void model_table_failed(struct model_table *t, struct bytes own, struct bytes why, int64_t now_ms) {
    pthread_mutex_lock(&t->mutex);
    const char *known = own_name(t, own);
    bool counts = known && bytes_equal(bytes_str(known), own) && !has_replicas(t, own);
    forget_failures_of(t, own);
    for (size_t i = 0; i < t->failures.count; i++)
        if (now_ms - t->failures.items[i].told_ms >= MODEL_FAILURE_MS)
            forget_failure(t, i--);
    if (counts) {
        struct load_failure f = {.model = mem_strndup((const char *)own.data, own.len),
                                 .told_ms = now_ms};
        copy_without_folders(f.why, sizeof f.why, why);
        vec_push(&t->failures, f);
    }
    pthread_mutex_unlock(&t->mutex);
    if (counts)
        t->changed(t->ctx);
}

void model_table_loads(struct model_table *t, struct bytes own) {
    pthread_mutex_lock(&t->mutex);
    forget_failures_of(t, own);
    pthread_mutex_unlock(&t->mutex);
}

void model_table_removed(struct model_table *t, struct bytes own, int64_t now_ms) {
    pthread_mutex_lock(&t->mutex);
    bool room = find_entry(t, own) || t->removed.count < WIRE_MAX_MODELS;
    if (room && find_removed(t, own) < 0) /* the Status that names it first may be on its way */
        vec_push(&t->removed, mem_strndup((const char *)own.data, own.len));
    forget_old(t, now_ms);
    pthread_mutex_unlock(&t->mutex);
}

bool model_table_failure(struct model_table *t, struct bytes name, int64_t now_ms,
                         char why[MODEL_FAILURE_MAX]) {
    bool found = false;
    pthread_mutex_lock(&t->mutex);
    const char *own = own_name(t, name);
    bool waits = own && !has_replicas(t, bytes_str(own));
    for (size_t i = 0; waits && i < t->failures.count && !found; i++) {
        const struct load_failure *f = &t->failures.items[i];
        found = now_ms - f->told_ms < MODEL_FAILURE_MS && !strcmp(f->model, own);
        if (found)
            memcpy(why, f->why, MODEL_FAILURE_MAX);
    }
    pthread_mutex_unlock(&t->mutex);
    return found;
}

static bool is_ready(const struct entry *e) {
    return e->served && e->replicas_ready > 0;
}

struct served_model *model_table_any_ready(struct model_table *t) {
    struct served_model *found = NULL;
    pthread_mutex_lock(&t->mutex);
    const struct entry *first = find_default(t);
    if (first && is_ready(first))
        found = served_model_ref(first->served);
    for (size_t i = 0; i < t->entry_count && !found; i++)
        if (is_ready(&t->entries[i]))
            found = served_model_ref(t->entries[i].served);
    pthread_mutex_unlock(&t->mutex);
    return found;
}

bool model_table_wants(struct model_table *t, struct u128 *bundle, uint64_t *bytes) {
    bool wants = false;
    pthread_mutex_lock(&t->mutex);
    for (size_t i = 0; i < t->entry_count && !wants && !t->compiling; i++) {
        struct entry *e = &t->entries[i];
        wants = !e->served && !u128_is_zero(e->bundle) && e->bundle_bytes > 0 &&
                e->missing_since_ms == 0 && !is_broken(t, e->bundle);
        if (!wants)
            continue;
        *bundle = e->bundle;
        *bytes = e->bundle_bytes;
    }
    pthread_mutex_unlock(&t->mutex);
    return wants;
}

/* Puts a compiled bundle in the first free place; there is one, because bundles in use are no more
 * than entries. */
static void keep_text(struct model_table *t, struct text_model *text) {
    for (size_t i = 0; i < ARRAY_LEN(t->texts); i++) {
        if (t->texts[i])
            continue;
        t->texts[i] = text;
        return;
    }
    text_model_put(text);
}

static void tell_compiled(const struct text_model *text, size_t bytes, int64_t took_ms) {
    struct chat_formats plain = chat_formats(text->chat, NULL, false),
                        tools = chat_formats(text->chat, NULL, true);
    LOG_SOME(LOG_INFO,
             "model bundle compiled bytes=%zu ms=%lld chat_template=%s reasoning_parser=%s "
             "tool_call_parser=%s",
             bytes, (long long)took_ms, text->template_origin,
             reasoning_format_name(plain.reasoning), call_format_name(tools.calls));
}

static void *compile(void *ctx) {
    struct model_table *t = ctx;
    struct text_model *text = NULL;
    struct error err;
    int64_t begin_ms = clock_ms();
    int rc = text_model_new(buf_bytes(&t->packed), &t->settings, &text, &err);
    if (rc)
        LOG_SOME(LOG_ERROR, "model bundle cannot be used: %s", err.text);
    else
        tell_compiled(text, t->packed.len, clock_ms() - begin_ms);
    pthread_mutex_lock(&t->mutex);
    if (rc)
        t->broken[t->broken_count++ % ARRAY_LEN(t->broken)] = t->compiling_bundle;
    else
        keep_text(t, text);
    for (size_t i = 0; i < t->entry_count; i++)
        serve(t, &t->entries[i]);
    t->compiling = false;
    buf_release(&t->packed);
    pthread_mutex_unlock(&t->mutex);
    t->changed(t->ctx);
    return NULL;
}

int model_table_set_bundle(struct model_table *t, struct u128 bundle, struct buf *packed,
                           struct error *err) {
    if (!u128_equal(bundle_hash(buf_bytes(packed)), bundle))
        return error_set(err, ERR_INVALID, "bundle has another hash than was promised");
    pthread_mutex_lock(&t->mutex);
    bool busy = t->compiling;
    if (!busy) {
        t->compiling = true;
        t->compiling_bundle = bundle;
        t->packed = *packed;
        *packed = (struct buf){0};
    }
    pthread_mutex_unlock(&t->mutex);
    if (busy)
        return error_set(err, ERR_AGAIN, "another bundle is being compiled");
    if (t->compiler_started)
        pthread_join(t->compiler, NULL);
    int rc = pthread_create(&t->compiler, NULL, compile, t);
    CHECK_MSG(rc == 0, "cannot start a thread: %d", rc);
    t->compiler_started = true;
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct model_info *)a)->name, ((const struct model_info *)b)->name);
}

static struct model_info entry_info(const struct entry *e, const char *name) {
    return (struct model_info){.name = name,
                               .own_name = e->name,
                               .state = e->replicas_ready     ? MODEL_LOADED
                                        : e->replicas_loading ? MODEL_LOADING
                                                              : MODEL_UNLOADED,
                               .family = e->served ? e->served->text->family : "",
                               .revision = e->revision,
                               .max_context = e->max_context,
                               .replicas_ready = e->replicas_ready,
                               .created_s = e->created_s,
                               .was_loaded = true,
                               .servable = e->served != NULL};
}

void model_table_each(struct model_table *t,
                      void (*visit)(void *ctx, const struct model_info *info), void *ctx) {
    struct model_info infos[WIRE_MAX_MODELS + SERVED_NAMES_MAX];
    size_t count = 0;
    pthread_mutex_lock(&t->mutex);
    for (size_t i = 0; i < t->entry_count; i++)
        infos[count++] = entry_info(&t->entries[i], t->entries[i].name);
    for (size_t i = 0; i < t->name_count; i++) {
        const struct entry *e = name_entry(t, &t->names[i]);
        if (find_entry(t, bytes_str(t->names[i].text)))
            continue;
        if (e)
            infos[count++] = entry_info(e, t->names[i].text);
        else if (t->settings.on_demand)
            infos[count++] = (struct model_info){.name = t->names[i].text,
                                                 .own_name = t->names[t->names[i].first].text,
                                                 .created_s = t->names[i].named_s,
                                                 .family = ""};
    }
    qsort(infos, count, sizeof infos[0], compare_names);
    for (size_t i = 0; i < count; i++)
        visit(ctx, &infos[i]);
    pthread_mutex_unlock(&t->mutex);
}
