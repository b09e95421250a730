#!/usr/bin/env bash
# Builds the wheel, with the program inside, into target/wheel. Needs maturin.
#
#     python/build.sh             # as it is shipped
#     python/build.sh --debug     # quicker to build, for tests
#
# ANNALS names a built program to take instead of building one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
profile=dist
[ "${1:-}" != --debug ] || profile=dev
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../target}
program=${ANNALS:-}
if [ -z "$program" ]; then
    cargo build --locked --manifest-path ../Cargo.toml --bin annals --profile "$profile"
    program=$CARGO_TARGET_DIR/${profile/dev/debug}/annals
fi
scripts=../target/wheel/annals.data/scripts
mkdir -p "$scripts"
install -m 755 "$program" "$scripts/annals"
strip "$scripts/annals"
rm -f ../target/wheel/annals-*.whl
maturin build --quiet --locked --compression-level 9 --profile "$profile" --out ../target/wheel
