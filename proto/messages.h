/*
 * messages.h - every message between gateway, scheduler, worker and supervisor, as plain C structs.
 *
 * These structs are what the processes, the scheduler's core and the simulator work with; proto/codec.h turns them into
 * frames (proto/trireme.proto, protobuf-c) and back, validated. Decoded structs borrow from the received frame and from
 * the arena given to the decoder: they are valid until the arena is reset. Encoding borrows everything.
 *
 * Lists are structures of arrays: parallel spans of equal count, so that a later version can add a column. On the wire
 * each column is packed little-endian bytes.
 *
 * Identity and order (architecture: Delivery):
 *   request   128 bits, minted by the gateway. A request has choices 0 .. n-1; a sequence is one choice.
 *   attempt   the gateway's count of Submits for a request (0 first). Deltas repeat it; others are stale.
 *   index     position of a token among its choice's output tokens, from 0.
 *   epoch     of the scheduler; in every frame header, in both directions.
 */
#ifndef PROTO_MESSAGES_H
#define PROTO_MESSAGES_H

#include "base/base.h"

struct u32s {
    const uint32_t *items;
    size_t count;
};
struct f32s {
    const float *items;
    size_t count;
};
struct u128s {
    const struct u128 *items;
    size_t count;
};

/* Which message a frame holds. Values are the wire's: never reuse one. */
enum wire_kind {
    WIRE_HELLO = 1,      /* any peer -> scheduler: who I am; first, and again after a change of epoch */
    WIRE_WELCOME = 2,    /* scheduler -> peer: accepted; settings every peer needs */
    WIRE_HEARTBEAT = 3,  /* both ways, every heartbeat_ms, from the thread that owns the sockets */
    WIRE_STATUS = 4,     /* scheduler -> gateways: models, replicas, queues; on change and once a second */
    WIRE_BUNDLE_GET = 5, /* gateway -> scheduler -> worker: send a chunk of a bundle */
    WIRE_BUNDLE_CHUNK = 6,
    WIRE_SUBMIT = 7,       /* gateway -> scheduler */
    WIRE_REJECT = 8,       /* scheduler -> gateway: this attempt will not run */
    WIRE_CANCEL = 9,       /* gateway -> scheduler: a choice, or all */
    WIRE_PAUSE = 10,       /* gateway -> scheduler: stop or resume making tokens for a request (slow reader) */
    WIRE_ACK = 11,         /* gateway -> scheduler: cumulative counts of tokens taken */
    WIRE_RESEND = 12,      /* gateway -> scheduler: a gap; send again from these indexes */
    WIRE_DELTAS = 13,      /* scheduler -> gateway: one a step */
    WIRE_PLAN = 14,        /* scheduler -> every rank of a replica */
    WIRE_STEP_RESULT = 15, /* worker (rank 0 of the last stage) -> scheduler */
    WIRE_PREPARE = 16,     /* scheduler -> worker: get a hashed resource ready (grammar, adapter, media) */
    WIRE_READY = 17,       /* worker -> scheduler: resource ready */
    WIRE_FAILED = 18,      /* worker -> scheduler: resource cannot be had */
    WIRE_DRAIN = 19,       /* any -> any: finish what runs, take nothing new */
    WIRE_FENCE = 20,       /* scheduler -> supervisor: end this process for certain */
    WIRE_EXITED = 21,      /* supervisor -> scheduler: a child ended, and how */
    WIRE_ATTACH = 22,      /* gateway -> scheduler: send me a running or finished request's tokens from an index on */
    WIRE_BLOCKS_LOST = 23, /* worker -> scheduler: plan numbers had a gap, or slots are unknown: register me anew; a
                            * Hello follows. scheduler -> any peer: I do not know you (any more): send a Hello
                            * (incarnation + 1; a worker with the blocks it holds) */
    WIRE_KIND_MAX
};

enum wire_role { WIRE_ROLE_GATEWAY = 1, WIRE_ROLE_WORKER = 2, WIRE_ROLE_SUPERVISOR = 3, WIRE_ROLE_SCHEDULER = 4 };

