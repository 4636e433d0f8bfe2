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

#include "gateway/fields/genreq.h"
#include "gateway/generation/event_thread.h"
#include "http/http_server.h"

/* GET /api/tags: all models that can be asked. */
void ollama_tags(struct event_thread *thread, struct http_request *req);
/* GET /api/ps: those that have a worker now. */
void ollama_ps(struct event_thread *thread, struct http_request *req);
/* POST /api/show: one model's template, parameters and capabilities. */
void ollama_show(struct event_thread *thread, struct http_request *req);
/* GET /api/version: the version of Ollama whose API this is, so that clients which ask for a least
 * one go on; our own beside it. */
void ollama_version(struct http_request *req);
/* A request that asks nothing (genreq_asks_nothing): is the model here? 0, or -1 with *err filled,
 * to be answered. */
MUST_CHECK int ollama_load(struct event_thread *thread, struct http_request *req,
                           const struct genreq *g, struct api_error *err);
/* What Ollama has and this server has not: an error that names the path and says why. */
void ollama_refuse(struct http_request *req);
/* Appends "2026-11-23T09:06:37Z": seconds since 1970, in UTC. */
void ollama_add_time(struct buf *out, int64_t wall_s);

#endif
