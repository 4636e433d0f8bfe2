/*
 * abort.h - POST /abort_request, SGLang's: a client ends requests that it has open on other
 * connections, by the name that it gave them.
 *
 * What is open lies on all event threads, so each of them is told. A gateway knows its own requests
 * alone. A client's are those of its key, or without keys of its address (open_holder): nobody ends
 * another's.
 *
 * Threading: the event thread of the call.
 */
#ifndef GATEWAY_CALLS_ABORT_H
#define GATEWAY_CALLS_ABORT_H

#include "gateway/calls/call.h"
#include "gateway/fields/field.h"

enum { ABORT_BODY_MAX = 64 << 10, ABORT_IDS_MAX = 256 };

/* Of its body. */
extern const struct field_set fields_abort;
/* A handler (call.h). What is aborted ends soon, not yet. */
int abort_requests(const struct call *c, struct api_error *err);

#endif
