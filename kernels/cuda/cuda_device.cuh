/*
 * cuda_device.cuh - what the .cu files share of the device: its handle, streams, the sticky error,
 * and views of ops.h's structs as kernels take them.
 */
#ifndef KERNELS_CUDA_CUDA_DEVICE_CUH
#define KERNELS_CUDA_CUDA_DEVICE_CUH

#include "kernels/cuda/values.cuh"

struct cuda_stream;

/* Weights on their way into tiles: 64 rows of up to 65 536 values at least. */
enum : size_t { PACK_SCRATCH_BYTES = 8u << 20 };

struct cuda_device {
    struct device dev;
    int ordinal, sm_count, arch; /* arch: 80, 86, 89, 90 */
    size_t shared_max;           /* bytes of shared memory a block may have */
    bool dependent_launch;       /* launches may be chained: the kernels know how to wait */
    bool hopper;                 /* code of sm_90a runs: linear_hopper.cu */
    bool prompt_wgmma;           /* attention_prompt_hopper.cu; else attention_prompt.cu */
    void *pack_scratch;          /* PACK_SCRATCH_BYTES */
    cudaError_t failure;         /* sticky */
    char failure_text[256];
    struct cuda_stream *loading; /* of import; made when first needed */
    /* linear_blas.cu; NULL: prompt rows are multiplied by our own kernels */
    struct cuda_blas *blas;
};

/* Host bytes reach the device by a pinned ring, so that the caller's memory is free when copy_in
 * returns. The ring is cut into chunks; one is used again when the copies out of it are done. */
enum { RING_CHUNKS = 4, RING_CHUNK_BYTES = 1 << 20 };
/* Counts of blocks that have done their part of something (attention_decode.cu). */
enum { ARRIVALS_MAX = 1 << 16 };

struct cuda_stream {
    struct stream base;
    cudaStream_t handle;
    unsigned char *ring;
    cudaEvent_t ring_done[RING_CHUNKS];
    unsigned ring_chunk;
    size_t ring_used; /* bytes of that chunk */
    /* [ARRIVALS_MAX], noughts between kernels. Of the stream a graph was recorded on, which is not
     * launched on two at once */
    uint32_t *arrivals;
    bool recording;   /* between graph_begin and graph_end */
    bool spoilt;      /* something was asked for that cannot be recorded, or failed */
    bool kernel_last; /* what was put on it last is a kernel of ours */
};
struct cuda_graph {
    struct graph base;
    cudaGraphExec_t handle;
};
struct cuda_event {
    struct event base;
    cudaEvent_t handle;
};

/* Sets cuda->blas, even where it fails; blas_close releases it. */
int blas_open(struct cuda_device *cuda, size_t *version, struct error *err);
void blas_close(struct cuda_device *cuda);

static inline struct cuda_device *device_of(const struct stream *s) {
    return (struct cuda_device *)s->dev;
}
static inline struct cuda_stream *cuda_stream_of(struct stream *s) {
    return (struct cuda_stream *)s;
}
/* Keeps the first error; event_done and event_wait report it. While a graph is recorded an error
 * spoils the graph alone: the work is then put on the stream without. */
void cuda_note(struct cuda_stream *s, cudaError_t e, const char *what);

/* Of a launch that may begin early: it does behind a kernel only. Behind a fill, a copy or a
 * library's work an early begin is not promised to wait for them, least of all within a graph. */
static inline launch_shape behind_last(struct cuda_stream *s, launch_shape shape) {
    shape.dependent = shape.dependent && s->kernel_last;
    s->kernel_last = true;
    return shape;
}

/* ops.h's structs hold pointers to structs; kernels get copies of these by value. */
struct batch_view {
    uint32_t row_count, output_count;
    const uint32_t *ids, *slots, *positions;
};
static inline struct batch_view batch_view_of(const struct step_batch *b) {
    return {b->row_count, b->output_count, b->ids, b->slots, b->positions};
}

/* Rows lie along a grid's x: y and z end at 65 535. Blocks for `items` threads of work, 256 threads each. */
static inline unsigned blocks_for(uint64_t items, unsigned threads) {
    return (unsigned)((items + threads - 1) / threads);
}

#define STORAGE_CASE(type, A, body)                                                                \
    case type: {                                                                                   \
        constexpr int A = type;                                                                    \
        body;                                                                                      \
        break;                                                                                     \
    }
