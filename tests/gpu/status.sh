#!/usr/bin/env bash
# ./dev gpu --status [LEDGER]: writes docs/gpu-status.md from the ledger of ./dev gpu --run, which is kept as
# docs/gpu-ledger.jsonl. Without one the page says that nothing has run. --print: to standard output, nothing is changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
print=0
[ "${1:-}" != --print ] || { print=1; shift; }
kept=docs/gpu-ledger.jsonl ledger=${1:-docs/gpu-ledger.jsonl}

# What counts are lines of real devices.
real() { [ ! -e "$1" ] || grep -v '"device":"emulated"' "$1" || true; }
devices() { real "$ledger" | grep '"kind":"step"' | sed -E 's/.*"device":"([^"]*)".*"commit":"([^"]*)".*"time":"([^"T]*)T.*/\1, \3, commit \2/' | sort -u; }

page() {
    cat <<'TEXT'
# What has run on a GPU

Written by `./dev gpu --status` from the ledger that `./dev gpu --run` leaves on a machine with a GPU (`docs/gpu-ledger.jsonl`, where there
is one). How: `./dev gpu --pack` here; bring the folder to the machine; `./dev gpu --run` in it; bring `ledger.jsonl` back;
`./dev gpu --status ledger.jsonl`.

TEXT
    if [ -z "$(real "$ledger")" ]; then
        cat <<'TEXT'
**Nothing yet.** The CUDA device (`kernels/cuda/`) has been compiled for sm_80, sm_86, sm_89, sm_90a, sm_100 and sm_120 and has run in the emulator
(`kernels/emu/`). No kernel has been executed by a GPU, none of its speeds is measured, and no number of this page is one. Whoever has a
machine with a GPU is the first.
TEXT
    else
        printf 'Devices:\n\n'
        devices | sed 's/^/* /'
        printf '\nPercentages are of the memory bandwidth or matrix rate that the same run measured first (`memory:` and `matrix:` below).\n\n'
        real "$ledger" | awk -f tests/gpu/table.awk
    fi
    cat tests/gpu/emulated.md
}
if [ $print = 1 ]; then page; exit; fi
[ "$ledger" = "$kept" ] || { [ ! -e "$kept" ] || cat "$kept"; cat "$ledger"; } | awk '!seen[$0]++' >"$kept.new"
[ ! -e "$kept.new" ] || mv "$kept.new" "$kept"
ledger=$kept
page >docs/gpu-status.md
