#include "gateway/answers/event_ids.h"

bool event_position_parse(struct bytes id, struct event_position *out) {
    uint64_t value = 0;
    bool digits = false;
    *out = (struct event_position){0};
    for (size_t i = 0; i <= id.len; i++) {
        uint8_t c = i < id.len ? id.data[i] : '-';
        if (c >= '0' && c <= '9') {
            value = 10 * value + (uint64_t)(c - '0');
            digits = true;
            if (value > UINT32_MAX)
                return false;
            continue;
        }
        if (c != '-' || !digits || out->count == EVENT_IDS_MAX)
            return false;
        out->counts[out->count++] = (uint32_t)value;
        value = 0;
        digits = false;
    }
    return out->count > 1;
}

bool event_position_fits(const struct event_position *position, uint32_t choice_count) {
    if (position->count)
        return position->count == choice_count + 1;
    return position->bytes == 0 || choice_count == 1;
}

void event_ids_init(struct event_ids *ids, uint32_t choice_count,
                    const struct event_position *behind) {
    CHECK(choice_count < EVENT_IDS_MAX);
    CHECK(!behind || event_position_fits(behind, choice_count));
    *ids = (struct event_ids){.count = choice_count + 1};
    ids->counts = mem_calloc(ids->count, sizeof *ids->counts);
    if (!behind || (!behind->count && !behind->bytes))
        return;
    ids->behind = mem_alloc(sizeof *ids->behind);
    *ids->behind = *behind;
}

void event_ids_release(struct event_ids *ids) {
    mem_free(ids->counts);
    mem_free(ids->behind);
    buf_release(&ids->scratch);
    *ids = (struct event_ids){0};
}

static void add_id(struct event_ids *ids, struct buf *out) {
    buf_add_str(out, "id: ");
    for (uint32_t i = 0; i < ids->count; i++) {
        if (i)
            buf_add_byte(out, '-');
        buf_add_u64(out, ids->counts[i]);
    }
    buf_add_byte(out, '\n');
}

/* The bytes of an event, id and all, that the client has already. */
static size_t bytes_behind(const struct event_ids *ids, uint32_t source, size_t len) {
    const struct event_position *behind = ids->behind;
    if (!behind)
        return 0;
    if (behind->count)
        return ids->counts[source] <= behind->counts[source] ? len : 0;
    return behind->bytes > ids->bytes ? MIN(len, (size_t)(behind->bytes - ids->bytes)) : 0;
}

/* The end of the event that begins at `at`: behind its empty line. */
static size_t event_end(const struct buf *b, size_t at) {
    while (at + 1 < b->len && (b->data[at] != '\n' || b->data[at + 1] != '\n'))
        at++;
    CHECK(at + 1 < b->len);
    return at + 2;
}

void event_ids_mark(struct event_ids *ids, uint32_t source, struct buf *out, size_t from) {
    CHECK(source < ids->count && from <= out->len);
    struct buf *marked = &ids->scratch;
    buf_reset(marked);
    for (size_t at = from, end; at < out->len; at = end) {
        end = event_end(out, at);
        size_t begin = marked->len;
        ids->counts[source]++;
        add_id(ids, marked);
        buf_add(marked, out->data + at, end - at);
        size_t len = marked->len - begin, behind = bytes_behind(ids, source, len);
        ids->bytes += len;
        memmove(marked->data + begin, marked->data + begin + behind, len - behind);
        marked->len -= behind;
    }
    out->len = from;
    buf_add_bytes(out, buf_bytes(marked));
}
