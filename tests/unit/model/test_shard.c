/*
 * Models divided among ranks, each on a thread of its own: every golden of tests/goldens/models
 * gives the logits of the whole, whatever is divided, uneven or computed by all; stages alone
 * change no bit.
 *
 * TRIREME_GOLDEN=NAME runs one golden.
 */
#include <pthread.h>

#include "golden.h"
#include "model/run/layer_kinds.h"

/* Rounding through a few layers, as in test_families. */
static const double TOLERANCE = 1e-4;
enum { RANKS_MAX = 4 };

/* ---- ranks as threads ---- */

struct channel {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *data; /* one message at a time */
};
struct team {
    uint32_t tp, pp;
    pthread_barrier_t barriers[RANKS_MAX]; /* of each stage */
    const void *parts[RANKS_MAX][RANKS_MAX];
    struct channel channels[RANKS_MAX][RANKS_MAX];
};
struct member {
    struct team *team;
    struct shard shard;
    struct rig rig;
    const struct model_golden *golden;
    float *logits; /* of rank 0 of the last stage */
    pthread_t thread;
    uint32_t norms; /* asked for */
    /* what is to follow the last product that was asked whom it gives its out to */
    struct op_rmsnorm asked;
    bool was_asked;
    uint32_t pushes; /* asked for */
};

static void on_sum(void *ctx, struct stream *s, void *x, uint32_t rows, uint32_t width,
                   enum storage_type type) {
    struct member *m = ctx;
    size_t count = (size_t)rows * width;
    struct team *t = m->team;
    pthread_barrier_t *barrier = &t->barriers[m->shard.stage];
    float *sum = calloc(count + 1, sizeof *sum), *out = x;
    t->parts[m->shard.stage][m->shard.rank] = x;
    pthread_barrier_wait(barrier);
    for (uint32_t r = 0; r < t->tp; r++)
        for (size_t i = 0; i < count; i++)
            sum[i] += ((const float *)t->parts[m->shard.stage][r])[i];
    pthread_barrier_wait(barrier);
    memcpy(out, sum, count * sizeof *sum);
    free(sum);
}

static void on_gather(void *ctx, struct stream *s, float *all, size_t stride, const float *part,
                      uint32_t rows) {
    struct member *m = ctx;
    struct team *t = m->team;
    t->parts[m->shard.stage][m->shard.rank] = part;
    pthread_barrier_wait(&t->barriers[m->shard.stage]);
    for (uint32_t r = 0; r < t->tp && m->shard.rank == 0; r++) {
        struct shard at = {.rank = r, .tp = t->tp};
        struct shard_range own = shard_vocab(&at, m->rig.model.spec.vocab);
        for (uint32_t i = 0; i < rows; i++)
            memcpy(all + i * stride + own.first,
                   (const float *)t->parts[m->shard.stage][r] + (size_t)i * own.count,
                   own.count * sizeof *all);
    }
    pthread_barrier_wait(&t->barriers[m->shard.stage]);
}

