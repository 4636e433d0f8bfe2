#!/bin/bash
# collect.sh PROGRAM OUT: the files of an image that holds PROGRAM and what it needs to run, and nothing else: its libraries and their
# licences, a small shell with wget (busybox) for probes, tini, a user. For Debian, as root: packages busybox-static and tini are there.
set -euo pipefail
program=$1 out=$2
mkdir -p "$out"/{bin,etc,home/trireme,keys,lib,models,run/trireme,tmp,usr/local/bin,usr/share/doc}
install -m 755 "$program" "$out/usr/local/bin/trireme"
strip "$out/usr/local/bin/trireme"
install -m 755 /usr/bin/tini-static "$out/bin/tini"
install -m 755 "$(command -v busybox)" "$out/bin/busybox"
for name in sh wget cat ls; do ln -sf busybox "$out/bin/$name"; done

[ ! -d /lib/terminfo ] || cp -r /lib/terminfo "$out/lib/" # what chat's line editing knows terminals by

# each library under the name that the loader looks for, and the loader; those, too, that downloads and TLS open when they begin
opened=$(ldconfig -p | awk '$1 ~ /^lib(curl\.so\.4|(crypto|ssl)\.so\.3|event_openssl-2\.1\.so\.7)$/ { print $NF }')
libraries=$({ ldd "$program" $opened | grep -oE '/[^ :]+( |$)'; printf '%s\n' $opened; } | tr -d ' ' | sort -u)
for library in $libraries; do install -D -m 755 "$(readlink -f "$library")" "$out$library"; done
for file in $libraries "$(command -v busybox)" /usr/bin/tini-static; do
    real=$(readlink -f "$file")
    package=$(dpkg -S "$real" 2>/dev/null || dpkg -S "${real#/usr}" 2>/dev/null) || { echo "no package has $real" >&2; exit 1; }
    package=${package%%:*}
    [ ! -f "/usr/share/doc/$package/copyright" ] || install -D -m 644 "/usr/share/doc/$package/copyright" "$out/usr/share/doc/$package/copyright"
done

# what hubs are known by (trireme pull)
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/ca-certificates.crt"

echo 'root:x:0:0::/:/bin/sh
trireme:x:10001:10001::/home/trireme:/bin/sh' > "$out/etc/passwd"
echo 'root:x:0:
trireme:x:10001:' > "$out/etc/group"
chmod 1777 "$out/tmp"
chown 10001:10001 "$out/home/trireme" "$out/run/trireme" "$out/keys"
chmod 700 "$out/run/trireme" "$out/keys"
