/*
 * gateway_main.h - the program "trireme gateway".
 */
#ifndef GATEWAY_GATEWAY_MAIN_H
#define GATEWAY_GATEWAY_MAIN_H

#include "base/option.h"

/* Runs until SIGTERM or SIGINT, then drains: 0 when every stream could end, 1 when some were cut or
 * the start failed. */
int gateway_main(int argc, char **argv);
/* For docs and for the supervisor. */
extern const struct option_table gateway_options;

#endif
