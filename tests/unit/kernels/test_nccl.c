/* Opening NCCL: what is missing is said, and nothing else happens. Its calls are tested end to end
 * on the emulated device (tests/e2e/test_ranks_gpu.py). */
#include "check.h"
#include "kernels/nccl.h"

TEST(a_library_that_is_not_there_is_named) {
    const struct nccl_calls *calls;
    struct error err;
    EXPECT_EQ(nccl_open("/nowhere/libnccl.so.2", &calls, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "/nowhere/libnccl.so.2") && strstr(err.text, "--nccl"));
}

TEST(another_library_is_not_taken_for_it) {
    const struct nccl_calls *calls;
    struct error err;
    EXPECT_EQ(nccl_open("libc.so.6", &calls, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "ncclGetVersion"));
}

TEST(activations_have_a_number_there) {
    EXPECT_EQ(nccl_type_of(STORAGE_F32), NCCL_FLOAT32);
    EXPECT_EQ(nccl_type_of(STORAGE_F16), NCCL_FLOAT16);
    EXPECT_EQ(nccl_type_of(STORAGE_BF16), NCCL_BFLOAT16);
}
