"""Two servers on one shared log behind one port, for whatever drives a server: the kit, for example.

Usage: pair.py within COMMAND...     runs the command while a PostgreSQL server runs in a folder of its own
       pair.py serve PORT FOLDER     serves on the port, with the two files in the folder; within such a command

ANNALS names the program, built with the feature `postgres` (default: annals). Each connection to the port goes to the
server after the one before. The log of a folder is a schema of its own, so a pair that was killed goes on where it was.
SIGTERM ends both servers. They also end with this script.
"""

import asyncio
import ctypes
import hashlib
import itertools
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ANNALS = os.environ.get("ANNALS", "annals")

# Names the folder of the socket of the PostgreSQL server.
PLACE = "ANNALS_PAIR_POSTGRES"

# A server that does not answer by then never will.
PATIENCE = 60

PR_SET_PDEATHSIG = 1


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def programs():
    """Returns the folder of PostgreSQL's programs."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    on_path = [Path(folder) for folder in os.environ.get("PATH", "").split(":")]
    for folder in [*reversed(installed), *on_path]:
        if (folder / "initdb").exists():
            return folder
    sys.exit("install PostgreSQL (Debian: postgresql)")


def within(command):
    """Runs a command beside a PostgreSQL server. Returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="pair", dir="/tmp") as folder:
        # Root may not run it.
        user = {}
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            name = next(name for name in ("postgres", "nobody") if name in names)
            os.chown(folder, pwd.getpwnam(name).pw_uid, pwd.getpwnam(name).pw_gid)
            os.chmod(folder, 0o711)
            user = {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}
        run = {"cwd": folder, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **user}
        data = f"{folder}/data"
        make = ["--auth=trust", "--username=annals", "--encoding=UTF8", "--locale=C", "--no-sync", "-D", data]
        subprocess.run([programs() / "initdb", *make], check=True, **run)
        settings = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=300 -c shared_buffers=64MB"
        start = ["start", "-w", "-t", "120", "-l", f"{folder}/log", "-D", data, "-o", settings]
        subprocess.run([programs() / "pg_ctl", *start], check=True, **run)
        try:
            return subprocess.run(command, env=os.environ | {PLACE: folder}).returncode
        finally:
            subprocess.run([programs() / "pg_ctl", "stop", "-m", "immediate", "-D", data], check=True, **run)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """One of the two servers."""

    def __init__(self, folder, name):
        self.port = free_port()
        serve = ["serve", "--port", str(self.port), "--consistency", "log"]
        command = [ANNALS, "--db", str(folder / f"{name}.db"), *serve]
        self.process = subprocess.Popen(command, preexec_fn=end_with_parent, start_new_session=True)

    def wait(self):
        url = f"http://127.0.0.1:{self.port}/ready"
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE:
            if self.process.poll() is not None:
                sys.exit(f"a server ended with {self.process.returncode}")
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        sys.exit("a server is not ready")


async def copy(reader, writer):
    """Passes bytes on until one side ends."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def balance(port, servers):
    """Gives each connection to the next server, until a signal comes or a server ends."""
    turns = itertools.cycle(servers)

    async def serve(reader, writer):
        try:
            there, back = await asyncio.open_connection("127.0.0.1", next(turns).port)
            try:
                await asyncio.gather(copy(reader, back), copy(there, writer))
            finally:
                back.close()
        except OSError:
            pass
        finally:
            writer.close()

    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await asyncio.start_server(serve, "127.0.0.1", port)
    while not ended.is_set():
        for server in servers:
            if server.process.poll() is not None:
                return 1
        try:
            await asyncio.wait_for(ended.wait(), 0.2)
        except asyncio.TimeoutError:
            pass
    # Connections that are open go on while the servers end.
    for server in servers:
        server.process.terminate()
    while any(server.process.poll() is None for server in servers):
        await asyncio.sleep(0.05)
    return max(abs(server.process.returncode) for server in servers)


def serve(port, folder):
    if PLACE not in os.environ:
        sys.exit("there is no PostgreSQL server: run this within `pair.py within COMMAND...`")
    schema = "pair_" + hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    os.environ["ANNALS_SHARED"] = f"host={os.environ[PLACE]} user=annals dbname=postgres schema={schema}"
    if subprocess.run([ANNALS, "shared", "status"], capture_output=True).returncode != 0:
        subprocess.run([ANNALS, "shared", "make"], check=True, stdout=subprocess.DEVNULL)
    servers = [Server(folder, name) for name in ("a", "b")]
    for server in servers:
        server.wait()
    return asyncio.run(balance(port, servers))


def main():
    match sys.argv[1:]:
        case ["within", *command] if command:
            return within(command)
        case ["serve", port, folder]:
            return serve(int(port), Path(folder).absolute())
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
