/* The gateway alone as a program, so that the benchmark does not wait for the whole command. */
#include "gateway/gateway_main.h"

int main(int argc, char **argv) {
    return gateway_main(argc, argv);
}
