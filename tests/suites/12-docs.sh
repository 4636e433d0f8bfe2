#!/usr/bin/env bash
# beside: yes
# What the documentation says of the program is what the program says.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
trireme=$BUILD_RELEASE/bin/trireme
if "$trireme" help --markdown | cmp -s - docs/options.md; then ok docs.options
else not_ok docs.options "docs/options.md is stale: trireme help --markdown > docs/options.md"; fi
if python3 tests/goldens/models/table.py --check; then ok docs.models
else not_ok docs.models "docs/models.md is stale: python3 tests/goldens/models/table.py"; fi
if out=$(python3 tests/tools/docker_variables.py --check 2>&1); then ok docs.docker_variables
else not_ok docs.docker_variables "python3 tests/tools/docker_variables.py: $out"; fi
if cmp -s <(tests/gpu/status.sh --print) docs/gpu-status.md; then ok docs.gpu_status
else not_ok docs.gpu_status "docs/gpu-status.md is stale: ./dev gpu --status writes it, of the ledger and of tests/gpu/emulated.md"; fi
lost=$(grep -ohE '\]\(([^)#]+)\)' README.md docs/*.md | sed 's/^](//; s/)$//' | grep -v '^http' | sort -u |
    while read -r link; do [ -e "$link" ] || [ -e "docs/$link" ] || printf '%s ' "$link"; done)
if [ -z "$lost" ]; then ok docs.links; else not_ok docs.links "these lead nowhere: $lost"; fi
lost=$(grep -oh '`[a-z0-9_]*`' docs/cves.md docs/hardening.md | tr -d '`' | sort -u | while read -r name; do
    case $name in
    test_*) grep -qrE "^def $name\(" tests/e2e ;;
    fuzz_*) [ -e "tests/fuzz/$name.c" ] ;;
    *_*) grep -qrE "^TEST\($name\)" tests/unit ;;
    esac || printf '%s ' "$name"
done)
if [ -z "$lost" ]; then ok docs.tests_named; else not_ok docs.tests_named "docs/cves.md or docs/hardening.md names tests that are not there: $lost"; fi
wrong=$(for command in $(sed -n 's/^  \([a-z]*\) .*/\1/p' <("$trireme" help)); do
    [ "$command" = version ] || [ "$command" = help ] || "$trireme" "$command" --help </dev/null >/dev/null 2>&1 || printf '%s ' "$command"
done)
if [ -z "$wrong" ]; then ok docs.help_of_commands; else not_ok docs.help_of_commands "no --help: $wrong"; fi
