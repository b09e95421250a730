"""Measures Annals beside other event stores: the same events, equally durable, interleaved in one run.

    python3 benches/peers/compare.py [--rounds 5] [--folder FOLDER]

Builds the programs beside this file (some minutes the first time), installs the Python library eventsourcing into an
environment of its own, makes events of the sizes that agents make, and prints a table. Each figure is the median of the
rounds; a ratio is of two figures of the same round. FOLDER (a temporary one) must be on the disk that is meant.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
EVENTSOURCING = "eventsourcing==9.5.6"
#: The name of a row, the mode of the programs, the number of events, and which peers can do it.
ROWS = [
    ("one event a call", "single", 2000),
    ("100 events a call", "batch", 10000),
    ("64 threads, one event a call", "threads", 6400),
    ("read a stream", "read", 10000),
]
WARM_UP = 1000


def run(command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(target):
    """The commands of all peers, by name."""
    for folder in ("annals", "umadb", "sqlite_es"):
        print(f"building {folder}", file=sys.stderr)
        # The settings of the repository are those of a folder above: SQLite without the one page cache.
        run(["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", target], cwd=HERE / folder)
    environment = target / "eventsourcing"
    python = environment / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", environment])
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", EVENTSOURCING])
    release = target / "release"
    return {
        "bare SQLite": [release / "peer-annals", "bare"],
        "Annals": [release / "peer-annals", "annals"],
        "UmaDB 0.7": [release / "peer-umadb"],
        "sqlite-es 0.5": [release / "peer-sqlite-es"],
        "eventsourcing 9.5": [python, HERE / "eventsourcing_peer.py"],
    }


def events(path, count, source):
    """Writes events, one a line: median 1.3 kB, mean 3.8 kB, a few of 100 kB and more."""
    with open(path, "w") as file:
        for _ in range(count):
            size = min(int(source.lognormvariate(7.0, 1.45)) + 200, 200_000)
            text = "".join(source.choices("abcdefghijklmnopqrstuvwxyz     ", k=size))
            file.write(
                json.dumps(
                    {
                        "id": str(uuid.UUID(int=source.getrandbits(128), version=4)),
                        "timestamp": "2026-11-27T09:00:00.000000",
                        "source": "agent",
                        "llm_message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
                        "kind": "MessageEvent",
                    }
                )
                + "\n"
            )


def disk(folder):
    """Synced writes of 4 KiB a second."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
        began = time.perf_counter()
        for number in range(300):
            os.pwrite(file.fileno(), bytes(4096), number * 4096 % (1 << 20))
            os.fdatasync(file.fileno())
        return 300 / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--target", type=pathlib.Path, default=HERE.parent.parent / "target" / "peers")
    options = parser.parse_args()
    peers = build(options.target.resolve())
    source = random.Random(1)
    rates = {row[0]: {peer: [] for peer in peers} for row in ROWS}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        first = disk(folder)
        for number in range(options.rounds):
            for name, mode, count in ROWS:
                file = folder / "events.jsonl"
                events(file, WARM_UP + count, source)
                # Not the same one first each time.
                order = list(peers.items())
                for peer, command in order[number % len(order) :] + order[: number % len(order)]:
                    place = folder / "store"
                    place.mkdir()
                    printed = run([*command, place / "events.db", file, mode])
                    done, seconds = printed.splitlines()[-1].split()
                    rates[name][peer].append(float(done) / float(seconds))
                    for left in place.iterdir():
                        left.unlink()
                    place.rmdir()
                print(f"round {number + 1}: {name}", file=sys.stderr)
        last = disk(folder)
    print(f"Events a second, medians of {options.rounds} rounds, and in brackets the ratio to Annals in the same round.")
    print(f"The disk made {first:,.0f} synced writes of 4 KiB a second first and {last:,.0f} last.\n")
    print("| | " + " | ".join(peers) + " |")
    print("|---" * (len(peers) + 1) + "|")
    for name, of in rates.items():
        cells = []
        for peer, values in of.items():
            ratio = statistics.median(one / ours for one, ours in zip(values, of["Annals"]))
            beside = "" if peer == "Annals" else f" ({ratio:.2f})"
            cells.append(f"{statistics.median(values):,.0f}{beside}")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
