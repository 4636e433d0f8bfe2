#include "scheduler/scheduler_metrics.h"

#define GAUGE(n, h)                                                                                \
    { .name = "trireme_scheduler_" n, .kind = METRIC_GAUGE, .help = h }
#define COUNTER(n, h)                                                                              \
    { .name = "trireme_scheduler_" n "_total", .kind = METRIC_COUNTER, .help = h }
#define LABELLED(n, h, l, v)                                                                       \
    {                                                                                              \
        .name = "trireme_scheduler_" n "_total", .kind = METRIC_COUNTER, .help = h, .label = l,    \
        .label_values = v                                                                          \
    }

static const double TURN_BUCKETS[] = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005,
                                      0.001,   0.005,    0.025,   0.1,    1,       0};

struct metric scheduler_metrics[METRIC_COUNT] = {
    [METRIC_WAITING] = GAUGE("waiting", "Sequences that wait to run, new and resumed."),
    [METRIC_RUNNING] = GAUGE("running", "Sequences that hold a slot."),
    [METRIC_RECORDS] = GAUGE("records", "Finished requests that are still kept."),
    [METRIC_RECORD_BYTES] =
        GAUGE("record_bytes", "Memory of finished requests that are still kept."),
    [METRIC_REPLICAS_READY] = GAUGE("replicas_ready", "Replicas that take work."),
    [METRIC_GATEWAYS] = GAUGE("gateways", "Gateways that are registered."),
    [METRIC_BLOCKS] = GAUGE("blocks", "KV blocks of all replicas."),
    [METRIC_BLOCKS_USED] = GAUGE("blocks_used", "KV blocks that sequences hold."),
    [METRIC_BLOCKS_CACHED] =
        GAUGE("blocks_cached", "KV blocks that nobody holds but whose content can be found again."),
    [METRIC_STEPS] = COUNTER("steps", "Steps whose results were committed."),
    [METRIC_PROMPT_TOKENS] = COUNTER("prompt_tokens", "Prompt tokens of the requests taken."),
    [METRIC_STEP_TOKENS] = COUNTER("step_tokens", "Positions computed by steps."),
    [METRIC_PREFIX_HIT_TOKENS] =
        COUNTER("prefix_hit_tokens", "Positions found in the prefix cache instead of computed."),
    [METRIC_SNAPSHOTS] = COUNTER("snapshots", "States of layers kept at the end of a prompt."),
    [METRIC_OUTPUT_TOKENS] = COUNTER("output_tokens", "Tokens sampled."),
    [METRIC_DRAFT_TOKENS] = COUNTER("draft_tokens", "Tokens that were guessed ahead (drafts)."),
    [METRIC_ACCEPTED_DRAFTS] =
        COUNTER("accepted_drafts", "Drafts that were what the sampler drew."),
    [METRIC_WASTED_ROWS] = COUNTER("wasted_rows", "Rows planned for sequences that had ended."),
    [METRIC_PREEMPTIONS] =
        COUNTER("preemptions",
                "Sequences put back because blocks ran out, or for a tenant without a slot."),
    [METRIC_EVICTIONS] = COUNTER("evictions", "Cached blocks taken for new content."),
    [METRIC_REQUESTS] = COUNTER("requests", "Submits taken."),
    [METRIC_REJECTS] = LABELLED("rejects", "Requests refused.", "reason",
                                "none|overloaded|no_model|invalid|too_long|deadline|poison|"
                                "draining|revision|unsupported|unknown|moved|tenant_requests|"
                                "tenant_tokens|old_workers"),
    [METRIC_FINISHES] = LABELLED("finishes", "Sequences ended.", "reason",
                                 "none|stop|length|cancelled|error|deadline|constraint"),
    [METRIC_RETRANSMITS] = COUNTER("retransmits", "Runs of tokens sent again to a gateway."),
    [METRIC_WORKER_DEATHS] = COUNTER("worker_deaths", "Workers that ended or fell silent."),
    [METRIC_WORKER_FAULTS] =
        COUNTER("worker_faults", "Workers that ended by a fault of their own."),
    [METRIC_FENCES] = COUNTER("fences", "Workers that the supervisor was asked to end."),
    [METRIC_REREGISTRATIONS] =
        COUNTER("reregistrations", "Workers that were asked to register anew."),
    [METRIC_STALE_MESSAGES] =
        COUNTER("stale_messages", "Messages of dead attempts or registrations, dropped."),
    [METRIC_DELTAS] = COUNTER("deltas", "Deltas sent to gateways."),
    [METRIC_PLANS] = COUNTER("plans", "Plans sent to workers, each rank counted."),
    [METRIC_MALFORMED] = COUNTER("malformed_messages",
                                 "Messages that did not decode or were not the sender's to send."),
    [METRIC_BUNDLE_BYTES] = COUNTER("bundle_bytes", "Bytes of bundles given to gateways."),
    [METRIC_FRAMES] = LABELLED("frames", "Frames on the wire.", "direction", "in|out"),
    [METRIC_FRAME_BYTES] =
        LABELLED("frame_bytes", "Payload bytes on the wire.", "direction", "in|out"),
    [METRIC_BAD_FRAMES] = COUNTER("bad_frames", "Frames dropped as malformed."),
    [METRIC_STALE_FRAMES] =
        COUNTER("stale_frames", "Frames dropped as of a lower epoch or of no registration."),
    [METRIC_REFUSED_PEERS] =
        COUNTER("refused_peers", "Connections refused: no key that is allowed, or another user's."),
    [METRIC_REFUSED_FRAMES] =
        COUNTER("refused_frames", "Frames dropped because their sender's key is of another role."),
    [METRIC_REFUSED_SENDS] =
        COUNTER("refused_sends", "Frames not sent because a peer's queue was full."),
    [METRIC_REGISTRATIONS] = COUNTER("registrations", "Hellos taken."),
    [METRIC_LATE_TURNS] =
        COUNTER("late_turns", "Turns that came so late that the process must have been stopped."),
    [METRIC_PLAN_SECONDS] = {.name = "trireme_scheduler_turn_seconds",
                             .kind = METRIC_HISTOGRAM,
                             .help = "Time of one turn of the core.",
                             .buckets = TURN_BUCKETS},
};

