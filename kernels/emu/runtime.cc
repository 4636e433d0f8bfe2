/*
 * runtime.cc - streams, events and graphs of the emulator: lists of work that run when the host waits.
 */
#include "kernels/emu/cuda_emu.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "kernels/emu/memory.h"

namespace {

enum class kind { kernel, call, record, wait_event };

struct work {
    kind what = kind::call;
    emu::launch kernel;
    std::shared_ptr<emu::grid> begun; /* of a kernel whose prologue has run */
    std::function<void()> call;
    emu_event *event = nullptr;
    uint64_t event_count = 0;
};

} // namespace

struct emu_graph { std::vector<work> list; };

struct emu_event {
    emu_stream *stream = nullptr; /* of the last record */
    uint64_t recorded = 0, done = 0, asked = 0;
};

struct emu_stream {
    std::deque<work> pending;
    emu_graph *capture = nullptr;
    bool capture_spoilt = false;
};

namespace {

/* Of the process: a device may be opened by one thread and used by another. */
cudaError_t sticky = cudaSuccess, last = cudaSuccess;
std::vector<emu_stream *> streams;
bool dry;
uint64_t launch_count;

cudaError_t remember(cudaError_t e) {
    if (e != cudaSuccess && e != cudaErrorNotReady) last = e;
    return e;
}

bool run_until_event(emu_event *event, uint64_t count);

emu::grid *begin(work *w) {
    if (!w->begun) w->begun = std::make_shared<emu::grid>(w->kernel);
    return w->begun.get();
}

/* The prologues of dependent launches before the kernel ahead of them goes on: of the one behind the first, and of those
 * behind one that let its dependents begin before it waited itself. */
void run_prologues(emu_stream *s) {
    for (size_t i = 1; i < s->pending.size() && !emu::failed(); i++) {
        work *w = &s->pending[i];
        if (w->what != kind::kernel || !w->kernel.dependent) break;
        if (!w->begun) begin(w)->advance(false);
        if (!w->begun->lets_dependents_begin) break;
    }
}

/* Runs the first piece of work of a stream. A kernel that waits for another process stays the first: the host has its
 * turn, as beside a GPU's. */
void run_first(emu_stream *s) {
    if (s->pending.front().what == kind::kernel) {
        run_prologues(s);
        emu::grid *g = emu::failed() ? nullptr : begin(&s->pending.front());
        if (!emu::failed() && !g->advance(true) && g->waits_outside) {
            const timespec pause = {0, 20000};
            nanosleep(&pause, nullptr);
            return;
        }
        s->pending.pop_front();
        if (emu::failed()) sticky = cudaErrorLaunchFailure;
        if (!emu::memory_intact()) sticky = cudaErrorIllegalAddress;
        return;
    }
    work w = std::move(s->pending.front());
    s->pending.pop_front();
    switch (w.what) {
    case kind::kernel: break; /* above */
    case kind::call: w.call(); break;
    case kind::record: w.event->done = w.event_count > w.event->done ? w.event_count : w.event->done; break;
    case kind::wait_event: run_until_event(w.event, w.event_count); break;
    }
}

bool run_until_event(emu_event *event, uint64_t count) {
    while (event->done < count && sticky == cudaSuccess) {
        if (!event->stream || event->stream->pending.empty()) return event->done >= count;
        run_first(event->stream);
    }
    return sticky == cudaSuccess;
}

void drain(emu_stream *s) {
    while (!s->pending.empty() && sticky == cudaSuccess) run_first(s);
}

cudaError_t enqueue(emu_stream *s, work w) {
    if (sticky != cudaSuccess) return remember(sticky);
    if (!s) return remember(cudaErrorInvalidResourceHandle); /* the default stream is not for us */
    if (s->capture && s->capture_spoilt) return remember(cudaErrorStreamCaptureInvalidated);
    if (s->capture) s->capture->list.push_back(std::move(w));
    else s->pending.push_back(std::move(w));
    return cudaSuccess;
}

/* What a stream that is being recorded is not to be asked. */
cudaError_t spoil_capture(emu_stream *s) {
    s->capture_spoilt = true;
    return remember(cudaErrorStreamCaptureUnsupported);
}

} // namespace

/* A dependent launch is recorded behind a kernel only: an edge of that kind leads from kernel to kernel. */
cudaError_t emu_enqueue_kernel(const emu::launch &launch, cudaStream_t stream) {
    if (!emu::launchable(launch)) return remember(cudaErrorInvalidConfiguration);
    launch_count++;
    if (dry) return cudaSuccess;
    if (stream && stream->capture && launch.dependent && (stream->capture->list.empty() || stream->capture->list.back().what != kind::kernel)) {
        fprintf(stderr, "emulator: kernel %s is recorded as dependent on what is no kernel\n", launch.name);
        stream->capture_spoilt = true;
        return remember(cudaErrorInvalidValue);
    }
    work w;
    w.what = kind::kernel;
    w.kernel = launch;
    return enqueue(stream, std::move(w));
}

cudaError_t emu_enqueue_call(const char *, std::function<void()> call, cudaStream_t stream) {
    work w;
    w.call = std::move(call);
    return enqueue(stream, std::move(w));
}

