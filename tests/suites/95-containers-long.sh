#!/usr/bin/env bash
# timeout: 1200
# seconds: 440
# The compose file brought up for real. Needs a docker engine with compose.
. "$(dirname "$0")/../lib.sh"
if timeout 10 docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1; then python3 "$ROOT/tests/containers/test_compose.py"
else skip docker containers.compose "no docker engine with compose"; fi
