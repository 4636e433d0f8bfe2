#!/usr/bin/env bash
# timeout: 900
# Frameworks over OpenAI's API, unchanged: LangChain, instructor.
. "$(dirname "$0")/../lib.sh"
PYTHON=python3
frameworks=$ROOT/build/venv-frameworks
if need_venv requirements-frameworks.txt "$frameworks"; then PYTHON=$frameworks/bin/python; else skip frameworks e2e.frameworks "the Python packages could not be had"; fi
export BUILD_RELEASE
cd "$ROOT/tests/e2e" && "$PYTHON" run.py test_frameworks.py
