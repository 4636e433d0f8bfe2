#include "grammar/unique.h"

#include "grammar/item.h"

enum { KNOWN_TEXTS = 256, FEW_ITEMS = 8, ANCESTORS = 24, SEEN_WORDS = 256 };

struct text_span {
    size_t at, len;
};
/* An array that a set is in. */
struct open_array {
    uint32_t items, text;   /* frames */
    bool endless;           /* its items cannot run out */
    struct text_span begun; /* in begun: of the item that it is in */
    struct item_place place;
};
struct item_span {
    struct text_span text; /* in bytes */
    size_t scalar_first, scalar_count;
};
/* How the text of an item that has begun stands to those that are there. */
struct text_standing {
    uint32_t items, text;      /* frames; items 0: nothing is known */
    uint32_t count;            /* of items that it may become */
    uint16_t first[FEW_ITEMS]; /* these, where they are few */
    struct byte_set next;
};
/* How the texts of a set's arrays stand to their items. */
struct standing {
    bool touches; /* one may become equal to an item that is there */
    bool inside;  /* so may one that has begun */
    struct byte_set next;
};
/* Texts of the items that were read last, which mostly are asked for again. */
struct unique_texts {
    uint32_t items; /* frame; 0: none */
    struct buf bytes;
    item_scalar_vec scalars;
    VEC(struct item_span) spans;
    uint64_t seen[SEEN_WORDS]; /* a bit by the hash of each of them, and maybe of more */
    struct byte_set seconds;   /* of those that are strings: what stands behind the quote */
    struct buf begun, ended;
    item_scalar_vec begun_scalars;
    VEC(struct open_array) arrays;
    struct text_standing known[KNOWN_TEXTS]; /* by items and text */
};

void unique_release(struct grammar_run *exact) {
    struct unique_texts *u = exact->unique;
    if (!u)
        return;
    buf_release(&u->bytes);
    buf_release(&u->begun);
    buf_release(&u->ended);
    vec_release(&u->spans);
    vec_release(&u->scalars);
    vec_release(&u->begun_scalars);
    vec_release(&u->arrays);
    mem_free(u);
    exact->unique = NULL;
}

/* ---- frames ---- */

/* The frames of a stack from its top down to one, which is another now. */
static uint32_t rebuild(struct grammar_run *exact, uint32_t at) {
    while (exact->stack.count) {
        struct frame f = exact->frames.items[exact->stack.items[--exact->stack.count]];
        f.parent = at;
        at = run_frame(exact, f);
    }
    return at;
}

/* The text with one more byte. White space says nothing outside of strings, nor does the comma in front
 * of an item. */
static uint32_t text_with(struct grammar_run *exact, uint32_t text, uint8_t byte) {
    enum { IN_STRING = 1, ESCAPED = 2 };
    uint32_t before = text ? exact->frames.items[text].n : 0, now = 0;
    bool space = byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
    if ((space && !before) || (byte == ',' && !text))
        return text;
    if (!before)
        now = byte == '"' ? IN_STRING : 0;
    else if (before & ESCAPED || byte != '"')
        now = IN_STRING | (byte == '\\' && !(before & ESCAPED) ? ESCAPED : 0);
    return run_frame(exact,
                     (struct frame){.kind = FRAME_TEXT, .parent = text, .a = byte, .n = now});
}

uint32_t unique_read(struct grammar_run *exact, uint32_t frame, uint8_t byte) {
    exact->stack.count = 0;
    for (; exact->frames.items[frame].unique; frame = exact->frames.items[frame].parent)
        vec_push(&exact->stack, frame);
    while (exact->stack.count) {
        struct frame f = exact->frames.items[exact->stack.items[--exact->stack.count]];
        f.parent = frame;
        if (f.kind == FRAME_UNIQUE)
            f.n = text_with(exact, f.n, byte);
        frame = run_frame(exact, f);
    }
    return frame;
}

/* Appends a text of FRAME_TEXT frames. */
static void add_text(const struct grammar_run *exact, uint32_t text, struct buf *out) {
    size_t len = 0;
    for (uint32_t f = text; f; f = exact->frames.items[f].parent)
        len++;
    buf_reserve(out, len);
    out->len += len;
    char *end = out->data + out->len;
    for (uint32_t f = text; f; f = exact->frames.items[f].parent)
        *--end = (char)exact->frames.items[f].a;
}