/* Bounds every decoder enforces; a frame past one is malformed. */
enum {
    WIRE_MAX_TOKENS = 1 << 20, /* tokens of one sequence */
    WIRE_MAX_CHOICES = 128,
    WIRE_MAX_STOP_TOKENS = 64,
    WIRE_MAX_LOGIT_BIAS = 1024,
    WIRE_MAX_TOP_LOGPROBS = 32,
    WIRE_MAX_SLOTS = 16384,
    WIRE_MAX_BLOCKS = 1 << 24,
    WIRE_MAX_GROUPS = 16,
    WIRE_MAX_TEXT = 4096, /* names, error texts */
    WIRE_MAX_PRESENTATION = 256 * 1024,
    WIRE_MAX_GRAMMAR = 1 << 20,
    WIRE_BUNDLE_CHUNK_BYTES = 256 * 1024,
    WIRE_MAX_BUNDLE = 256 << 20,
    WIRE_MAX_MODELS = 64,
    WIRE_MAX_FRAME = 64 << 20
};

/* ---- Hello, Welcome, Heartbeat ---- */

/* WIRE_GROUP_RECURRENT: some layers also carry a state in the slot, which blocks do not hold: a sequence can only be
 * computed from its beginning, or from the end of blocks for which a copy of the state was kept (WIRE_OP_SNAPSHOT). */
enum wire_group_kind { WIRE_GROUP_FULL = 1, WIRE_GROUP_WINDOW = 2, WIRE_GROUP_LATENT = 3, WIRE_GROUP_RECURRENT = 4 };

/* A set of layers that share one page geometry. Block ids count from 0 within a group. */
struct wire_kv_group {
    enum wire_group_kind kind;
    uint32_t block_tokens; /* positions a block */
    uint32_t block_count;
    uint32_t window_tokens; /* WIRE_GROUP_WINDOW: positions behind this may be dropped; else 0 */
    uint64_t block_bytes;   /* all layers of the group */
};

enum wire_state { WIRE_STATE_LOADING = 1, WIRE_STATE_IDLE = 2, WIRE_STATE_STEPPING = 3, WIRE_STATE_DRAINING = 4 };

struct wire_hello {
    enum wire_role role;
    struct u128 instance; /* this incarnation of the process, random */
    uint32_t pid;
    struct bytes name;     /* for logs: "worker-0" */
    uint64_t features;     /* bit set; see WIRE_FEATURE_ */
    struct bytes version;  /* "0.1.0" */
    uint64_t epoch_number; /* highest epoch this peer has met; 0: none */
    struct u128 epoch_instance;

    /* workers only */
    struct u128 replica;          /* ranks of one replica share it; zero: this process alone is one */
    uint32_t rank, tp, stage, pp; /* rank in [0, tp), stage in [0, pp) */
    uint32_t incarnation;  /* registrations of this process, 1 first: a higher one drops what those before held */
    enum wire_state state; /* WIRE_STATE_LOADING: not yet usable; a second Hello follows when it is */
    struct bytes model;    /* public name */
    struct u128 revision;  /* of weights, config and bundle */
    struct u128 bundle;    /* hash of the bundle */
    uint64_t bundle_bytes;
    struct u128 fingerprint; /* architecture: Exactness, Fingerprint */
    uint32_t slot_count;
    uint32_t max_step_tokens; /* rows of one step's batch */
    uint32_t max_context;     /* tokens of one sequence */
    uint32_t logits_width;    /* token ids are in [0, this) */
    uint32_t steps_in_flight; /* plans the worker takes before it has answered the first (credit), >= 1 */
    bool class_sensitive;     /* prompt- and output-class bits differ (false on CPU: blocks are shared freely) */
    uint32_t snapshot_count;  /* WIRE_GROUP_RECURRENT: copies of a slot's state that it has room for */
    const struct wire_kv_group *groups;
    size_t group_count;
    struct u32s held_blocks;  /* group 0: blocks that still hold sealed content, */
    struct u128s held_hashes; /* and its chain hashes */
    struct bytes comm_id; /* of rank 0 of stage 0, when tp * pp > 1: where the ranks shall meet, fresh for each Hello;
                           * opaque to the scheduler, which gives it to all ranks with plan 1 */
};
enum { WIRE_COMM_ID_MAX = 1024 };
enum { WIRE_FEATURE_BASE = 1 }; /* bit values */

