/*
 * device.cu - a GPU behind kernels/device.h: memory, streams, events, graphs, and the table of
 * operations.
 *
 * The first error stays (cuda_note) and is what event_done and event_wait report from then on; the
 * process ends and is restarted. All calls are made by one thread. Opening registers nothing and
 * loads nothing but cudart, which is linked in; a machine without a driver gets ERR_UNSUPPORTED
 * with the driver's own words.
 */
#include <cstdio>
#include <cstdlib>
#include <new>
#include <unistd.h>

#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/ptx.cuh"

void cuda_note(struct cuda_stream *s, cudaError_t e, const char *what) {
    struct cuda_device *cuda = (struct cuda_device *)s->base.dev;
    if (e == cudaSuccess || cuda->failure != cudaSuccess)
        return;
    (void)cudaGetLastError(); /* libraries ask for it, and would take it for their own */
    if (s->recording) {
        s->spoilt = true;
        return;
    }
    cuda->failure = e;
    snprintf(cuda->failure_text, sizeof cuda->failure_text, "%s: %s", what, cudaGetErrorString(e));
    fprintf(stderr, "CUDA device failed: %s\n", cuda->failure_text);
}

static struct cuda_device *cuda_of(struct device *dev) {
    return (struct cuda_device *)dev;
}

/* Calls from a thread that never chose a device would go to the first one. */
static void choose(struct device *dev) {
    (void)cudaSetDevice(cuda_of(dev)->ordinal);
}

/* ---- memory ---- */

static void *cuda_alloc(struct device *dev, size_t size) {
    void *p = NULL;
    choose(dev);
    if (cudaMalloc(&p, size ? size : 1) == cudaSuccess)
        return p;
    (void)cudaGetLastError(); /* running out is not a failure of the device */
    return NULL;
}

static void cuda_free(struct device *dev, void *p) {
    choose(dev);
    (void)cudaFree(p);
}

static void *cuda_alloc_host(struct device *dev, size_t size) {
    void *p = NULL;
    choose(dev);
    if (cudaHostAlloc(&p, size ? size : 1, cudaHostAllocDefault) == cudaSuccess)
        return p;
    (void)cudaGetLastError();
    return NULL;
}

static void cuda_free_host(struct device *dev, void *p) {
    choose(dev);
    (void)cudaFreeHost(p);
}

/* ---- streams ---- */

static void cuda_stream_free(struct stream *base) {
    struct cuda_stream *s = cuda_stream_of(base);
    if (s->handle)
        (void)cudaStreamSynchronize(s->handle);
    for (int i = 0; i < RING_CHUNKS; i++)
        if (s->ring_done[i])
            (void)cudaEventDestroy(s->ring_done[i]);
    if (s->ring)
        (void)cudaFreeHost(s->ring);
    if (s->arrivals)
        (void)cudaFree(s->arrivals);
    if (s->handle)
        (void)cudaStreamDestroy(s->handle);
    mem_free(s);
}

