/*
 * answer.h - the way out of a generation: tokens become bytes for its client, as events of a stream
 * or as one object at the end.
 *
 * It decides nothing: who runs, what is taken and when it ends is the generation's (generation.h).
 *
 * Invariants:
 *   (1) Nothing is written before answer_begin (a stream) or answer_whole (one object).
 *   (2) After answer_end, answer_whole or answer_fail `http` is NULL: the request is not ours any
 *       more. It is NULL from the start of an answer in the background (responses.h), which is
 *       heard all the same.
 *   (3) Events of one turn gather in scratch->out and go out by one answer_flush.
 *
 * Threading: the event thread of its generation.
 */
#ifndef GATEWAY_ANSWERS_ANSWER_H
#define GATEWAY_ANSWERS_ANSWER_H

#include "base/vec.h"
#include "gateway/answers/event_ids.h"
#include "gateway/dialects/response.h"
#include "gateway/generation/submission.h"

struct answer;
struct json_writer;

/* How far a prompt is, as llama.cpp tells of it. */
struct prompt_progress {
    uint32_t cached, processed; /* of its tokens; those found in the cache are among the latter */
    int64_t us;                 /* since it was begun */
};

/* How a dialect writes an answer: each function appends to out. A stream is begin, then for each
 * choice texts and a finish, then end; or error in place of what is missing. */
struct answer_form {
    const char *stream_type; /* the content type of a stream, */
    const char *ping;        /* and what fills its silence; "": nothing can */
    bool whole_calls;        /* a stream has each tool call in one piece, and well formed */
    bool has_ids;            /* a stream is server-sent events that depend on the tokens alone */
    /* Fills *r, whose id is response_id of `number`. */
    void (*init)(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model);
    /* Keeps of the request what an answer tells of it; NULL: nothing. sampling: as it is done. */
    void (*settings)(struct answer *a, const struct genreq *g,
                     const struct wire_sampling *sampling);
    /* What comes before any text. */
    void (*begin)(struct answer *a, struct buf *out);
    /* A piece of a choice; logprobs and extra as response_chunk_text has them. */
    void (*text)(struct answer *a, const struct choice *c, const struct response_text *text,
                 struct bytes logprobs, struct bytes extra, struct buf *out);
    /* How far the prompt is whose first choice this is. NULL: not told */
    void (*progress)(struct answer *a, const struct choice *c, const struct prompt_progress *p,
                     struct buf *out);
    /* A choice has ended. */
    void (*finish)(struct answer *a, const struct choice *c, struct buf *out);
    /* All have. */
    void (*end)(struct answer *a, struct buf *out);
    void (*error)(struct answer *a, const struct api_error *err, struct buf *out);
    /* The whole answer in one. */
    void (*whole)(struct answer *a, struct buf *out);
};

/* What is open in an answer whose content is a list of blocks. */
enum answer_block {
    ANSWER_BLOCK_NONE,
    ANSWER_BLOCK_THINKING,
    ANSWER_BLOCK_TEXT,
    ANSWER_BLOCK_CALL
};

extern const struct answer_form answer_openai; /* answer_openai.c: chats and completions */
extern const struct answer_form answer_ollama; /* ollama_answer.c */
extern const struct answer_form answer_llama;  /* llama_answer.c */
extern const struct answer_form answer_sglang; /* sglang_answer.c */
extern const struct answer_form answer_tgi;    /* tgi_answer.c */
extern const struct answer_form answer_tokens; /* tokens_answer.c */
/* embed_answer.c: never a stream */
extern const struct answer_form answer_embeddings, answer_llama_embedding, answer_ollama_embed,
    answer_pooling, answer_cohere_embed, answer_encode;
extern const struct answer_form answer_rerank, answer_score, answer_classify; /* rerank_answer.c */

/* Moments of a generation, for forms that tell how long things took; of the event thread's clock.
 * All are known when it ends. */
struct answer_times {
    int64_t start_us;  /* the request's first byte */
    int64_t submit_us; /* handed to the scheduler */
    int64_t first_us;  /* its first token */
    int64_t end_us;
};

struct gather;
struct responses_state;
struct sglang_state;
struct tgi_state;

/* What becomes of a model's scores before they are shown, unless a request wants them as they are. */
enum embed_activation { EMBED_SIGMOID, EMBED_BARE, EMBED_SOFTMAX };

/* How vectors are shown (embed.h). */
struct embed_form {
    bool base64, normalize;
    uint32_t width; /* the first so many values */
    /* of texts that are compared: values are kept as they come */
    bool keeps_values;
    bool list;   /* SGLang's: an answer for each text, in a list */
    bool scores; /* a vector is the model's scores of a prompt, which becomes: */
    enum embed_activation activation;
    const struct text_labels *labels; /* borrowed from the model: what its scores are called */
    /* texts that the others are compared with; they are submissions before those, unless each pair is
     * one, which has a score */
    uint32_t first_count;
    uint32_t top_count;
    struct buf texts;      /* owned: documents as they are shown, with a comma between */
    VEC(size_t) text_ends; /* owned: where each ends */
};

/* How the probabilities of labels are shown (labels.h). */
struct labels_form {
    uint32_t count; /* of each item */
    bool softmax;
};

