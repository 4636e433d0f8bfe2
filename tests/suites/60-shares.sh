#!/usr/bin/env bash
# alone: yes
# timeout: 300
# Real binaries: batches, and shares of the machine by how long answers take.
. "$(dirname "$0")/../lib.sh"
export BUILD_RELEASE
cd "$ROOT/tests/e2e" && python3 run.py test_batch.py test_fair.py
