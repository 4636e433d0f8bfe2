/*
 * loads.h - how busy the models are, as SGLang's routers ask: /v1/loads, and /get_load, its older form.
 *
 * An entry is a model (a rank of data parallelism, there); its figures are those that the scheduler
 * told last, of all its replicas together. Replicas take requests from one queue, so no router need
 * choose among them.
 *
 * Source: github.com/sgl-project/sglang, python/sglang/srt/entrypoints/v1_loads.py and
 * srt/managers/io_struct.py (GetLoadReqOutput, GetLoadsReqOutput).
 */
#ifndef GATEWAY_CALLS_LOADS_H
#define GATEWAY_CALLS_LOADS_H

#include "gateway/calls/call.h"

/* Handlers (call.h). */
int loads_get(const struct call *c, struct api_error *err);
/* The older form: a list of requests and tokens alone. */
int loads_get_old(const struct call *c, struct api_error *err);

#endif
