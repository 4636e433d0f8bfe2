/*
 * fuzz_template.c - any bytes as a template: refused, or rendered within its bounds, and the same
 * twice.
 */
// see: text formats base
#include "base/utf8.h"
#include "fuzz.h"
#include "text/template/template.h"

static const char CONTEXT[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"You are <b>\\u00e9</b>\"}, "
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hi\"}]},"
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": "
    "\"f\", \"arguments\": {\"a\": [1, 2.5, null]}}}]}],"
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\"}}}}}],"
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"x\": 5, \"s\": \"some "
    "text\", \"l\": [3, 1, 2], \"d\": {\"k\": \"v\"}}";

static int render(const struct template *t, struct buf *out) {
    struct template_limits limits = {
        .fuel = 100000, .output_bytes = 1 << 20, .memory_bytes = 16 << 20, .now_s = 1752148800};
    struct arena a;
    struct tvalue context;
    struct error err = {0};
    arena_init(&a, 1 << 20, 0);
    CHECK(!tvalue_from_json(&a, bytes_str(CONTEXT), &context, &err));
    int rc = template_render(t, context, &limits, out, &err);
    CHECK(rc >= 0 || err.code == rc);
    arena_release(&a);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct template *t;
    struct error err = {0};
    int rc = template_parse(bytes_of(data, size), &t, &err);
    CHECK((rc == 0) == (t != NULL) && (!rc || err.text[0]));
    if (!t)
        return 0;
    struct buf once = {0}, twice = {0};
    rc = render(t, &once);
    CHECK(rc == render(t, &twice));
    CHECK(once.len == twice.len && (rc == 0 || once.len == 0) && once.len <= 1 << 20);
    CHECK(utf8_valid(once.data, once.len));
    buf_release(&once);
    buf_release(&twice);
    template_free(&t);
    return 0;
}