/* Whether an item with this part of its hash may be among these: certain where it is not. */
static bool may_be_there(const struct grammar_run *exact, uint32_t items, uint32_t hash) {
    const struct unique_texts *u = exact->unique;
    return !u || u->items != items || (u->seen[hash / 64 % SEEN_WORDS] >> hash % 64 & 1);
}

uint32_t unique_item_ended(struct grammar_run *exact, uint32_t frame) {
    exact->stack.count = 0;
    for (; exact->frames.items[frame].kind != FRAME_UNIQUE;
         frame = exact->frames.items[frame].parent)
        vec_push(&exact->stack, frame);
    struct frame array = exact->frames.items[frame];
    struct buf text = {0};
    struct u128 hash;
    add_text(exact, array.n, &text);
    bool known = item_hash(buf_bytes(&text), exact->seed, &hash);
    buf_release(&text);
    if (!known) {
        exact->failed = true;
        return FA_NONE;
    }
    struct frame item = {.kind = FRAME_ITEM,
                         .parent = array.a,
                         .a = array.n,
                         .n = (uint32_t)hash.hi,
                         .bits = (uint32_t)(hash.lo >> 32),
                         .some = (uint32_t)hash.lo};
    uint32_t first = may_be_there(exact, array.a, item.some) ? array.a : 0;
    for (uint32_t f = first; f; f = exact->frames.items[f].parent) {
        const struct frame *other = &exact->frames.items[f];
        if (other->n == item.n && other->bits == item.bits && other->some == item.some) {
            exact->refused++;
            return FA_NONE;
        }
    }
    array.a = run_frame(exact, item);
    array.n = 0;
    return rebuild(exact, run_frame(exact, array));
}

/* ---- what may still become equal ---- */

static struct unique_texts *texts_of(struct grammar_run *exact) {
    if (!exact->unique)
        exact->unique = mem_calloc(1, sizeof *exact->unique);
    return exact->unique;
}

static void add_item(struct grammar_run *exact, struct unique_texts *u, uint32_t item) {
    struct item_span span = {.text.at = u->bytes.len, .scalar_first = u->scalars.count};
    add_text(exact, exact->frames.items[item].a, &u->bytes);
    span.text.len = u->bytes.len - span.text.at;
    item_split(bytes_of(u->bytes.data + span.text.at, span.text.len), &u->scalars);
    span.scalar_count = u->scalars.count - span.scalar_first;
    vec_push(&u->spans, span);
    uint32_t hash = exact->frames.items[item].some;
    u->seen[hash / 64 % SEEN_WORDS] |= UINT64_C(1) << hash % 64;
    if (u->bytes.data[span.text.at] == '"')
        byte_set_add(&u->seconds, (uint8_t)u->bytes.data[span.text.at + 1]);
}

/* Mostly the items asked for are those asked for before, or one more or less. */
static void read_items(struct grammar_run *exact, uint32_t items) {
    struct unique_texts *u = texts_of(exact);
    if (u->items == items)
        return;
    bool more = items && exact->frames.items[items].parent == u->items;
    bool less = u->items && exact->frames.items[u->items].parent == items;
    u->items = items;
    if (more) {
        add_item(exact, u, items);
    } else if (less) { /* what is too many in `seconds` and `seen` does no harm */
        const struct item_span *last = &u->spans.items[--u->spans.count];
        u->bytes.len = last->text.at;
        u->scalars.count = last->scalar_first;
    } else {
        buf_reset(&u->bytes);
        u->seconds = (struct byte_set){{0}};
        memset(u->seen, 0, sizeof u->seen);
        u->spans.count = u->scalars.count = 0;
        exact->stack.count = 0;
        for (uint32_t f = items; f; f = exact->frames.items[f].parent)
            vec_push(&exact->stack, f);
        while (exact->stack.count)
            add_item(exact, u, exact->stack.items[--exact->stack.count]);
    }
}

static struct item_text item_at(const struct unique_texts *u, size_t item) {
    const struct item_span *span = &u->spans.items[item];
    return (struct item_text){bytes_of(u->bytes.data + span->text.at, span->text.len),
                              u->scalars.items + span->scalar_first, span->scalar_count};
}

