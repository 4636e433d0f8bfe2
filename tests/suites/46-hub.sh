#!/usr/bin/env bash
# timeout: 400
# Models by name, from a server that plays the hubs with faults, and a cache shared with huggingface_hub.
. "$(dirname "$0")/../lib.sh"
PYTHON=python3
if need_venv; then PYTHON=$VENV/bin/python; else skip huggingface_hub hub.client "the Python packages could not be had"; fi
export BUILD_RELEASE
cd "$ROOT/tests/e2e" && "$PYTHON" run.py test_hub.py