struct wire_welcome {
    uint32_t heartbeat_ms; /* interval both sides keep */
    uint32_t silence_ms;   /* after this the peer is dead */
    uint64_t features;     /* what the scheduler speaks */
    struct u128 replica;   /* to workers: the replica they are part of */
    struct bytes comm_id; /* not used: a replica's ranks register one after the other, plan 1 is what all of them see */
};

struct wire_heartbeat {
    enum wire_state state;
    uint64_t progress;    /* counts up whenever the working thread gets anywhere */
    uint64_t plan_number; /* being computed; 0 none */
    uint32_t step_tokens; /* of the step being computed, */
    uint32_t step_age_ms; /* and for how long; 0 while waiting */
    bool waiting;         /* for another rank of its replica */
};

/* ---- Status, bundles ---- */

struct wire_model_status {
    struct bytes model;
    struct u128 revision, bundle;
    uint64_t bundle_bytes;
    uint32_t max_context, logits_width;
    uint32_t replicas_ready, replicas_known; /* known: also loading, or gone less than the grace period ago */
};

struct wire_status {
    const struct wire_model_status *models;
    size_t model_count;
    uint32_t waiting, running, waiting_max; /* sequences */
    bool draining;
};

struct wire_bundle_get {
    struct u128 bundle;
    uint64_t offset;
};
struct wire_bundle_chunk {
    struct u128 bundle;
    uint64_t offset, total;
    struct bytes data;
};

/* ---- Submit and what follows a request ---- */

enum wire_request_kind { WIRE_GENERATE = 1, WIRE_SCORE = 2, WIRE_EMBED = 3 };

enum wire_finish {
    WIRE_FINISH_NONE = 0,
    WIRE_FINISH_STOP = 1, /* a stop token; it is the last token sent */
    WIRE_FINISH_LENGTH = 2,
    WIRE_FINISH_CANCELLED = 3,
    WIRE_FINISH_ERROR = 4, /* non-finite logits, a failed resource, ...: this sequence only */
    WIRE_FINISH_DEADLINE = 5
};

struct wire_sampling {
    float temperature;                         /* 0: greedy */
    float top_p;                               /* (0, 1]; 1: off */
    float min_p;                               /* [0, 1); 0: off */
    uint32_t top_k;                            /* 0: off */
    float repetition_penalty;                  /* > 0; 1: off; over prompt and output */
    float presence_penalty, frequency_penalty; /* over output */
    uint64_t seed;
    int32_t logprobs;     /* -1: none; k >= 0: the chosen token's and the k best */
    uint32_t min_tokens;  /* stop tokens are not sampled before this many output tokens */
    struct u32s bias_ids; /* logit bias; equal counts */
    struct f32s bias_values;
};

struct wire_choice {
    uint32_t choice;
    struct tokens emitted; /* output tokens the gateway already holds */
    bool finished;         /* nothing more is wanted of this choice */
};

enum wire_grammar_kind {
    WIRE_GRAMMAR_NONE = 0,
    WIRE_GRAMMAR_JSON_SCHEMA = 1,
    WIRE_GRAMMAR_REGEX = 2,
    WIRE_GRAMMAR_GBNF = 3,
    WIRE_GRAMMAR_JSON = 4
};

struct wire_media {
    uint32_t position, token_count;
    struct u128 hash;
    struct bytes blob;
};

struct wire_submit {
    struct u128 request;
    uint32_t attempt;
    enum wire_request_kind kind;
    struct bytes model;      /* name; empty: the only one */
    struct u128 revision;    /* of a resumed request: it continues on no other; zero: any */
    struct u128 fingerprint; /* of the replica that made the emitted tokens; zero: none yet */
    struct bytes adapter;
    struct tokens prompt;
    struct wire_sampling sampling;
    struct u32s stop_tokens; /* complete: end-of-text ids are in it unless the client ignores them */
    uint32_t max_tokens;     /* output tokens of each choice, those emitted included; >= 1 */
    const struct wire_choice *choices;
    size_t choice_count;
    enum wire_grammar_kind grammar_kind;
    struct bytes grammar;
    uint32_t deadline_ms; /* left; 0: none */
    int32_t priority;     /* lower runs first; 0 normal */
    struct u128 tenant;
    struct bytes cache_salt;
    struct bytes presentation; /* opaque: for whoever renders the stream */
    bool resumed;              /* attempt > 0 or the scheduler is new: not subject to the queue bound */
    bool resumable;            /* keep the token log for Attach */
    const struct wire_media *media;
    size_t media_count;
    struct bytes sampler_state; /* state that is not in the tokens; empty today */
};

