#!/usr/bin/env bash
# beside: yes
# timeout: 1800
# The sanitized build compiles; and a build configured once more compiles nothing again: each suite's build configures, and what that
# compiles and links anew, other suites may be running.
. "$(dirname "$0")/../lib.sh"
for preset in dev release; do
    if ! build "$preset" >&2; then not_ok "build.$preset" "does not compile"
    elif build "$preset" 2>&1 | grep 'no work to do' >/dev/null; then ok "build.$preset.once"
    else not_ok "build.$preset.once" "configured again, it was compiled again"; fi
done
