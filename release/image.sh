#!/usr/bin/env bash
# Makes a container image of a built program, without a container tool and without a base image.
#
#     release/image.sh target/dist/annals OUT.oci.tar
#     podman load < OUT.oci.tar           # or: skopeo copy oci-archive:OUT.oci.tar ...
#
# In it: the program and git with the libraries that they name, certificates, and a shell with the usual commands for
# agents (bash and busybox, without shared libraries; Debian: bash-static, busybox-static). The user is 65532, the data are
# in /data, and nothing else needs to be written. SOURCE_DATE_EPOCH sets the time of all files.
set -euo pipefail
if [ $# != 2 ]; then
    echo "usage: release/image.sh PROGRAM OUT.oci.tar" >&2 && exit 2
fi
here=$(dirname "${BASH_SOURCE[0]}") program=$1 out=$(realpath -m "$2")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0} TZ=UTC LC_ALL=C
umask 022
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/root layout=$stage/layout

install -d "$root"/{bin,data/workspace,dev,etc/ssl/certs,proc,tmp,usr/bin,usr/share/doc/annals}
install -m 755 "$program" "$root/usr/bin/annals"
# Git shows agents and clients what changed. What is fetched over the network needs more of it than this.
install -m 755 "$(realpath "$(command -v git)")" "$root/usr/bin/git"
install -m 755 "$(command -v busybox)" "$root/bin/busybox"
install -m 755 "$(command -v bash-static)" "$root/bin/bash"
# The loader and the libraries, at the paths at which they are looked for.
{ ldd "$root"/usr/bin/{annals,git} "$root/bin/busybox" 2>/dev/null || true; } |
    sed -n 's/^[^/]*\(\/[^ ]*\) .*/\1/p' | grep -v "^$root" | sort -u |
    while read -r library; do install -D -m 755 "$(realpath "$library")" "$root$library"; done
"$root/bin/busybox" --list | while read -r name; do
    case $name in bash | busybox) ;; *) ln -s busybox "$root/bin/$name" ;; esac
done
ln -s /bin/env "$root/usr/bin/env"
install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
install -m 644 "$here"/../LICENSE-{MIT,APACHE} "$root/usr/share/doc/annals"
printf 'root:x:0:0:root:/:/bin/sh\nannals:x:65532:65532:Annals:/data:/bin/bash\n' >"$root/etc/passwd"
printf 'root:x:0:\nannals:x:65532:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"

# pack OWNER ARGUMENT...: a tar, the same for the same files.
pack() {
    local owner=$1
    shift
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner="$owner" --group="$owner" --numeric-owner --format=gnu "$@"
}
install -d "$layout/blobs/sha256"
# The folder of the data belongs to the user of the image, and everything else to root.
pack 0 --create --file "$stage/layer.tar" --directory "$root" --exclude=./data .
pack 65532 --append --file "$stage/layer.tar" --directory "$root" ./data
layer_id=$(sha256sum "$stage/layer.tar" | cut -d' ' -f1)
gzip "-${RELEASE_LEVEL:-9}n" "$stage/layer.tar"

# blob TYPE FILE: moves a file into the layout, and prints its descriptor.
blob() {
    local digest size
    digest=$(sha256sum "$2" | cut -d' ' -f1) size=$(stat -c %s "$2")
    mv "$2" "$layout/blobs/sha256/$digest"
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s}' "$1" "$digest" "$size"
}
machine=$(uname -m)
case $machine in x86_64) machine=amd64 ;; aarch64) machine=arm64 ;; esac
version=$("$program" --version | cut -d' ' -f2)
layer=$(blob layer.v1.tar+gzip "$stage/layer.tar.gz")
cat >"$stage/config" <<JSON
{"architecture":"$machine","os":"linux","created":"$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)",
 "config":{"User":"65532:65532","WorkingDir":"/data","ExposedPorts":{"8000/tcp":{}},"Volumes":{"/data":{}},
  "Env":["PATH=/usr/bin:/bin","HOME=/data","OH_WORKSPACE_PATH=/data/workspace","ANNALS_DB=/data/annals.db"],
  "Entrypoint":["/usr/bin/annals"],"Cmd":["serve","--host","0.0.0.0","--port","8000"],"StopSignal":"SIGTERM",
  "Healthcheck":{"Test":["CMD","/bin/wget","-q","-O","/dev/null","http://127.0.0.1:8000/ready"],
   "Interval":30000000000,"Timeout":5000000000,"Retries":3},
  "Labels":{"org.opencontainers.image.title":"annals","org.opencontainers.image.version":"$version",
   "org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},
 "rootfs":{"type":"layers","diff_ids":["sha256:$layer_id"]},
 "history":[{"created_by":"release/image.sh"}]}
JSON
config=$(blob config.v1+json "$stage/config")
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
    "$config" "$layer" >"$stage/manifest"
manifest=$(blob manifest.v1+json "$stage/manifest")
printf '{"schemaVersion":2,"manifests":[%s,"annotations":{"org.opencontainers.image.ref.name":"annals:%s"}}]}' \
    "${manifest%\}}" "$version" >"$layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
pack 0 --create --file "$out" --directory "$layout" oci-layout index.json blobs