struct answer {
    const struct answer_form *form; /* of its dialect */
    struct http_request *http;      /* borrowed from the server; NULL: a probe, or it has ended */
    struct response_writer writer;
    struct scratch *scratch;              /* borrowed: the thread's */
    const struct submission *submissions; /* borrowed: the generation's, in order of index */
    uint32_t submission_count;
    bool stream;             /* events; else one object */
    struct event_ids ids;    /* on: the stream can be resumed */
    struct embed_form embed; /* of a dialect that has vectors */
    struct labels_form labels;
    bool logprobs; /* wanted, and */
    bool token_ids;
    bool tokens_as_ids; /* log-probabilities call tokens so */
    bool progress;      /* llama.cpp's prompt_progress is wanted, of a form that has it */
    bool timings;       /* of OpenAI's dialects: how long it took, */
    /* owned: llama.cpp's: the members alone that an answer shows, each with a zero behind; empty: all */
    struct buf shown_fields;
    struct buf verbose; /* owned: and the member that says how it was sampled; empty: not wanted */
    bool prompt_logprobs; /* of the prompt's tokens, */
    bool hides_echo;      /* which are no part of the text */
    /* how many alternatives each shows: a worker may have told more for the other's sake */
    uint32_t top_logprobs, top_prompt_logprobs;
    uint32_t prompt_logprobs_from; /* SGLang's: tokens of the prompt that are not told of */
    uint32_t best_count;     /* choices of each prompt that are shown, the best ones; 0: all */
    enum answer_block block; /* of a form that has blocks: the open one */
    uint32_t block_count;    /* begun so far */
    struct responses_state *responses; /* owned, of that dialect; NULL: another */
    struct sglang_state *sglang;       /* owned, of that dialect; NULL: another */
    struct tgi_state *tgi;             /* owned, of that dialect; NULL: another */
    struct gather *gather; /* whose answer it is one of; left once. NULL: it is one alone */
    uint32_t gather_idx;
    bool background;        /* its client was answered; see responses.h */
    bool begun;             /* the response's head is out */
    bool is_short;          /* memory was out for part of it: it has to fail */
    bool other_fingerprint; /* part of it was made by a replica whose bits may differ */
    int64_t wrote_ms;       /* when the client last got something */
    struct answer_times times;
};

/* One token of a run, with what the scheduler told of it. */
struct answer_token {
    uint32_t id;
    bool is_stop; /* it is a stop token that ends the choice */
    struct token_logprobs logprobs;
};

/* Frees what the writer holds; the request is not touched. */
void answer_release(struct answer *a);

/* The form of a dialect's answers. */
const struct answer_form *answer_form_of(enum genreq_dialect dialect);
/* The members of llama.cpp's generation_settings, but for the seed: what the request asks for and what the model's
 * defaults added. */
void answer_write_settings(const struct genreq *g, const struct wire_sampling *sampling,
                           struct json_writer *w);
/* For forms: ,"prompt_progress":{...} in llama.cpp's form. */
void answer_write_progress(const struct answer *a, const struct choice *c,
                           const struct prompt_progress *p, struct buf *out);
/* For forms: ,"timings":{...} in llama.cpp's form, at the end of an answer. */
void answer_write_timings(const struct answer *a, struct buf *out);
/* For forms: the choices of a submission that are shown, in order; the k-th of them, or NULL. Its
 * place in the answer is *index. */
const struct choice *answer_shown(const struct answer *a, uint32_t submission, uint32_t k,
                                  uint32_t *index);
/* For forms: turns what was collected of a choice's tokens into the members they are in JSON:
 * scratch->entries (log-probabilities) and ->extra. */
void answer_write_extras(struct answer *a, const struct choice *c);

/* Tokens and flags of all submissions so far. */
struct usage answer_usage(const struct answer *a);
/* Logarithms become their shares of one, of values of any size; count is not 0. */
void answer_softmax(double *values, uint32_t count);
/* The one of its submissions that the choice is of. */
const struct submission *answer_submission_of(const struct answer *a, const struct choice *c);
/* Whether what it writes goes to anybody. */
static inline bool answer_is_heard(const struct answer *a) {
    return a->http || a->background || a->gather;
}
/* Whether every choice ended so. */
bool answer_all_ended(const struct answer *a, enum choice_finish finish);

/* Sends the head of a stream and what comes before any text. False: the client's buffer is full. */
bool answer_begin(struct answer *a, int64_t now_ms);
/* Feeds a choice one token; a stream's event for it is gathered. True when the choice has ended
 * with it: a stop string, or it is the stop token. */
bool answer_feed(struct answer *a, struct choice *c, const struct answer_token *token);
/* The worker ended the choice without a stop token: what is held back comes out. */
void answer_end_choice(struct answer *a, struct choice *c, enum choice_finish finish);
/* The choice has become a vector, of `width` values. */
void answer_take_vector(struct answer *a, struct choice *c, const float *values, uint32_t width);
/* A stream's last event of a choice. */
void answer_finish_choice(struct answer *a, const struct choice *c);
/* A comment, or what the form has for it, keeps proxies and clients from giving up on a quiet stream. False as answer_flush. */
bool answer_ping(struct answer *a, int64_t now_ms);
/* Writes what is gathered. False: the client's buffer is full; on_drained of the request follows.
 * */
bool answer_flush(struct answer *a, int64_t now_ms);

/* Each ends the response. answer_whole: one object; the room that the tenant has for it goes with it
 * (whole_body.h). False: nothing was done, memory is out. */
MUST_CHECK bool answer_whole(struct answer *a, struct gateway *gw, struct u128 tenant,
                             uint64_t room);
/* Bytes that a choice of an answer in one piece holds so far. */
uint64_t answer_choice_bytes(const struct choice *c);
/* The last events of a stream; it must have begun. */
void answer_end(struct answer *a);
/* The status if nothing was sent yet, else an event of the stream. */
void answer_fail(struct answer *a, enum genreq_dialect dialect, const struct api_error *err);

#endif
