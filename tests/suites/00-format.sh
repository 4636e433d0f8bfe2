#!/usr/bin/env bash
# beside: yes
# Every C source is as clang-format writes it.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
wrong=$(sources | xargs -d '\n' clang-format-14 --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:.*Wclang-format-violations.*/\1/p' | sort -u | tr '\n' ' ')
if [ -z "$wrong" ]; then ok "format ($(sources | wc -l) files)"; else not_ok format "not as clang-format writes it (./dev fmt): $wrong"; fi