enum wire_reject_code {
    WIRE_REJECT_OVERLOADED = 1,  /* 429, with retry_after_ms */
    WIRE_REJECT_NO_MODEL = 2,    /* 404 */
    WIRE_REJECT_INVALID = 3,     /* 400 */
    WIRE_REJECT_TOO_LONG = 4,    /* 400: does not fit the context or the cache, ever */
    WIRE_REJECT_DEADLINE = 5,    /* 504 */
    WIRE_REJECT_POISON = 6,      /* 500: alone, it kills its worker */
    WIRE_REJECT_DRAINING = 7,    /* 503 */
    WIRE_REJECT_REVISION = 8,    /* 503: the model it began on is gone */
    WIRE_REJECT_UNSUPPORTED = 9, /* 400 */
    WIRE_REJECT_UNKNOWN = 10 /* to Attach, Resend, Ack: no such request here; the gateway submits it again, resumed */
};

struct wire_reject {
    struct u128 request;
    uint32_t attempt;
    enum wire_reject_code code;
    uint32_t retry_after_ms;
    struct bytes text; /* for the client; never a path, address or id */
};

enum { WIRE_ALL_CHOICES = UINT32_MAX };
struct wire_cancel {
    struct u128 request;
    uint32_t attempt, choice;
};
struct wire_pause {
    struct u128 request;
    uint32_t attempt;
    bool paused;
};
/* counts: tokens taken of the choice, plus one once its finish was taken (so that a finish is known to have arrived).
 * Also tells that the request is alive: a Submit that no Ack, Cancel or finished Ack follows is dropped with its
 * gateway. */
struct wire_ack {
    struct u128s requests;
    struct u32s attempts, choices, counts;
};
struct wire_resend {
    struct u128 request;
    uint32_t attempt, choice, index;
};
struct wire_attach {
    struct u128 request;
    uint32_t attempt;
    struct u128 tenant;
    struct u32s choices, indexes;
};

/* Per token: the chosen token's log-probability, then `top` best. `tops` has one count for each token of the columns
 * beside it that has logprobs at all (0xffffffff: this token has none); ids and values hold 1 + top entries for each:
 * the chosen first. */
struct wire_logprobs {
    struct u32s tops;
    struct u32s ids;
    struct f32s values;
};
enum { WIRE_NO_LOGPROBS = UINT32_MAX };

/* Columns over items; an item is a run of tokens of one choice. Tokens are concatenated. */
struct wire_deltas {
    struct u128s requests;
    struct u32s attempts, choices;
    struct u32s indexes;       /* of the run's first token */
    struct u32s token_counts;  /* may be 0 when only a finish is told */
    struct u32s finishes;      /* enum wire_finish */
    struct u32s cached_counts; /* prompt tokens found in the prefix cache at first admission */
    struct u32s flags;         /* WIRE_DELTA_ */
    struct tokens tokens;
    struct wire_logprobs logprobs; /* tops empty: none at all in this message; else one entry a token */
    struct u128s fingerprints;     /* of the replica that made the run; count 0 or one an item */
};
enum { WIRE_DELTA_ACCEPTED = 1 /* answer to a Submit: taken, nothing made yet */, WIRE_DELTA_OTHER_FINGERPRINT = 2 };

/* ---- Plan and result ---- */

/* Puts a sequence into a slot. The worker's slot starts from exactly this; nothing older matters. */
struct wire_admit {
    uint32_t slot;
    uint64_t sequence; /* scheduler's number, for logs and to catch mix-ups */
    struct u128 request;
    uint32_t choice;
    struct tokens tokens;                /* prompt and output so far */
    uint32_t prompt_count;               /* the first so many are prompt class */
    uint32_t computed_count;             /* positions whose KV is already in the blocks below (prefix cache) */
    struct u32s block_groups, block_ids; /* blocks in order of position, each with its group */
    struct wire_sampling sampling;
    struct u32s stop_tokens;
    uint32_t max_total;             /* tokens at which the sequence ends with "length" */
    uint32_t adapter_slot;          /* 0: none */
    struct u128 grammar;            /* hash of a prepared resource; zero: none */
    const struct wire_media *media; /* position and hash only */
    size_t media_count;
};

