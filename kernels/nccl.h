/*
 * nccl.h - NVIDIA's collective library, opened at run time: the few calls used, with declarations
 * of our own.
 *
 * Only sends and receives in groups are used: sums are ours (in rank order), so NCCL's choice of an
 * algorithm decides no bits. Work goes on the stream of a device (device_native_stream).
 * Communicators are non-blocking (2.18 and later): a call may return NCCL_IN_PROGRESS, then
 * async_error tells when it is done.
 *
 * Declarations follow the public nccl.h of 2.18; later versions take an older config by its size
 * and version. A program may bring its own implementation (the emulated device does):
 * nccl_register, before main().
 */
#ifndef KERNELS_NCCL_H
#define KERNELS_NCCL_H

#include "base/error.h"
#include "kernels/types.h"

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_LEAST_VERSION = 21800 };
enum { NCCL_FLOAT16 = 6, NCCL_FLOAT32 = 7, NCCL_BFLOAT16 = 9 };

struct nccl_id {
    char bytes[128];
};
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
};
/* Non-blocking, all else as the library likes it. */
struct nccl_config nccl_config_default(void);

struct nccl_comm; /* the library's */

struct nccl_calls {
    int (*version)(int *version);
    int (*unique_id)(struct nccl_id *id);
    int (*init)(struct nccl_comm **comm, int count, struct nccl_id id, int rank,
                struct nccl_config *config);
    int (*async_error)(struct nccl_comm *comm, int *result);
    int (*abort)(struct nccl_comm *comm);
    const char *(*error_string)(int result);
    int (*send)(const void *data, size_t count, int type, int peer, struct nccl_comm *comm,
                void *stream);
    int (*receive)(void *data, size_t count, int type, int peer, struct nccl_comm *comm,
                   void *stream);
    int (*group_start)(void);
    int (*group_end)(void);
};

/* Calls to be used in place of a library: the emulator's. They live on. Before nccl_open. */
void nccl_register(const struct nccl_calls *calls);
/* Opens the library once: the registered one, else `library`, else libnccl.so.2 where the linker,
 * CUDA_HOME or the Python packages nvidia-nccl have it. ERR_UNSUPPORTED says what was tried. */
MUST_CHECK int nccl_open(const char *library, const struct nccl_calls **out, struct error *err);
/* NCCL's number for an activation type. */
int nccl_type_of(enum storage_type type);

#endif
