#include "worker/grammar_store.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "grammar/structure.h"
#include "text/tokenizer/tokenizer.h"

enum { WAIT_FOR_ROOM_MS = 100, BUCKETS = 4096 };

struct grammar_entry {
    struct grammar_entry *next, *prev; /* of the same store, most recently used first */
    struct grammar_entry *same_bucket;
    struct u128 hash;
    struct program program;
    struct grammar_run *run; /* NULL: it is the tokens */
    struct token_vec tokens;
    size_t bytes;
    uint32_t users;
    int64_t hold_until_ms;
};

struct compile_job {
    struct compile_job *next;
    struct u128 hash;
    enum wire_grammar_kind kind;
    struct buf text;
};

struct compile_answer {
    struct compile_answer *next;
    struct u128 hash;
    struct error failed;
};

struct grammar_store {
    struct bytes bundle;
    uint32_t token_count;
    size_t bytes_max;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd;
    /* under the lock */
    struct grammar_entry *first, *last;
    struct grammar_entry *buckets[BUCKETS]; /* by hash: a flood of constraints makes thousands */
    struct compile_job *jobs, **last_job;
    struct compile_answer *answers, **last_answer;
    struct grammar_store_counts counts;
    bool ends;
    /* of the store's thread; the vocabulary is const once an entry uses it */
    struct vocab *vocab;
    struct error vocab_error;
};

/* ---- the vocabulary ---- */

/* What the model writes by each token. A control token has a byte in front that no text has, so that
 * only a grammar that names it allows it; the ends of a sequence have nothing but their name. */
static struct vocab *make_vocab(const struct tokenizer *t, uint32_t count) {
    struct tokens ends = tokenizer_eos(t);
    struct bytes *tokens = mem_calloc(count, sizeof *tokens);
    size_t *spelled = mem_calloc(count, sizeof *spelled);
    struct buf texts = {0};
    uint32_t known = MIN(count, tokenizer_vocab_count(t));
    for (uint32_t id = 0; id < known; id++) {
        if (!tokenizer_is_special(t, id))
            continue;
        spelled[id] = texts.len + 1;
        uint8_t mark = STRUCTURE_TOKEN_BYTE;
        buf_add(&texts, &mark, 1);
        tokenizer_token_text(t, id, &texts);
    }
    size_t end = texts.len;
    for (uint32_t id = known; id-- > 0;) {
        tokens[id] = tokenizer_token_bytes(t, id);
        if (!spelled[id])
            continue;
        tokens[id] = bytes_of(texts.data + spelled[id] - 1, end - (spelled[id] - 1));
        end = spelled[id] - 1;
    }
    uint32_t end_ids[TOKENIZER_EOS_MAX], end_count = 0;
    for (size_t i = 0; i < ends.count && i < ARRAY_LEN(end_ids); i++) {
        if (ends.ids[i] >= count)
            continue;
        tokens[ends.ids[i]] = (struct bytes){0};
        end_ids[end_count++] = ends.ids[i];
    }
    struct vocab *vocab = vocab_new(tokens, count, end_ids, end_count);
    buf_release(&texts);
    mem_free(tokens);
    mem_free(spelled);
    return vocab;
}

static void load_vocab(struct grammar_store *s) {
    struct bundle bundle;
    struct tokenizer *t = NULL;
    int rc = bundle_open(&bundle, s->bundle, &s->vocab_error);
    if (!rc)
        rc = tokenizer_load_bundle(&bundle, &t, &s->vocab_error);
    if (!rc)
        s->vocab = make_vocab(t, s->token_count);
    tokenizer_free(&t);
}

/* ---- compiling ---- */