/* SNAPSHOT: the state of slot `source` as the plans before left it becomes snapshot `target`; RESTORE: snapshot
 * `source` becomes the state of slot `target`, which this plan admits with the positions computed that it stands for.
 * Within a plan no snapshot is both written and read, or written twice. Snapshots do not outlive a registration. */
enum wire_block_op {
    WIRE_OP_COPY = 1,
    WIRE_OP_SNAPSHOT = 2,
    WIRE_OP_RESTORE = 3,
    WIRE_OP_LOAD = 4,
    WIRE_OP_STORE = 5,
    WIRE_OP_SEND = 6,
    WIRE_OP_RECEIVE = 7
};

/*
 * One step. In order: releases, admissions, block operations, new blocks, then the rows are computed.
 *
 * A row computes `token_count` positions of its slot, from the slot's computed count on. Known tokens (prompt, emitted)
 * are fed first. A row that reaches the end of the known tokens samples the next one; a decode row is token_count 1 on
 * a slot with one uncomputed known token, which may be the token that the step before, still in flight, will sample. A
 * row whose slot has ended by then is wasted: it computes nothing and its result has 0 tokens.
 */
struct wire_plan {
    uint64_t number; /* 1, 2, ... for each registration of the replica */
    uint32_t
        incarnation; /* of rank 0's Hello this plan answers; plans for another registration are dropped by the worker */
    struct u32s release_slots;
    const struct wire_admit *admits;
    size_t admit_count;
    struct u32s op_kinds, op_groups, op_sources, op_targets;     /* block operations */
    struct u32s new_block_rows, new_block_groups, new_block_ids; /* appended to the slot of row `row` */
    struct u32s row_slots, row_token_counts;
    struct u32s row_drafts;     /* draft budget a row; empty: none */
    struct u32s sealed_ids;     /* group 0 blocks that earlier steps filled (none of them handed out by this plan), */
    struct u128s sealed_hashes; /* and their chain hashes, for held_blocks of a later Hello */
    struct bytes comm_id;       /* plan 1 of a replica of several ranks: rank 0's, see wire_hello */
};

struct wire_step_result {
    uint64_t plan_number;
    uint32_t incarnation;     /* the plan's */
    struct u32s slots;        /* the plan's rows, same order */
    struct u32s token_counts; /* sampled tokens a row: 0 (prefill goes on, or ended), 1, or more with drafts */
    struct u32s finishes;     /* enum wire_finish a row */
    struct tokens tokens;     /* concatenated */
    struct wire_logprobs logprobs;
    struct u32s ops_done;
    struct f32s vectors; /* embeddings, scores; rows concatenated */
    uint32_t vector_width;
    uint64_t compute_us;
};

/* ---- Resources, drain, fencing ---- */

enum wire_resource { WIRE_RESOURCE_GRAMMAR = 1, WIRE_RESOURCE_ADAPTER = 2, WIRE_RESOURCE_MEDIA = 3 };
struct wire_prepare {
    enum wire_resource resource;
    uint32_t subkind;
    struct u128 hash;
    struct bytes source;
};
struct wire_ready {
    enum wire_resource resource;
    struct u128 hash;
};
struct wire_failed {
    enum wire_resource resource;
    struct u128 hash;
    struct bytes text;
};

struct wire_blocks_lost {
    uint32_t incarnation;
}; /* the registration that is void; 0 from the scheduler */

struct wire_drain {
    uint32_t deadline_ms;
};
struct wire_fence {
    struct u128 instance;
    uint32_t pid;
};

enum wire_exit_cause {
    WIRE_EXIT_UNKNOWN = 0, /* gone, nobody saw how */
    WIRE_EXIT_CLEAN = 1,   /* exit code 0 */
    WIRE_EXIT_CODE = 2,    /* value: exit code */
    WIRE_EXIT_SIGNAL = 3,  /* value: signal it died of */
    WIRE_EXIT_FENCED = 4   /* the supervisor ended it because it was asked to */
};
/* How a process ended. fault: the process itself says so (its handler left a mark): SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGABRT, a device error. Only faults count as attributable to a request; SIGKILL, SIGTERM and lost hosts never do. */
struct wire_exited {
    struct u128 instance;
    enum wire_exit_cause cause;
    uint32_t value;
    bool fault;
};

#endif