/* A text with its scalars, until the next call. */
static struct item_text split(struct unique_texts *u, struct bytes text) {
    u->begun_scalars.count = 0;
    item_split(text, &u->begun_scalars);
    return (struct item_text){text, u->begun_scalars.items, u->begun_scalars.count};
}

/* A text may become one of the items that were read. */
static bool may_become_any(struct unique_texts *u, struct bytes text) {
    bool begins = text.len > 1 && text.data[0] == '"';
    if (begins && !byte_set_has(&u->seconds, text.data[1]) && !byte_set_has(&u->seconds, '\\') &&
        text.data[1] != '\\')
        return false;
    struct item_text begun = split(u, text);
    for (size_t i = 0; i < u->spans.count; i++) {
        struct item_text item = item_at(u, i);
        if (item_may_become(&begun, &item, NULL))
            return true;
    }
    return false;
}

static struct text_standing *known_of(struct unique_texts *u, uint32_t items, uint32_t text) {
    return &u->known[(items * 31 + text) % KNOWN_TEXTS];
}

/* What is known of a text that this one goes on from, where that may become few items; NULL: nothing. */
static const struct text_standing *known_before(struct grammar_run *exact, uint32_t items,
                                                uint32_t text) {
    for (int i = 0; i < ANCESTORS && text; i++) {
        text = exact->frames.items[text].parent;
        const struct text_standing *k = known_of(exact->unique, items, text);
        if (k->items == items && k->text == text && k->count <= FEW_ITEMS)
            return k;
    }
    return NULL;
}

static const struct text_standing *standing_of_text(struct grammar_run *exact, uint32_t items,
                                                    uint32_t text) {
    struct unique_texts *u = texts_of(exact);
    struct text_standing *known = known_of(u, items, text);
    if (known->items == items && known->text == text)
        return known;
    struct text_standing out = {.items = items, .text = text};
    const struct text_standing *before = known_before(exact, items, text);
    if (!before || before->count) {
        read_items(exact, items);
        buf_reset(&u->ended);
        add_text(exact, text, &u->ended);
        struct item_text begun = split(u, buf_bytes(&u->ended));
        size_t count = before ? before->count : u->spans.count;
        for (size_t i = 0; i < count; i++) {
            size_t at = before ? before->first[i] : i;
            struct item_text item = item_at(u, at);
            if (!item_may_become(&begun, &item, &out.next))
                continue;
            if (out.count < FEW_ITEMS)
                out.first[out.count] = (uint16_t)at;
            out.count += at <= UINT16_MAX ? 1 : FEW_ITEMS + 1;
        }
    }
    *known = out;
    return known;
}

static struct standing standing_of(struct grammar_run *exact, uint32_t set) {
    struct standing out = {0};
    const struct thread_set s = exact->sets.items[set];
    uint32_t last_items = 0, last_text = 0; /* threads mostly have these in common */
    for (uint32_t i = 0; i < s.count; i++) {
        uint32_t f = exact->threads.items[s.first + i].frame;
        for (; exact->frames.items[f].unique; f = exact->frames.items[f].parent) {
            const struct frame *array = &exact->frames.items[f];
            if (array->kind != FRAME_UNIQUE || !array->a ||
                (array->a == last_items && array->n == last_text))
                continue;
            last_items = array->a;
            last_text = array->n;
            const struct text_standing *t = standing_of_text(exact, array->a, array->n);
            out.touches |= t->count > 0;
            out.inside |= t->count > 0 && (array->n || !array->some);
            for (size_t w = 0; w < ARRAY_LEN(out.next.bits); w++)
                out.next.bits[w] |= t->next.bits[w];
        }
    }
    return out;
}

/* ---- whether a set lives ---- */

/* A thread is in a string that may be any, or as long as one likes: it need not be another's. */
static bool in_free_string(struct grammar_run *run, uint32_t set) {
    const struct program *p = run->program;
    const struct thread_set s = run->sets.items[set];
    for (uint32_t i = 0; i < s.count; i++) {
        uint32_t at = run->threads.items[s.first + i].state;
        const struct state *state = &p->states.items[at];
        if ((at >= STATE_BODY && at < STATE_BEHIND_STRING && at != STATE_STRING_END) ||
            ((state->flags & STATE_CHAR) && p->words.items[state->reach + 1] == REPEAT_NO_END))
            return true;
    }
    return false;
}

/* Certainly: it may end, a thread is in no such array, or in a free string, or no text has begun that
 * may become equal to an item. */
