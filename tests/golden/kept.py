"""How the makers of goldens keep what they made: written, or with --check compared with what is there."""

import sys


def keep(path, text):
    """Writes the text to the file; with --check ends the program where the file has another."""
    if "--check" not in sys.argv:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        sys.exit(f"{path} would change")
