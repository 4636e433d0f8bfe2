/*
 * foreign_flags.h - flags of llama-server, vLLM and SGLang that set nothing here, so that a command
 * line written for one of them says what becomes of each word. Those that set something are
 * `aliases` in the tables of options.
 */
#ifndef CLI_FOREIGN_FLAGS_H
#define CLI_FOREIGN_FLAGS_H

#include "base/option.h"

extern const struct option_foreign foreign_flags[];
extern const size_t foreign_flag_count;

#endif
