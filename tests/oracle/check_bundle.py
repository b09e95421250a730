"""Checks proof bundles with the commands of their README, which use sh, sha256sum, awk and openssl.

Usage: check_bundle.py   (the binary's path in ANNALS)

Bundles of recorded conversations must pass every step. They are signed and unsigned, and one conversation has an id with
shell characters. Each change of a list must make a step fail. Annals and openssl read each other's keys. Prints a line
per check, and ends with 1 if a check fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ANNALS = os.path.abspath(shutil.which(os.environ.get("ANNALS", "annals")) or sys.exit("annals is not found: set ANNALS to its path"))
GOLDENS = Path(__file__).parents[1] / "golden" / "conversations"
ODD = """it's $HOME `odd` "name" %s"""

failures = 0


def run(folder: Path, *command: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def annals(folder: Path, *arguments: str) -> str:
    code, output = run(folder, ANNALS, "--db", "annals.db", *arguments)
    if code:
        sys.exit(f"annals {' '.join(arguments)}: {output}")
    return output


def check(what: str, holds: bool, output: str = "") -> None:
    global failures
    failures += not holds
    print(f"{'ok   ' if holds else 'FAILS'} {what}" + ("" if holds else f"\n{output}"))


def steps(bundle: Path) -> list[str]:
    """Returns the commands of the README, without those in an HTML comment."""
    text = (bundle / "README.md").read_text()
    before, _, hidden = text.partition("<!--")
    text = before + hidden.partition("-->")[2]
    return [block.partition("```")[0] for block in text.split("```sh\n")[1:]]


def passes(bundle: Path, end: str, signed: bool) -> tuple[bool, str]:
    """Returns whether every step has the result that the README names, and the output of the steps."""
    blocks = steps(bundle)
    output = run(bundle, "sh", "-c", "\n".join(blocks[:3]))[1]  # must print nothing
    code, found = run(bundle, "sh", "-c", "\n".join(blocks[:4]))
    holds = output == "" and code == 0 and found.rstrip("\n").endswith(end)
    if signed:
        code, verdict = run(bundle, "sh", "-c", "\n".join(blocks))
        holds = holds and code == 0 and "Signature Verified Successfully" in verdict
        found += verdict
    code, verdict = run(bundle, sys.executable, "check.py")
    return holds and code == 0, output + found + verdict


def edit(path: Path, change) -> None:
    path.write_bytes(change(path.read_bytes()))


def swap_lines(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    return b"".join([lines[0], lines[2], lines[1], *lines[3:]])


def resum(bundle: Path) -> None:
    run(bundle, "sh", "-c", "sha256sum payloads/*.json > payloads.sha256")


def change_payload(bundle: Path) -> None:
    edit(bundle / "payloads" / "000001.json", lambda text: text.replace(b'"', b"'", 1))


def change_payload_and_sum(bundle: Path) -> None:
    change_payload(bundle)
    resum(bundle)


def add_payload(bundle: Path) -> None:
    (bundle / "payloads" / "999999.json").write_text("{}")
    resum(bundle)


def drop_end(bundle: Path) -> None:
    edit(bundle / "chain.tsv", lambda text: b"".join(text.splitlines(keepends=True)[:-1]))
    sorted((bundle / "payloads").iterdir())[-1].unlink()
    resum(bundle)


CHANGES = {
    "a changed payload": change_payload,
    "a changed payload with its sum": change_payload_and_sum,
    "two swapped events": lambda bundle: edit(bundle / "chain.tsv", swap_lines),
    "a chain without its last event": drop_end,
    "an added payload": add_payload,
    "a head with another time": lambda bundle: edit(bundle / "head.txt", lambda text: text.replace(b"\nat 2", b"\nat 3")),
}


def main() -> None:
    scratch = Path(tempfile.mkdtemp())
    try:
        shutil.copytree(GOLDENS / "coding-task", scratch / "in" / "a")
        # A conversation without its base state has the folder's name as its id.
        shutil.copytree(GOLDENS / "hello-two-turns", scratch / "in" / ODD)
        (scratch / "in" / ODD / "base_state.json").unlink()
        annals(scratch, "import", "in")
        ids = annals(scratch, "query", "SELECT conversation_id FROM conversations ORDER BY 1", "--csv").split("\n")[1:3]
        ids = [name.strip('"').replace('""', '"') for name in ids]
        check("an id with shell characters is imported unchanged", ODD in ids, str(ids))

        code, output = run(scratch, "openssl", "genpkey", "-algorithm", "ed25519", "-out", "theirs.pem")
        check("openssl makes a key", code == 0, output)
        annals(scratch, "keys", "ours.pem", "--new")
        for name in ("ours", "theirs"):
            pem = run(scratch, "openssl", "pkey", "-in", f"{name}.pem", "-pubout")[1]
            output = annals(scratch, "--json", "keys", f"{name}.pem")
            check(f"the public half of {name}.pem is the same from both programs", pem.split("\n")[1] in output, pem + output)

        number = 0
        for id in ids:
            for key in (None, "ours.pem", "theirs.pem"):
                number += 1
                sign = ["--sign", key] if key else []
                annals(scratch, "bundle", id, "--to", f"bundle{number}", *sign)
                bundle = scratch / f"bundle{number}"
                holds, output = passes(bundle, id, bool(key))
                check(f"a bundle of {id}, signed with {key}", holds, output)
                if not key:
                    continue
                for what, change in CHANGES.items():
                    changed = scratch / "changed"
                    shutil.copytree(bundle, changed)
                    change(changed)
                    check(f"  {what} is noticed", not passes(changed, id, True)[0])
                    shutil.rmtree(changed)
    finally:
        shutil.rmtree(scratch)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
