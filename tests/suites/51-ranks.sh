#!/usr/bin/env bash
# timeout: 900
# seconds: 240
# long: yes
# Replicas of several ranks: tensor parallel, pipelines, both; ranks killed and stopped. In a long run every rank of every shape.
. "$(dirname "$0")/../lib.sh"
export BUILD_RELEASE LONG
cd "$ROOT/tests/e2e" && python3 run.py test_ranks.py test_ranks_hosts.py
