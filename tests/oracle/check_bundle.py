"""Checks proof bundles with the tools that their README names, by typing what it says: sh, sha256sum, awk, openssl.

Usage: check_bundle.py   (the binary's path in ANNALS)

Bundles of real conversations, signed and not, one of them with an id that a shell could stumble over, must pass
every step; each of a list of changes must be noticed by one of them. Keys go both ways between Annals and openssl.
One line a check; ends with 1 where one fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ANNALS = os.path.abspath(shutil.which(os.environ.get("ANNALS", "annals")) or sys.exit("there is no annals; name it in ANNALS"))
GOLDENS = Path(__file__).parents[1] / "golden" / "conversations"
ODD = """it's $HOME `odd` "name" %s"""

failures = 0


def run(folder: Path, *command: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def annals(folder: Path, *arguments: str) -> str:
    code, told = run(folder, ANNALS, "--db", "annals.db", *arguments)
    if code:
        sys.exit(f"annals {' '.join(arguments)}: {told}")
    return told


def check(what: str, holds: bool, told: str = "") -> None:
    global failures
    failures += not holds
    print(f"{'ok   ' if holds else 'FAILS'} {what}" + ("" if holds else f"\n{told}"))


def steps(bundle: Path) -> list[str]:
    """The commands that the README tells to type, without those in a comment."""
    text = (bundle / "README.md").read_text()
    before, _, hidden = text.partition("<!--")
    text = before + hidden.partition("-->")[2]
    return [block.partition("```")[0] for block in text.split("```sh\n")[1:]]


def passes(bundle: Path, end: str, signed: bool) -> tuple[bool, str]:
    """Whether every step tells what the README says it does, and what they told."""
    blocks = steps(bundle)
    told = run(bundle, "sh", "-c", "\n".join(blocks[:3]))[1]  # nothing
    code, found = run(bundle, "sh", "-c", "\n".join(blocks[:4]))
    holds = told == "" and code == 0 and found.rstrip("\n").endswith(end)
    if signed:
        code, verdict = run(bundle, "sh", "-c", "\n".join(blocks))
        holds = holds and code == 0 and "Signature Verified Successfully" in verdict
        found += verdict
    code, verdict = run(bundle, sys.executable, "check.py")
    return holds and code == 0, told + found + verdict


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
    "two events in another order": lambda bundle: edit(bundle / "chain.tsv", swap_lines),
    "a chain without its end": drop_end,
    "a payload more": add_payload,
    "a head of another time": lambda bundle: edit(bundle / "head.txt", lambda text: text.replace(b"\nat 2", b"\nat 3")),
}


def main() -> None:
    scratch = Path(tempfile.mkdtemp())
    try:
        shutil.copytree(GOLDENS / "coding-task", scratch / "in" / "a")
        # Without its base state a folder's conversation is known by the folder's name.
        shutil.copytree(GOLDENS / "hello-two-turns", scratch / "in" / ODD)
        (scratch / "in" / ODD / "base_state.json").unlink()
        annals(scratch, "import", "in")
        ids = annals(scratch, "query", "SELECT conversation_id FROM conversations ORDER BY 1", "--csv").split("\n")[1:3]
        ids = [name.strip('"').replace('""', '"') for name in ids]
        check("an odd id came in as it is", ODD in ids, str(ids))

        code, told = run(scratch, "openssl", "genpkey", "-algorithm", "ed25519", "-out", "theirs.pem")
        check("openssl makes a key", code == 0, told)
        annals(scratch, "keys", "ours.pem", "--new")
        for name in ("ours", "theirs"):
            pem = run(scratch, "openssl", "pkey", "-in", f"{name}.pem", "-pubout")[1]
            told = annals(scratch, "--json", "keys", f"{name}.pem")
            check(f"the public half of {name}.pem is the same to both", pem.split("\n")[1] in told, pem + told)

        number = 0
        for id in ids:
            for key in (None, "ours.pem", "theirs.pem"):
                number += 1
                sign = ["--sign", key] if key else []
                annals(scratch, "bundle", id, "--to", f"bundle{number}", *sign)
                bundle = scratch / f"bundle{number}"
                holds, told = passes(bundle, id, bool(key))
                check(f"a bundle of {id}, signed with {key}", holds, told)
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
