/*
 * ollama_models.h - Ollama's calls that generate nothing: which models are here, and what this
 * server does not do with them.
 *
 * Each answers the request at once. What a gateway does not know of a model (its size on disk, its
 * quantization) is 0 or empty, as Ollama writes what it does not know.
 *
 * Source: github.com/ollama/ollama, docs/api.md.
 *
 * Threading: the event thread of the request.
 */
#ifndef GATEWAY_CALLS_OLLAMA_MODELS_H
#define GATEWAY_CALLS_OLLAMA_MODELS_H

#include "gateway/calls/call.h"

/* ollama_load is called for a request that generates; the others are handlers (call.h). */

/* GET /api/tags: all models that can be asked. */
int ollama_tags(const struct call *c, struct api_error *err);
/* GET /api/ps: those that have a worker now. */
int ollama_ps(const struct call *c, struct api_error *err);
/* POST /api/show: one model's template, parameters and capabilities. */
int ollama_show(const struct call *c, struct api_error *err);
/* GET /api/version: the version of Ollama whose API this is, so that clients which ask for a least
 * one go on; our own beside it. */
int ollama_version(const struct call *c, struct api_error *err);
/* What Ollama has and this server has not: an error that names the path and says why. */
int ollama_refuse(const struct call *c, struct api_error *err);
/* A request that asks nothing (genreq_asks_nothing): is the model here? 0, or -1 with *err filled,
 * to be answered. */
MUST_CHECK int ollama_load(struct event_thread *thread, struct http_request *req,
                           const struct genreq *g, struct api_error *err);
/* Appends "2026-11-23T09:06:37Z": seconds since 1970, in UTC. */
void ollama_add_time(struct buf *out, int64_t wall_s);

#endif
