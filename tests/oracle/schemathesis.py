"""Sends requests made from the server's own OpenAPI description, with schemathesis. No answer may be a server error.

    ANNALS=target/debug/annals VENV/bin/python tests/oracle/schemathesis.py SECONDS

The server runs in a folder of its own. The routes that run commands are left out: the commands would really run.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

KEY = "a-key-of-the-tests"
COMMANDS = r"bash/(execute|start)"


def main():
    seconds, annals = int(sys.argv[1]), Path(os.environ.get("ANNALS") or "target/debug/annals").resolve()
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder}
        server = subprocess.Popen(
            [annals, "--db", "a.db", "serve", "--port", "0", "--api-key", KEY], cwd=folder, env=environment, text=True,
            stdout=subprocess.PIPE)
        try:
            url = re.search(r" on (http\S+)", server.stdout.readline())[1]
            fuzz = subprocess.run(
                [Path(sys.executable).parent / "schemathesis", "run", f"{url}/openapi.json",
                 "-H", f"X-Session-API-Key: {KEY}", "-c", "not_a_server_error", "--exclude-path-regex", COMMANDS,
                 "--max-time", str(seconds), "--request-timeout", "60", "--suppress-health-check", "all",
                 "--warnings", "off", "--no-color"],
                cwd=folder, env=environment | {"PYTHONDONTWRITEBYTECODE": "1"}, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT)
        finally:
            server.send_signal(signal.SIGTERM)
            ended = server.wait(20)
    figures = re.findall(r"(?:Selected|Tested|Seed):.*|[0-9]+ generated.*", fuzz.stdout)
    print("\n".join(line.strip() for line in figures))
    if fuzz.returncode or ended:
        sys.exit(f"{fuzz.stdout}\nschemathesis ended with {fuzz.returncode}, the server with {ended}")


main()
