#!/usr/bin/env bash
# Makes the archive, the package and the image from the program in ANNALS, twice, and uses each of them.
#
#     ANNALS=target/debug/annals tests/release.sh
#
# Needs what release/build.sh needs, and root for the image: its files are the root folder of a process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scratch=$(mktemp -d)
server=
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$scratch"
}
trap end EXIT
fail() { echo "FAILS $*" >&2 && exit 1; }

# A debug build is large, and what is tested here does not depend on how well it is compressed.
export RELEASE_LEVEL=1
for run in first second; do
    release/build.sh "$scratch/$run" archive deb image >"$scratch/$run.log"
    (cd "$scratch/$run" && sha256sum --quiet --check SHA256SUMS)
done
diff "$scratch/first/SHA256SUMS" "$scratch/second/SHA256SUMS" || fail "the same commit gives other files"
echo "ok    the same files twice"

mkdir "$scratch/archive" "$scratch/deb"
tar xzf "$scratch"/first/annals-*.tar.gz -C "$scratch/archive" --strip-components=1
dpkg-deb -x "$scratch"/first/annals_*.deb "$scratch/deb"
for program in "$scratch/archive/bin/annals" "$scratch/deb/usr/bin/annals"; do
    "$program" --db "$scratch/a.db" import tests/golden/conversations >/dev/null 2>&1 || fail "$program imports"
    "$program" --db "$scratch/a.db" verify >/dev/null || fail "$program verifies"
done
for share in "$scratch/archive/share" "$scratch/deb/usr/share"; do
    gzip -dc "$share/man/man1/annals.1.gz" | grep -q "annals" || fail "the manual page in $share"
    bash -n "$share/bash-completion/completions/annals" || fail "the completion in $share"
done
grep -q "^ExecStart=/usr/bin/annals" "$scratch/deb/usr/lib/systemd/system/annals.service" || fail "the unit of the package"
echo "ok    the archive and the package"

mkdir "$scratch/layout" "$scratch/root"
tar xf "$scratch"/first/annals-*.oci.tar -C "$scratch/layout"
# The largest part of an image with one layer is the layer.
layer=$(find "$scratch/layout/blobs" -type f -printf '%s %p\n' | sort -n | tail -1 | cut -d' ' -f2)
tar xzf "$layer" -C "$scratch/root"
[ "$(stat -c %u "$scratch/root/data")" = 65532 ] || fail "the data belong to the user of the image"
# A container gets this from its runtime.
mknod -m 666 "$scratch/root/dev/null" c 1 3
chmod 755 "$scratch"
# Each of these replaces the one before, so that a process has the id that the shell knows.
inside=(env SESSION_API_KEY=a-key chroot --userspec=65532:65532 "$scratch/root" /bin/env HOME=/data PATH=/usr/bin:/bin)
"${inside[@]}" /bin/bash -c 'cd /data && printf made > file && [ "$(cat file)" = made ] && ! touch /etc/file 2>/dev/null' || fail "the shell of the image"
"${inside[@]}" /usr/bin/git --version >/dev/null || fail "git in the image"
"${inside[@]}" /usr/bin/annals --db /data/annals.db serve --listen unix:/data/annals.sock >"$scratch/address" 2>"$scratch/server.log" &
server=$!
until grep -q " on " "$scratch/address"; do kill -0 "$server" || fail "the server of the image ended"; sleep 0.1; done
"${inside[@]}" /usr/bin/annals --db /data/annals.db keys server list >/dev/null || fail "a second process in the image"
kill "$server" && wait "$server" || fail "the server of the image ends by itself"
server=
echo "ok    the image"
