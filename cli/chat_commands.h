/*
 * chat_commands.h - a conversation, and what a person can do with it by lines that begin with "/".
 */
#ifndef CLI_CHAT_COMMANDS_H
#define CLI_CHAT_COMMANDS_H

#include "cli/talk.h"

#include "base/vec.h"

struct conversation {
    struct talk_settings settings; /* a copy, changed by /set; its texts are borrowed */
    char *system;                  /* owned; NULL: none */
    VEC(char *) said;              /* owned; the person first, then in turn */
};

/* settings is copied; its texts must outlive the conversation. */
void conversation_init(struct conversation *c, const struct talk_settings *settings);
/* Frees the system message and what was said. */
void conversation_release(struct conversation *c);
/* Forgets what was said; the system message stays. */
void conversation_clear(struct conversation *c);
/* Appends what was said last; copied. */
void conversation_add(struct conversation *c, const char *text);
/* Takes back what was said last. */
void conversation_drop_last(struct conversation *c);
/* Appends the JSON array of its messages. */
void conversation_messages(const struct conversation *c, struct buf *json);
/* Writes the messages to a new file, as {"messages": [...]}; one that is there stays (ERR_INVALID)
 * unless over. */
MUST_CHECK int conversation_save(const struct conversation *c, const char *path, bool over,
                                 struct error *err);
/* Takes the messages of such a file in place of what was said; on failure nothing changes. */
MUST_CHECK int conversation_load(struct conversation *c, const char *path, struct error *err);

enum chat_outcome { CHAT_GO_ON, CHAT_QUIT };
/* Does what a line that begins with "/" says, and tells it on standard output; what went wrong, on
 * standard error. */
enum chat_outcome chat_command(struct conversation *c, const char *line);

#endif