static bool lives_at_once(struct grammar_run *exact, uint32_t set) {
    const struct thread_set s = exact->sets.items[set];
    if (s.may_end || !s.unique || in_free_string(exact, set))
        return true;
    for (uint32_t i = 0; i < s.count; i++)
        if (!exact->frames.items[exact->threads.items[s.first + i].frame].unique)
            return true;
    return !standing_of(exact, set).inside;
}

enum { UNKNOWN, YES, NO };

/* A set that was reached from another. */
struct reached {
    uint32_t set, from; /* from: its place */
};
typedef VEC(struct reached) reached_vec;

/* Looks for a set for which `holds`, from one on; true: it is the last of *open. So is what stands
 * there when too many were looked at: then it is held to be. While no item may end, texts make no
 * difference: of bytes that lead to the same states one is looked at. */
static bool search(struct grammar_run *exact, uint32_t set,
                   bool (*holds)(struct grammar_run *exact, uint32_t set), reached_vec *open) {
    bool found = holds(exact, set);
    vec_push(open, ((struct reached){set, 0}));
    for (size_t at = 0; at < open->count && !found && !exact->failed; at++)
        for (uint32_t c = 0; c < 256 && !found; c++) {
            uint32_t next = run_next(exact, open->items[at].set, (uint8_t)c);
            if (exact->within)
                c = run_alike(exact, open->items[at].set, (uint8_t)c);
            bool known = next == SET_DEAD || exact->sets.items[next].lives == NO;
            for (size_t k = 0; k < open->count && !known; k++)
                known = open->items[k].set == next;
            if (known)
                continue;
            found = open->count == UNIQUE_SETS_MAX || holds(exact, next);
            vec_push(open, ((struct reached){next, (uint32_t)at}));
        }
    return found;
}

/* The item that is being read may have a free string yet, so it need not be another's. That depends on
 * no text, so it is kept with the set of the other run. */
static bool may_be_free(struct grammar_run *exact, uint32_t set) {
    struct grammar_run *other = exact->loose;
    uint32_t loose = run_carry_set(other, exact, set);
    if (other->sets.items[loose].frees != UNKNOWN)
        return other->sets.items[loose].frees == YES;
    reached_vec open = {0};
    exact->within = true;
    bool found = search(exact, set, in_free_string, &open) && open.count <= UNIQUE_SETS_MAX;
    exact->within = false;
    for (size_t k = found ? open.count - 1 : 0; found; k = open.items[k].from) {
        loose = run_carry_set(other, exact, open.items[k].set);
        other->sets.items[loose].frees = YES;
        if (!k)
            break;
    }
    if (!found)
        other->sets.items[loose].frees = NO;
    vec_release(&open);
    return found;
}

static bool lives_now(struct grammar_run *exact, uint32_t set) {
    return exact->sets.items[set].lives == YES || lives_at_once(exact, set);
}

bool unique_lives(struct grammar_run *exact, uint32_t set) {
    reached_vec open = {0};
    if (exact->sets.items[set].lives != UNKNOWN)
        return exact->sets.items[set].lives == YES;
    bool lives = lives_at_once(exact, set) || may_be_free(exact, set);
    if (lives)
        exact->sets.items[set].lives = YES;
    else
        lives = search(exact, set, lives_now, &open);
    /* All that leads to one that lives does; where none does, all that was looked at dies. */
    for (size_t k = open.count ? open.count - 1 : 0; lives && open.count; k = open.items[k].from) {
        exact->sets.items[open.items[k].set].lives = YES;
        if (!k)
            break;
    }
    for (size_t k = 0; k < open.count && !lives && !exact->failed; k++)
        exact->sets.items[open.items[k].set].lives = NO;
    vec_release(&open);
    return lives;
}

/* ---- masks ---- */

static void refuse(const struct trie *t, uint32_t from, uint32_t until, uint32_t *bits) {
    for (uint32_t k = from; k < until; k++)
        bits[t->tokens.items[k].id / 32] &= ~(1u << t->tokens.items[k].id % 32);
}

static uint32_t threads_at(const struct grammar_run *run, uint32_t set, uint32_t state) {
    const struct thread_set s = run->sets.items[set];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s.count; i++)
        count += run->threads.items[s.first + i].state == state;
    return count;
}