static void on_send(void *ctx, struct stream *s, const float *x, size_t count) {
    struct member *m = ctx;
    struct channel *c = &m->team->channels[m->shard.stage][m->shard.rank];
    pthread_mutex_lock(&c->lock);
    while (c->data)
        pthread_cond_wait(&c->changed, &c->lock);
    c->data = malloc(count * sizeof(float) + 1);
    memcpy(c->data, x, count * sizeof(float));
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void on_receive(void *ctx, struct stream *s, float *x, size_t count) {
    struct member *m = ctx;
    struct channel *c = &m->team->channels[m->shard.stage - 1][m->shard.rank];
    pthread_mutex_lock(&c->lock);
    while (!c->data)
        pthread_cond_wait(&c->changed, &c->lock);
    memcpy(x, c->data, count * sizeof(float));
    free(c->data);
    c->data = NULL;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Every other norm is left to the model: with the sum before it, the result is the same. */
static bool on_norm(void *ctx, struct stream *s, const struct op_rmsnorm *norm, bool pushed) {
    struct member *m = ctx;
    const struct op_rmsnorm *asked = &m->asked;
    if (m->was_asked &&
        (norm->out != asked->out || norm->x != asked->x || norm->delta != asked->delta ||
         norm->weight != asked->weight || norm->rows != asked->rows || norm->width != asked->width))
        check_fail(__FILE__, __LINE__, "another norm follows than the product was asked for");
    m->was_asked = false;
    if (++m->norms % 2)
        return false;
    on_sum(ctx, s, (void *)(uintptr_t)norm->delta, norm->rows, norm->width,
           m->rig.dev->activation_type);
    m->rig.dev->ops->rmsnorm(s, norm);
    return true;
}

/* None can; what would follow is kept. */
static struct peers *on_pushes(void *ctx, const struct op_rmsnorm *norm, const struct matrix *w) {
    struct member *m = ctx;
    if (m->was_asked)
        check_fail(__FILE__, __LINE__, "no norm has followed the product before");
    m->asked = *norm;
    m->was_asked = true;
    m->pushes++;
    return NULL;
}

static struct peers *on_adds(void *ctx, struct stream *s, const struct matrix *w, uint32_t rows) {
    return NULL;
}

static const struct rank_calls CALLS = {.sum = on_sum,
                                        .norm = on_norm,
                                        .pushes = on_pushes,
                                        .adds = on_adds,
                                        .gather = on_gather,
                                        .send = on_send,
                                        .receive = on_receive};

static void team_init(struct team *t, uint32_t tp, uint32_t pp) {
    *t = (struct team){.tp = tp, .pp = pp};
    for (uint32_t i = 0; i < RANKS_MAX; i++) {
        if (pthread_barrier_init(&t->barriers[i], NULL, tp))
            abort();
        for (uint32_t k = 0; k < RANKS_MAX; k++) {
            pthread_mutex_init(&t->channels[i][k].lock, NULL);
            pthread_cond_init(&t->channels[i][k].changed, NULL);
        }
    }
}

static void team_release(struct team *t) {
    for (uint32_t i = 0; i < RANKS_MAX; i++) {
        pthread_barrier_destroy(&t->barriers[i]);
        for (uint32_t k = 0; k < RANKS_MAX; k++) {
            pthread_mutex_destroy(&t->channels[i][k].lock);
            pthread_cond_destroy(&t->channels[i][k].changed);
        }
    }
}

static void *member_main(void *arg) {
    struct member *m = arg;
    m->logits = golden_logits(&m->rig, m->golden->tokens, m->golden->token_count, 3, 0);
    return NULL;
}

/* Layers that two ranks divided, of each kind; norms of Mamba 2 within ranks and across, of all
 * heads across. */
static uint32_t mixers[MIXER_KIND_COUNT], ffns[FFN_KIND_COUNT], norms[2], head_norms, asked_pushes;

static void count_divided(const struct model_spec *own) {
    for (uint32_t i = 0; i < own->layer_count; i++) {
        const struct layer_spec *l = &own->layers[i];
        mixers[l->mixer] += l->mixer_partial;
        ffns[l->ffn.kind] += l->ffn_partial;
        if (l->mixer == MIXER_MAMBA2 && l->mixer_partial)
            norms[l->recurrent.ssm.norm_width != 0]++;
        head_norms += l->attention.norm_heads != 0;
    }
}

/* Every kind that is built is divided somewhere, or the goldens above say nothing of it. */
static void expect_all_divided(void) {
    for (int k = 1; k < MIXER_KIND_COUNT; k++)
        if (MIXERS[k] && !mixers[k])
            check_fail(__FILE__, __LINE__, "no golden divides %s", MIXERS[k]->name);
    for (int k = 1; k < FFN_KIND_COUNT; k++)
        if (FFNS[k] && !ffns[k])
            check_fail(__FILE__, __LINE__, "no golden divides %s", FFNS[k]->name);
    EXPECT(norms[0] && norms[1] && head_norms && asked_pushes);
}

/* Logits of all positions, in chunks of 1, 2, 3, ...; NULL: refused, *why says for what. */
static float *divided_logits(const struct model_golden *g, const char *dir, uint32_t tp,
                             uint32_t pp, struct error *why) {
    static struct member members[RANKS_MAX];
    static struct team team;
    uint32_t count = tp * pp, open = 0;
    float *out = NULL;
    team_init(&team, tp, pp);
    for (; open < count; open++) {
        struct member *m = &members[open];
        *m = (struct member){.team = &team, .golden = g};
        m->shard = (struct shard){.rank = open % tp, .tp = tp, .stage = open / tp, .pp = pp};
        if (!rig_open_part(&m->rig, dir, NULL, 1, STORAGE_F32, 16, count > 1 ? &m->shard : NULL,
                           why))
            break;
        m->rig.forward.ranks = &CALLS;
        m->rig.forward.ranks_ctx = m;
        if (tp == 2 && open == 1)
            count_divided(&m->rig.model.spec);
    }
    bool all = open == count;
    if (!all)
        rig_close(&members[open].rig);
    for (uint32_t i = 0; i < count && all; i++)
        if (pthread_create(&members[i].thread, NULL, member_main, &members[i]))
            abort();
    for (uint32_t i = 0; i < count && all; i++)
        pthread_join(members[i].thread, NULL);
    for (uint32_t i = 0; i < open; i++) {
        if (all && i == (pp - 1) * tp)
            out = members[i].logits;
        else
            free(members[i].logits);
        asked_pushes += members[i].pushes;
        rig_close(&members[i].rig);
    }
    team_release(&team);
    return out;
}

/* ---- goldens ---- */

static const uint32_t SHAPES[][2] = {{2, 1}, {3, 1}, {1, 2}, {2, 2}};
static uint32_t served, refused;

static void check_shape(const struct model_golden *g, const char *dir, uint32_t tp, uint32_t pp,
                        const float *whole) {
    struct error err = {0};
    float *logits = divided_logits(g, dir, tp, pp, &err);
    if (!logits) {
        refused++;
        printf("# %s tp %u pp %u: %s\n", g->name, tp, pp, err.text);
        if (err.code != ERR_UNSUPPORTED)
            check_fail(__FILE__, __LINE__, "%s tp %u pp %u: %s", g->name, tp, pp, err.text);
        return;
    }
    served++;
    double error = golden_error(logits, g->logits, g->rows, g->row_count, g->vocab);
    if (!(error <= TOLERANCE))
        check_fail(__FILE__, __LINE__, "%s tp %u pp %u: error %.3g", g->name, tp, pp, error);
    if (tp == 1 && memcmp(logits, whole, (size_t)g->token_count * g->vocab * sizeof *logits))
        check_fail(__FILE__, __LINE__, "%s pp %u: other bits than the whole", g->name, pp);
    free(logits);
}

static void check_golden(const char *path) {
    struct model_golden g;
    char dir[] = "/tmp/trm-shard-XXXXXX";
    struct error err = {0};
    const char *only = getenv("TRIREME_GOLDEN");
    if (!model_golden_read(&g, path) || !mkdtemp(dir)) {
        check_fail(__FILE__, __LINE__, "cannot read %s", path);
        return;
    }
    if (!only || !strcmp(only, g.name)) {
        float *whole =
            golden_put_model(&g, dir, STORAGE_F32) ? divided_logits(&g, dir, 1, 1, &err) : NULL;
        if (!whole)
            check_fail(__FILE__, __LINE__, "%s: %s", g.name, err.text);
        for (size_t i = 0; i < ARRAY_LEN(SHAPES) && whole; i++)
            check_shape(&g, dir, SHAPES[i][0], SHAPES[i][1], whole);
        free(whole);
    }
    golden_drop_dir(dir);
    model_golden_free(&g);
}

TEST(divided_models_give_the_logits_of_the_whole) {
    const char *folder = TRIREME_SOURCE_DIR "/tests/goldens/models";
    DIR *d = opendir(folder);
    EXPECT(d);
    served = refused = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, ".json"))
            continue;
        char *path = path_join(folder, e->d_name);
        check_golden(path);
        mem_free(path);
    }
    closedir(d);
    printf("# %u shapes served, %u refused\n", served, refused);
    if (getenv("TRIREME_GOLDEN"))
        return;
    EXPECT(served >= 8);
    expect_all_divided();
}

