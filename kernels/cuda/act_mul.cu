/*
 * act_mul.cu - gated activation (kernels/ops.h: op_act_mul): out[t, i] = f(gate_up[t, i]) *
 * gate_up[t, width + i], f = silu or tanh-gelu, in f32, rounded once.
 *
 * One value a thread, 256 a block. Cost: 3 * width * sizeof(act) bytes a row. Tolerance: expf's 2
 * ulp and the rounding of the activation type.
 */
#include "kernels/cuda/activate.cuh"

template <int A, int ACTIVATION>
static __global__ void act_mul_kernel(typename values<A>::raw *out,
                                      const typename values<A>::raw *gate_up, uint32_t width) {
    dependents_launch();
    dependency_wait();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
    const typename values<A>::raw *gate = gate_up + (size_t)blockIdx.x * 2 * width;
    if (i < width)
        values<A>::set(out + (size_t)blockIdx.x * width + i,
                       activate(ACTIVATION, values<A>::get(gate + i)) *
                           values<A>::get(gate + width + i));
}

#define ACT_MUL_CASE(kind)                                                                         \
    case kind:                                                                                     \
        LAUNCH((act_mul_kernel<A, kind>), shape, cuda_stream_of(s), (raw *)a->out,                 \
               (const raw *)a->gate_up, a->width);                                                 \
        break

template <int A> static void act_mul(struct stream *s, const struct op_act_mul *a) {
    typedef typename values<A>::raw raw;
    launch_shape shape = {dim3(a->rows, blocks_for(a->width, 256)), dim3(256), 0,
                          device_of(s)->dependent_launch};
    switch (a->activation) {
        ACT_MUL_CASE(ACTIVATION_SILU);
        ACT_MUL_CASE(ACTIVATION_GELU_TANH);
        ACT_MUL_CASE(ACTIVATION_GELU);
        ACT_MUL_CASE(ACTIVATION_GELU_QUICK);
        ACT_MUL_CASE(ACTIVATION_RELU);
        ACT_MUL_CASE(ACTIVATION_RELU2);
    default: CHECK_MSG(false, "activation %d", (int)a->activation);
    }
}

void cuda_act_mul(struct stream *s, const struct op_act_mul *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A, act_mul<A>(s, a));
}
