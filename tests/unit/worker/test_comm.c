/*
 * The communicator. Most tests run the ranks as threads, once on one mapping and once with messages
 * between them, so that the thread sanitizer sees every exchange; the last ones are processes on a real
 * segment.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "check.h"
#include "worker/comm.h"

enum { TP_MAX = 4, PP_MAX = 3, CHANNEL = 1 << 16, RECORDS_MAX = 40 };
static atomic_int arrived; /* members on their way to the others */

struct crew;
struct member {
    struct crew *crew;
    struct comm_place place;
    struct comm *comm;
    pthread_t thread;
    int rc;
};
struct crew {
    uint32_t tp, pp;
    void *memory;
    struct comm_meeting at;
    int (*work)(struct member *m);
    _Atomic bool stop;
    int64_t late_ms; /* of the last one */
    struct member members[COMM_RANKS_MAX];
};

static bool crew_stopped(void *ctx) {
    return atomic_load(&((struct crew *)ctx)->stop);
}

static struct comm_config config_of(struct crew *crew, struct comm_place place) {
    return (struct comm_config){.place = place,
                                .at = crew->at,
                                .channel_bytes = CHANNEL,
                                .record_max = RECORDS_MAX,
                                .form_ms = 20000,
                                .timeout_ms = 20000,
                                .spin_us = 5,
                                .stopped = crew_stopped,
                                .ctx = crew,
                                .memory = crew->memory};
}

static void *member_main(void *arg) {
    struct member *m = arg;
    struct error err = {0};
    struct comm_config config = config_of(m->crew, m->place);
    if (m->place.rank + 1 == m->place.tp && m->place.stage + 1 == m->place.pp)
        sleep_ms(m->crew->late_ms);
    atomic_fetch_add(&arrived, 1);
    m->rc = comm_form(&m->comm, &config, &err);
    if (!m->rc)
        m->rc = m->crew->work(m);
    return NULL;
}

static void *segment_new(uint32_t tp, uint32_t pp) {
    struct comm_config sizes = {
        .place = {.tp = tp, .pp = pp}, .channel_bytes = CHANNEL, .record_max = RECORDS_MAX};
    size_t bytes = comm_segment_bytes(&sizes);
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(p, 0, bytes);
    return p;
}

/* A port that was free a moment ago, on the loopback. */
static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&at, len) || getsockname(fd, (struct sockaddr *)&at, &len))
        abort();
    close(fd);
    return ntohs(at.sin_port);
}

static struct comm_meeting over_hosts(void) {
    struct comm_meeting at = {.rendezvous = ""};
    snprintf(at.rendezvous, sizeof at.rendezvous, "127.0.0.1:%d", free_port());
    mesh_key_new(at.key);
    return at;
}

/* 0 when every member's work returned 0. */
static int crew_run_at(struct crew *crew, struct comm_meeting at, uint32_t tp, uint32_t pp,
                       int (*work)(struct member *m)) {
    int rc = 0;
    crew->at = at;
    crew->tp = tp;
    crew->pp = pp;
    crew->work = work;
    crew->memory = segment_new(tp, pp);
    for (uint32_t i = 0; i < tp * pp; i++) {
        struct member *m = &crew->members[i];
        *m = (struct member){.crew = crew, .place = {i % tp, tp, i / tp, pp}};
        if (pthread_create(&m->thread, NULL, member_main, m))
            abort();
    }
    for (uint32_t i = 0; i < tp * pp; i++)
        pthread_join(crew->members[i].thread, NULL);
    for (uint32_t i = 0; i < tp * pp; i++) {
        if (crew->members[i].rc && !rc)
            rc = crew->members[i].rc;
        comm_free(&crew->members[i].comm);
    }
    free(crew->memory);
    return rc;
}

/* In shared memory, and as if each were on a host of its own: the same comes of both. */
static int crew_run(struct crew *crew, uint32_t tp, uint32_t pp, int (*work)(struct member *m)) {
    enum { DIFFER = -1000 };
    int shared = crew_run_at(crew, (struct comm_meeting){.id = {1, 2}}, tp, pp, work);
    atomic_store(&crew->stop, false);
    int spread = crew_run_at(crew, over_hosts(), tp, pp, work);
    return shared == spread ? shared : DIFFER;
}

