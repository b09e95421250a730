"""How the makers of goldens keep what they made: written, or with --check compared with what is there."""

import contextlib
import pathlib
import sys
import tempfile


def keep(path, text):
    """Writes the text to the file; with --check ends the program where the file has another."""
    if "--check" not in sys.argv:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        sys.exit(f"{path} would change")


@contextlib.contextmanager
def folder(path):
    """Where to write a folder of goldens: there; with --check elsewhere, and the program ends where what is there differs."""
    if "--check" not in sys.argv:
        yield path
        return
    with tempfile.TemporaryDirectory() as made:
        yield pathlib.Path(made)
        made, kept = files(pathlib.Path(made)), files(path)
        differ = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
        if differ:
            sys.exit(f"in {path} would change: " + ", ".join(differ))


def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
