#!/usr/bin/env bash
# timeout: 1200
# Bugs planted in the gateway and among the ranks, each found by the unit tests. (The scheduler's are in 30-sim.)
. "$(dirname "$0")/../lib.sh"
for category in gateway ranks; do PLANTED_SECONDS=${PLANTED_SECONDS:-120} "$ROOT/tests/planted/run.sh" $category; done
