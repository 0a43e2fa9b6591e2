"""Starting and stopping: one file per process, and only what such a file names is ever stopped."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

STOP_SECONDS = 15


def birth(pid):
    """When the process began, in ticks: a pid alone may since belong to another."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])
    except (OSError, IndexError):
        return None


def _read(file):
    try:
        known = json.loads(file.read_text())
        return known["pid"] if birth(known["pid"]) == known["birth"] else None
    except (OSError, ValueError, KeyError):
        return None


def running(bed):
    """Name → pid of what was started and is still there."""
    files = sorted(bed.run.glob("*.json")) if bed.run.exists() else []
    found = {file.stem: _read(file) for file in files}
    return {name: pid for name, pid in found.items() if pid}


def start(bed, name, command, env=None, cwd=None):
    """Starts it in a session of its own, unless it is there."""
    file = bed.run / f"{name}.json"
    if _read(file):
        return
    bed.run.mkdir(parents=True, exist_ok=True)
    bed.logs.mkdir(parents=True, exist_ok=True)
    with open(bed.logs / f"{name}.log", "ab") as log:
        child = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    file.write_text(json.dumps({"pid": child.pid, "birth": birth(child.pid)}))


def stop(bed, names):
    """Ends them with whatever they started, kindly first."""
    pids = {name: _read(bed.run / f"{name}.json") for name in names}
    until = time.monotonic() + STOP_SECONDS
    for how in (signal.SIGTERM, signal.SIGKILL):
        for pid in filter(None, pids.values()):
            try:
                os.killpg(pid, how)
            except ProcessLookupError:
                pass
        while time.monotonic() < until and any(pid and birth(pid) for pid in pids.values()):
            time.sleep(0.1)
    for name in names:
        (bed.run / f"{name}.json").unlink(missing_ok=True)


def wait_http(url, what, seconds=120):
    """Returns when something answers there, whatever it says."""
    until = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > until:
                sys.exit(f"{what} does not answer at {url}; its log may say why")
            time.sleep(0.2)


def wait_until(true, what, seconds=120):
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            sys.exit(f"{what} is not there after {seconds} s; its log may say why")
        time.sleep(0.5)


def succeeds(command, env=None):
    command = [str(part) for part in command]
    env = {**os.environ, **(env or {})}
    return subprocess.run(command, env=env, capture_output=True).returncode == 0


def call(command, env=None, quiet=True):
    """Runs to the end; what it said is shown if it failed."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(map(str, command))}\n{done.stdout or ''}")
    return done.stdout or ""
