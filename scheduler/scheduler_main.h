/*
 * scheduler_main.h - the program "trireme scheduler".
 */
#ifndef SCHEDULER_SCHEDULER_MAIN_H
#define SCHEDULER_SCHEDULER_MAIN_H

#include "base/option.h"

/* Runs until SIGTERM or SIGINT, then drains: 0 when all work could end (or the deadline passed), 1
 * when the start failed or a newer scheduler has taken over. A second signal ends it at once. */
int scheduler_main(int argc, char **argv);
/* For docs and for the supervisor. */
extern const struct option_table scheduler_options;

#endif