/* Ids apart by commas, each below token_count. */
static int read_tokens(struct bytes text, uint32_t token_count, struct token_vec *out,
                       struct error *err) {
    size_t at = 0;
    while (at < text.len) {
        uint64_t id = 0;
        size_t first = at;
        for (; at < text.len && text.data[at] >= '0' && text.data[at] <= '9'; at++)
            id = MIN(id * 10 + (uint64_t)(text.data[at] - '0'), (uint64_t)UINT32_MAX);
        bool last = at == text.len;
        if (at == first || id >= token_count || (!last && text.data[at] != ','))
            return error_set(err, ERR_INVALID, "no list of this model's tokens");
        vec_push(out, (uint32_t)id);
        at += !last;
    }
    return 0;
}

static struct grammar_entry *list_tokens(const struct grammar_store *s,
                                         const struct compile_job *job, struct error *err) {
    struct grammar_entry *entry = mem_alloc(sizeof *entry);
    *entry = (struct grammar_entry){.hash = job->hash};
    if (read_tokens(buf_bytes(&job->text), s->token_count, &entry->tokens, err)) {
        vec_release(&entry->tokens);
        mem_free(entry);
        return NULL;
    }
    entry->bytes = sizeof *entry + entry->tokens.count * sizeof *entry->tokens.items;
    return entry;
}

static struct grammar_entry *compile(struct grammar_store *s, const struct compile_job *job,
                                     struct error *err) {
    static const enum grammar_kind KINDS[] = {[WIRE_GRAMMAR_JSON_SCHEMA] = GRAMMAR_JSON_SCHEMA,
                                              [WIRE_GRAMMAR_REGEX] = GRAMMAR_REGEX,
                                              [WIRE_GRAMMAR_GBNF] = GRAMMAR_GBNF,
                                              [WIRE_GRAMMAR_JSON] = GRAMMAR_JSON_SCHEMA,
                                              [WIRE_GRAMMAR_STRUCTURE] = GRAMMAR_STRUCTURE};
    struct program program;
    if (job->kind == WIRE_GRAMMAR_TOKENS)
        return list_tokens(s, job, err);
    if (!s->vocab && !s->vocab_error.code)
        load_vocab(s);
    if (!s->vocab) {
        *err = s->vocab_error;
        return NULL;
    }
    struct grammar_source source = {.kind = KINDS[job->kind],
                                    .text = job->kind == WIRE_GRAMMAR_JSON ? bytes_str("true")
                                                                           : buf_bytes(&job->text),
                                    .ordered = true,
                                    .plain = true,
                                    .looked_ahead = true}; /* the gateway has */
    if (grammar_compile(&source, NULL, &program, err))
        return NULL;
    struct grammar_entry *entry = mem_alloc(sizeof *entry);
    *entry = (struct grammar_entry){.hash = job->hash, .program = program};
    entry->run = grammar_run_new(&entry->program, s->vocab);
    entry->bytes = program_size(&entry->program) + grammar_run_size(entry->run);
    return entry;
}

static void entry_free(struct grammar_entry *entry) {
    grammar_run_free(&entry->run);
    program_release(&entry->program);
    vec_release(&entry->tokens);
    mem_free(entry);
}

/* ---- what is there; with the lock held ---- */

/* Where the entry hangs in its bucket, or would. */
static struct grammar_entry **find(struct grammar_store *s, struct u128 hash) {
    struct grammar_entry **at = &s->buckets[hash.lo % BUCKETS];
    while (*at && !u128_equal((*at)->hash, hash))
        at = &(*at)->same_bucket;
    return at;
}

static void push_front(struct grammar_store *s, struct grammar_entry *entry) {
    entry->prev = NULL;
    entry->next = s->first;
    if (s->first)
        s->first->prev = entry;
    else
        s->last = entry;
    s->first = entry;
}

static void take_out(struct grammar_store *s, struct grammar_entry *entry) {
    *(entry->prev ? &entry->prev->next : &s->first) = entry->next;
    *(entry->next ? &entry->next->prev : &s->last) = entry->prev;
}

static void move_to_front(struct grammar_store *s, struct grammar_entry *entry) {
    take_out(s, entry);
    push_front(s, entry);
}

