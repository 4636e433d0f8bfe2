/*
 * foreign_environment.h - variables of Bolt-XL, XandLLM, blazr, the SmolLM3 bot, vLLM and llama-server that say
 * what an option of ours does: HF_HOME and the like are ours, too, and need none of this.
 */
#ifndef CLI_FOREIGN_ENVIRONMENT_H
#define CLI_FOREIGN_ENVIRONMENT_H

/* Sets TRIREME_NAME of each option that such a variable speaks of, unless it is set already, and says so
 * on standard error. Before options are parsed, and before threads. Variables that other programs have,
 * too (HOST, PORT, MODEL_PATH), are left alone. Variables that have no option here are told, too, and so is a
 * TRIREME_PORT that Kubernetes sets for a service called "trireme" (tcp://ADDRESS:PORT); they are unset. */
void foreign_environment_take(void);
/* Rows of a markdown table, to standard output: their names, ours. */
void foreign_environment_print(void);

#endif
