#include "worker/hooks.h"

struct worker_hooks worker_hooks;
