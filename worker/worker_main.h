/*
 * worker_main.h - `trireme worker`: options, threads, the admin port.
 */
#ifndef WORKER_WORKER_MAIN_H
#define WORKER_WORKER_MAIN_H

/* Exit code: 0 after SIGTERM and a drain; 1 when it could not start. argv[0] is the command's
 * name. */
int worker_main(int argc, char **argv);

#endif
