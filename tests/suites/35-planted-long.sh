#!/usr/bin/env bash
# timeout: 1800
# Bugs planted in the gateway, each found by its unit tests. (The scheduler's are in 30-sim.)
. "$(dirname "$0")/../lib.sh"
"$ROOT/tests/planted/run.sh" gateway
