#!/usr/bin/env bash
# timeout: 1800
# seconds: 70
# Frameworks over OpenAI's API, unchanged: LangChain, instructor, LiteLLM, LlamaIndex, the evaluation harness; and Cohere's client. A quarter at
# each commit, since their packages take longer to install than to try.
. "$(dirname "$0")/../lib.sh"
export BUILD_RELEASE
each() { # each NAME TEST: with the Python packages of requirements-NAME.txt
    local python=python3 venv=$ROOT/build/venv-$1
    if need_venv "requirements-$1.txt" "$venv"; then python=$venv/bin/python; else skip "$1" "e2e.$1" "the Python packages could not be had"; fi
    (cd "$ROOT/tests/e2e" && "$python" run.py "$2")
}
declare -A tests=([frameworks]=test_frameworks.py [llamaindex]=test_llamaindex.py [lm-eval]=test_lm_eval.py [cohere]=test_cohere.py)
for name in $(drawn 4 frameworks llamaindex lm-eval cohere); do each "$name" "${tests[$name]}"; done