/* Takes out what must go for the budget; returns it, to be freed without the lock. */
static struct grammar_entry *take_surplus(struct grammar_store *s) {
    struct grammar_entry *gone = NULL;
    int64_t now = clock_ms();
    while (s->counts.bytes > s->bytes_max) {
        struct grammar_entry *entry = s->last;
        while (entry && (entry->users || entry->hold_until_ms >= now))
            entry = entry->prev;
        if (!entry)
            break;
        take_out(s, entry);
        *find(s, entry->hash) = entry->same_bucket;
        s->counts.bytes -= entry->bytes;
        s->counts.entries--;
        s->counts.evicted++;
        entry->next = gone;
        gone = entry;
    }
    return gone;
}

static void free_all(struct grammar_entry *entry) {
    while (entry) {
        struct grammar_entry *next = entry->next;
        entry_free(entry);
        entry = next;
    }
}

static void push_answer(struct grammar_store *s, struct u128 hash, const struct error *failed) {
    uint64_t one = 1;
    struct compile_answer *a = mem_alloc(sizeof *a);
    *a = (struct compile_answer){.hash = hash};
    if (failed)
        a->failed = *failed;
    *s->last_answer = a;
    s->last_answer = &a->next;
    ssize_t written = write(s->fd, &one, sizeof one);
    (void)written; /* full means readable, which is all that is asked of it */
}

/* True: it is there, and has been answered. */
static bool answer_known(struct grammar_store *s, struct u128 hash) {
    struct grammar_entry *entry = *find(s, hash);
    if (!entry)
        return false;
    entry->hold_until_ms = clock_ms() + GRAMMAR_HOLD_MS;
    move_to_front(s, entry);
    push_answer(s, hash, NULL);
    return true;
}

/* ---- the thread ---- */

