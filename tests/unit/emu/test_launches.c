/* Every operation on steps of more rows than a grid may be high (65 535): launches are checked, not
 * run. */
#include "rig.h"

void emu_set_dry(bool dry);
void emu_set_device(int arch, int compiled);

enum { MANY = 70000, WIDTH = 64, HEADS = 4, EXPERTS = 8, TOP = 8 };

static struct rig r;
static void *memory; /* nothing of it is read */
static struct step_batch batch;
static struct kv_view kv;

/* The operation fits; names it otherwise. */
static void fits(const char *name) {
    if (event_done(r.event) >= 0)
        return;
    check_fail(__FILE__, __LINE__, "%s: %s", name, emu_failure());
    rig_close(&r);
    emu_recover();
    exit(1);
}

static void begin(enum storage_type act) {
    r = rig_open(act);
    memory = rig_alloc(&r, 1 << 20);
    batch = (struct step_batch){.row_count = MANY,
                                .slots = memory,
                                .positions = memory,
                                .ids = memory,
                                .run_count = 2,
                                .runs = memory};
    kv = (struct kv_view){.base = memory,
                          .block_stride = 1 << 16,
                          .type = act,
                          .block_tokens = 32,
                          .kv_heads = HEADS,
                          .head_dim = WIDTH,
                          .block_count = 8,
                          .tables = memory,
                          .max_blocks = 4};
    emu_set_dry(true);
}
static void end(void) {
    emu_set_dry(false);
    rig_close(&r);
}

static struct matrix matrix_of(enum storage_type type) {
    return (struct matrix){.type = type,
                           .rows = WIDTH,
                           .cols = WIDTH,
                           .segment_count = 1,
                           .segments = {{.data = memory, .rows = WIDTH}}};
}

TEST(products_and_attention_take_any_number_of_rows) {
    static const enum storage_type WEIGHTS[] = {STORAGE_F32, STORAGE_BF16, STORAGE_Q8_0};
    for (size_t t = 0; t < ARRAY_LEN(TYPES); t++) {
        begin(TYPES[t]);
        const struct ops *ops = r.dev->ops;
        for (uint32_t output = 0; output < 2; output++) {
            for (size_t i = 0; i < ARRAY_LEN(WEIGHTS); i++) {
                const struct matrix w = matrix_of(WEIGHTS[i]);
                ops->linear(r.stream, &(struct op_linear){.out = memory,
                                                          .x = memory,
                                                          .w = &w,
                                                          .rows = 5 * MANY,
                                                          .class_rows = output * 5 * MANY,
                                                          .out_stride = WIDTH});
                fits("linear");
                const struct matrix head = {.type = WEIGHTS[i],
                                            .rows = 300000,
                                            .cols = WIDTH,
                                            .segment_count = 1,
                                            .segments = {{.data = memory, .rows = 300000}}};
                ops->linear(r.stream, &(struct op_linear){.out = memory,
                                                          .x = memory,
                                                          .w = &head,
                                                          .rows = 9,
                                                          .class_rows = output * 9,
                                                          .out_stride = 300000,
                                                          .out_f32 = true});
                fits("linear of a large vocabulary");
            }
            for (int soft_cap = 0; soft_cap < 2; soft_cap++) {
                ops->attention(r.stream, &(struct op_attention){.out = memory,
                                                                .qkv = memory,
                                                                .heads = HEADS * 2,
                                                                .scale = 1,
                                                                .soft_cap = (float)soft_cap,
                                                                .class_rows = output * MANY,
                                                                .kv = &kv,
                                                                .batch = &batch,
                                                                .scratch = memory});
                fits("attention");
            }
        }
        end();
    }
}

