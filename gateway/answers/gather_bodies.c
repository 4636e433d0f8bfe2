#include "gateway/answers/gather_bodies.h"

#include "formats/json.h"
#include "gateway/fields/field.h"
#include "gateway/fields/raw_value.h"

/* Members that may be lists. The first that is there says how many requests there are: one, where it
 * is none. */
struct list_member {
    const char *name;
    bool of_lists; /* a list of it begins with a list: else it is one value */
};
static const struct list_member GENERATE_MEMBERS[] = {{"text", false},
                                                      {"input_ids", true},
                                                      {"sampling_params", false},
                                                      {"rid", false},
                                                      {"return_logprob", false},
                                                      {"logprob_start_len", false},
                                                      {"top_logprobs_num", false}};
static const struct list_member CHAT_MEMBERS[] = {{"messages", true}};
enum { COUNTING_MEMBERS = 2, MEMBERS_MAX = ARRAY_LEN(GENERATE_MEMBERS) };

/* What was found of a body. */
struct cut {
    const struct list_member *members;
    size_t member_count;
    struct bytes lists[MEMBERS_MAX]; /* raw; empty: not given, or no list */
    struct buf *bodies;              /* one for each request */
    uint32_t count;
    struct api_error *err;
};

static bool begins_with_list(struct bytes raw) {
    size_t at = 1;
    while (at < raw.len && strchr(" \t\r\n", raw.data[at]))
        at++;
    return at < raw.len && raw.data[at] == '[';
}

static bool is_list(const struct list_member *member, struct bytes raw) {
    return raw_is(raw, '[') && (!member->of_lists || begins_with_list(raw));
}

bool gather_is_wanted(struct bytes body) {
    static const char *const NAMES[] = {"\"sampling_params\"", "\"rid\"", "\"return_logprob\"",
                                        "\"logprob_start_len\"", "\"top_logprobs_num\""};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        size_t len = strlen(NAMES[i]);
        const uint8_t *at = memmem(body.data, body.len, NAMES[i], len);
        if (!at)
            continue;
        const uint8_t *end = body.data + body.len;
        for (at += len; at < end && strchr(" \t\r\n:", *at);)
            at++;
        if (at < end && *at == '[')
            return true;
    }
    return false;
}

/* ---- reading ---- */

static uint32_t count_items(struct bytes list) {
    struct json_reader r;
    uint32_t count = 0;
    json_reader_init(&r, list, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    while (json_next(&r) != JSON_ARRAY_END && json_skip(&r) && r.last != JSON_ERROR)
        count++;
    json_reader_release(&r);
    return count;
}

static const struct list_member *find_member(const struct cut *c, struct bytes name) {
    for (size_t i = 0; i < c->member_count; i++)
        if (bytes_equal(name, bytes_str(c->members[i].name)))
            return &c->members[i];
    return NULL;
}

static void find_lists(struct cut *c, struct bytes body) {
    struct json_reader r;
    json_reader_init(&r, body, GENREQ_DEPTH_MAX, 0);
    bool more = json_next(&r) == JSON_OBJECT_BEGIN;
    while (more && json_next(&r) == JSON_KEY) {
        const struct list_member *member = find_member(c, r.text);
        struct bytes raw;
        (void)json_next(&r);
        more = json_take(&r, &raw);
        if (more && member && is_list(member, raw))
            c->lists[member - c->members] = raw;
    }
    json_reader_release(&r);
}

static int count_requests(struct cut *c) {
    const char *counted = c->members[0].name;
    c->count = 1;
    for (size_t i = 0; i < MIN(c->member_count, (size_t)COUNTING_MEMBERS); i++)
        if (c->lists[i].len) {
            c->count = count_items(c->lists[i]);
            counted = c->members[i].name;
            break;
        }
    if (c->count == 0)
        return api_error_set(c->err, API_BAD_REQUEST, counted, "'%s' is empty", counted);
    if (c->count > GENREQ_PROMPTS_MAX)
        return api_error_set(c->err, API_BAD_REQUEST, counted, "'%s' holds more than %d requests",
                             counted, GENREQ_PROMPTS_MAX);
    for (size_t i = 0; i < c->member_count; i++) {
        uint32_t items = c->lists[i].len ? count_items(c->lists[i]) : c->count;
        if (items != c->count)
            return api_error_set(c->err, API_BAD_REQUEST, c->members[i].name,
                                 "'%s' holds %u values for %u requests", c->members[i].name, items,
                                 c->count);
    }
    return 0;
}

/* ---- writing ---- */

static void add_member(struct buf *body, struct bytes name, struct bytes value) {
    buf_add_byte(body, body->len ? ',' : '{');
    buf_add_bytes(body, name);
    buf_add_byte(body, ':');
    buf_add_bytes(body, value);
}

/* Each request gets its own value of the list. */
static void deal(const struct cut *c, struct bytes name, struct bytes list) {
    struct json_reader r;
    json_reader_init(&r, list, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (uint32_t i = 0; i < c->count; i++) {
        struct bytes value;
        (void)json_next(&r);
        CHECK(json_take(&r, &value)); /* it was read before */
        add_member(&c->bodies[i], name, value);
    }
    json_reader_release(&r);
}

/* False: they would be too large. */
static bool write_bodies(const struct cut *c, struct bytes body) {
    struct json_reader r;
    size_t bytes = 0;
    json_reader_init(&r, body, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    while (bytes <= GATHER_BODIES_MAX && json_next(&r) == JSON_KEY) {
        const struct list_member *member = find_member(c, r.text);
        struct bytes name = r.raw, value;
        (void)json_next(&r);
        CHECK(json_take(&r, &value)); /* it was scanned */
        bool is_dealt = member && is_list(member, value);
        bytes += (name.len + 2) * c->count + value.len * (is_dealt ? 1 : c->count);
        if (is_dealt)
            deal(c, name, value);
        for (uint32_t i = 0; !is_dealt && i < c->count && bytes <= GATHER_BODIES_MAX; i++)
            add_member(&c->bodies[i], name, value);
    }
    for (uint32_t i = 0; i < c->count; i++)
        buf_add_byte(&c->bodies[i], '}');
    json_reader_release(&r);
    return bytes <= GATHER_BODIES_MAX;
}

int gather_cut(enum genreq_dialect dialect, struct bytes body, struct buf *bodies, uint32_t *count,
               struct api_error *err) {
    struct cut c = {.bodies = bodies, .err = err};
    bool chats = dialect == GENREQ_CHAT;
    c.members = chats ? CHAT_MEMBERS : GENERATE_MEMBERS;
    c.member_count = chats ? ARRAY_LEN(CHAT_MEMBERS) : ARRAY_LEN(GENERATE_MEMBERS);
    *count = 0;
    if (body.len > GATHER_BODY_MAX)
        return api_error_set(err, API_TOO_LARGE, NULL,
                             "a body with several requests has at most %d bytes", GATHER_BODY_MAX);
    if (field_check_json(body, err))
        return -1;
    find_lists(&c, body);
    if (chats && !c.lists[0].len)
        return api_error_set(err, API_BAD_REQUEST, "messages",
                             "'messages' must be an array of conversations, each an array of "
                             "messages");
    if (count_requests(&c))
        return -1;
    *count = c.count;
    bool fits = write_bodies(&c, body);
    for (uint32_t i = 0; i < c.count; i++)
        if (bodies[i].failed)
            return api_error_out_of_memory(err);
    return fits ? 0
                : api_error_set(err, API_TOO_LARGE, NULL,
                                "the requests of this body would have more than %d bytes, as each "
                                "has what is no list",
                                GATHER_BODIES_MAX);
}