/* Values whose f32 sums depend on the order they are added in. */
static float addend(uint32_t rank, size_t i, uint32_t round) {
    uint64_t h = hash64(&(uint64_t[]){rank, i, round}, 24, 7);
    return ldexpf((float)(int32_t)(uint32_t)h, (int)(h >> 32) % 30 - 40);
}

/* ---- sums ---- */

static const size_t SIZES[] = {1, 63, 65536, 65537, 200003, 0, 7};

static int sum_work(struct member *m) {
    float *x = malloc(200003 * sizeof *x);
    int bad = 0;
    for (uint32_t round = 0; round < ARRAY_LEN(SIZES) && !bad; round++) {
        for (size_t i = 0; i < SIZES[round]; i++)
            x[i] = addend(m->place.rank, i, round);
        if (comm_sum(m->comm, x, SIZES[round], STORAGE_F32))
            bad = -100;
        for (size_t i = 0; i < SIZES[round] && !bad; i++) {
            float want = addend(0, i, round);
            for (uint32_t r = 1; r < m->place.tp; r++)
                want += addend(r, i, round);
            if (memcmp(&want, &x[i], 4))
                bad = -101;
        }
    }
    free(x);
    return bad;
}

TEST(sums_are_taken_in_rank_order) {
    static struct crew crew;
    for (uint32_t tp = 1; tp <= TP_MAX; tp++)
        EXPECT_EQ(crew_run(&crew, tp, 1, sum_work), 0);
    EXPECT_EQ(crew_run(&crew, 2, 2, sum_work), 0);
}

static int sum_half_work(struct member *m) {
    enum { N = 1000 };
    uint16_t x[N];
    for (uint32_t i = 0; i < N; i++)
        x[i] = f32_to_bf16(addend(m->place.rank, i, 0));
    if (comm_sum(m->comm, x, N, STORAGE_BF16))
        return -100;
    for (uint32_t i = 0; i < N; i++) {
        float want = bf16_to_f32(f32_to_bf16(addend(0, i, 0)));
        for (uint32_t r = 1; r < m->place.tp; r++)
            want += bf16_to_f32(f32_to_bf16(addend(r, i, 0)));
        if (x[i] != f32_to_bf16(want))
            return -101;
    }
    return 0;
}

/* Nobody has met the others before all are there. */
static int meet_work(struct member *m) {
    return atomic_load(&arrived) == (int)(m->place.tp * m->place.pp) ? 0 : -100;
}

TEST(as_many_ranks_meet_as_there_may_be) {
    static struct crew crew = {.late_ms = 20};
    const struct comm_meeting at = {.id = {1, 2}};
    arrived = 0;
    EXPECT_EQ(crew_run_at(&crew, at, 8, COMM_RANKS_MAX / 8, meet_work), 0);
    arrived = 0;
    EXPECT_EQ(crew_run_at(&crew, at, 1, COMM_RANKS_MAX - 1, meet_work), 0);
}

TEST(half_sums_are_rounded_once) {
    static struct crew crew;
    EXPECT_EQ(crew_run(&crew, 3, 1, sum_half_work), 0);
}

/* ---- gathers ---- */

static int gather_work(struct member *m) {
    static const size_t BYTES[TP_MAX] = {5, 600000, 0, 262144};
    char *mine = malloc(600000), *all[TP_MAX];
    int bad = 0;
    for (uint32_t r = 0; r < TP_MAX; r++)
        all[r] = calloc(1, BYTES[r] + 1);
    for (int round = 0; round < 3 && !bad; round++) {
        memset(mine, 'a' + (int)m->place.rank + round, 600000);
        if (comm_gather(m->comm, mine, (void *const *)all, BYTES))
            bad = -100;
        for (uint32_t r = 0; r < TP_MAX && m->place.rank == 0; r++)
            for (size_t i = 0; i < BYTES[r]; i++)
                if (all[r][i] != (char)('a' + (int)r + round))
                    bad = -101;
    }
    for (uint32_t r = 0; r < TP_MAX; r++)
        free(all[r]);
    free(mine);
    return bad;
}

