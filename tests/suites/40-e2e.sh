#!/usr/bin/env bash
# timeout: 600
# Real binaries, real clients: exactness, batching, OpenAI's and Anthropic's clients, probes, malformed requests.
. "$(dirname "$0")/../lib.sh"
PYTHON=python3
if need_venv; then PYTHON=$VENV/bin/python; else skip openai e2e.python-client "the Python packages could not be had"; fi
need_node || skip node e2e.node-client "openai-node could not be had"
need_packages etcd-server # a scheduler that stands by; else that test is skipped
export NODE_DIR=$NODE BUILD_RELEASE
cd "$ROOT/tests/e2e" || exit 1
# Two at a time, since most of them wait; those that measure how long an answer takes run alone.
exact="test_exact.py test_state.py test_openapi.py test_embeddings.py test_echo.py test_token_fields.py test_examples.py test_ollama.py test_messages.py test_responses.py test_metrics.py"
others="test_health.py test_standby.py test_trust.py test_tls.py test_models.py test_clients.py test_tools.py test_constrained.py test_resume.py test_cves.py test_sandbox.py test_traces.py"
beside=$(mktemp)
trap 'rm -f "$beside" "$beside.err"' EXIT
failed=0
# shellcheck disable=SC2086
"$PYTHON" run.py $others >"$beside" 2>"$beside.err" </dev/null &
# shellcheck disable=SC2086
"$PYTHON" run.py $exact || failed=1
wait $! || failed=1
cat "$beside.err" >&2
cat "$beside"
"$PYTHON" run.py test_batch.py test_fair.py || failed=1
exit $failed
