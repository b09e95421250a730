#!/usr/bin/env bash
# Makes one book of README.md and docs/, as a folder of HTML with a search, and checks every link in it.
#
#     release/book.sh OUT          # OUT/index.html; OUT must not exist
#
# docs/SUMMARY.md says what is in it, and in which order. Needs mdbook 0.5 (cargo install mdbook) and python3.
set -euo pipefail
if [ $# != 1 ] || [ -e "$1" ]; then
    echo "usage: release/book.sh OUT, a folder that does not exist" >&2 && exit 2
fi
out=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

cp -r docs "$stage/src"
cp -r examples deploy "$stage/src"
cp ./*.md "$stage/src"
# In the book, the pages of the repository's root are beside those of docs/.
sed -i 's,](docs/,](,g' "$stage"/src/{README,CHANGELOG,CONTRIBUTING,CODE_OF_CONDUCT,SECURITY}.md
sed -i 's,](\.\./docs/,](../,g' "$stage/src/examples/README.md"
for page in docs/*.md; do
    sed -i 's,](\.\./,](,g' "$stage/src/${page#docs/}"
done
cat >"$stage/book.toml" <<'BOOK'
[book]
title = "Annals"
description = "The history of AI-agent conversations as append-only event logs in one SQLite file"
language = "en"

[output.html]
no-section-label = true
default-theme = "light"
preferred-dark-theme = "navy"

[output.html.fold]
enable = true
level = 1
BOOK
# mdbook names the HTML of a README.md index.html, but does not follow links to it from other folders.
for page in reference examples; do
    mv "$stage/src/$page/README.md" "$stage/src/$page/index.md"
done
find "$stage/src" -name '*.md' -exec sed -i -E 's,(\]\((\.\./)?(reference|examples)/)README\.md,\1index.md,g' {} +
# A warning is about something that it does not show as it was written.
printed=$(mdbook build --dest-dir "$out" "$stage" 2>&1) || { echo "$printed" >&2; exit 1; }
if grep -E "WARN|ERROR" <<<"$printed" >&2; then exit 1; fi
python3 release/links.py "$out"
