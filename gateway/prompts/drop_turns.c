#include "gateway/prompts/drop_turns.h"

#include "formats/json.h"
#include "gateway/fields/genreq.h"
#include "gateway/fields/raw_value.h"

void turn_cuts_find(struct turn_cuts *cuts, struct bytes messages) {
    struct json_reader r;
    bool in_head = true, is_first = true;
    *cuts = (struct turn_cuts){.head = 1};
    json_reader_init(&r, messages, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    while (json_next(&r) == JSON_OBJECT_BEGIN) {
        struct bytes role = {0};
        const struct json_wanted members[] = {{"role", &role}};
        size_t begin = r.offset;
        if (!json_take_members(&r, members, ARRAY_LEN(members)))
            break;
        in_head &= raw_is_text(role, "system") || raw_is_text(role, "developer");
        if (in_head) {
            struct bytes message = json_since(&r, begin);
            cuts->head = begin + message.len;
            continue;
        }
        if (!is_first && raw_is_text(role, "user"))
            vec_push(&cuts->offsets, begin);
        is_first = false;
    }
    json_reader_release(&r);
}

void turn_cuts_release(struct turn_cuts *cuts) {
    vec_release(&cuts->offsets);
}

void turn_cuts_apply(const struct turn_cuts *cuts, size_t cut, struct bytes messages,
                     struct buf *out) {
    size_t begin = cuts->offsets.items[cut];
    CHECK(cut < cuts->offsets.count && cuts->head <= begin && begin < messages.len);
    buf_reset(out);
    buf_add(out, messages.data, cuts->head);
    if (cuts->head > 1)
        buf_add_byte(out, ',');
    buf_add(out, messages.data + begin, messages.len - begin);
}
