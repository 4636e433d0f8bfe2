#!/bin/bash
# Streams from the real gateway, fed by the fake scheduler, to many clients: bench/gateway/run.sh BUILD_DIR [gateway_load options].
# Prints tokens per second per core of the gateway (user + kernel time) and its memory per stream.
set -eu
build=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
chmod 700 "$dir"
trap 'kill $gateway $fake 2>/dev/null; wait 2>/dev/null; rm -rf "$dir"' EXIT
"$build/bin/gateway_fake_scheduler" --scheduler "ipc://$dir/s" --model-dir "$root/demo/model" ${FAKE_ARGS:-} 2>"$dir/fake.log" &
fake=$!
ulimit -n "$(ulimit -Hn)"
"$build/bin/gateway_alone" --port 0 --scheduler "ipc://$dir/s" ${GATEWAY_ARGS:-} 2>"$dir/gateway.log" &
gateway=$!
for _ in $(seq 100); do
    port=$(sed -n 's/.*listening.* port=\([0-9]*\).*/\1/p' "$dir/gateway.log")
    [ -n "$port" ] && grep -q compiled "$dir/gateway.log" && break
    sleep 0.1
done
"$build/bin/gateway_load" --port "$port" --pid "$gateway" "$@" || cat "$dir/gateway.log"