/* ---- scales ---- */

/* The bundled model, quantized with a scale a row and with groups along the columns: both halves of
 * each layer are divided, and give the logits of the whole. */
TEST(quantized_matrices_are_divided_between_their_groups) {
    static const enum storage_type TYPES[] = {STORAGE_F8_E4M3, STORAGE_I8, STORAGE_U4};
    enum { TOKENS = 24 };
    uint32_t tokens[TOKENS], rows[TOKENS];
    struct model_golden g = {
        .name = "demo", .tokens = tokens, .token_count = TOKENS, .vocab = 3072};
    const char *dir = TRIREME_SOURCE_DIR "/demo/model";
    rig_slots = 4;
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[rows[i] = i] = (uint32_t)(check_random() % 3000);
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        struct error err = {0};
        struct rig r;
        struct shard half = {.rank = 1, .tp = 2};
        rig_quantize = TYPES[i];
        EXPECT(rig_open_part(&r, dir, NULL, 1, STORAGE_F32, 16, &half, &err));
        for (uint32_t k = 0; k < r.model.spec.layer_count; k++)
            EXPECT(r.model.spec.layers[k].mixer_partial && r.model.spec.layers[k].ffn_partial);
        rig_close(&r);
        float *whole = divided_logits(&g, dir, 1, 1, &err),
              *halves = divided_logits(&g, dir, 2, 1, &err);
        double error =
            whole && halves ? golden_error(halves, whole, rows, TOKENS, g.vocab) : INFINITY;
        if (!(error <= TOLERANCE))
            check_fail(__FILE__, __LINE__, "%s: error %.3g %s", storage_name(TYPES[i]), error,
                       err.text);
        free(whole);
        free(halves);
    }
    rig_quantize = STORAGE_NONE;
    rig_slots = RIG_SLOTS;
}

