/* test_options.c - the options of each command are those of docs/options.md. */
#include "base/base.h"
#include "check.h"
#include "cli/commands.h"
#include "option_page.h"

TEST(options_of_commands_are_those_of_the_manual) {
    static const struct option_table *const TABLES[] = {
        &serve_options,  &perplexity_options, &logits_options, &convert_options, &quantize_options,
        &doctor_options, &tokenize_options,   &decode_options, &render_options,  &grammar_options,
        &run_options,    &generate_options,   &chat_options,   &info_options,    &status_options,
        &scale_options,  &load_options,       &reload_options, &unload_options,  &remove_options,
        &keygen_options, &top_options,        &pull_options,   &list_options,    &delete_options,
        &prune_options,  &bench_options};
    for (size_t i = 0; i < ARRAY_LEN(TABLES); i++)
        if (!option_page_has(TABLES[i]))
            check_fail(__FILE__, __LINE__, "docs/options.md has another table of '%s'",
                       TABLES[i]->program);
}
