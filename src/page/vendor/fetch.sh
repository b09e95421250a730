#!/usr/bin/env bash
# Fetches the modules of other people that the page is made of, from npm, and compares or replaces what lies here.
#
#   src/page/vendor/fetch.sh           compares: ends with 1 where a file here is another
#   src/page/vendor/fetch.sh --write   replaces them
#
# Each archive has to have the digest that stands here. Two things are changed in what is in them, by the `sed` below
# and nothing else: the names of other modules become paths (a browser knows no packages), and the last line that
# names a source map goes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
registry=$(npm config get registry 2>/dev/null)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0

# fetch PACKAGE VERSION SHA256-OF-THE-ARCHIVE FILE-WITHIN NAME-HERE
fetch() {
    local archive="$scratch/${1//\//-}-$2.tgz"
    if [ ! -f "$archive" ]; then
        curl -fsSL "${registry%/}/$1/-/${1##*/}-$2.tgz" -o "$archive"
        echo "$3  $archive" | sha256sum --check --quiet
    fi
    tar -xzOf "$archive" "package/$4" |
        sed -e 's|from"preact"|from"./preact.mjs"|g' \
            -e 's|from"preact/hooks"|from"./hooks.mjs"|g' \
            -e 's|from"@preact/signals-core"|from"./signals-core.mjs"|g' \
            -e 's|//# sourceMappingURL=.*$||' >"$scratch/$5"
    if [ "$mode" = write ]; then
        cp "$scratch/$5" "$here/$5"
    elif ! cmp -s "$scratch/$5" "$here/$5"; then
        echo "$5 is not what $1 $2 has" >&2
        status=1
    fi
}

mode=compare
[ "${1:-}" = --write ] && mode=write

fetch preact 11.2.0 \
    3c4456766bd32b6b534d52bf4e9c2a29b33e7eedf6e96ed479300ba1a7888ebf \
    dist/preact.mjs preact.mjs
fetch preact 11.2.0 \
    3c4456766bd32b6b534d52bf4e9c2a29b33e7eedf6e96ed479300ba1a7888ebf \
    hooks/dist/hooks.mjs hooks.mjs
fetch htm 3.1.1 \
    2425b9bee11409177bcabc7f32e319926fc6690c1701c0b257c88bdff2d5ba90 \
    dist/htm.mjs htm.mjs
fetch @preact/signals-core 1.14.5 \
    94c421ac996214c94f532fb4c43d8ede048a16df0cd9538ffb965174dbe8daba \
    dist/signals-core.mjs signals-core.mjs
fetch @preact/signals 2.11.4 \
    66ea8221dd8aaa0da2365d49c3f116b071d56cfb63b2e16c072c6b4e08a928b7 \
    dist/signals.mjs signals.mjs
fetch marked 18.2.1 \
    d66c5213fc203466186060105b01f51896764ba64b3797d2620d02e28e34b8ca \
    lib/marked.esm.js marked.mjs
exit "$status"
