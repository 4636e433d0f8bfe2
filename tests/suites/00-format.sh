#!/usr/bin/env bash
# Every C source is as clang-format writes it.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
while read -r file; do
    if clang-format-14 --dry-run -Werror "$file" 2>/dev/null; then ok "format.$file"
    else not_ok "format.$file" "not as clang-format writes it; ./dev fmt"; fi
done < <(sources)
