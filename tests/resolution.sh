#!/usr/bin/env bash
# Which crates that use SQLite a host may have beside Annals: compares the table of docs/embedding.md with what cargo says.
# Only one crate in a program may link SQLite, so each must accept the version of libsqlite3-sys that Annals has. It asks the
# registry and compiles nothing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/src"
touch "$scratch/src/lib.rs"
failed=0
rows=0
# A row: | `name = "version"` or `name = { … }` | yes, no, or a copy | … |
while IFS='|' read -r _ crate stands _; do
    crate=$(sed 's/^ *`//; s/` *$//' <<<"$crate")
    stands=$(tr -d ' ' <<<"$stands")
    rows=$((rows + 1))
    cat >"$scratch/Cargo.toml" <<TOML
[package]
name = "host"
version = "0.0.0"
edition = "2024"
[dependencies]
annals = { path = "$root", default-features = false }
$crate
[workspace]
TOML
    rm -f "$scratch/Cargo.lock"
    if (cd "$scratch" && cargo generate-lockfile --quiet) 2>"$scratch/said"; then
        found=yes
        # Crates that have SQLite's source and link it under another name.
        if grep -qE '^name = "(libsql-ffi|limbo_core|turso_core)"' "$scratch/Cargo.lock"; then found=copy; fi
    elif grep -qE 'links to the native library `?sqlite3|`sqlite3`|links.*sqlite3' "$scratch/said"; then
        found=no
    else
        cat "$scratch/said"
        exit 2
    fi
    if [ "$found" = "$stands" ]; then
        printf 'ok     %-4s %s\n' "$found" "$crate"
    else
        printf 'FAILS  docs/embedding.md says %s, cargo says %s: %s\n' "$stands" "$found" "$crate"
        failed=1
    fi
done < <(sed -n '/^| crate | beside it/,/^$/p' "$root/docs/embedding.md" | grep '^| `')
[ "$rows" -gt 10 ] || { echo "FAILS  docs/embedding.md has no table of crates"; exit 1; }
exit "$failed"
