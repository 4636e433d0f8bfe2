#!/usr/bin/env bash
# long: yes
# timeout: 300
# seconds: 25
# The page at / in a headless Chromium: where one is here, and with --long one is installed.
. "$(dirname "$0")/../lib.sh"
if [ "$LONG" = 1 ]; then need_packages chromium-headless-shell fonts-dejavu-core || true; fi
export BUILD_RELEASE
cd "$ROOT/tests/e2e" && python3 run.py test_page.py
