"""What has to be on the machine: OpenStack from PyPI, a database and a queue from Debian."""

import base64
import csv
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from processes import call, succeeds
from settings import HERE, ROOT

SMALL = ["keystone", "glance", "python-openstackclient", "gunicorn"]
WHOLE = SMALL + ["openstack-placement", "nova", "neutron", "PyMySQL"]
RABBIT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
MARIADB = Path("/usr/sbin/mariadbd")


def skip(why):
    """A machine that cannot run it is no failure."""
    print(f"skipped: {why}")
    sys.exit(0)


def everything(bed):
    debian(bed)
    python(bed)
    client(bed)
    return agent()


def debian(bed):
    if bed.small:
        return
    wanted = {"rabbitmq-server": RABBIT, "mariadb-server": MARIADB}
    missing = [package for package, program in wanted.items() if not program.exists()]
    if not missing:
        return
    if not shutil.which("apt-get"):
        skip(f"needs {' and '.join(missing)}, and there is no apt-get to install them with")
    if os.geteuid() != 0:
        skip(f"needs {' and '.join(missing)}; install them, or run this as root")
    # Debian starts what it installs, unless this file says no; ours run from their own folder.
    policy = Path("/usr/sbin/policy-rc.d")
    made = not policy.exists()
    if made:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        quietly = {"DEBIAN_FRONTEND": "noninteractive"}
        print(f"installing {', '.join(missing)} (apt)", flush=True)
        call(["apt-get", "update", "-qq"], quietly)
        options = ["-qq", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=600"]
        call(["apt-get", "install", *options, *missing], quietly)
    finally:
        if made:
            policy.unlink()


def python(bed):
    if sys.version_info < (3, 10):
        skip("needs Python 3.10 or later")
    wanted = SMALL if bed.small else WHOLE
    mark = bed.venv / ".testbed"
    pins = hashlib.sha256((HERE / "pins.txt").read_bytes()).hexdigest()
    have = mark.read_text().split() if mark.exists() else []
    if set(wanted) | {pins} <= set(have):
        return
    if not (bed.venv / "bin" / "pip").exists():
        made = subprocess.run([sys.executable, "-m", "venv", bed.venv], capture_output=True)
        if made.returncode != 0:
            skip("needs Python's venv (Debian: python3-venv)")
    print(f"installing {', '.join(wanted)} (PyPI, some minutes)", flush=True)
    if not succeeds([bed.bin("pip"), "download", "-q", "--no-deps", "-d", bed.home / "probe", "pbr"]):
        skip("needs PyPI, which cannot be reached")
    fetched = subprocess.run([bed.bin("pip"), "install", "-q", "-c", HERE / "pins.txt", *wanted],
                             capture_output=True, text=True)
    if fetched.returncode != 0:
        said = fetched.stderr.strip().splitlines() or ["nothing"]
        skip(f"needs all of {HERE / 'pins.txt'} from PyPI; pip said: {said[-1]}")
    mark.write_text(" ".join([pins, *wanted]))


def client(bed):
    """The project's own addition to the stock client, installed anew whenever it changed."""
    source = ROOT / "clients" / "openstack-scope"
    files = sorted(source.rglob("*.py")) + [source / "pyproject.toml"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    mark = bed.venv / ".client"
    if mark.exists() and mark.read_text() == digest:
        return
    copy = bed.home / "client"  # setuptools leaves its litter where it builds
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    call([bed.bin("pip"), "install", "-q", "--force-reinstall", "--no-deps", copy])
    mark.write_text(digest)


def agent():
    """The agent's program: built here, unless one is named."""
    given = os.environ.get("CHEOPS_BIN")
    if given and not shutil.which(given):
        sys.exit(f"CHEOPS_BIN names no program: {given}")
    if given:
        return given
    if not shutil.which("cargo"):
        skip("needs cargo to build the agent, or CHEOPS_BIN to name one")
    print("building the agent", flush=True)
    call(["cargo", "build", "--quiet", "--package", "cheops", "--manifest-path", ROOT / "Cargo.toml"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "debug" / "cheops")


def packages(bed):
    """Every installed file that its package has a digest of: (package, path, digest as published)."""
    folder = next((bed.venv / "lib").glob("python3*")) / "site-packages"
    for record in sorted(folder.glob("*.dist-info/RECORD")):
        package = record.parent.name.removesuffix(".dist-info")
        for path, digest, _ in csv.reader(record.read_text().splitlines()):
            # Python writes its cache anew where a package brought one.
            if digest.startswith("sha256=") and not path.endswith(".pyc"):
                yield package, folder / path, digest.removeprefix("sha256=")


def changed(bed):
    """How many files were looked at, and which are not as their package was published."""
    looked, other = 0, []
    for package, file, published in packages(bed):
        looked += 1
        found = hashlib.sha256(file.read_bytes()).digest() if file.exists() else b""
        if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != published:
            other.append(f"{package}: {file.name}")
    return looked, other