cudaError_t cudaGetDeviceCount(int *count) { *count = 1; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : remember(cudaErrorInvalidValue); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int) {
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "emulated");
    prop->totalGlobalMem = emu::device_memory_total();
    prop->sharedMemPerBlockOptin = emu::emulated.shared_max();
    prop->major = emu::emulated.arch / 10;
    prop->minor = emu::emulated.arch % 10;
    prop->multiProcessorCount = emu::SM_COUNT;
    prop->l2CacheSize = 1 << 20;
    prop->pciDomainID = int(getpid()); /* no two processes have one GPU */
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *) {
    *out = {emu::emulated.compiled, emu::emulated.arch};
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    *free = emu::device_memory_free();
    *total = emu::device_memory_total();
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t e) {
    switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return emu::failure_text();
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorPeerAccessUnsupported: return "peer access is not supported between these two devices";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    default: return "emulated CUDA error";
    }
}
const char *cudaGetErrorName(cudaError_t e) { return e == cudaSuccess ? "cudaSuccess" : "cudaError"; }
cudaError_t cudaGetLastError(void) {
    cudaError_t e = sticky != cudaSuccess ? sticky : last;
    last = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError(void) { return sticky != cudaSuccess ? sticky : last; }

cudaError_t cudaMalloc(void **p, size_t size) {
    *p = emu::device_take(size);
    return *p ? cudaSuccess : remember(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *p) {
    if (!p) return cudaSuccess;
    cudaDeviceSynchronize();
    return emu::device_give(p) ? cudaSuccess : remember(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void **p, size_t size, unsigned) {
    *p = emu::pinned_take(size);
    return *p ? cudaSuccess : remember(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void *p) {
    if (!p) return cudaSuccess;
    cudaDeviceSynchronize();
    return emu::pinned_give(p) ? cudaSuccess : remember(cudaErrorInvalidValue);
}
/* Each process emulates a device of its own, which no other knows by its ordinal. */
cudaError_t cudaDeviceGetByPCIBusId(int *, const char *) { return remember(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = 0;
    return device == 0 && peer == 0 ? cudaSuccess : remember(cudaErrorInvalidDevice);
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p) {
    static_assert(sizeof(emu::export_name) <= sizeof *handle, "");
    emu::export_name name = {};
    cudaDeviceSynchronize();
    if (!emu::device_export(p, &name)) return remember(cudaErrorInvalidValue);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &name, sizeof name);
    return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned) {
    emu::export_name name;
    memcpy(&name, &handle, sizeof name);
    const char *unreachable = getenv("TRIREME_EMU_UNREACHABLE");
    if (unreachable && *unreachable) return remember(cudaErrorPeerAccessUnsupported);
    *p = emu::device_open(name);
    return *p ? cudaSuccess : remember(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaIpcCloseMemHandle(void *p) {
    cudaDeviceSynchronize();
    return emu::device_shut(p) ? cudaSuccess : remember(cudaErrorInvalidValue);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind) {
    cudaDeviceSynchronize();
    memcpy(to, from, size);
    return remember(sticky);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind, cudaStream_t stream) {
    if (emu::device_owns(from) || emu::pinned_owns(from))
        return emu_enqueue_call("copy", [=] { memmove(to, from, size); }, stream);
    auto copy = std::make_shared<std::vector<unsigned char>>(size);
    if (size) memcpy(copy->data(), from, size);
    return emu_enqueue_call("copy", [=] { if (size) memcpy(to, copy->data(), size); }, stream);
}
cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t stream) {
    return emu_enqueue_call("fill", [=] { memset(to, byte, size); }, stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = new emu_stream;
    streams.push_back(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    drain(stream);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == stream) streams.erase(streams.begin() + long(i--));
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (stream->capture) return spoil_capture(stream);
    drain(stream);
    return remember(sticky);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    if (stream->capture) return spoil_capture(stream);
    if (!stream->pending.empty() && sticky == cudaSuccess) run_first(stream);
    if (sticky != cudaSuccess) return remember(sticky);
    return stream->pending.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    work w;
    w.what = kind::wait_event;
    w.event = event;
    w.event_count = event->recorded;
    return enqueue(stream, std::move(w));
}
cudaError_t cudaDeviceSynchronize(void) {
    for (emu_stream *s : streams)
        if (!s->capture) drain(s);
    return remember(sticky);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { *event = new emu_event; return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (event->stream) drain(event->stream);
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    work w;
    w.what = kind::record;
    w.event = event;
    w.event_count = ++event->recorded;
    event->stream = stream;
    return enqueue(stream, std::move(w));
}
/* The first questions are answered "not ready" while there is work before the event: one piece of it runs for each. */
cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (sticky != cudaSuccess) return remember(sticky);
    if (event->done >= event->recorded) return cudaSuccess;
    if (event->stream && !event->stream->pending.empty()) run_first(event->stream);
    if (sticky != cudaSuccess) return remember(sticky);
    return event->done >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    run_until_event(event, event->recorded);
    return remember(sticky);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (stream->capture) return remember(cudaErrorInvalidValue);
    stream->capture = new emu_graph;
    stream->capture_spoilt = false;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    if (!stream->capture) return remember(cudaErrorInvalidValue);
    emu_graph *recorded = stream->capture;
    stream->capture = nullptr;
    *graph = nullptr;
    if (sticky == cudaSuccess && !stream->capture_spoilt) {
        *graph = recorded;
        return cudaSuccess;
    }
    delete recorded;
    return remember(sticky != cudaSuccess ? sticky : cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    *exec = new emu_graph(*graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    for (const work &w : exec->list) {
        cudaError_t e = enqueue(stream, w);
        if (e != cudaSuccess) return e;
    }
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { delete graph; return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { delete exec; return cudaSuccess; }

void emu_set_device(int arch, int compiled) {
    emu::emulated.arch = arch;
    emu::emulated.compiled = compiled;
}

void emu_set_fill(int byte) { emu::set_fill(byte); }
void emu_set_dry(bool now) { dry = now; }
uint64_t emu_launch_count(void) { return launch_count; }

void emu_recover(void) {
    sticky = last = cudaSuccess;
    emu::clear_failure();
    for (emu_stream *s : streams) s->pending.clear();
}
