"""Writes the goldens that the make scripts produce. With --check it compares them with the stored ones instead."""

import contextlib
import pathlib
import sys
import tempfile


def keep(path, text):
    """Writes the text to the file. With --check it ends the program if the file has another text."""
    if "--check" not in sys.argv:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        sys.exit(f"{path} would change")


@contextlib.contextmanager
def folder(path):
    """Yields the folder to write goldens to. With --check it is temporary, and the program ends if they differ."""
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
