#!/usr/bin/env bash
# beside: yes
# The page's modules that need no browser; suite 43-page has the rest.
. "$(dirname "$0")/../lib.sh"
if ! command -v node >/dev/null; then skip node page.units "no node"; exit 0; fi
node "$ROOT/tests/page/test_page.mjs"
