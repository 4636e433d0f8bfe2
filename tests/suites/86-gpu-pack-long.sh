#!/usr/bin/env bash
# timeout: 3600
# seconds: 300
# ./dev gpu, one half at each commit: the packed folder with the emulator as its device runs through, and only once; or packed for a GPU it
# says, where there is none (in a chroot that has no more than a shell, where that is allowed), what is missing.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

half=$(drawn 2 emulated nvcc)
if ! grep -q emulated <<<"$half"; then :
elif ./dev gpu --pack --emulated --out "$work/emulated" >&2; then
    ok gpu.packs_emulated
    run() { (cd "$work/emulated" && env -i PATH="$PATH" ./dev gpu --run --budget 2000) >"$work/run" 2>&1; }
    if run && ! grep -qE '^(failed|later|skipped)' "$work/run"; then ok gpu.runs_emulated
    else not_ok gpu.runs_emulated "$(grep -E '^(failed|later|skipped)' "$work/run" | head -3)"; tail -60 "$work/run" >&2; fi
    lines=$(wc -l <"$work/emulated/ledger.jsonl")
    if run && [ "$(wc -l <"$work/emulated/ledger.jsonl")" = "$lines" ] && [ "$lines" -gt 20 ]; then ok gpu.goes_on_from_its_ledger
    else not_ok gpu.goes_on_from_its_ledger "a second run did something again"; fi
else
    not_ok gpu.packs_emulated "does not pack"
fi

grep -q nvcc <<<"$half" || exit 0
if [ -z "${NVCC:-$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null)}" ]; then
    skip nvcc gpu.packs "no nvcc on the path, in CUDA_HOME or in /usr/local/cuda"
    exit 0
fi
if ! ./dev gpu --pack --out "$work/root/gpu" >&2; then not_ok gpu.packs "does not pack"; exit 0; fi
ok "gpu.packs ($(du -sm "$work/root/gpu" | cut -f1) MB)"
if timeout 20 nvidia-smi -L >/dev/null 2>&1; then skip no-gpu gpu.says_what_is_missing "this machine has a GPU"; exit 0; fi
# A root of a shell, its tools and their libraries.
for tool in bash sh sed awk mawk grep tr cut date df mktemp rm ls head tail cat touch dirname timeout wc sort printf env gzip chmod mv; do
    file=$(command -v -p "$tool") && cp -L --parents "$file" "$work/root/" 2>/dev/null
done
mkdir -p "$work/root/tmp" "$work/root/bin" "$work/root/dev"
cp -L "$(command -v bash)" "$work/root/bin/bash" && cp -L "$(command -v sh)" "$work/root/bin/sh"
[ -e "$work/root/usr/bin/awk" ] || cp -L "$(command -v awk)" "$work/root/usr/bin/awk"
find "$work/root/usr" "$work/root/bin" -type f -exec ldd {} \; 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r lib; do
    mkdir -p "$work/root$(dirname "$lib")" && cp -L "$lib" "$work/root$lib"
done
for lib in libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2; do cp -L "/lib/$(uname -m)-linux-gnu/$lib" "$work/root/lib/$(uname -m)-linux-gnu/" 2>/dev/null; done
: >"$work/root/dev/null" && chmod 666 "$work/root/dev/null"
if [ "$(id -u)" = 0 ] && chroot "$work/root" /bin/sh -c : 2>/dev/null; then where='in a chroot'; command=(chroot "$work/root" /bin/bash /gpu/dev)
else where='in this system'; command=("$work/root/gpu/dev"); fi
if "${command[@]}" gpu --run --budget 60 >"$work/run" 2>&1 && grep -q 'no GPU that Trireme can use' "$work/run" && grep -q 'libcuda.so.1' "$work/run" &&
    grep -q 'Nothing was run' "$work/run"; then ok "gpu.says_what_is_missing ($where)"
else not_ok gpu.says_what_is_missing "$where: $(tr '\n' ' ' <"$work/run" | cut -c1-300)"; fi
