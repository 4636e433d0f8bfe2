#include "cli/commands.h"

int main(int argc, char **argv) {
    return trireme_main(argc, argv);
}
