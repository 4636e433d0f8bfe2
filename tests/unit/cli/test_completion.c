#include "base/base.h"
#include "check.h"
#include "cli/completion.h"

#include <stdio.h>
#include <stdlib.h>

struct settings {
    int64_t port;
    const char *model;
    int level;
    bool quiet, trace;
};
#define AT(field) offsetof(struct settings, field)
static const struct option_row ROWS[] = {
    {"port", 'p', OPTION_INT, AT(port), "80", .help = "It's a port: [of one]."},
    {"model", 0, OPTION_STRING, AT(model), NULL, .help = "A folder\\file. Or not."},
    {"level", 0, OPTION_ENUM, AT(level), "low", .choices = "low|high", .help = "How much."},
    {"quiet", 'q', OPTION_BOOL, AT(quiet), NULL, .help = "Says nothing; never."},
    {"trace", 0, OPTION_BOOL, AT(trace), NULL, .help = "For tests.", .hidden = true},
};
static const struct option_table TABLE = {.program = "trireme go",
                                          .synopsis = "[OPTIONS]",
                                          .summary = "Goes.",
                                          .rows = ROWS,
                                          .count = ARRAY_LEN(ROWS)};
static const struct completion_command COMMANDS[] = {{"go", "let's go: now", &TABLE},
                                                     {"stay", "stay here", NULL}};

static bool has(const struct buf *text, const char *part) {
    return strstr(buf_text(text), part) != NULL;
}

TEST(completion_of_bash_knows_commands_flags_and_words) {
    struct buf text;
    buf_init(&text, 0);
    completion_bash(&text, COMMANDS, ARRAY_LEN(COMMANDS));
    EXPECT(has(&text, "compgen -W 'go stay' --"));
    EXPECT(has(&text, "go) flags='--port --model --level --quiet --config --help' ;;"));
    EXPECT(has(&text, "'go --level') words='low high' known=1 ;;"));
    EXPECT(has(&text, "'go --port' | 'go -p') words='' known=1 ;;"));
    EXPECT(!has(&text, "'go --model'"));
    EXPECT(!has(&text, "trace"));
    buf_release(&text);
}

TEST(completion_of_zsh_escapes_what_arguments_reads) {
    struct buf text;
    buf_init(&text, 0);
    completion_zsh(&text, COMMANDS, ARRAY_LEN(COMMANDS));
    EXPECT(has(&text, "'go:let'\\''s go\\: now'"));
    EXPECT(has(&text, "'(-p --port)'{-p+,--port=}'[It'\\''s a port]:number: '"));
    EXPECT(has(&text, "--model='[A folder\\\\file]:text:_files'"));
    EXPECT(has(&text, "--level='[How much]:value:(low high)'"));
    EXPECT(has(&text, "'(-q --quiet)'{-q,--quiet}'[Says nothing]'"));
    EXPECT(!has(&text, "trace"));
    buf_release(&text);
}

TEST(completion_of_fish_takes_values_where_there_are_some) {
    struct buf text;
    buf_init(&text, 0);
    completion_fish(&text, COMMANDS, ARRAY_LEN(COMMANDS));
    EXPECT(has(&text, "-f -a go -d 'let\\'s go: now'\n"));
    EXPECT(has(&text, "from go' -l port -s p -x -d 'It\\'s a port'\n"));
    EXPECT(has(&text, "from go' -l model -r -d 'A folder\\\\file'\n"));
    EXPECT(has(&text, "from go' -l level -x -a 'low high' -d 'How much'\n"));
    EXPECT(has(&text, "from go' -l quiet -s q -d 'Says nothing'\n"));
    EXPECT(!has(&text, "trace"));
    buf_release(&text);
}