/* Adds what threads of the other run would read that have no like in this one: their items equal some
 * that were there. */
static void add_lost(const struct grammar_run *exact, uint32_t set, uint32_t loose,
                     struct byte_set *next) {
    const struct grammar_run *other = exact->loose;
    const struct thread_set s = other->sets.items[loose];
    for (uint32_t i = 0; i < s.count; i++) {
        uint32_t state = other->threads.items[s.first + i].state;
        const struct state *from = &other->program->states.items[state];
        if (threads_at(exact, set, state) >= threads_at(other, loose, state))
            continue;
        for (uint32_t e = 0; e < from->edge_count; e++) {
            const struct byte_edge *edge = &other->program->edges.items[from->edge_first + e];
            for (uint32_t c = edge->lo; c <= edge->hi; c++)
                byte_set_add(next, (uint8_t)c);
        }
    }
}

/* On the way to a node. */
struct near_step {
    uint32_t set, loose;
    bool body, lost; /* in a free string, which no text ends without a quote; threads are lost */
    struct byte_set next;
};

/* Steps to a node; false: nothing below it has to be looked at. */
static bool step_near(struct grammar_run *exact, const struct near_step *before, uint32_t i,
                      struct near_step *now, uint32_t *bits) {
    const struct trie *t = &exact->vocab->all;
    const struct trie_node *node = &t->nodes.items[i], *behind = node + 1;
    bool stays = before->body && (node->byte >= 0x80 || vocab_is_plain(node->byte)) &&
                 text_bytes_within(t->below[i], text_bytes_of_text());
    if (stays || !byte_set_has(&before->next, node->byte))
        return false;
    now->loose = run_next(exact->loose, before->loose, node->byte);
    if (now->loose == SET_DEAD)
        return false;
    uint64_t refused = exact->refused;
    now->set = run_next(exact, before->set, node->byte);
    if (now->set == SET_DEAD) {
        refuse(t, node->token_first, t->nodes.items[node->end].token_first, bits);
        return false;
    }
    struct standing s = standing_of(exact, now->set);
    now->next = s.next;
    now->body = in_free_string(exact, now->set);
    now->lost = before->lost || exact->refused != refused;
    if (now->lost)
        add_lost(exact, now->set, now->loose, &now->next);
    if (s.touches && behind->token_first > node->token_first && !unique_lives(exact, now->set))
        refuse(t, node->token_first, behind->token_first, bits);
    return s.touches || now->lost;
}

/* The nodes behind which the text may still become an item. */
static void refuse_near(struct grammar_run *exact, uint32_t set, uint32_t loose, uint32_t *bits) {
    const struct trie_node *nodes = exact->vocab->all.nodes.items;
    struct standing here = standing_of(exact, set);
    if (!here.touches)
        return;
    struct near_step *way = mem_alloc((VOCAB_TOKEN_BYTES_MAX + 1) * sizeof *way);
    way[0] = (struct near_step){
        .set = set, .loose = loose, .body = in_free_string(exact, set), .next = here.next};
    for (uint32_t i = 1; i < nodes[0].end && !exact->failed;) {
        struct near_step *before = &way[nodes[i].depth - 1];
        i = step_near(exact, before, i, before + 1, bits) ? i + 1 : nodes[i].end;
    }
    mem_free(way);
}

/* ---- tokens that end an item and go on ---- */

/* Adds the arrays that a set is in, each once. */
static void gather_arrays(struct grammar_run *exact, uint32_t set) {
    struct unique_texts *u = texts_of(exact);
    const struct thread_set s = exact->sets.items[set];
    u->arrays.count = 0;
    buf_reset(&u->begun);
    for (uint32_t i = 0; i < s.count; i++) {
        uint32_t f = exact->threads.items[s.first + i].frame;
        for (; exact->frames.items[f].unique; f = exact->frames.items[f].parent) {
            const struct frame *x = &exact->frames.items[f];
            bool known = x->kind != FRAME_UNIQUE;
            for (size_t k = 0; k < u->arrays.count && !known; k++)
                known = u->arrays.items[k].items == x->a && u->arrays.items[k].text == x->n &&
                        u->arrays.items[k].endless == x->some;
            if (known)
                continue;
            size_t at = u->begun.len;
            add_text(exact, x->n, &u->begun);
            struct text_span span = {at, u->begun.len - at};
            struct item_place place =
                item_place_of(bytes_of(u->begun.data + at, u->begun.len - at));
            vec_push(&u->arrays, ((struct open_array){x->a, x->n, x->some != 0, span, place}));
        }
    }
}

