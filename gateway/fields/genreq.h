/*
 * genreq.h - the generation request: one plain struct for every dialect of the API.
 *
 * A dialect's parser fills it from the body; nothing after that knows which JSON it came from.
 * Values are in range, strings are valid UTF-8, counts are within the bounds below. What depends on
 * the model (defaults of its generation_config, token ids against its width, the room left in its
 * context) is settled later, in prepare.h: `given` tells which fields the client set.
 *
 * Memory: texts with escapes and all lists live in the arena; raw JSON spans (messages, tools, ...)
 * point into the body, which the caller keeps while the genreq lives.
 */
#ifndef GATEWAY_FIELDS_GENREQ_H
#define GATEWAY_FIELDS_GENREQ_H

#include "base/arena.h"
#include "gateway/answers/api_error.h"
#include "proto/messages.h"

enum {
    /* prompts of one completions request; prompts * n <= GENREQ_CHOICES_MAX */
    GENREQ_PROMPTS_MAX = 128,
    GENREQ_CHOICES_MAX = 128,
    GENREQ_INPUTS_MAX = 2048, /* texts of one request for embeddings */
    GENREQ_STOPS_MAX = 64,
    GENREQ_STOP_BYTES_MAX = 1024, /* of one stop string */
    /* of all: escaped, six times as many must fit into a presentation */
    GENREQ_STOPS_BYTES_MAX = 16384,
    GENREQ_STOP_PATTERNS_MAX = 16, /* of FINDER_BYTES_MAX at most */
    GENREQ_STOP_TOKENS_MAX = 40,   /* the wire's bound less room for end-of-text ids */
    GENREQ_BIAS_MAX = 1024,
    GENREQ_BIAS_TEXT_MAX = 256,   /* bytes of one text that stands for its tokens */
    GENREQ_ALLOWED_MAX = 1 << 18, /* ids; the largest vocabularies have as many */
    GENREQ_BAD_WORDS_MAX = 128,
    GENREQ_BAD_WORD_BYTES_MAX = 256,
    GENREQ_TOP_LOGPROBS_MAX = 20,
    GENREQ_MESSAGES_MAX = 16384,
    GENREQ_NAME_MAX = 256, /* model names and other short strings */
    GENREQ_INSTRUCTION_MAX = 16 << 10,
    GENREQ_USER_MAX = 512,
    GENREQ_SALT_MAX = 1024,  /* bytes of cache_salt, as with vLLM */
    GENREQ_FILES_MAX = 1024, /* of an infill */
    GENREQ_DEPTH_MAX = 64,   /* nesting of the body */
    GENREQ_BREAKERS_MAX = 64,
    GENREQ_RESPONSE_FIELDS_MAX = 64,
    GENREQ_BREAKER_BYTES_MAX = 40, /* of one text that ends a repetition */
    GENREQ_ALIASES_MAX = 16,
};

enum genreq_dialect {
    GENREQ_CHAT = 0,
    GENREQ_COMPLETIONS = 1,
    GENREQ_MESSAGES = 2, /* Anthropic's */
    GENREQ_OLLAMA_CHAT = 3,
    GENREQ_OLLAMA_GENERATE = 4,
    GENREQ_RESPONSES = 5,  /* OpenAI's */
    GENREQ_COMPLETION = 6, /* llama.cpp's */
    GENREQ_INFILL = 7,     /* llama.cpp's */
    /* vectors (embed.h), up to COHERE_EMBED: embeddings of OpenAI, of llama.cpp, of Ollama, and
     * Ollama's older ones */
    GENREQ_EMBEDDINGS = 8,
    GENREQ_LLAMA_EMBEDDING = 9,
    GENREQ_OLLAMA_EMBED = 10,
    GENREQ_OLLAMA_EMBEDDINGS = 11,
    GENREQ_RERANK = 12, /* texts compared, by embeddings or a model made for it */
    GENREQ_SCORE = 13,
    GENREQ_POOLING = 14,      /* vLLM's */
    GENREQ_CLASSIFY = 15,     /* vLLM's */
    GENREQ_COHERE_EMBED = 16, /* Cohere's */
    GENREQ_GENERATE = 17,     /* SGLang's */
    GENREQ_TOKENS = 18,       /* vLLM's, from token ids to token ids */
    /* TGI's: /generate with `inputs`, /generate_stream, and / */
    GENREQ_TGI = 19,
    GENREQ_TGI_STREAM = 20,
    GENREQ_TGI_ROOT = 21,
    GENREQ_ENCODE = 22,     /* vectors, SGLang's */
    GENREQ_INVOCATION = 23, /* SageMaker's: the body says which other one it is of */
    /* how likely tokens are (labels.h): vLLM's, SGLang's, LMDeploy's */
    GENREQ_GENERATIVE_SCORING = 24,
    GENREQ_LABEL_SCORES = 25,
    GENREQ_PPL = 26,
    GENREQ_DIALECT_COUNT
};

