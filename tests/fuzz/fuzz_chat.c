/*
 * fuzz_chat.c - the request's half of a chat (messages, tools, kwargs) and the wire's half (a
 * bundle): refused with a reason, or rendered.
 */
// see: text formats base
#include "base/utf8.h"
#include "fuzz.h"
#include "text/chat.h"

static const char TEMPLATE[] =
    "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ "
    "m['role'] }}>{{ m['content'] | trim }}{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endif %}{% "
    "endfor %}{% if add_generation_prompt %}<a>{% endif %}";

static void render(const struct chat *chat, struct chat_request request) {
    struct buf out = {0};
    struct error err = {0};
    request.limits =
        (struct template_limits){.fuel = 100000, .output_bytes = 1 << 20, .memory_bytes = 16 << 20};
    int rc = chat_render(chat, &request, &out, &err);
    CHECK(rc <= 0 && (!rc || (err.text[0] && !out.len)));
    CHECK(utf8_valid(out.data, out.len));
    buf_release(&out);
}

static struct chat *fixed_chat(void) {
    struct bundle_file file = {bytes_str("chat_template.jinja"), bytes_str(TEMPLATE)};
    struct buf packed = {0};
    struct bundle b;
    struct chat *chat;
    CHECK(!bundle_pack_files(&file, 1, &packed, NULL) &&
          !bundle_open(&b, buf_bytes(&packed), NULL) && !chat_load(&b, &chat, NULL));
    buf_release(&packed);
    return chat;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct bytes HELLO = {
        (const uint8_t *)"[{\"role\": \"user\", \"content\": \"Hi\"}]", 35};
    struct bytes text = bytes_of(data, size);
    struct bundle bundle;
    struct chat *chat = NULL;
    if (!bundle_open(&bundle, text, NULL) && !chat_load(&bundle, &chat, NULL))
        render(chat, (struct chat_request){.messages = HELLO});
    chat_free(&chat);
    chat = fixed_chat();
    render(chat, (struct chat_request){.messages = text, .add_generation_prompt = true});
    render(chat, (struct chat_request){.messages = text, .continue_final_message = true});
    render(chat, (struct chat_request){.messages = HELLO, .tools = text});
    render(chat, (struct chat_request){.messages = HELLO, .kwargs = text, .raw_messages = true});
    chat_free(&chat);
    return 0;
}
