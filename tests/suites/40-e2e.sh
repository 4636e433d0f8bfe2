#!/usr/bin/env bash
# timeout: 600
# Real binaries, real clients: exactness, batching, OpenAI's and Anthropic's clients, probes, malformed requests.
. "$(dirname "$0")/../lib.sh"
PYTHON=python3
if need_venv; then PYTHON=$VENV/bin/python; else skip openai e2e.python-client "the Python packages could not be had"; fi
need_node || skip node e2e.node-client "openai-node could not be had"
export NODE_DIR=$NODE BUILD_RELEASE
cd "$ROOT/tests/e2e" && "$PYTHON" run.py test_exact.py test_state.py test_batch.py test_clients.py test_tools.py test_messages.py test_responses.py test_ollama.py test_openapi.py test_constrained.py test_resume.py test_fair.py test_cves.py test_health.py test_metrics.py