/* Bits of genreq.given: fields whose default may come from the model. */
enum genreq_given {
    GENREQ_TEMPERATURE = 1 << 0,
    GENREQ_TOP_P = 1 << 1,
    GENREQ_TOP_K = 1 << 2,
    GENREQ_MIN_P = 1 << 3,
    GENREQ_REPETITION = 1 << 4,
    GENREQ_SEED = 1 << 5,
    GENREQ_MAX_TOKENS = 1 << 6,
    GENREQ_MAX_COMPLETION_TOKENS = 1 << 7,
    GENREQ_TOP_LOGPROBS = 1 << 8,
    GENREQ_ADD_SPECIAL = 1 << 9,
    GENREQ_STREAM_OPTIONS = 1 << 10,
    GENREQ_MIN_TOKENS = 1 << 11,
    GENREQ_CHOICE_COUNT = 1 << 12,
    GENREQ_CACHE_SALT = 1 << 13,
    GENREQ_PENALTY_WINDOW = 1 << 14,
    GENREQ_MODEL = 1 << 15,
};

/* One prompt: text to be tokenized, or ids taken as they are. */
struct genreq_prompt {
    bool is_ids;
    struct bytes text;
    struct tokens ids;
};

enum constraint_kind {
    CONSTRAINT_NONE,
    CONSTRAINT_SCHEMA,    /* JSON Schema, raw */
    CONSTRAINT_REGEX,     /* the whole answer */
    CONSTRAINT_GRAMMAR,   /* GBNF */
    CONSTRAINT_CHOICE,    /* a raw JSON list of strings */
    CONSTRAINT_STRUCTURE, /* raw JSON (grammar/structure.h) */
};
struct genreq_constraint {
    enum constraint_kind kind;
    struct bytes text; /* in the arena */
    const char *field; /* as the client named it; static */
};

/* Of OpenAI's responses alone: what an answer that is kept needs (responses.h). */
struct genreq_kept {
    struct bytes input;        /* raw, in the body */
    bool refers;               /* it names items of responses that are kept */
    struct bytes previous;     /* id of the response that this one goes on from; empty: none */
    struct bytes instructions; /* a raw string; empty: none */
    struct bytes turns;        /* messages of the conversation without them, comma-separated */
    uint32_t turn_count;
    struct bytes items; /* the input as items, comma-separated; empty: not to be kept */
    struct bytes echo;  /* members of the response that say what was asked: ,"NAME":VALUE,... */
    bool store, background;
    bool drops_turns; /* where they do not fit, the oldest go (drop_turns.h) */
    bool summary;     /* what was thought goes out as a summary */
};

/* What becomes of a vector before it is shown. */
enum embed_normalize { EMBED_AS_THE_MODEL, EMBED_AS_IT_IS, EMBED_NORMALIZE };

/* What vLLM's /pooling is for. */
enum embed_task { EMBED_TASK_ANY, EMBED_TASK_EMBED, EMBED_TASK_CLASSIFY };

/* Of requests for embeddings alone; their inputs are `prompts`. */
struct genreq_embed {
    enum embed_normalize normalize; /* to length 1, or as the model's files say */
    bool base64;                    /* shown so: little-endian f32 */
    int64_t dimensions;             /* the first so many are wanted; 0: all */
    uint32_t first_count;           /* prompts that are compared with the others; 0: none is */
    int64_t top_count;              /* so many best are shown; 0: all */
    bool shows_texts;               /* with their texts */
    bool has_input_type;            /* Cohere's, which the answer warns of */
    enum embed_task task;           /* the model must be made for it */
    struct bytes instruction; /* by what texts are judged; empty: as the model's template says */
};

/* Of requests that ask how likely tokens are; their prompts are the query, then the items. */
struct genreq_labels {
    struct u32s ids;
    bool softmax;     /* shown as shares among the labels, else among all tokens */
    bool item_first;  /* before the query */
    bool joins_texts; /* two texts become tokens as one */
};

/* A prompt that is longer is cut. */
struct genreq_truncate {
    bool wanted;
    int64_t tokens; /* so many are left; 0 or -1: as many as the model's context has room for */
    bool keeps_end; /* its beginning goes, not its end */
};

/* What stands around the text that is to be filled in (infill.h). */
struct genreq_infill {
    struct bytes prefix, suffix;
    const struct genreq_file {
        struct bytes name, text;
    } * files; /* other files, which go before */
    uint32_t file_count;
    bool wanted;
};