void scheduler_metrics_register(void) {
    metrics_register(scheduler_metrics, METRIC_COUNT);
}

static void set(enum scheduler_metric which, uint64_t value) {
    metric_set(&scheduler_metrics[which], (int64_t)value);
}
static void set_label(enum scheduler_metric which, int label, uint64_t value) {
    metric_set_label(&scheduler_metrics[which], label, (int64_t)value);
}

static void publish_link(const struct link_stats *s) {
    set_label(METRIC_FRAMES, 0, s->received_frames);
    set_label(METRIC_FRAMES, 1, s->sent_frames);
    set_label(METRIC_FRAME_BYTES, 0, s->received_bytes);
    set_label(METRIC_FRAME_BYTES, 1, s->sent_bytes);
    set(METRIC_BAD_FRAMES, s->bad_frames);
    set(METRIC_STALE_FRAMES, s->stale_frames);
    set(METRIC_REFUSED_PEERS, s->refused_peers);
    set(METRIC_REFUSED_FRAMES, s->refused_frames);
    set(METRIC_REFUSED_SENDS, s->refused_sends);
    set(METRIC_REGISTRATIONS, s->registrations);
}

void scheduler_metrics_publish(const struct sched_counts *c, const struct link_stats *stats,
                               uint64_t late_turns) {
    const uint64_t values[METRIC_COUNT] = {
        [METRIC_WAITING] = c->waiting + c->resumed_waiting,
        [METRIC_RUNNING] = c->running,
        [METRIC_RECORDS] = c->records,
        [METRIC_RECORD_BYTES] = c->record_bytes,
        [METRIC_REPLICAS_READY] = c->replicas_ready,
        [METRIC_GATEWAYS] = c->gateways,
        [METRIC_BLOCKS] = c->blocks_total,
        [METRIC_BLOCKS_USED] = c->blocks_used,
        [METRIC_BLOCKS_CACHED] = c->blocks_cached,
        [METRIC_STEPS] = c->steps,
        [METRIC_PROMPT_TOKENS] = c->prompt_tokens,
        [METRIC_STEP_TOKENS] = c->computed_tokens,
        [METRIC_PREFIX_HIT_TOKENS] = c->cached_tokens,
        [METRIC_SNAPSHOTS] = c->snapshots,
        [METRIC_OUTPUT_TOKENS] = c->output_tokens,
        [METRIC_DRAFT_TOKENS] = c->drafted_tokens,
        [METRIC_ACCEPTED_DRAFTS] = c->accepted_drafts,
        [METRIC_WASTED_ROWS] = c->wasted_rows,
        [METRIC_PREEMPTIONS] = c->preemptions,
        [METRIC_EVICTIONS] = c->evictions,
        [METRIC_REQUESTS] = c->requests,
    };
    for (int i = METRIC_WAITING; i <= METRIC_REQUESTS; i++)
        set((enum scheduler_metric)i, values[i]);
    for (int i = 0; i <= WIRE_REJECT_OLD_WORKERS; i++)
        set_label(METRIC_REJECTS, i, c->rejected[i]);
    for (int i = 0; i <= WIRE_FINISH_CONSTRAINT; i++)
        set_label(METRIC_FINISHES, i, c->finished[i]);
    set(METRIC_RETRANSMITS, c->retransmits);
    set(METRIC_WORKER_DEATHS, c->deaths);
    set(METRIC_WORKER_FAULTS, c->attributable_deaths);
    set(METRIC_FENCES, c->fences);
    set(METRIC_REREGISTRATIONS, c->reregistrations);
    set(METRIC_STALE_MESSAGES, c->stale_messages);
    set(METRIC_LATE_TURNS, late_turns);
    publish_link(stats);
}
