#!/bin/bash
# Streams from the real gateway, fed by the fake scheduler, to many clients: ./dev bench gateway [gateway_load options].
# For each setting it prints tokens per second per core of the gateway (user + kernel time) and its memory per stream:
#   flood  the scheduler makes tokens as fast as they are acknowledged: events that wait share a write
#   paced  each stream gets 100 tokens a second: nearly every event is a write of its own
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD_RELEASE:-$root/build/release}
dir=$(mktemp -d)
chmod 700 "$dir"
gateway= fake=
finish() {
    # shellcheck disable=SC2086
    kill $gateway $fake 2>/dev/null || true
    wait 2>/dev/null || true
    gateway= fake=
}
trap 'finish; rm -rf "$dir"' EXIT
ulimit -n "$(ulimit -Hn)"

measure() { # measure NAME FAKE_OPTIONS GATEWAY_OPTIONS LOAD_OPTIONS...
    local name=$1 fake_options=$2 gateway_options=$3 port=
    shift 3
    rm -f "$dir"/*.log
    # shellcheck disable=SC2086
    "$build/bin/gateway_fake_scheduler" --scheduler "ipc://$dir/s" --model-dir "$root/demo/model" $fake_options 2>"$dir/fake.log" &
    fake=$!
    # shellcheck disable=SC2086
    "$build/bin/gateway_alone" --port 0 --scheduler "ipc://$dir/s" $gateway_options 2>"$dir/gateway.log" &
    gateway=$!
    for _ in $(seq 100); do
        port=$(sed -n 's/.*listening.* port=\([0-9]*\).*/\1/p' "$dir/gateway.log")
        if [ -n "$port" ] && grep -q compiled "$dir/gateway.log"; then break; fi
        kill -0 "$gateway" 2>/dev/null || break
        sleep 0.1
    done
    echo "$name:"
    if ! "$build/bin/gateway_load" --port "${port:-0}" --pid "$gateway" "$@" | sed 's/^/    /'; then
        cat "$dir/gateway.log" "$dir/fake.log" >&2
        exit 1
    fi
    finish
}

if [ -n "${TRIREME_BENCH_QUICK:-}" ]; then
    measure "quick" "" "" --connections 10 --tokens 50 "$@"
    exit
fi
measure "flood, one event thread" "" "--http-threads 1" --connections 1000 --tokens 1000 "$@"
measure "flood, two event threads" "" "" --connections 1000 --tokens 1000 "$@"
measure "paced" "--step-us 10000" "" --connections 1000 --tokens 300 "$@"