TEST(gathers_uneven_parts_at_rank_0) {
    static struct crew crew;
    EXPECT_EQ(crew_run(&crew, TP_MAX, 1, gather_work), 0);
}

/* ---- stages and records ---- */

enum { STEPS = 60 };

static void fill(char *p, size_t n, uint32_t step, uint32_t rank) {
    for (size_t i = 0; i < n; i++)
        p[i] = (char)(i * 7 + step * 13 + rank * 31);
}
static size_t bytes_of_step(uint32_t step) {
    return step % 5 == 4 ? 3 * CHANNEL + 17 : 100 * step + 1;
}

/* Plans are numbered by 64 bits. */
static uint64_t number_of_step(uint32_t step) {
    return (uint64_t)(step + 1) << 58 | step;
}

static int check_record(struct member *m, bool wait, uint32_t step) {
    uint32_t tokens[RECORDS_MAX], status[RECORDS_MAX];
    struct comm_record record = {.tokens = tokens, .status = status};
    int rc = comm_read(m->comm, wait, &record);
    if (rc <= 0)
        return rc;
    if (record.plan_number != number_of_step(step) || record.count != step % RECORDS_MAX)
        return -102;
    for (uint32_t i = 0; i < record.count; i++)
        if (tokens[i] != step + i || status[i] != i)
            return -103;
    return 1;
}

static int pipeline_work(struct member *m) {
    char *got = malloc(4 * CHANNEL), *want = malloc(4 * CHANNEL);
    uint32_t tokens[RECORDS_MAX], status[RECORDS_MAX], taken = 0;
    bool last = m->place.stage + 1 == m->place.pp, sampler = last && m->place.rank == 0;
    int rc = 0;
    for (uint32_t step = 0; step < STEPS && rc >= 0; step++) {
        size_t n = bytes_of_step(step);
        fill(want, n, step, m->place.rank);
        if (m->place.stage)
            rc = comm_receive(m->comm, got, n);
        if (!rc && m->place.stage && memcmp(got, want, n))
            rc = -101;
        if (!rc && !last)
            rc = comm_send(m->comm, want, n);
        for (uint32_t i = 0; i < RECORDS_MAX; i++)
            tokens[i] = step + i, status[i] = i;
        struct comm_record record = {number_of_step(step), step % RECORDS_MAX, tokens, status};
        if (!rc && sampler)
            rc = comm_post(m->comm, &record);
        /* The others read late, but never fall behind by more than a replica's plans in flight. */
        while (rc >= 0 && !sampler && taken + 4 < step)
            rc = check_record(m, true, taken++);
        rc = MIN(rc, 0);
    }
    while (rc >= 0 && !sampler && taken < STEPS)
        rc = check_record(m, true, taken++);
    free(got);
    free(want);
    return MIN(rc, 0);
}

TEST(stages_pass_bytes_in_order_and_tokens_come_back) {
    static struct crew crew;
    EXPECT_EQ(crew_run(&crew, 1, 2, pipeline_work), 0);
    EXPECT_EQ(crew_run(&crew, 1, PP_MAX, pipeline_work), 0);
    EXPECT_EQ(crew_run(&crew, 2, 2, pipeline_work), 0);
}

/* ---- giving up ---- */

static int lonely_work(struct member *m) {
    float x = 1;
    if (m->place.rank == 1) {
        sleep_ms(50);
        atomic_store(&m->crew->stop, true);
        return 0;
    }
    return comm_sum(m->comm, &x, 1, STORAGE_F32);
}

TEST(a_wait_ends_when_told_to_stop) {
    static struct crew crew;
    int64_t start_ms = clock_ms();
    EXPECT_EQ(crew_run(&crew, 2, 1, lonely_work), ERR_CLOSED);
    EXPECT(clock_ms() - start_ms < 10000);
}

