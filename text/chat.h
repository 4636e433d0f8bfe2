/*
 * chat.h - messages to a prompt: which template, with which variables, then text to tokens.
 *
 * The template is chosen as HF transformers does: chat_template.jinja (and
 * additional_chat_templates/NAME.jinja) win over chat_template.json and over chat_template in
 * tokenizer_config.json, which is a string or a list of {name, template}. With no name given:
 * "tool_use" when the request has tools and such a template exists, else "default". A model with
 * one template has only that. Variables: messages, tools (none when absent, and
 * left out where the template fails with none), documents (none when absent),
 * add_generation_prompt, the special tokens by name (bos_token, eos_token, ...), reasoning_effort
 * ("none" also sets enable_thinking and thinking to false), then chat_template_kwargs, which may
 * not replace messages.
 *
 * Threading: const after chat_load; any thread may render.
 */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "text/bundle.h"
#include "text/guard.h"
#include "text/parse/parse.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"

struct chat;

struct chat_request {
    struct bytes messages;         /* JSON array of {role, content, ...} */
    struct bytes tools;            /* JSON array, or empty */
    struct bytes documents;        /* JSON array, or empty */
    struct bytes kwargs;           /* JSON object (chat_template_kwargs), or empty */
    struct bytes reasoning_effort; /* "low", ..., or empty; kwargs of the same name win */
    const char *template_name;     /* NULL: as above */
    struct bytes template_source;  /* a template for this request alone; empty: the model's */
    bool add_generation_prompt;    /* default of the API is true: set it */
    /* the last message is left open; excludes add_generation_prompt */
    bool continue_final_message;
    /* pass messages as they are: no content parts joined, no tool arguments parsed */
    bool raw_messages;
    struct template_limits limits; /* limits.now_s: the local time for strftime_now */
};

/* Reads the templates and special tokens of a bundle. A model without a template loads too:
 * chat_has_template is false then. */
MUST_CHECK int chat_load(const struct bundle *bundle, struct chat **out, struct error *err);
/* Replaces all templates by one (--chat-template FILE). */
MUST_CHECK int chat_set_template(struct chat *chat, struct bytes source, struct error *err);
/* Adds one under a name that no other has. */
MUST_CHECK int chat_add_template(struct chat *chat, const char *name, struct bytes source,
                                 struct error *err);
/* Gives a model without a template a well-known one (chatml, llama3, gemma, ...), told by the
 * special tokens of its vocabulary and config.json's model_type (may be empty). Its name, or NULL:
 * there is a template, or none fits. */
const char *chat_probe(struct chat *chat, const struct tokenizer *tokenizer,
                       struct bytes model_type);
/* Frees *chat and clears it; NULL: nothing. */
void chat_free(struct chat **chat);
/* True when the model brought a chat template, or one was set. */
bool chat_has_template(const struct chat *chat);
/* The source of the template that would be chosen; empty when none. Valid while chat lives. */
struct bytes chat_template_source(const struct chat *chat, const char *name, bool has_tools);

/* How answers to the chosen template's prompts are read: by the marks it shows, unless
 * chat_set_formats said otherwise. */
struct chat_formats {
    const struct reasoning_format *reasoning; /* NULL: none */
    const struct call_format *calls;          /* NULL: none */
};
/* The formats of the template that would be chosen; `name` as in chat_render. */
struct chat_formats chat_formats(const struct chat *chat, const char *name, bool has_tools);
/* Sets the formats of all templates; NULL or "auto": as the template shows, "none": none.
 * ERR_NOT_FOUND lists the names there are. */
MUST_CHECK int chat_set_formats(struct chat *chat, const char *reasoning, const char *calls,
                                struct error *err);

/* Appends the rendered prompt to out. Unless raw_messages: a template that wants strings gets text
 * parts joined by newlines, and JSON strings in tool_calls[].function.arguments become objects, as
 * vLLM does (where the template fails with the objects, they stay strings, which in vLLM is an
 * error). Errors: ERR_NOT_FOUND no template; ERR_INVALID the messages do not fit the template (the
 * text is fit for the client); ERR_UNSUPPORTED a part that is not text; ERR_LIMIT. */
MUST_CHECK int chat_render(const struct chat *chat, const struct chat_request *request,
                           struct buf *out, struct error *err);
/* The same, and where in what was appended a special token is spelled by somebody else than the
 * template or the assistant (guard.h): appended to spots, as offsets from where out ended
 * before. */
MUST_CHECK int chat_render_guarded(const struct chat *chat, const struct tokenizer *tokenizer,
                                   const struct chat_request *request, struct buf *out,
                                   struct plain_spots *spots, struct error *err);
/* chat_render_guarded, then tokenizer_encode_spots with TOKENIZE_PARSE_SPECIAL and without
 * TOKENIZE_ADD_SPECIAL (the template writes BOS itself). */
MUST_CHECK int chat_prompt(const struct chat *chat, const struct tokenizer *tokenizer,
                           const struct chat_request *request, struct token_vec *out,
                           struct error *err);

#endif
