#!/usr/bin/env bash
# ./dev gpu --pack [--emulated] [--arch LIST] [--out FOLDER]: a folder with all that a machine with a GPU needs to check and
# measure this tree, below 36 MB: programs (sm_90a unless --arch names others, as CMAKE_CUDA_ARCHITECTURES), the libraries they
# need beside them, kernel tests, goldens, the bundled model, benchmarks, ./dev. --emulated: the emulator is its device.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
emulated=0 arch=90a-real out=$ROOT/build/trireme-gpu
while [ $# -gt 0 ]; do
    case $1 in
    --emulated) emulated=1 ;;
    --arch) arch=${2:?--arch LIST}; shift ;;
    --out) out=${2:?--out FOLDER}; shift ;;
    *) die "gpu --pack: unknown option $1" ;;
    esac
    shift
done
limit_kb=$((36 * 1024)) # with the tree, what one call to a lent machine carries; the emulated folder goes nowhere
tests=$(cd tests/unit/emu && ls test_*.c | sed -E 's|^test_(.*)\.c$|\1|' | grep -vxE 'emulator|hopper|launches')

# --- the programs ---
if [ $emulated = 1 ]; then
    from=$BUILD_RELEASE
    configure release "$from" || exit 1
    programs=(trireme-emu bench_gpu_emulated test_gpu_emulated)
else
    need_nvcc || die "gpu --pack: no nvcc of CUDA 12.8 or later, and none could be fetched"
    from=$ROOT/build/gpu
    mkdir -p "$from"
    launcher=()
    command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
    say "building for $arch"
    cmake --preset release -B "$from" -DTRIREME_CUDA=ON -DTRIREME_CUDA_SHARED=ON "-DTRIREME_CUDA_ARCHITECTURES=$arch" "-DCMAKE_CUDA_COMPILER=$NVCC" "${launcher[@]}" >"$from.configure.log" 2>&1 ||
        { tail -20 "$from.configure.log" >&2; exit 1; }
    programs=(trireme bench_gpu test_gpu)
fi
ninja -C "$from" -j"$(nproc)" "${programs[@]}" >&2 </dev/null || exit 1

# --- the folder ---
rm -rf "$out"
mkdir -p "$out/bin" "$out/programs" "$out/lib" "$out/tests/gpu" "$out/tests/e2e" "$out/bench/gpu" "$out/demo" "$out/docs"
start() { # start NAME PROGRAM [SETTING]: bin/NAME unpacks the program and the libraries here when first asked, and starts it with them, which nothing else gets to see
    cat >"$out/bin/$1" <<TEXT
#!/bin/sh
${3:+export $3
}here=\$(cd "\$(dirname "\$0")/.." && pwd)
for file in "\$here"/lib/*.gz "\$here/programs/$2.gz"; do
    [ -e "\${file%.gz}" ] || { gzip -dc "\$file" >"\$file.\$\$" && chmod +x "\$file.\$\$" && mv "\$file.\$\$" "\${file%.gz}"; } || exit 1
done
LD_LIBRARY_PATH=\$here/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$here/programs/$2" "\$@"
TEXT
    chmod +x "$out/bin/$1"
}
names=(trireme bench_gpu test_gpu)
for i in 0 1 2; do
    name=${names[i]}
    strip -o "$out/programs/$name" "$from/bin/${programs[i]}"
    [ "$name" = test_gpu ] || start "$name" "$name"
done
for test in $tests; do start "test_gpu_$test" test_gpu "TRIREME_TEST_FILE=test_$test.c"; done
# What a machine need not have lies beside the programs; libc, libm and the loader are the machine's own.
[ $emulated = 1 ] || strip -o "$out/lib/libtrireme_cuda.so" "$from/libtrireme_cuda.so"
for file in "$out"/programs/*; do LD_LIBRARY_PATH=$from ldd "$file"; done | grep -v libtrireme_cuda | awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so' | while read -r lib; do cp -L "$lib" "$out/lib/"; done
cp -r demo/model "$out/demo/"
mkdir -p "$out/tests/goldens/models" "$out/tests/goldens/quant"
for model in tests/goldens/embeddings/*/; do
    mkdir -p "$out/$model"
    cp "$model"config.json "$model"model.safetensors "$out/$model"
done
cp tests/goldens/models/*.json "$out/tests/goldens/models/"
cp tests/goldens/quant/blocks.bin "$out/tests/goldens/quant/"
cp tests/gpu/*.sh tests/gpu/*.awk "$out/tests/gpu/"
cp tests/e2e/serve.py tests/e2e/stream.py tests/e2e/run.py tests/e2e/test_gpu.py "$out/tests/e2e/"
cp bench/gpu/*.py "$out/bench/gpu/"
cat >"$out/dev" <<'TEXT'
#!/usr/bin/env bash
# ./dev gpu --run [--budget SECONDS] [--ledger FILE] [--again]: everything this folder is for; see tests/gpu/run.sh.
[ "${1:-}" = gpu ] && shift
[ "${1:-}" = --run ] && shift
exec bash "$(dirname "$0")/tests/gpu/run.sh" "$@"
TEXT
chmod +x "$out/dev" "$out"/tests/gpu/*.sh
{
    printf 'commit=%s\n' "$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)$(git diff --quiet HEAD 2>/dev/null || echo +)"
    printf 'built=%s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    printf 'arch=%s\n' "$([ $emulated = 1 ] && echo emulated || echo "$arch")"
} >"$out/PACKED"

# --- what must hold of it ---
newest=$(for file in "$out"/programs/* "$out"/lib/*; do objdump -T "$file" 2>/dev/null; done | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
gzip -9 "$out"/programs/* "$out"/lib/*
size_kb=$(du -sk "$out" | cut -f1)
say "$out: $((size_kb / 1024)) MB, needs $newest"
[ $emulated = 1 ] || [ "$size_kb" -lt "$limit_kb" ] || die "gpu --pack: $size_kb KB; $limit_kb are allowed"
[ "$(printf '%s\nGLIBC_2.36\n' "$newest" | sort -V | tail -1)" = GLIBC_2.36 ] || die "gpu --pack: needs $newest, newer than Debian 12's 2.36"