static int leaving_work(struct member *m) {
    float x = 1;
    if (m->place.rank == 1) {
        comm_free(&m->comm);
        return 0;
    }
    int rc = comm_sum(m->comm, &x, 1, STORAGE_F32);
    struct error err;
    if (comm_failed(m->comm, &err) != rc)
        return -100;
    return rc == comm_sum(m->comm, &x, 1, STORAGE_F32) ? rc : -101; /* and stays so */
}

TEST(a_rank_that_leaves_ends_the_others_waits) {
    static struct crew crew;
    EXPECT_EQ(crew_run(&crew, 3, 1, leaving_work), ERR_CLOSED);
}

TEST(ranks_that_disagree_do_not_meet) {
    struct crew crew = {.memory = segment_new(2, 1)};
    struct comm_config config = config_of(&crew, (struct comm_place){0, 2, 0, 1});
    struct error err;
    struct comm *a = NULL, *b = NULL;
    config.form_ms = 30;
    EXPECT_EQ(comm_form(&a, &config, &err), ERR_TIMEOUT);
    config.place.rank = 1;
    config.record_max--;
    EXPECT_EQ(comm_form(&b, &config, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "different sizes"));
    free(crew.memory);
}

/* ---- processes ---- */

static int form_process(struct u128 id, uint32_t rank, struct comm **out) {
    struct error err;
    struct comm_config config = {.place = {rank, 2, 0, 1},
                                 .at = {.id = id},
                                 .channel_bytes = CHANNEL,
                                 .record_max = RECORDS_MAX,
                                 .form_ms = 20000,
                                 .timeout_ms = 400};
    return comm_form(out, &config, &err);
}

static bool name_is_left(struct u128 id) {
    char hex[U128_TEXT_MAX], path[96];
    u128_text(id, hex);
    snprintf(path, sizeof path, "/dev/shm/trireme-%s", hex);
    return access(path, F_OK) == 0;
}

static int names_left(void) {
    int count = 0;
    DIR *dir = opendir("/dev/shm");
    for (const struct dirent *e; dir && (e = readdir(dir));)
        count += !strncmp(e->d_name, "trireme-", 8);
    if (dir)
        closedir(dir);
    return count;
}

/* In a process that may not make files as large as the segment: the ranks would never meet. */
TEST(memory_that_is_not_to_be_had_is_known_before) {
    struct comm_config config = {
        .place = {0, 2, 0, 1}, .channel_bytes = CHANNEL, .record_max = RECORDS_MAX};
    struct error err = {0};
    int status = 0;
    EXPECT_EQ(comm_check(&config, &err), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit least = {1 << 16, 1 << 16};
        struct u128 id = random_u128();
        struct comm *c = NULL;
        signal(SIGXFSZ, SIG_IGN);
        bool limited = !setrlimit(RLIMIT_FSIZE, &least);
        int checked = comm_check(&config, &err);
        bool says = strstr(err.text, "shared memory for the ranks") != NULL;
        int formed = form_process(id, 0, &c);
        _exit(limited && checked < 0 && says && formed < 0 && !name_is_left(id) ? 0 : 1);
    }
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    int before = names_left();
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(comm_check(&config, &err), 0);
    EXPECT(names_left() < before + 20); /* others may come and go meanwhile */
}

TEST(processes_meet_in_a_segment_that_leaves_no_name) {
    struct u128 id = random_u128();
    struct comm *c = NULL;
    pid_t child = fork();
    if (child == 0) {
        float x = 2;
        int rc = form_process(id, 1, &c);
        if (!rc)
            rc = comm_sum(c, &x, 1, STORAGE_F32);
        if (!rc)
            kill(getpid(), SIGKILL); /* no farewell */
        _exit(1);
    }
    float x = 40;
    int status = 0;
    EXPECT_EQ(form_process(id, 0, &c), 0);
    EXPECT_EQ(comm_sum(c, &x, 1, STORAGE_F32), 0);
    EXPECT(x == 42);
    EXPECT(!name_is_left(id));
    waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status));
    /* nobody tells: the wait's own limit */
    EXPECT_EQ(comm_sum(c, &x, 1, STORAGE_F32), ERR_TIMEOUT);
    comm_free(&c);
}