static void wait_a_while(struct grammar_store *s) {
    const struct timespec until = timespec_of_us(clock_us() + WAIT_FOR_ROOM_MS * 1000ll);
    (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

/* The next job, or NULL: the store ends. Waits for room too. */
static struct compile_job *next_job(struct grammar_store *s) {
    while (!s->ends) {
        struct grammar_entry *gone = take_surplus(s);
        if (gone) {
            pthread_mutex_unlock(&s->lock);
            free_all(gone);
            pthread_mutex_lock(&s->lock);
            continue;
        }
        struct compile_job *job = s->jobs;
        if (!job) {
            pthread_cond_wait(&s->changed, &s->lock);
        } else if (s->counts.bytes > s->bytes_max) {
            wait_a_while(s);
        } else {
            s->jobs = job->next;
            if (!s->jobs)
                s->last_job = &s->jobs;
            s->counts.waiting--;
            return job;
        }
    }
    return NULL;
}

static void job_free(struct compile_job *job) {
    buf_release(&job->text);
    mem_free(job);
}

static void *store_main(void *arg) {
    struct grammar_store *s = arg;
    struct compile_job *job;
    thread_give_way();
    pthread_mutex_lock(&s->lock);
    while ((job = next_job(s))) {
        struct error err = {0};
        if (!answer_known(s, job->hash)) {
            pthread_mutex_unlock(&s->lock);
            struct grammar_entry *entry = compile(s, job, &err);
            pthread_mutex_lock(&s->lock);
            s->counts.compiled += entry != NULL;
            s->counts.failed += entry == NULL;
            if (entry) {
                push_front(s, entry);
                *find(s, entry->hash) = entry;
                s->counts.bytes += entry->bytes;
                s->counts.entries++;
                entry->hold_until_ms = clock_ms() + GRAMMAR_HOLD_MS;
            }
            push_answer(s, job->hash, entry ? NULL : &err);
        }
        job_free(job);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int grammar_store_new(struct grammar_store **out, struct bytes bundle, uint32_t token_count,
                      size_t bytes_max, struct error *err) {
    struct grammar_store *s = mem_alloc(sizeof *s);
    pthread_condattr_t monotonic;
    s->bundle = bundle;
    s->token_count = token_count;
    s->bytes_max = bytes_max;
    s->last_job = &s->jobs;
    s->last_answer = &s->answers;
    s->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK_MSG(s->fd >= 0, "no file descriptor left");
    CHECK(!pthread_condattr_init(&monotonic) &&
          !pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
    CHECK(!pthread_mutex_init(&s->lock, NULL) && !pthread_cond_init(&s->changed, &monotonic));
    (void)pthread_condattr_destroy(&monotonic);
    if (pthread_create(&s->thread, NULL, store_main, s)) {
        close(s->fd);
        mem_free(s);
        return error_set(err, ERR_IO, "cannot start the thread that compiles grammars");
    }
    *out = s;
    return 0;
}

void grammar_store_free(struct grammar_store **store) {
    struct grammar_store *s = *store;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    for (struct grammar_entry *entry = s->first; entry; entry = entry->next)
        CHECK(!entry->users);
    free_all(s->first);
    for (struct compile_job *job = s->jobs, *next; job; job = next) {
        next = job->next;
        job_free(job);
    }
    for (struct compile_answer *a = s->answers, *next; a; a = next) {
        next = a->next;
        mem_free(a);
    }
    vocab_free(&s->vocab);
    close(s->fd);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    mem_free(s);
    *store = NULL;
}

/* ---- the control thread's side ---- */

void grammar_store_prepare(struct grammar_store *s, struct u128 hash, enum wire_grammar_kind kind,
                           struct bytes text) {
    pthread_mutex_lock(&s->lock);
    if (!answer_known(s, hash)) {
        struct compile_job *job = mem_alloc(sizeof *job);
        *job = (struct compile_job){.hash = hash, .kind = kind};
        buf_add_bytes(&job->text, text);
        *s->last_job = job;
        s->last_job = &job->next;
        s->counts.waiting++;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

int grammar_store_fd(const struct grammar_store *s) {
    return s->fd;
}

bool grammar_store_answer(struct grammar_store *s, struct u128 *hash, struct error *failed) {
    pthread_mutex_lock(&s->lock);
    struct compile_answer *a = s->answers;
    if (a) {
        s->answers = a->next;
        if (!s->answers)
            s->last_answer = &s->answers;
        *hash = a->hash;
        *failed = a->failed;
        mem_free(a);
    } else {
        uint64_t count;
        ssize_t got = read(s->fd, &count, sizeof count);
        (void)got;
    }
    pthread_mutex_unlock(&s->lock);
    return a != NULL;
}

/* ---- the compute thread's side ---- */

struct grammar_entry *grammar_store_take(struct grammar_store *s, struct u128 hash) {
    pthread_mutex_lock(&s->lock);
    struct grammar_entry *entry = *find(s, hash);
    if (entry) {
        entry->users++;
        move_to_front(s, entry);
    }
    pthread_mutex_unlock(&s->lock);
    return entry;
}

struct grammar_run *grammar_entry_run(struct grammar_entry *entry) {
    return entry->run;
}

struct tokens grammar_entry_tokens(const struct grammar_entry *entry) {
    return (struct tokens){entry->tokens.items, entry->tokens.count};
}

void grammar_store_give(struct grammar_store *s, struct grammar_entry *entry) {
    size_t bytes = entry->bytes;
    if (entry->run)
        bytes = program_size(&entry->program) + grammar_run_size(entry->run);
    pthread_mutex_lock(&s->lock);
    CHECK(entry->users);
    entry->users--;
    s->counts.bytes += bytes - entry->bytes;
    entry->bytes = bytes;
    if (s->counts.bytes > s->bytes_max)
        pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

struct grammar_store_counts grammar_store_counts(struct grammar_store *s) {
    pthread_mutex_lock(&s->lock);
    struct grammar_store_counts counts = s->counts;
    pthread_mutex_unlock(&s->lock);
    return counts;
}
