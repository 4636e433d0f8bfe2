/* Bytes to a generation request, all dialects: nothing ends the process, and what is taken is
 * within the bounds. */
#include "base/utf8.h"
#include "fuzz.h"
#include "gateway/fields/genreq.h"

static void check_taken(const struct genreq *g) {
    CHECK(g->choice_count >= 1 && g->choice_count <= GENREQ_CHOICES_MAX);
    CHECK(g->temperature >= 0 && g->temperature <= 2 && g->top_p >= 0 && g->top_p <= 1 &&
          g->min_p >= 0 && g->min_p <= 1);
    CHECK(g->repetition_penalty > 0 && g->top_k >= -1);
    CHECK(g->top_logprobs >= 0 && g->top_logprobs <= GENREQ_TOP_LOGPROBS_MAX);
    CHECK(g->stop_count <= GENREQ_STOPS_MAX && g->stop_tokens.count <= GENREQ_STOP_TOKENS_MAX);
    CHECK(g->bias_ids.count == g->bias_values.count && g->bias_ids.count <= GENREQ_BIAS_MAX);
    uint32_t wanted = genreq_max_tokens(g, 1);
    bool may_want_none = g->dialect != GENREQ_MESSAGES && g->dialect != GENREQ_RESPONSES;
    CHECK((wanted >= 1 || may_want_none) && wanted <= WIRE_MAX_TOKENS);
    for (uint32_t i = 0; i < g->stop_count; i++) {
        CHECK(g->stops[i].len >= 1 && g->stops[i].len <= GENREQ_STOP_BYTES_MAX);
        CHECK(utf8_valid(g->stops[i].data, g->stops[i].len) &&
              !memchr(g->stops[i].data, 0, g->stops[i].len));
    }
    CHECK(utf8_valid(g->model.data, g->model.len));
    if (genreq_is_chat(g))
        CHECK(g->messages.len >= 2 && g->messages.data[0] == '[' &&
              g->messages.data[g->messages.len - 1] == ']');
    bool ollama = g->dialect == GENREQ_OLLAMA_CHAT || g->dialect == GENREQ_OLLAMA_GENERATE;
    CHECK(ollama || !genreq_asks_nothing(g));
    CHECK(!ollama || (g->choice_count == 1 && g->prompt_count <= 1));
    CHECK(g->prompt_count * (uint64_t)g->choice_count <= GENREQ_CHOICES_MAX);
    for (uint32_t i = 0; i < g->prompt_count; i++)
        CHECK(g->prompts[i].is_ids ? g->prompts[i].ids.count >= 1
                                   : utf8_valid(g->prompts[i].text.data, g->prompts[i].text.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    for (int dialect = 0; dialect < GENREQ_DIALECT_COUNT; dialect++) {
        struct genreq g;
        struct api_error err = {0};
        struct buf text;
        buf_init(&text, 0);
        if (genreq_parse(&g, (enum genreq_dialect)dialect, bytes_of(data, len), &err)) {
            CHECK(err.status >= 400 && err.status < 500 && err.text[0] &&
                  utf8_valid(err.text, strlen(err.text)));
            api_error_write(&err, &text);
            CHECK(utf8_valid(text.data, text.len));
        } else {
            check_taken(&g);
        }
        genreq_release(&g);
        buf_release(&text);
    }
    return 0;
}