static struct stream *cuda_stream_new(struct device *dev) {
    struct cuda_stream *s = (struct cuda_stream *)mem_alloc(sizeof *s);
    choose(dev);
    s->base.dev = dev;
    cudaError_t e = cudaStreamCreateWithFlags(&s->handle, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaHostAlloc((void **)&s->ring, RING_CHUNKS * (size_t)RING_CHUNK_BYTES,
                          cudaHostAllocDefault);
    for (int i = 0; i < RING_CHUNKS && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&s->ring_done[i], cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&s->arrivals, ARRIVALS_MAX * sizeof *s->arrivals);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(s->arrivals, 0, ARRIVALS_MAX * sizeof *s->arrivals, s->handle);
    cuda_note(s, e, "making a stream");
    return &s->base;
}

/* `size` bytes of the ring, size <= RING_CHUNK_BYTES. Waits for the copies out of a chunk that is
 * entered again. */
static unsigned char *take_ring(struct cuda_stream *s, size_t size) {
    if (s->ring_used + size > RING_CHUNK_BYTES) {
        cuda_note(s, cudaEventRecord(s->ring_done[s->ring_chunk], s->handle),
                  "copying to the device");
        s->ring_chunk = (s->ring_chunk + 1) % RING_CHUNKS;
        s->ring_used = 0;
        cuda_note(s, cudaEventSynchronize(s->ring_done[s->ring_chunk]), "copying to the device");
    }
    unsigned char *at = s->ring + s->ring_chunk * (size_t)RING_CHUNK_BYTES + s->ring_used;
    s->ring_used += (size + 15) / 16 * 16;
    return at;
}

static void cuda_copy_in(struct stream *base, void *to, const void *host, size_t size) {
    struct cuda_stream *s = cuda_stream_of(base);
    if (s->recording) { /* a launch would bring the old bytes again: no graph comes of it */
        s->spoilt = true;
        return;
    }
    s->kernel_last = false;
    for (size_t done = 0; done < size && device_of(base)->failure == cudaSuccess;) {
        size_t chunk = MIN(size - done, (size_t)RING_CHUNK_BYTES);
        unsigned char *at = take_ring(s, chunk);
        memcpy(at, (const char *)host + done, chunk);
        cuda_note(s,
                  cudaMemcpyAsync((char *)to + done, at, chunk, cudaMemcpyHostToDevice, s->handle),
                  "copying to the device");
        done += chunk;
    }
}

static void cuda_copy_out(struct stream *base, void *host, const void *from, size_t size) {
    struct cuda_stream *s = cuda_stream_of(base);
    if (!size || device_of(base)->failure != cudaSuccess)
        return;
    s->kernel_last = false;
    cuda_note(s, cudaMemcpyAsync(host, from, size, cudaMemcpyDeviceToHost, s->handle),
              "copying from the device");
}

static void cuda_fill(struct stream *base, void *to, int byte, size_t size) {
    struct cuda_stream *s = cuda_stream_of(base);
    if (!size || device_of(base)->failure != cudaSuccess)
        return;
    s->kernel_last = false;
    cuda_note(s, cudaMemsetAsync(to, byte, size, s->handle), "filling");
}

/* Copies and waits, so that the host's bytes may go. */
static const void *cuda_import(struct device *dev, const void *host, size_t size) {
    struct cuda_device *cuda = cuda_of(dev);
    void *p = cuda_alloc(dev, size);
    if (!p)
        return NULL;
    if (!cuda->loading)
        cuda->loading = cuda_stream_of(cuda_stream_new(dev));
    cuda_copy_in(&cuda->loading->base, p, host, size);
    cuda_note(cuda->loading, cudaStreamSynchronize(cuda->loading->handle), "copying to the device");
    return p;
}

static void cuda_unimport(struct device *dev, const void *p) {
    cuda_free(dev, (void *)p);
}

/* ---- events ---- */

static struct event *cuda_event_new(struct device *dev) {
    struct cuda_event *e = (struct cuda_event *)mem_alloc(sizeof *e);
    choose(dev);
    e->base.dev = dev;
    if (cudaEventCreateWithFlags(&e->handle, cudaEventDisableTiming) != cudaSuccess)
        e->handle = NULL;
    return &e->base;
}

static void cuda_event_free(struct event *base) {
    struct cuda_event *e = (struct cuda_event *)base;
    if (e->handle)
        (void)cudaEventDestroy(e->handle);
    mem_free(e);
}

static void cuda_event_record(struct event *base, struct stream *s) {
    cuda_stream_of(s)->kernel_last = false;
    cuda_note(cuda_stream_of(s),
              cudaEventRecord(((struct cuda_event *)base)->handle, cuda_stream_of(s)->handle),
              "recording an event");
}

/* The sticky state as a return value; remembers an error that a query has brought up. */
static int done_or_failed(struct cuda_device *cuda, cudaError_t e) {
    if (e != cudaSuccess && e != cudaErrorNotReady) {
        struct cuda_stream s = {};
        s.base.dev = &cuda->dev;
        cuda_note(&s, e, "waiting");
    }
    return cuda->failure != cudaSuccess ? ERR_CLOSED : e == cudaErrorNotReady ? 0 : 1;
}

static int cuda_event_done(struct event *base) {
    struct cuda_device *cuda = cuda_of(base->dev);
    if (cuda->failure != cudaSuccess)
        return ERR_CLOSED;
    return done_or_failed(cuda, cudaEventQuery(((struct cuda_event *)base)->handle));
}

static int cuda_event_wait(struct event *base) {
    struct cuda_device *cuda = cuda_of(base->dev);
    if (cuda->failure != cudaSuccess)
        return ERR_CLOSED;
    int rc = done_or_failed(cuda, cudaEventSynchronize(((struct cuda_event *)base)->handle));
    return rc < 0 ? rc : 0;
}

/* ---- graphs ---- */

static bool cuda_graph_begin(struct stream *base) {
    struct cuda_stream *s = cuda_stream_of(base);
    if (device_of(base)->failure != cudaSuccess)
        return false;
    s->spoilt = s->kernel_last = false;
    s->recording =
        cudaStreamBeginCapture(s->handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    if (!s->recording)
        (void)cudaGetLastError();
    return s->recording;
}

/* A graph that cannot be made is not a failure of the device: its work can be put on the stream
 * without. */
static struct graph *cuda_graph_end(struct stream *base) {
    struct cuda_stream *s = cuda_stream_of(base);
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t handle = NULL;
    s->recording = s->kernel_last = false;
    cudaError_t e = cudaStreamEndCapture(s->handle, &recorded);
    if (e == cudaSuccess && s->spoilt)
        e = cudaErrorStreamCaptureUnsupported;
    if (e == cudaSuccess)
        e = cudaGraphInstantiate(&handle, recorded, 0);
    if (recorded)
        (void)cudaGraphDestroy(recorded);
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA device: a graph could not be made: %s\n", cudaGetErrorString(e));
        (void)cudaGetLastError();
        return NULL;
    }
    struct cuda_graph *g = (struct cuda_graph *)mem_alloc(sizeof *g);
    g->base.dev = base->dev;
    g->handle = handle;
    return &g->base;
}

static void cuda_graph_launch(struct stream *base, struct graph *g) {
    struct cuda_stream *s = cuda_stream_of(base);
    if (device_of(base)->failure != cudaSuccess)
        return;
    s->kernel_last = false;
    cuda_note(s, cudaGraphLaunch(((struct cuda_graph *)g)->handle, s->handle), "launching a graph");
}

static void cuda_graph_free(struct graph *g) {
    choose(g->dev);
    (void)cudaGraphExecDestroy(((struct cuda_graph *)g)->handle);
    mem_free(g);
}

/* ---- opening ---- */

static uint64_t cuda_memory_free(struct device *dev) {
    size_t free_bytes = 0, total = 0;
    choose(dev);
    return cudaMemGetInfo(&free_bytes, &total) == cudaSuccess ? free_bytes : 0;
}

static void cuda_close(struct device *dev) {
    struct cuda_device *cuda = cuda_of(dev);
    choose(dev);
    if (cuda->loading)
        cuda_stream_free(&cuda->loading->base);
    (void)cudaDeviceSynchronize();
    blas_close(cuda);
    (void)cudaFree(cuda->pack_scratch);
    mem_free(cuda);
}

static int cuda_supports(enum storage_type weights, enum storage_type kv, uint32_t block_tokens,
                         uint32_t head_dim, struct error *err) {
    (void)weights;
    if (!storage_is_plain(kv) && kv != STORAGE_F8_E4M3 && kv != STORAGE_I8)
        return error_set(err, ERR_UNSUPPORTED,
                         "CUDA stores keys and values as f32, f16, bf16, fp8 or int8, not %s",
                         storage_name(kv));
    if (block_tokens < 16 || ATTENTION_SPLIT % block_tokens)
        return error_set(err, ERR_UNSUPPORTED,
                         "a block of %u tokens; CUDA needs 16, 32, 64, 128 or 256", block_tokens);
    if (head_dim == 0 || head_dim > 256)
        return error_set(err, ERR_UNSUPPORTED, "head size %u; CUDA computes 1 to 256", head_dim);
    return 0;
}

static void *cuda_native_stream(struct stream *s) {
    return cuda_stream_of(s)->handle;
}

static struct device_calls make_calls(void) {
    struct device_calls c;
    c.close = cuda_close;
    c.alloc = cuda_alloc;
    c.free = cuda_free;
    c.alloc_host = cuda_alloc_host;
    c.free_host = cuda_free_host;
    c.import = cuda_import;
    c.unimport = cuda_unimport;
    c.stream_new = cuda_stream_new;
    c.stream_free = cuda_stream_free;
    c.copy_in = cuda_copy_in;
    c.copy_out = cuda_copy_out;
    c.fill = cuda_fill;
    c.event_new = cuda_event_new;
    c.event_free = cuda_event_free;
    c.event_record = cuda_event_record;
    c.event_done = cuda_event_done;
    c.event_wait = cuda_event_wait;
    c.graph_begin = cuda_graph_begin;
    c.graph_end = cuda_graph_end;
    c.graph_launch = cuda_graph_launch;
    c.graph_free = cuda_graph_free;
    c.memory_free = cuda_memory_free;
    c.native_stream = cuda_native_stream;
    return c;
}

static struct ops make_ops(void) {
    struct ops o = {};
    o.name = "cuda";
    o.prepare = cuda_prepare;
    o.embed = cuda_embed;
    o.rmsnorm = cuda_rmsnorm;
    o.linear = cuda_linear;
    o.linear_scratch = cuda_linear_scratch;
    o.packed_bytes = cuda_packed_bytes;
    o.pack = cuda_pack;
    o.packs_experts = cuda_packs_experts;
    o.gates = cuda_gates;
    o.folds_norm = cuda_folds_norm;
    o.folds_rope = cuda_folds_rope;
    o.norms_heads = true;
    o.folds_experts = true;
    o.gates_experts = cuda_gates_experts;
    o.rope_angles = cuda_rope_angles;
    o.rope_kv = cuda_rope_kv;
    o.attention = cuda_attention;
    o.scale_queries = cuda_scale_queries;
    o.act_mul = cuda_act_mul;
    o.gather_rows = cuda_gather_rows;
    o.kv_copy = cuda_kv_copy;
    o.route = cuda_route;
    o.expert_gather = cuda_expert_gather;
    o.expert_linear = cuda_expert_linear;
    o.expert_combine = cuda_expert_combine;
    o.clamped_swiglu = cuda_clamped_swiglu;
    o.head_linear = cuda_head_linear;
    o.latent_write = cuda_latent_write;
    o.latent_attention = cuda_latent_attention;
    o.latent_layer_bytes = cuda_latent_layer_bytes;
    o.sample = cuda_sample;
    o.state = &cuda_state_ops;
    o.rows = &cuda_row_ops;
    o.peers = &cuda_peer_ops;
    o.kv_layer_bytes = cuda_kv_layer_bytes;
    o.attention_scratch = cuda_attention_scratch;
    o.sample_scratch = cuda_sample_scratch;
    o.supports = cuda_supports;
    return o;
}

static const struct device_calls CUDA_CALLS = make_calls();
static const struct ops CUDA_OPS = make_ops();

static int activation_of(const struct device_options *options, enum storage_type *out,
                         struct error *err) {
    const char *name = getenv("TRIREME_ACTIVATION");
    *out = options->activation ? options->activation
           : name && *name     ? storage_parse(name)
                               : STORAGE_BF16;
    if (*out != STORAGE_NONE)
        return 0;
    return error_set(err, ERR_INVALID, "TRIREME_ACTIVATION is '%s'; known are f32, f16, bf16",
                     name);
}

/* Who multiplies prompt rows; dev.isa tells, because it decides bits. */
static int choose_gemm(struct cuda_device *cuda, const struct device_options *options,
                       struct error *err) {
    const char *set = getenv("TRIREME_GEMM"), *gemm = options->gemm ? options->gemm
                                                      : set && *set ? set
                                                                    : "own";
    size_t version = 0, used = strlen(cuda->dev.isa);
    if (!strcmp(gemm, "own"))
        return 0;
    if (strcmp(gemm, "cublaslt"))
        return error_set(err, ERR_INVALID, "no products by '%s'; own and cublaslt are known", gemm);
    int rc = blas_open(cuda, &version, err);
    if (!rc)
        snprintf(cuda->dev.isa + used, sizeof cuda->dev.isa - used, "/cublaslt%zu", version);
    return rc;
}

/* What activations become before products; dev.compute tells. Types that are for CPUs count as f32. */
static int choose_compute(struct cuda_device *cuda, const struct device_options *options,
                          struct error *err) {
    const char *compute = options->compute ? options->compute : "";
    if (strcmp(compute, "fp8") && strcmp(compute, "fp8-prompts"))
        return 0;
    if (!cuda->hopper || cuda->dev.activation_type == STORAGE_F32)
        return error_set(err, ERR_UNSUPPORTED,
                         "compute type '%s' needs a GPU of compute capability 9.0 and activations "
                         "in bf16 or f16; '%s' has %d.%d with %s",
                         compute, cuda->dev.name, cuda->arch / 10, cuda->arch % 10,
                         storage_name(cuda->dev.activation_type));
    cuda->dev.compute = strcmp(compute, "fp8") ? COMPUTE_FP8_PROMPTS : COMPUTE_FP8;
    return 0;
}

/* Which kernel attends to the rows of prompts on a Hopper GPU: TRIREME_PROMPT_ATTENTION is wgmma (the
 * default) or mma, that of older GPUs. dev.isa tells, because it decides bits. */
static int choose_prompt_attention(struct cuda_device *cuda, struct error *err) {
    const char *set = getenv("TRIREME_PROMPT_ATTENTION");
    const size_t used = strlen(cuda->dev.isa);
    const bool mma = set && !strcmp(set, "mma");
    if (set && *set && !mma && strcmp(set, "wgmma"))
        return error_set(err, ERR_INVALID, "TRIREME_PROMPT_ATTENTION is '%s'; known are wgmma, mma",
                         set);
    cuda->prompt_wgmma = cuda->hopper && !mma;
    if (cuda->hopper && mma)
        snprintf(cuda->dev.isa + used, sizeof cuda->dev.isa - used, "/mma");
    return 0;
}

static __global__ void probe_kernel() {
    dependency_wait();
}

/* What the kernels were compiled for, as tens; 0: they cannot be had. */
static int compiled_for() {
    cudaFuncAttributes a = {};
    if (cudaFuncGetAttributes(&a, (const void *)probe_kernel) == cudaSuccess)
        return a.ptxVersion;
    (void)cudaGetLastError();
    return 0;
}

/* griddepcontrol is there in code compiled for sm_90 and later. A newer GPU without code of its own
 * runs what the driver translates from PTX of compute_80, where dependency_wait is nothing. What
 * is there for 9.0 is compiled for sm_90a, which runs on 9.0 alone. */
static int use_kernels(struct cuda_device *cuda, struct error *err) {
    const int compiled = compiled_for();
    cuda->dependent_launch = compiled >= 90;
    cuda->hopper = compiled == 90 && cuda->arch == 90;
    if (cudaMalloc(&cuda->pack_scratch, PACK_SCRATCH_BYTES) == cudaSuccess)
        return 0;
    return error_set(err, ERR_MEMORY, "the GPU has no %zu bytes free", PACK_SCRATCH_BYTES);
}

/* A product's block makes 128 features of 256 rows: with 16 rows an SM the narrowest products of 8B
 * (4096 features) have two blocks for each. 512, 1024 or 2048. */
static uint32_t cuda_step_tokens(int sm_count) {
    uint32_t rows = DEVICE_STEP_TOKENS;
    while (rows < 2048 && rows * 2 <= 16 * (uint32_t)sm_count)
        rows *= 2;
    return rows;
}

static int cuda_device_open(const struct device_options *options, struct device **out,
                            struct error *err) {
    int count = 0;
    enum storage_type activation;
    cudaDeviceProp prop;
    int rc = activation_of(options, &activation, err);
    if (rc)
        return rc;
    cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaSuccess && count < 1)
        return error_set(err, ERR_UNSUPPORTED, "this machine has no GPU");
    int ordinal = e == cudaSuccess ? options->ordinal % count : 0;
    if (e == cudaSuccess)
        e = cudaSetDevice(ordinal);
    if (e == cudaSuccess)
        e = cudaGetDeviceProperties(&prop, ordinal);
    if (e != cudaSuccess)
        return error_set(err, ERR_UNSUPPORTED, "no GPU can be used: %s", cudaGetErrorString(e));
    if (prop.major < 8)
        return error_set(err, ERR_UNSUPPORTED,
                         "'%s' has compute capability %d.%d; 8.0 and later work", prop.name,
                         prop.major, prop.minor);
    struct cuda_device *cuda = (struct cuda_device *)mem_alloc(sizeof *cuda);
    cuda->ordinal = ordinal;
    cuda->sm_count = prop.multiProcessorCount;
    cuda->arch = prop.major * 10 + prop.minor;
    cuda->shared_max = prop.sharedMemPerBlockOptin;
    cuda->dev.calls = &CUDA_CALLS;
    cuda->dev.ops = &CUDA_OPS;
    cuda->dev.kind = DEVICE_CUDA;
#ifdef TRIREME_EMULATED
    cuda->dev.kind = DEVICE_EMULATED;
    cuda->dev.unit = (uint64_t)getpid(); /* each process emulates one of its own */
#endif
#ifndef TRIREME_EMULATED
    cuda->dev.unit = 1 + ((uint64_t)(uint32_t)prop.pciDomainID << 32 |
                          (uint32_t)(prop.pciBusID << 8 | prop.pciDeviceID));
#endif
    cuda->dev.thread_count = 1;
    cuda->dev.step_tokens = cuda_step_tokens(cuda->sm_count);
    cuda->dev.memory_bytes = prop.totalGlobalMem;
    cuda->dev.activation_type = activation;
    int used = snprintf(cuda->dev.name, sizeof cuda->dev.name, "%.40s", prop.name);
    if (count > 1)
        snprintf(cuda->dev.name + used, sizeof cuda->dev.name - (size_t)used, ", GPU %d of %d",
                 ordinal, count);
    snprintf(cuda->dev.isa, sizeof cuda->dev.isa, "sm_%d/%s", cuda->arch, storage_name(activation));
    rc = use_kernels(cuda, err);
    if (!rc)
        rc = choose_gemm(cuda, options, err);
    if (!rc)
        rc = choose_compute(cuda, options, err);
    if (!rc)
        rc = choose_prompt_attention(cuda, err);
    if (rc)
        cuda_close(&cuda->dev);
    else
        *out = &cuda->dev;
    return rc;
}

/* Linking this file makes the kind known. */
__attribute__((constructor)) static void register_cuda(void) {
    device_register("cuda", cuda_device_open);
}