/* Of TGI's requests alone. */
struct genreq_tgi {
    bool details;   /* the answer tells of its tokens */
    bool full_text; /* its text begins with the prompt */
};

/* A field that the client gave under another name than its usual one; both static. */
struct genreq_alias {
    const char *of, *name;
};

/* Whether the template is told to let the model think; in the order of Anthropic's words for it. */
enum genreq_thinking { THINKING_AS_TEMPLATE, THINKING_ON, THINKING_OFF };

struct genreq {
    enum genreq_dialect dialect;
    uint32_t given;                                  /* enum genreq_given */
    struct genreq_alias aliases[GENREQ_ALIASES_MAX]; /* field_name_as_asked */
    uint32_t alias_count;
    struct bytes model; /* empty: the only one */
    struct bytes user;  /* the client's name for its own user; checked, used for nothing yet */

    /* what is asked: raw JSON for a chat, prompts for a completion. Both (one prompt, then): the
     * prompt is for a model without a chat template */
    struct bytes messages, tools, documents, template_kwargs;
    struct bytes functions;        /* OpenAI's older name for tools, until functions_apply */
    struct bytes chat_template;    /* of this request alone; empty: the model's */
    struct bytes reasoning_effort; /* empty: not given */
    const char *verbosity;         /* static; NULL: not given */
    bool add_generation_prompt, continue_final_message;
    struct genreq_prompt *prompts;
    uint32_t prompt_count;

    /* sampling; defaults are those of OpenAI's API */
    bool greedy; /* the likeliest token, whatever the temperature */
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    double top_n_sigma; /* 0 or less: off */
    int64_t top_k;      /* -1 or 0: off */
    /* when given: tokens that penalties look back at; -1: all, 0: penalties are off */
    int64_t penalty_window;
    /* llama.cpp's samplers (kernels/sample_rules.h), and its defaults */
    uint64_t sampler_order;                   /* enum wire_sample_step, four bits each; 0: usual */
    double typical_p;                         /* 1: off */
    double xtc_probability, xtc_threshold;    /* probability 0 or less: off */
    double dynatemp_range, dynatemp_exponent; /* range 0: off */
    double dry_multiplier, dry_base;          /* multiplier 0: off */
    int64_t dry_allowed_length, dry_window;   /* window -1: all tokens, 0: dry is off */
    const struct bytes *breakers;             /* texts; none given: llama.cpp's four */
    uint32_t breaker_count;
    enum wire_steering mirostat;
    double mirostat_tau, mirostat_eta;
    double adaptive_target, adaptive_decay; /* target below 0: off */
    int64_t seed;
    bool logprobs;                /* wanted at all */
    int64_t top_logprobs;         /* 0 .. GENREQ_TOP_LOGPROBS_MAX */
    int64_t prompt_logprobs;      /* the same of the prompt's tokens; -1: not wanted */
    int64_t prompt_logprobs_from; /* SGLang's: from this token of it on; -1: of none */
    struct u32s bias_ids;
    struct f32s bias_values;
    /* llama.cpp's: each token of the text has the bias */
    const struct genreq_bias_text {
        struct bytes text;
        float value;
    } * bias_texts;
    uint32_t bias_text_count;
    struct u32s allowed_ids; /* no other token may come; none given: all may */
    const struct bytes *bad_words;
    uint32_t bad_word_count;

    /* limits */
    int64_t max_tokens, max_completion_tokens; /* valid when given; -1: as many as fit */
    int64_t min_tokens;
    const struct bytes *stops; /* stop strings, in order */
    uint32_t stop_count;
    const struct bytes *stop_patterns; /* the answer ends where one is found (grammar/finder.h) */
    uint32_t stop_pattern_count;
    struct u32s stop_tokens;
    bool ignore_eos, include_stop_text, skip_special_tokens, add_special_tokens;
    int64_t choice_count; /* n: choices of each prompt */
    int64_t best_of; /* so many are made, of which the best are shown; 0: as many as are shown */
    int64_t priority;
    /* llama.cpp's: from its first token on, a line may still be ended; 0 or less: any time */
    int64_t predict_ms;
    double timeout_s; /* its client waits so long from its arrival on; 0: as the server says */
    struct genreq_truncate truncate;
    struct bytes request_id; /* what the client calls it, where no header does; empty: nothing */
    bool service_tier;       /* the answer says which one served it */
    bool probes;             /* nobody's: it asks whether the model computes anything */
    struct bytes cache_salt;

