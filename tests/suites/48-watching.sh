#!/usr/bin/env bash
# timeout: 300
# seconds: 35
# long: yes
# What an operator watches and measures with: the dashboard, the alerts, trireme top, trireme bench.
. "$(dirname "$0")/../lib.sh"
need_venv || { not_ok watching.python "the Python packages could not be had"; exit; }
[ "$LONG" = 0 ] || need_packages prometheus
export BUILD_RELEASE
cd "$ROOT/tests/e2e" && "$VENV/bin/python" run.py test_watching.py test_bench.py
