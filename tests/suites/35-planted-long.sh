#!/usr/bin/env bash
# timeout: 1200
# seconds: 400
# Bugs planted in the gateway, among the ranks, in what handles text, in who may speak, and one step beside boundaries, each found by the unit tests. (The scheduler's are in 30-sim.)
. "$(dirname "$0")/../lib.sh"
for category in gateway ranks text edges trust; do PLANTED_SECONDS=${PLANTED_SECONDS:-50} "$ROOT/tests/planted/run.sh" $category; done
