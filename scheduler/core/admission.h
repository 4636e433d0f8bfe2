/*
 * admission.h - will one more have its first token in time? Judged by time, not by count.
 *
 * A slot is held for some time; with R sequences in slots one comes free every (that time) / R
 * (Little's law). So a newcomer that finds none free waits for as many of those as go before it, and
 * for its own. The time is measured from slots that came free, and is at least as long as those now
 * in use have been held; until some have come free, from what a step takes and the output that was
 * asked for.
 *
 * One that has to give its slot up comes back: what it holds counts when it has ended.
 *
 * What goes before a newcomer: all resumed ones, of its own tenant's those that wait, and of each
 * other tenant's as many, since tenants take turns, or more by its weight. What another tenant has in slots
 * counts as if it waited, too: whoever asks all the time asks for the next when one has ended. Choices count,
 * those included that wait behind one of theirs. Priorities are not looked at.
 *
 * One that finds a slot waits there, for the steps that are under way already, and for the prompts that
 * others have in slots, which are computed a piece at a time beside those that have a token in every step
 * (plan.c). What it costs is known of
 * the last steps (step_cost.h). Its delay is how much later its first token comes than if it were
 * alone, so no prompt is too long for an idle server. The shortest prompt goes first, so a newcomer
 * costs those time that are longer: what counts is the delay of the tenant's longest. That shorter ones
 * keep coming does not hold it up for ever: once it has waited for half of the bound, nothing newer of
 * its tenant goes before it (plan.c). So its first token comes within twice the bound, be it overtaken
 * until then. Prompts of other tenants count as far as they take turns with this tenant's.
 *
 * A handful is no crowd: while no more than four wait or have slots, the newcomer among them, the server's
 * bound refuses nobody: a person with a few long prompts, or with one slot, rather waits. But a crowd of
 * which most are refused is a handful again at each moment in which a slot comes free, and whoever comes
 * in such a moment would wait for a whole answer, or until others have gone before. So for ten seconds
 * after more than four were there those that come after the crowd began are judged as it was.
 *
 * Where nobody has asked for a bound (wait_crowd), 10 s is one for a machine on which that is many
 * requests. On a slow one it is few, and who asks with more clients than it serves in 10 s rather waits.
 * So a newcomer is refused only if there are more than so many as well: its wait is at most the bound or
 * the time that so many take, whichever is longer. What is refused does not change the count, so such a
 * crowd leaves no trace.
 *
 * Threading: the core's.
 */
#ifndef SCHEDULER_CORE_ADMISSION_H
#define SCHEDULER_CORE_ADMISSION_H

#include "base/base.h"

struct model;
struct replica;
struct request;
struct sched;
struct sequence;

/* Of a model; zeroed at first. Sums whose older parts count less and less. */
struct admission {
    double held_ms; /* for which slots were held */
    double weight;  /* of how many */
    /* Of those in slots now */
    uint32_t running;
    int64_t placed_sum; /* when they were placed */
    uint64_t steps_sum; /* how many steps each is guessed to take */
    /* Of the last crowd */
    int64_t crowd_until;  /* 0: there was none */
    uint64_t crowd_began; /* request.arrival of the one that made it one */
};

/* A slot of this model came free after so long. */
void admission_observe(struct model *model, int64_t held_ms);
/* q, of this model, has been placed in a slot. */
void admission_enter(struct model *model, const struct sequence *q);
/* It leaves it; placed_at is as it was. Ended, or it will want another one: then what it has held counts as
 * part of what it holds in the end. */
void admission_leave(struct model *model, const struct sequence *q, int64_t now, bool ended);
/* Tokens that it is guessed to have for an answer: at least 1, at most what it asks for. */
uint32_t admission_guess_tokens(const struct request *request);
/* What a queued request has to wait for a slot at the end of its queue, in ms; 0: not known, or one
 * is about to come free for it. O(tenants + replicas). */
double admission_wait_ms(const struct sched *s, const struct request *request);
/* q has entered its model's queue: does it make a crowd? O(1). */
void admission_queued(const struct sched *s, const struct sequence *q);
/* Do more than a handful wait or have slots, the queued request among them, or did they a short time
 * ago, before it came? O(1). */
bool admission_is_crowded(const struct sched *s, const struct request *request);
/* After prefix_find on r, where q may be placed: how many ms later than alone its first token comes
 * there, or that of a longer prompt of its tenant which it goes before; 0: not known. O(running). */
double admission_delay_ms(const struct sched *s, const struct sequence *q, const struct replica *r);
/* Has it waited for its first token for so long that no shorter prompt of its tenant overtakes it any
 * more? Never, where the wait has no bound. O(1). */
bool admission_is_overdue(const struct sched *s, const struct sequence *q);
/* Until all that waits now for this model has begun, in slots or for one, in ms; 0: not known. */
double admission_queue_ms(const struct sched *s, const struct model *model);

#endif
