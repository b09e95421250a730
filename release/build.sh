#!/usr/bin/env bash
# Makes what is given away: an archive, a Debian package, a container image, the crate, the wheel, the list of what is in
# the program (a software bill of materials), the documentation as a book, and their checksums.
#
#     release/build.sh OUT                     # all of it, into the folder OUT
#     release/build.sh OUT archive deb         # only these: archive, deb, image, crate, wheel, sbom, book
#
# ANNALS names a built program to take instead of building one; RELEASE_LEVEL (9) is how hard it is compressed, 1 to 9.
# The same commit gives the same archive, package and image: their files have the commit's time and no names of this
# machine. Needs: strip, objdump, tar, gzip; dpkg-deb for the package; busybox and bash without shared libraries for the
# image (Debian: busybox-static, bash-static), and git; maturin for the wheel; cargo-cyclonedx 0.5 for the bill of
# materials; mdbook 0.5 and python3 for the book.
set -euo pipefail
if [ $# = 0 ]; then
    echo "usage: release/build.sh OUT [archive|deb|image|crate|wheel|sbom|book]..." >&2 && exit 2
fi
for part in "${@:2}"; do
    case $part in
    archive | deb | image | crate | wheel | sbom | book) ;;
    *) echo "release/build.sh: no part \"$part\"; there are archive, deb, image, crate, wheel, sbom, book" >&2 && exit 2 ;;
    esac
done
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
parts=("$@")
[ $# -gt 0 ] || parts=(archive deb image crate wheel sbom book)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
architecture=$(uname -m)
level=${RELEASE_LEVEL:-9}
export RELEASE_LEVEL=$level SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} TZ=UTC LC_ALL=C
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022

# pack FOLDER NAME...: a tar of parts of a folder, the same for the same files.
pack() {
    local folder=$1
    shift
    tar --create --directory "$folder" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime --format=posix "$@"
}

# Only some parts have the program in them.
program=${ANNALS:-}
if [ -z "$program" ] && [[ " ${parts[*]} " =~ \ (archive|deb|image|wheel)\  ]]; then
    # Paths of this machine stay out of the program.
    RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=annals --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" \
        cargo build --locked --profile dist --bin annals
    program=${CARGO_TARGET_DIR:-target}/dist/annals
fi
annals=$stage/annals
if [ -n "$program" ]; then
    strip --strip-all -o "$annals" "$program"
    chmod 755 "$annals"
fi

# What belongs beside the program: manual pages, completions, the licences, the files for operators.
beside() {
    local share=$1
    "$annals" --json man --to "$share/man/man1" >/dev/null
    gzip -9n "$share"/man/man1/*
    install -d "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
    "$annals" completions bash >"$share/bash-completion/completions/annals"
    "$annals" completions zsh >"$share/zsh/vendor-completions/_annals"
    "$annals" completions fish >"$share/fish/vendor_completions.d/annals.fish"
    install -d "$share/doc/annals"
    install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$share/doc/annals"
    cp -r deploy "$share/doc/annals/deploy"
    chmod -R u=rwX,go=rX "$share"
}

archive() {
    local name=annals-$version-$architecture-linux
    install -D -m 755 "$annals" "$stage/archive/$name/bin/annals"
    beside "$stage/archive/$name/share"
    pack "$stage/archive" "$name" | gzip "-${level}n" >"$out/$name.tar.gz"
}

deb() {
    local root=$stage/deb machine
    machine=$(dpkg --print-architecture)
    install -D -m 755 "$annals" "$root/usr/bin/annals"
    beside "$root/usr/share"
    mv "$root/usr/share/doc/annals/LICENSE-MIT" "$root/usr/share/doc/annals/copyright"
    # The program is at another place than in the file that is copied by hand. The service is not started by itself.
    install -d "$root/usr/lib/systemd/system" "$root/DEBIAN"
    for unit in annals.service annals.socket; do
        sed 's,/usr/local/bin/annals,/usr/bin/annals,' "deploy/$unit" >"$root/usr/lib/systemd/system/$unit"
    done
    local needs
    needs=$(objdump -T "$annals" | sed -n 's/.*GLIBC_\([0-9.]*\)).*/\1/p' | sort -uV | tail -1)
    cat >"$root/DEBIAN/control" <<CONTROL
Package: annals
Version: $version
Architecture: $machine
Maintainer: The Annals authors <annals@localhost>
Section: database
Priority: optional
Depends: libc6 (>= ${needs:-2.34})
Recommends: bash, git, ca-certificates
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
Description: history of AI-agent conversations in one SQLite file
 Annals keeps conversations of AI agents as append-only event logs in one SQLite
 file, and derives the rest: state, what the model may see, costs, audit answers.
 It is a command line, and a server that speaks the OpenHands agent-server API.
CONTROL
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$root" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
    dpkg-deb "-z$level" --root-owner-group --build "$root" "$out/annals_${version}_$machine.deb" >/dev/null
}

image() {
    release/image.sh "$annals" "$out/annals-$version-$architecture.oci.tar"
}

crate() {
    cargo package --quiet --locked --no-verify
    cp "${CARGO_TARGET_DIR:-target}/package/annals-$version.crate" "$out"
}

wheel() {
    ANNALS=$annals python/build.sh
    cp target/wheel/annals-*.whl "$out"
}

# CycloneDX, with the default features. It is made from a copy, because the tool writes into the folder that it describes.
sbom() {
    mkdir "$stage/sbom"
    git ls-files -z Cargo.toml Cargo.lock src examples benches tests | tar --create --null --files-from=- |
        tar --extract --directory "$stage/sbom"
    (cd "$stage/sbom" && cargo cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --override-filename sbom)
    sed "s,path+file://$stage/sbom,path+file:///annals,g" "$stage/sbom/sbom.json" >"$out/annals-$version.cdx.json"
}

book() {
    release/book.sh "$stage/annals-$version-book" >/dev/null
    pack "$stage" "annals-$version-book" | gzip "-${level}n" >"$out/annals-$version-book.tar.gz"
}

for part in "${parts[@]}"; do
    "$part"
done
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS)
cat "$out/SHA256SUMS"
