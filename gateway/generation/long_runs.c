#include "gateway/generation/long_runs.h"

void long_run_free(struct long_run *run) {
    mail_free(run->mail);
    mem_free(run);
}

static void free_all(struct long_run *run) {
    for (struct long_run *next; run; run = next) {
        next = run->next;
        long_run_free(run);
    }
}

void long_runs_release(struct long_runs *runs) {
    free_all(runs->first);
    free_all(runs->aside);
    runs->first = runs->last = runs->aside = NULL;
    runs->aside_bytes = 0;
}

/* Of the first tokens that make LONG_RUN_WORK at most, of one at least: how many they are, and how
 * many entries of log-probabilities they have. */
static uint32_t piece_tokens(const struct mail *mail, const struct mail_item *item,
                             uint32_t *entries) {
    uint32_t count = 0;
    *entries = 0;
    while (count < item->token_count) {
        uint32_t more = mail->logprob_counts ? mail->logprob_counts[item->token_at + count] : 0;
        if (count && count + 1 + *entries + more > LONG_RUN_WORK)
            break;
        count++;
        *entries += more;
    }
    return count;
}

uint32_t long_run_work(const struct mail *mail, const struct mail_item *item) {
    uint32_t entries, count = piece_tokens(mail, item, &entries);
    return count < item->token_count ? LONG_RUN_WORK + 1 : count + entries;
}

static void append(struct long_runs *runs, struct long_run *run) {
    run->next = NULL;
    if (runs->last)
        runs->last->next = run;
    else
        runs->first = run;
    runs->last = run;
}

void long_runs_add(struct long_runs *runs, struct mail *mail, const struct mail_item *item) {
    struct long_run *run = mem_alloc(sizeof *run);
    *run = (struct long_run){.mail = mail, .rest = *item};
    mail_keep(mail);
    append(runs, run);
}

struct long_run *long_runs_take(struct long_runs *runs, struct mail_item *piece) {
    struct long_run *run = runs->first;
    if (!run)
        return NULL;
    runs->first = run->next;
    if (!runs->first)
        runs->last = NULL;
    atomic_fetch_add(&runs->piece_count, 1);
    uint32_t entries;
    *piece = run->rest;
    piece->token_count = piece_tokens(run->mail, &run->rest, &entries);
    if (piece->token_count == run->rest.token_count)
        return run;
    piece->finish = WIRE_FINISH_NONE;
    piece->vector_width = 0;
    return run;
}

bool long_runs_put_back(struct long_runs *runs, struct long_run *run,
                        const struct mail_item *piece) {
    struct mail_item *rest = &run->rest;
    CHECK(piece->index == rest->index && piece->token_count <= rest->token_count);
    if (piece->token_count == rest->token_count) {
        long_run_free(run);
        return false;
    }
    for (uint32_t i = 0; run->mail->logprob_counts && i < piece->token_count; i++)
        rest->logprobs_at += run->mail->logprob_counts[rest->token_at + i];
    rest->index += piece->token_count;
    rest->token_at += piece->token_count;
    rest->token_count -= piece->token_count;
    rest->goes_on = true;
    append(runs, run);
    return true;
}

/* ---- aside ---- */

bool long_runs_put_aside(struct long_runs *runs, struct long_run *run, uint64_t bytes_max) {
    if (runs->aside_bytes + run->mail->bytes > bytes_max) {
        long_run_free(run);
        return false;
    }
    runs->aside_bytes += run->mail->bytes;
    run->next = runs->aside;
    runs->aside = run;
    return true;
}

/* Takes those of a request out of a list: each goes to the list *taken, in order. */
static void take_of(struct long_run **list, struct u128 request, struct long_run **taken) {
    while (*list) {
        struct long_run *run = *list;
        if (!u128_equal(run->rest.request, request)) {
            list = &run->next;
            continue;
        }
        *list = run->next;
        run->next = NULL;
        *taken = run;
        taken = &run->next;
    }
}

static struct long_run *take_aside(struct long_runs *runs, struct u128 request) {
    struct long_run *taken = NULL;
    take_of(&runs->aside, request, &taken);
    for (struct long_run *run = taken; run; run = run->next)
        runs->aside_bytes -= run->mail->bytes;
    return taken;
}

void long_runs_wake(struct long_runs *runs, struct u128 request) {
    for (struct long_run *run = take_aside(runs, request), *next; run; run = next) {
        next = run->next;
        append(runs, run);
    }
}

void long_runs_drop(struct long_runs *runs, struct u128 request) {
    struct long_run *taken = NULL;
    free_all(take_aside(runs, request));
    take_of(&runs->first, request, &taken);
    free_all(taken);
    runs->last = runs->first;
    while (runs->last && runs->last->next)
        runs->last = runs->last->next;
}