/* Calls body with A as enum storage_type constant of an activation type. */
#define WITH_ACTIVATION(type, A, body)                                                             \
    do {                                                                                           \
        switch (type) {                                                                            \
            STORAGE_CASE(STORAGE_F32, A, body)                                                     \
            STORAGE_CASE(STORAGE_F16, A, body)                                                     \
            STORAGE_CASE(STORAGE_BF16, A, body)                                                    \
        default: CHECK_MSG(false, "activation type %d", (int)(type));                              \
        }                                                                                          \
    } while (0)

void cuda_prepare(struct stream *s, const struct op_prepare *a);
void cuda_embed(struct stream *s, const struct op_embed *a);
void cuda_rmsnorm(struct stream *s, const struct op_rmsnorm *a);
void cuda_linear(struct stream *s, const struct op_linear *a);
size_t cuda_linear_scratch(const struct device *dev, uint32_t rows, uint32_t cols);
size_t cuda_packed_bytes(const struct device *dev, const struct matrix *w, uint32_t chunk);
bool cuda_packs_experts(const struct device *dev, const struct matrix *experts, uint32_t count);
bool cuda_gates(const struct device *dev, const struct matrix *w, enum activation activation);
bool cuda_folds_norm(const struct device *dev, const struct matrix *w, uint32_t rows);
bool cuda_folds_rope(const struct device *dev, const struct matrix *w,
                     const struct op_rope_kv *rope);
/* Whether products with w can push their out (op_linear.push). */
bool cuda_pushes(const struct device *dev, const struct matrix *w, uint32_t rows);
/* Whether they can add all ranks' up, to the residual. */
bool cuda_adds_up(const struct device *dev, const struct matrix *w, uint32_t rows);
void cuda_pack(struct stream *s, const struct matrix *w, uint32_t segment, void *out);
void cuda_rope_angles(struct stream *s, const struct op_rope_angles *a);
void cuda_rope_kv(struct stream *s, const struct op_rope_kv *a);
void cuda_attention(struct stream *s, const struct op_attention *a);
void cuda_scale_queries(struct stream *s, const struct op_scale_queries *a);
void cuda_act_mul(struct stream *s, const struct op_act_mul *a);
void cuda_gather_rows(struct stream *s, const struct op_gather_rows *a);
void cuda_kv_copy(struct stream *s, const struct op_kv_copy *a);
void cuda_route(struct stream *s, const struct op_route *a);
void cuda_expert_gather(struct stream *s, const struct op_expert_gather *a);
void cuda_expert_linear(struct stream *s, const struct op_expert_linear *a);
/* The same of weights in units (packed.cuh). */
void expert_linear_packed(struct stream *s, const struct op_expert_linear *a);
/* By tensor cores where weights and rows are of one 16-bit type (expert_mma.cu); false: they are not, nothing is done. */
bool expert_linear_mma(struct stream *s, const struct op_expert_linear *a);
bool cuda_gates_experts(const struct device *dev, const struct expert_matrix *w,
                        const struct expert_gate *gate);
/* The sum with the residual's addition, and its norm, behind it (expert_norm.cu). */
void expert_combine_norm(struct stream *s, const struct op_expert_combine *a);
void cuda_expert_combine(struct stream *s, const struct op_expert_combine *a);
void cuda_clamped_swiglu(struct stream *s, const struct op_clamped_swiglu *a);
void cuda_head_linear(struct stream *s, const struct op_head_linear *a);
void cuda_latent_write(struct stream *s, const struct op_latent_write *a);
void cuda_latent_attention(struct stream *s, const struct op_latent_attention *a);
size_t cuda_latent_layer_bytes(enum storage_type type, uint32_t block_tokens, uint32_t width);
void cuda_sample(struct stream *s, const struct op_sample *a);
extern const struct state_ops cuda_state_ops;
extern const struct row_ops cuda_row_ops;
extern const struct peer_ops cuda_peer_ops;
size_t cuda_attention_scratch(const struct device *dev, uint32_t row_count, uint32_t heads,
                              uint32_t head_dim, uint32_t max_context);
size_t cuda_sample_scratch(const struct device *dev, uint32_t sample_count, uint32_t vocab_size);
size_t cuda_kv_layer_bytes(enum storage_type type, uint32_t block_tokens, uint32_t kv_heads,
                           uint32_t head_dim);

#endif
