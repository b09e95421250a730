#!/usr/bin/env bash
# Runs the whole suite on a busy machine: as root and as an ordinary user, in a folder with spaces in its name.
#
#     tests/stress.sh 20              # rounds; each runs the suite once as root and once as a user made for it
#     tests/stress.sh 3 user          # only as the user; `root` only as root
#     tests/stress.sh 5 all proof::   # only tests with this in their name
#
# The committed state is cloned into a folder among the temporary files (or into ANNALS_STRESS_DIR) and built there. The
# clone is kept for the next time. The suite is built with `opt-level = 1` and the checks of a development build: it takes
# half the processor time, and other races show than in `cargo test`. ANNALS_STRESS_OPT=0 builds it as `cargo test` does;
# the first clone then starts with a copy of the files that are already built here. Four empty loops keep the machine busy.
# Each run has its own HOME and TMPDIR, and must leave nothing in TMPDIR or in the clone. Each run prints one line. The
# exit code is 1 if any run failed. Without root only the calling user runs the suite.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=${1:-20} who=${2:-all} filter=${3:-}
# Many tests wait for a process or for the disk.
threads=${RUST_TEST_THREADS:-$((3 * $(nproc)))}
base=${ANNALS_STRESS_DIR:-${TMPDIR:-/tmp}/annals stress}
clone="$base/a clone of annals"
scratch=${TMPDIR:-/tmp}/annals-stress
name=annals-stress

people=()
if [ "$(id -u)" = 0 ]; then
    [ "$who" = user ] || people+=(root)
    if [ "$who" != root ]; then
        id "$name" >/dev/null 2>&1 || useradd --system --shell /bin/bash --home-dir "$base/home $name" "$name"
        people+=("$name")
    fi
else
    people+=("$(id -un)")
fi

mkdir -p "$base"
chmod 755 "$base"
if [ -d "$clone" ]; then
    git -C "$clone" fetch -q "$PWD" HEAD
    git -C "$clone" reset -q --hard FETCH_HEAD
else
    git clone -q "$PWD" "$clone"
    git -C "$clone" reset -q --hard "$(git rev-parse HEAD)"
fi
target=${CARGO_TARGET_DIR:-$PWD/target}
unset CARGO_TARGET_DIR
export CARGO_PROFILE_DEV_OPT_LEVEL=${ANNALS_STRESS_OPT:-1} CARGO_INCREMENTAL=0
if [ "$CARGO_PROFILE_DEV_OPT_LEVEL" = 0 ] && [ -d "$target/debug" ] && [ ! -d "$clone/target" ]; then
    mkdir -p "$clone/target/debug"
    for part in .fingerprint build deps; do
        cp -a --reflink=auto "$target/debug/$part" "$clone/target/debug/"
    done
fi
cd "$clone"
built=$(cargo test --no-run 2>&1) || { echo "$built" >&2; exit 2; }
mapfile -t programs < <(sed -n 's/.*Executable .*(\(.*\))$/\1/p' <<<"$built")
[ "${#programs[@]}" -ge 3 ] || { echo "$built" >&2; exit 2; }
chmod -R a+rX .

busy=()
end() {
    for pid in "${busy[@]}"; do kill "$pid" 2>/dev/null || true; done
}
trap end EXIT
for _ in 1 2 3 4; do
    (while :; do :; done) &
    busy+=($!)
done

# run WHO LOG: runs every program of the suite, one after the other, as `cargo test` does.
run() {
    local person=$1 log=$2 program code=0
    local as=()
    [ "$person" = "$(id -un)" ] || as=(setpriv "--reuid=$person" "--regid=$person" --init-groups --)
    for program in "${programs[@]}"; do
        "${as[@]}" env -u ANNALS_DB "HOME=$base/home $person" "TMPDIR=$scratch-tmp-$person" "USER=$person" \
            "CARGO_MANIFEST_DIR=$clone" "RUST_TEST_THREADS=$threads" "./$program" $filter </dev/null >>"$log" 2>&1 || code=1
    done
    return "$code"
}

failed=0
for round in $(seq "$rounds"); do
    for person in "${people[@]}"; do
        log="$base/round-$round-$person.log"
        : >"$log"
        for folder in "$base/home $person" "$scratch-tmp-$person"; do
            rm -rf "${folder:?}"
            install -d -o "$person" -m 700 "$folder"
        done
        begun=$SECONDS
        code=0
        run "$person" "$log" || code=1 failed=1
        passed=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$log" | awk '{ all += $1 } END { print all }')
        names=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log" | sort -u | paste -sd' ')
        left=$(find "$scratch-tmp-$person" -mindepth 1 -maxdepth 1 -printf '%f ')$(git status --porcelain | tr '\n' ' ')
        [ -z "$left" ] || failed=1
        echo "round $round as $person: ${passed:-?} passed in $((SECONDS - begun)) s; failed: ${names:-none}; left behind: ${left:-nothing}"
        if [ "$code" = 0 ]; then rm -f "$log"; else echo "    $log"; fi
    done
done
exit "$failed"
