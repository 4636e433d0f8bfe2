#!/usr/bin/env bash
# timeout: 900
# Real binaries, real clients: exactness, batching, OpenAI's and Anthropic's clients, probes, malformed requests.
. "$(dirname "$0")/../lib.sh"
PYTHON=python3
if need_venv; then PYTHON=$VENV/bin/python; else skip openai e2e.python-client "the Python packages could not be had"; fi
need_node || skip node e2e.node-client "openai-node could not be had"
need_packages etcd-server # a scheduler that stands by; else that test is skipped
export NODE_DIR=$NODE BUILD_RELEASE
cd "$ROOT/tests/e2e" || exit 1
# Two at a time, since most of what they take is waiting (test_health: 8 CPU seconds of 50).
files="test_health.py test_exact.py test_standby.py test_state.py test_trust.py test_openapi.py test_tls.py test_embeddings.py test_models.py test_echo.py test_clients.py test_token_fields.py
    test_tools.py test_examples.py test_constrained.py test_ollama.py test_resume.py test_messages.py test_cves.py test_errors.py test_peer_paths.py test_fields_tell.py test_responses.py test_sandbox.py test_metrics.py test_traces.py test_disk.py"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
run_file() { env --default-signal=INT "$PYTHON" run.py "$1" >"$dir/$1" 2>"$dir/$1.err" </dev/null && : >"$dir/$1.good"; }
# shellcheck disable=SC2086
at_a_time 2 run_file $files
for file in $files; do
    cat "$dir/$file.err" >&2
    cat "$dir/$file"
    [ -e "$dir/$file.good" ] || failed=1
done
exit $failed
