#include "gateway/answers/answer_calls.h"

#include "formats/json.h"

/* The next of a list of calls; false: no more. `function`'s members are of the depth below, and no
 * name is of both. */
static bool next_call(struct json_reader *r, struct answer_call *call) {
    buf_reset(&call->id);
    buf_reset(&call->name);
    buf_reset(&call->arguments);
    call->begins = false;
    if (json_next(r) != JSON_OBJECT_BEGIN)
        return false;
    uint32_t depth = r->depth;
    struct buf *out = NULL;
    for (enum json_event event; (event = json_next(r)) > JSON_END && r->depth >= depth;) {
        if (event == JSON_KEY)
            out = bytes_equal(r->text, bytes_str("id"))          ? &call->id
                  : bytes_equal(r->text, bytes_str("name"))      ? &call->name
                  : bytes_equal(r->text, bytes_str("arguments")) ? &call->arguments
                                                                 : NULL;
        else if (event == JSON_STRING && out)
            buf_add_bytes(out, r->text);
    }
    call->begins = call->id.len > 0;
    return true;
}

void answer_each_call(struct bytes calls, void (*visit)(void *ctx, const struct answer_call *call),
                      void *ctx) {
    struct json_reader r;
    struct answer_call call = {0};
    struct buf list = {0};
    if (calls.len == 0)
        return;
    buf_add_byte(&list, '[');
    buf_add_bytes(&list, calls);
    buf_add_byte(&list, ']');
    json_reader_init(&r, buf_bytes(&list), 0, JSON_ALLOW_NUL);
    CHECK(json_next(&r) == JSON_ARRAY_BEGIN);
    while (next_call(&r, &call))
        visit(ctx, &call);
    CHECK_MSG(r.last == JSON_ARRAY_END, "calls are no JSON");
    json_reader_release(&r);
    buf_release(&call.id);
    buf_release(&call.name);
    buf_release(&call.arguments);
    buf_release(&list);
}