    /* answer */
    bool stream, include_usage, continuous_usage, return_token_ids;
    bool tokens_as_ids; /* log-probabilities call tokens token_id:ID; SGLang's: by no text */
    bool answers_list;  /* SGLang's: one object for each choice, in a list; TGI's: so at / */
    bool timings;       /* llama.cpp's, of OpenAI's dialects */
    bool progress;      /* llama.cpp's prompt_progress, of a stream */
    /* llama.cpp's: of its own answers these members alone, NAME or NAME/NAME/...; none given: all */
    const struct bytes *response_fields;
    uint32_t response_field_count;
    bool verbose; /* these tell how they were sampled, as llama.cpp's own calls do */
    bool echo; /* of a completion: the prompt comes first, with the log-probabilities asked for */
    bool include_reasoning;        /* show what was thought */
    bool separate_reasoning;       /* tell it from content */
    enum genreq_thinking thinking; /* beside template_kwargs, until field_apply_thinking */
    const char *thinking_field;    /* what said so; borrowed */
    int64_t thinking_budget;       /* tokens that it may think; -1: any number */
    /* What said so, and is refused where the model's reasoning cannot be told; borrowed. NULL: nothing
     * did, or what all clients have to say (Messages): then there is no bound there. */
    const char *thinking_budget_field;
    bool must_think;          /* refused where the model's reasoning cannot be told */
    bool parallel_tool_calls; /* false: the first call alone */
    bool bare_calls;          /* the call is told as OpenAI's older `function_call` */
    bool tool_choice_none, tool_choice_required;
    struct bytes tool_choice_name; /* the function that must be called; empty: none */
    struct bytes allowed_tools;    /* raw: the list of those that may be called; empty: all */
    struct genreq_constraint constraint;
    struct genreq_kept kept;
    struct genreq_embed embed;
    struct genreq_labels labels;
    struct genreq_tgi tgi;
    struct genreq_infill infill; /* of that dialect; its prompt begins what is filled in */

    struct arena arena; /* owned */
};

/* Whether its prompt is messages that a chat template takes; else it is text or token ids. */
static inline bool genreq_is_chat(const struct genreq *g) {
    return g->messages.len > 0;
}
/* Whether it asks for vectors, not for text. */
static inline bool genreq_embeds(const struct genreq *g) {
    return (g->dialect >= GENREQ_EMBEDDINGS && g->dialect <= GENREQ_COHERE_EMBED) ||
           g->dialect == GENREQ_ENCODE;
}
/* Whether it asks how likely tokens are, and for no text. */
static inline bool genreq_scores_tokens(enum genreq_dialect dialect) {
    return dialect >= GENREQ_GENERATIVE_SCORING && dialect <= GENREQ_PPL;
}
static inline bool genreq_is_tgi(enum genreq_dialect dialect) {
    return dialect >= GENREQ_TGI && dialect <= GENREQ_TGI_ROOT;
}
/* An empty request with the API's defaults. */
void genreq_init(struct genreq *g, enum genreq_dialect dialect);
/* Parses a body of the given dialect. 0, or -1 with *err filled (400). The genreq must be released
 * either way. */
MUST_CHECK int genreq_parse(struct genreq *g, enum genreq_dialect dialect, struct bytes body,
                            struct api_error *err);
/* Frees the arena, and with it all texts and lists; numbers and flags stay readable. */
void genreq_release(struct genreq *g);
/* 0, or -1 with *err filled: prompts times choices are at most GENREQ_CHOICES_MAX. */
MUST_CHECK int genreq_check_choices(const struct genreq *g, struct api_error *err);
/* 0, or -1 with *err filled: the prompt's log-probabilities stand in an answer in one piece. */
MUST_CHECK int genreq_check_prompt_logprobs(const struct genreq *g, struct api_error *err);
/* A copy of text that lives as long as g. 0, or -1 with *err filled: memory is out. */
MUST_CHECK int genreq_keep(struct genreq *g, const struct buf *text, struct bytes *out,
                           struct api_error *err);
/* The text between g's only prompt, which is a text, and g->infill.suffix is wanted. */
void genreq_infill_between(struct genreq *g);
/* Neither messages nor prompts: with Ollama's clients, a question whether the model is there. */
bool genreq_asks_nothing(const struct genreq *g);
/* Choices of each prompt that are made. */
static inline uint32_t genreq_choices_made(const struct genreq *g) {
    return (uint32_t)MAX(g->choice_count, g->best_of);
}
/* Where the client has not said max_tokens it is this, or min_tokens if that is more. */
void genreq_default_max_tokens(struct genreq *g, int64_t tokens);
/* Output tokens asked for: max_completion_tokens, else max_tokens, else fallback. */
uint32_t genreq_max_tokens(const struct genreq *g, uint32_t fallback);

#endif
