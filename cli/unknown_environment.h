/*
 * unknown_environment.h - variables that look like ours and that nothing reads: a misspelled option, or one of
 * llama-server (LLAMA_ARG_CTX_SIZE). A server would start without what they were to set.
 */
#ifndef CLI_UNKNOWN_ENVIRONMENT_H
#define CLI_UNKNOWN_ENVIRONMENT_H

#include "base/option.h"

/* A line on standard error for each variable TRIREME_* or LLAMA_ARG_* that no row of these tables has, with the
 * nearest row's if one is near. Unsets them, so that children do not tell them again. Left alone are what the
 * program, its build and its tests read beside options, and what Kubernetes sets for services called
 * "trireme...". Before threads. */
void unknown_environment_tell(const struct option_table *const *tables, size_t count);

#endif