TEST(row_operations_take_any_number_of_rows) {
    begin(STORAGE_BF16);
    const struct ops *ops = r.dev->ops;
    const struct matrix plain = matrix_of(STORAGE_BF16), packed = matrix_of(STORAGE_Q8_0);
    const struct expert_plan plan = {memory, memory, memory, memory, memory};
    ops->embed(r.stream, &(struct op_embed){memory, &plain, &batch, 1, 0});
    fits("embed");
    ops->embed(r.stream, &(struct op_embed){memory, &packed, &batch, 1, 0});
    fits("embed, packed");
    ops->rmsnorm(r.stream,
                 &(struct op_rmsnorm){
                     .out = memory, .x = memory, .weight = memory, .rows = MANY, .width = WIDTH});
    fits("rmsnorm");
    ops->rope_angles(r.stream, &(struct op_rope_angles){memory, memory, 32, 1, &batch, false});
    fits("rope_angles");
    ops->rope_kv(r.stream,
                 &(struct op_rope_kv){memory, memory, 32, false, HEADS, &kv, &batch, NULL});
    fits("rope_kv");
    ops->scale_queries(r.stream, &(struct op_scale_queries){memory, WIDTH, WIDTH, 1, 1, 0, &batch});
    fits("scale_queries");
    ops->act_mul(r.stream, &(struct op_act_mul){memory, memory, MANY, WIDTH, ACTIVATION_SILU});
    fits("act_mul");
    ops->gather_rows(r.stream, &(struct op_gather_rows){memory, memory, memory, MANY, WIDTH, 0});
    fits("gather_rows");
    ops->expert_gather(
        r.stream, &(struct op_expert_gather){memory, memory, &plan, MANY, TOP, WIDTH, true, NULL});
    fits("expert_gather");
    ops->expert_combine(
        r.stream,
        &(struct op_expert_combine){
            .out = memory, .y = memory, .plan = &plan, .rows = MANY, .top_k = TOP, .width = WIDTH});
    fits("expert_combine");
    ops->clamped_swiglu(r.stream,
                        &(struct op_clamped_swiglu){memory, memory, MANY * TOP, WIDTH, true, 1, 1});
    fits("clamped_swiglu");
    const struct router router = {.experts = EXPERTS, .top_k = TOP};
    ops->route(r.stream, &(struct op_route){&plan, &router, memory, NULL, MANY});
    fits("route");
    const struct {
        enum storage_type type;
        bool packed;
    } experts[] = {{STORAGE_BF16, false}, {STORAGE_Q8_0, false}, {STORAGE_Q8_0, true}};
    for (size_t i = 0; i < ARRAY_LEN(experts); i++) {
        const struct expert_matrix w = {.type = experts[i].type,
                                        .rows = WIDTH,
                                        .cols = WIDTH,
                                        .expert_count = EXPERTS,
                                        .experts = memory,
                                        .packed = experts[i].packed};
        ops->expert_linear(r.stream,
                           &(struct op_expert_linear){memory, memory, &w, &plan, MANY, TOP, NULL});
        fits("expert_linear");
    }
    struct kv_view latents = kv;
    latents.kv_heads = 1;
    ops->latent_write(r.stream, &(struct op_latent_write){.q = memory,
                                                          .q_rope = memory,
                                                          .kv = memory,
                                                          .heads = HEADS,
                                                          .rank = WIDTH - 16,
                                                          .rope = 16,
                                                          .q_stride = 16,
                                                          .view = &latents,
                                                          .batch = &batch});
    fits("latent_write");
    ops->latent_attention(r.stream, &(struct op_latent_attention){memory, memory, HEADS, WIDTH - 16,
                                                                  1, &latents, &batch});
    fits("latent_attention");
    ops->rows->sum_addends(r.stream,
                           &(struct op_sum_addends){memory, memory, 3, (size_t)MANY * 8192, false});
    fits("sum_addends");
    for (int transposed = 0; transposed < 2; transposed++)
        for (int i = 0; i < 2; i++) {
            ops->head_linear(
                r.stream, &(struct op_head_linear){memory, memory, i ? &packed : &plain, MANY, 1,
                                                   WIDTH, 0, WIDTH, WIDTH, WIDTH, transposed != 0});
            fits("head_linear");
        }
    end();
}