/* The token ends the array's item, and goes on with one that may become equal to another; *behind: what
 * it begins with. */
static bool may_repeat(struct grammar_run *exact, const struct open_array *array,
                       struct bytes token, struct bytes *behind) {
    struct unique_texts *u = exact->unique;
    size_t comma = item_token_comma(array->place, token);
    if (comma == token.len)
        return false;
    *behind = item_without_lead(bytes_of(token.data + comma, token.len - comma));
    if (!behind->len)
        return !array->endless;
    read_items(exact, array->items);
    if (memchr(behind->data, ',', behind->len) || may_become_any(u, *behind))
        return true;
    buf_reset(&u->ended);
    buf_add(&u->ended, u->begun.data + array->begun.at, array->begun.len);
    buf_add(&u->ended, token.data, comma);
    struct bytes ended = item_without_lead(buf_bytes(&u->ended));
    if (!ended.len)
        return false;
    item_scalar_vec scalars = {0};
    item_split(ended, &scalars);
    struct item_text item = {ended, scalars.items, scalars.count}, begun = split(u, *behind);
    bool may = item_may_become(&begun, &item, NULL);
    vec_release(&scalars);
    return may;
}

/* Whether a token may come, by reading it. */
static bool token_lives(struct grammar_run *exact, uint32_t set, struct bytes token) {
    for (size_t k = 0; k < token.len && set != SET_DEAD; k++)
        set = run_next(exact, set, token.data[k]);
    return set != SET_DEAD && unique_lives(exact, set);
}

/* Those of some tokens that end an item, but not as one that was there. What comes of them depends on
 * what they go on with alone. */
static void refuse_far(struct grammar_run *exact, uint32_t set, const uint32_t *ids, size_t count,
                       uint32_t *bits) {
    struct unique_texts *u = exact->unique;
    enum { MEMOS = 16 };
    struct {
        struct bytes behind;
        bool lives;
    } memos[MEMOS] = {{{0}, false}};
    size_t memo_count = 0;
    for (size_t i = 0; i < count && !exact->failed; i++) {
        struct bytes token = exact->vocab->tokens[ids[i]], behind = {0};
        if (!(bits[ids[i] / 32] >> ids[i] % 32 & 1))
            continue;
        const uint8_t *bracket = memchr(token.data, '[', token.len);
        bool may = bracket && memchr(bracket, ',', (size_t)(token.data + token.len - bracket));
        bool simple = !may && u->arrays.count == 1;
        for (size_t k = 0; k < u->arrays.count && !may; k++)
            may = may_repeat(exact, &u->arrays.items[k], token, &behind);
        if (!may)
            continue;
        simple &= behind.len > 0;
        size_t k = simple ? 0 : memo_count;
        while (k < memo_count && !bytes_equal(memos[k].behind, behind))
            k++;
        bool lives = k < memo_count ? memos[k].lives : token_lives(exact, set, token);
        if (!lives)
            bits[ids[i] / 32] &= ~(1u << ids[i] % 32);
        if (simple && k == memo_count && k < MEMOS) {
            memos[memo_count].behind = behind;
            memos[memo_count++].lives = lives;
        }
    }
}

void unique_refuse(struct grammar_run *exact, uint32_t set, uint32_t loose, uint32_t *bits) {
    const struct vocab *v = exact->vocab;
    bool may_run_out = false;
    if (exact->sets.items[set].unique)
        refuse_near(exact, set, loose, bits);
    gather_arrays(exact, set);
    bool in_strings = exact->unique->arrays.count > 0;
    for (size_t k = 0; k < exact->unique->arrays.count; k++)
        in_strings &= exact->unique->arrays.items[k].place.in_string;
    for (size_t k = 0; k < exact->unique->arrays.count; k++)
        may_run_out |= !exact->unique->arrays.items[k].endless;
    if (in_strings)
        refuse_far(exact, set, v->quoted_commas.items, v->quoted_commas.count, bits);
    else
        refuse_far(exact, set, v->commas.items, v->commas.count, bits);
    if (may_run_out) /* then no comma may come */
        refuse_far(exact, set, v->last_commas.items, v->last_commas.count, bits);
}