/* ---- cuts ---- */

TEST(cuts_cover_everything_once) {
    for (uint32_t total = 1; total < 700; total += 13)
        for (uint32_t count = 1; count <= 9; count++) {
            uint32_t at = 0;
            for (uint32_t i = 0; i < count; i++) {
                struct shard_range r = shard_cut(total, 64, i, count);
                EXPECT_EQ(r.first, at);
                if (total >= 64 * count)
                    EXPECT(r.first % 64 == 0 && r.count);
                EXPECT(r.count || total < count);
                at += r.count;
            }
            EXPECT_EQ(at, total);
        }
}

/* What a rank's own spec has of four layers, and what cannot be divided so. */
TEST(ranks_have_their_own_layers_heads_and_width) {
    static const struct {
        struct shard s;
        uint32_t vocab, layers, first, heads, width; /* layers 0: it cannot be */
        const char *why;
    } ROWS[] = {
        {{.tp = 1, .pp = 1}, 2, 4, 0, 4, 128, NULL},
        {{.tp = 1, .pp = 2}, 2, 2, 0, 4, 128, NULL},
        {{.tp = 1, .pp = 2, .stage = 1}, 2, 2, 2, 4, 128, NULL},
        {{.tp = 1, .pp = 2, .stage = 1, .stage_layers = {3, 1}}, 2, 1, 3, 4, 128, NULL},
        {{.tp = 1, .pp = 2, .stage_layers = {3, 2}}, 2, 0, 0, 0, 0, "the stages have 5 layers"},
        {{.tp = 1, .pp = 2, .stage_layers = {2, 1}}, 2, 0, 0, 0, 0, "the stages have 3 layers"},
        {{.tp = 1, .pp = 4, .stage = 3}, 2, 1, 3, 4, 128, NULL},
        {{.tp = 1, .pp = 5}, 2, 0, 0, 0, 0, "5 stages are too many for 4 layers"},
        {{.tp = 1, .pp = 2, .stage = 1, .stage_layers = {4, 0}}, 2, 0, 0, 0, 0, "too many"},
        {{.tp = 2, .rank = 1, .pp = 1}, 2, 4, 0, 2, 64, NULL},
        {{.tp = 2, .pp = 1}, 1, 0, 0, 0, 0, "more ranks than tokens"},
        {{.tp = 4, .rank = 3, .pp = 1}, 4, 4, 0, 1, 32, NULL},
        {{.tp = 5, .pp = 1}, 5, 0, 0, 0, 0, "5 ranks are too many for 4 heads of 4 groups"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct layer_spec layers[4], *all = NULL;
        struct error err = {0};
        for (uint32_t k = 0; k < ARRAY_LEN(layers); k++)
            layers[k] = (struct layer_spec){
                .mixer = MIXER_ATTENTION,
                .attention = {.heads = 4, .kv_heads = 4, .head_dim = 64, .window = k},
                .ffn = {.kind = FFN_GATED, .width = 128}};
        struct model_spec spec = {.vocab = ROWS[i].vocab, .layer_count = 4, .layers = layers};
        int rc = shard_spec(&ROWS[i].s, &spec, &all, &err);
        EXPECT_EQ(rc != 0, ROWS[i].layers == 0);
        if (rc) {
            EXPECT(!all && spec.layers == layers && strstr(err.text, ROWS[i].why));
            continue;
        }
        EXPECT(all == layers && spec.layer_count == ROWS[i].layers);
        EXPECT_EQ(spec.layers[0].attention.window, ROWS[i].first);
        EXPECT_EQ(spec.layers[0].attention.heads, ROWS[i].heads);
        EXPECT_EQ(spec.layers[0].attention.kv_heads, ROWS[i].heads);
        EXPECT_EQ(spec.layers[0].ffn.width, ROWS[i].width);
        EXPECT_EQ(spec.layers[0].mixer_partial, ROWS[i].s.tp > 1);
        EXPECT_EQ(spec.layers[0].ffn_partial, ROWS[i].s.tp > 1);
        mem_free(spec.layers);
    }
}

/* Blocks of 32 or 256 values are not cut; where they would be, every rank computes the whole. */
TEST(what_blocks_do_not_let_divide_is_computed_whole) {
    struct layer_spec layer = {.mixer = MIXER_ATTENTION,
                               .attention = {.heads = 4, .kv_heads = 4, .head_dim = 64},
                               .ffn = {.kind = FFN_GATED, .width = 768}};
    struct model_spec spec = {.layer_count = 1, .layers = &layer};
    static const struct {
        uint32_t tp, block;
        bool mixer, ffn;
    } CASES[] = {{2, 0, true, true},
                 {2, 32, true, true},
                 {2, 256, false, true},
                 {3, 256, false, true},
                 {4, 256, false, false},
                 {4, 64, true, true},
                 {2, UINT32_MAX, false, false},
                 {1, 0, false, false}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        for (uint32_t rank = 0; rank < CASES[i].tp; rank++) { /* all ranks say the same */
            struct shard s = {.rank = rank, .tp = CASES[i].tp, .block = CASES[i].block};
            EXPECT_EQ(shard_divides_mixer(&s, &spec, 0), CASES[i].mixer);
            EXPECT_EQ(shard_divides_ffn(&s, &spec, 0), CASES[i].ffn);
        }
}

TEST(heads_are_divided_with_their_groups) {
    static const uint32_t CASES[][2] = {{4, 4}, {8, 2}, {9, 3}, {6, 1}, {14, 2}, {32, 8}, {71, 1}};
    for (size_t k = 0; k < ARRAY_LEN(CASES); k++) {
        struct attention_spec a = {.heads = CASES[k][0], .kv_heads = CASES[k][1], .head_dim = 64};
        for (uint32_t tp = 1; tp <= 6; tp++) {
            uint32_t at = 0;
            bool possible = true;
            for (uint32_t rank = 0; rank < tp; rank++) {
                struct shard s = {.rank = rank, .tp = tp};
                struct shard_range heads, kv;
                shard_heads(&s, &a, &heads, &kv);
                possible = possible && heads.count;
                if (!possible)
                    break; /* refused by shard_spec */
                EXPECT_EQ(heads.first, at);
                at += heads.count;
                EXPECT(heads.count % kv.count == 0);
                for (uint32_t h = 0; h < heads.count;
                     h++) /* what the kernel takes is what the model means */
                    EXPECT_EQ(kv.first + h / (heads.count / kv.count),
                              (heads.first + h) / (a.heads / a.kv_heads));
            }
            if (possible)
                EXPECT_EQ(at, a.heads);
        }
    }
}

/* Kernels that multiply experts in units of 64 features by 64 columns (kernels/cuda/expert_packed.cu) take every
 * rank's part: gpt-oss, Qwen3-30B-A3B, DeepSeek-V2-Lite, Nemotron 3, Mixtral, and the blocks their files have. */
TEST(parts_of_experts_are_whole_units_of_the_kernels) {
    static const uint32_t WIDTHS[][2] = {
        {2880, 32}, {768, 32}, {1408, 128}, {1856, 0}, {14336, 256}};
    for (size_t k = 0; k < ARRAY_LEN(WIDTHS); k++)
        for (uint32_t tp = 2; tp <= 8; tp++) {
            uint32_t at = 0;
            for (uint32_t rank = 0; rank < tp; rank++) {
                const struct shard s = {.rank = rank, .tp = tp, .block = WIDTHS[k][1]};
                const struct shard_range own = shard_expert(&s, WIDTHS[k][0]);
                EXPECT_EQ(own.first, at);
                EXPECT(own.count > 0 && own.count % 64 == 0);
                at += own.count;
            }
            EXPECT_EQ(at, WIDTHS[k][0]);
        }
}
