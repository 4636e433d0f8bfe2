/*
 * bench_gpu - what the kernels and whole models reach of a GPU, one line of JSON a figure.
 *
 *     bench_gpu probe                                 the device, or what is missing (exit code 3)
 *     bench_gpu ceilings                              memory bandwidth and matrix rate
 *     bench_gpu kernels                               each operation in percent of them
 *     bench_gpu weights SHAPE FOLDER                  writes the random weights of a shape
 *     bench_gpu model SHAPE FOLDER BATCHES@CONTEXT    decode, e.g. 1,8,32@1024
 *     bench_gpu model SHAPE FOLDER prefill
 *
 * TRIREME_STEP and TRIREME_COMMIT name the step and the commit in each line. On the emulated device
 * everything runs in small and its figures mean nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "gpu_bench.h"

enum { EXIT_NO_DEVICE = 3 };

static int probe(void) {
    struct device_options options = {.kind = "cuda", .activation = STORAGE_BF16};
    struct device *dev = NULL;
    struct error err;
    if (device_open(&options, &dev, &err)) {
        printf("no device: %s\n", err.text);
        return EXIT_NO_DEVICE;
    }
    printf("%s|%s|%s|%llu\n", dev->kind == DEVICE_EMULATED ? "emulated" : "cuda", dev->name,
           dev->isa, (unsigned long long)(dev->memory_bytes >> 30));
    device_close(&dev);
    return 0;
}

static int write_weights(const char *shape, const char *folder) {
    struct error err;
    for (int i = 0; i < RANDOM_SHAPE_COUNT; i++) {
        if (strcmp(RANDOM_SHAPES[i].name, shape))
            continue;
        if (!random_model_write(&RANDOM_SHAPES[i], folder, &err))
            return 0;
        return fprintf(stderr, "bench_gpu: %s\n", err.text), 1;
    }
    return fprintf(stderr, "bench_gpu: no shape '%s'\n", shape), 1;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "probe", *step = getenv("TRIREME_STEP");
    struct bench b;
    struct error err;
    int rc = 0;
    if (!strcmp(command, "probe"))
        return probe();
    if (!strcmp(command, "weights") && argc == 4)
        return write_weights(argv[2], argv[3]);
    if (bench_open(&b, step ? step : command, !strcmp(command, "ceilings"), &err))
        return fprintf(stderr, "bench_gpu: %s\n", err.text), EXIT_NO_DEVICE;
    if (!strcmp(command, "kernels"))
        rc = bench_kernels(&b);
    else if (!strcmp(command, "model") && argc == 5)
        rc = bench_model(&b, argv[2], argv[3], argv[4]);
    else if (strcmp(command, "ceilings"))
        rc = (fprintf(stderr, "bench_gpu: probe, ceilings, kernels, weights or model\n"), 2);
    bench_close(&b);
    return rc;
}
