#!/usr/bin/env bash
# timeout: 900
# seconds: 430
# Minutes of bench/chaos, partitions of two hosts, an upgrade and the way back, one round of each fault of bench/flagship: no stream may be lost.
. "$(dirname "$0")/../lib.sh"
export BUILD_RELEASE
if python3 "$ROOT/bench/chaos/chaos_bench.py" --rounds 100000 --seconds "${CHAOS_SECONDS:-150}" --seed "${CHAOS_SEED:-$RANDOM}" >&2; then ok chaos.long; else not_ok chaos.long "streams were lost; see the log"; fi
if (cd "$ROOT/tests/e2e" && python3 -c 'import chaos; print(chaos.gateways_die(1000, kills=10, gateways=3, tokens=32))' >&2); then ok chaos.gateways; else not_ok chaos.gateways "streams of clients that resume were lost; see the log"; fi
need_packages etcd-server iproute2
(cd "$ROOT/tests/e2e" && TRIREME_TEST_SEED=${CHAOS_SEED:-$RANDOM} HOSTS_ROUNDS=12 python3 run.py test_hosts.py test_upgrade.py)
rc=0
python3 "$ROOT/bench/flagship/flagship_bench.py" --rounds 8 --seed "${CHAOS_SEED:-$RANDOM}" >&2 || rc=$?
case $rc in
0) ok chaos.flagship ;;
77) skip etcd chaos.flagship "etcd, iproute2 or network namespaces are not here" ;;
*) not_ok chaos.flagship "streams were lost; see the log" ;;
esac