TEST(the_lesser_row_operations_take_any_number_of_rows) {
    begin(STORAGE_BF16);
    const struct row_ops *rows = r.dev->ops->rows;
    const struct state_ops *state = r.dev->ops->state;
    const struct matrix plain = matrix_of(STORAGE_BF16);
    rows->layernorm(
        r.stream, &(struct op_layernorm){
                      .out = memory, .x = memory, .weight = memory, .rows = MANY, .width = WIDTH});
    fits("layernorm");
    rows->head_norm(r.stream, &(struct op_head_norm){.x = memory,
                                                     .weight = memory,
                                                     .rows = MANY,
                                                     .stride = WIDTH,
                                                     .heads = 1,
                                                     .width = WIDTH});
    fits("head_norm");
    rows->row_squares(r.stream, &(struct op_row_squares){memory, memory, MANY, WIDTH, WIDTH, 1});
    fits("row_squares");
    rows->activate(r.stream, &(struct op_activate){memory, memory, MANY, WIDTH, ACTIVATION_GELU});
    fits("activate");
    rows->add_positions(r.stream, &(struct op_add_positions){memory, &plain, 0, &batch});
    fits("add_positions");
    rows->clamp(r.stream, &(struct op_clamp){memory, MANY, WIDTH, 1});
    fits("clamp");
    rows->finish_logits(r.stream, &(struct op_finish_logits){memory, MANY, WIDTH, 1, 0});
    fits("finish_logits");
    state->softplus(r.stream,
                    &(struct op_softplus){memory, memory, NULL, MANY, WIDTH, WIDTH, 0, 1});
    fits("softplus");
    state->block_linear(r.stream, &(struct op_block_linear){.out = memory,
                                                            .x = memory,
                                                            .weight = memory,
                                                            .rows = MANY,
                                                            .blocks = 1,
                                                            .inputs = WIDTH,
                                                            .cols = WIDTH,
                                                            .in_stride = WIDTH});
    fits("block_linear");
    state->group_norm(r.stream, &(struct op_group_norm){.out = memory,
                                                        .x = memory,
                                                        .weight = memory,
                                                        .rows = MANY,
                                                        .width = WIDTH,
                                                        .group = WIDTH,
                                                        .in_stride = WIDTH,
                                                        .out_stride = WIDTH});
    fits("group_norm");
    state->gate(r.stream, &(struct op_gate){.out = memory,
                                            .gate = memory,
                                            .rows = MANY,
                                            .width = WIDTH,
                                            .gate_stride = WIDTH,
                                            .out_stride = WIDTH});
    fits("gate");
    state->lerp(r.stream, &(struct op_lerp){memory, memory, memory, NULL, MANY, WIDTH});
    fits("lerp");
    end();
}

/* Decode rows as a busy server has them, on the GPUs that have the least shared memory. */
TEST(attention_fits_the_shared_memory_of_every_architecture) {
    static const int ARCHS[] = {80, 86, 89, 90, 100, 120};
    static const uint32_t DIMS[] = {64, 80, 128, 192, 256}, ROWS[] = {1, 1900, 4096, 9000};
    for (size_t i = 0; i < ARRAY_LEN(ARCHS); i++) {
        emu_set_device(ARCHS[i], 80);
        begin(STORAGE_BF16);
        for (size_t d = 0; d < ARRAY_LEN(DIMS) * ARRAY_LEN(ROWS) * 2; d++) {
            char name[80];
            kv.head_dim = DIMS[d / 2 / ARRAY_LEN(ROWS)];
            batch.row_count = ROWS[d / 2 % ARRAY_LEN(ROWS)];
            snprintf(name, sizeof name, "sm_%d, %u rows of %u", ARCHS[i], batch.row_count,
                     kv.head_dim);
            r.dev->ops->attention(r.stream,
                                  &(struct op_attention){.out = memory,
                                                         .qkv = memory,
                                                         .heads = HEADS,
                                                         .scale = 1,
                                                         .class_rows = d % 2 * batch.row_count,
                                                         .kv = &kv,
                                                         .batch = &batch,
                                                         .scratch = memory});
            fits(name);
        }
        end();
    }
    emu_set_device(90, 90);
}
