/*
 * scale_queries.cu - queries scaled by their position (kernels/ops.h: op_scale_queries). One value
 * a thread; the factor is made in f32, the product rounded once to the activation type.
 */
#include "kernels/cuda/cuda_device.cuh"

template <int A>
static __global__ void scale_queries_kernel(typename values<A>::raw *x, uint32_t stride,
                                            uint32_t width, float scale, float floor_scale,
                                            float offset, const uint32_t *positions) {
    dependents_launch();
    dependency_wait();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x, position = positions[blockIdx.x];
    if (i >= width || position == (uint32_t)ROW_NONE)
        return;
    typename values<A>::raw *at = x + (size_t)blockIdx.x * stride + i;
    const float factor = 1.0f + scale * log1pf(floorf(((float)position + offset) / floor_scale));
    values<A>::set(at, values<A>::get(at) * factor);
}

void cuda_scale_queries(struct stream *s, const struct op_scale_queries *a) {
    if (!a->batch->row_count)
        return;
    launch_shape shape = {dim3(a->batch->row_count, blocks_for(a->width, 256)), dim3(256), 0,
                          device_of(s)->dependent_launch};
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(scale_queries_kernel<A>, shape, cuda_stream_of(s),
                           (typename values<A>::raw *)a->x, a->stride, a->width, a->scale,
                           a->floor_scale, a->offset, a->batch->positions));
}
