"""What the testbed consists of: sites, services, ports, folders. Decides, does nothing."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PASSWORD = "secret"  # of everybody here: loopback only, made to be thrown away
REGION = "RegionOne"
RABBIT_PORT, EPMD_PORT, MARIADB_PORT = 15679, 15369, 13306


@dataclass(frozen=True)
class Service:
    """One OpenStack service: `name` is what scopes call it, `project` what its people call it."""

    name: str
    project: str
    usual_port: int
    behind_port: int
    catalogue_path: str = ""


SERVICES = (
    Service("identity", "keystone", 5000, 2000, "/v3"),
    Service("image", "glance", 9292, 2292),
    Service("placement", "placement", 8778, 2778),
    Service("network", "neutron", 9696, 2696),
    Service("compute", "nova", 8774, 2774, "/v2.1"),
)


@dataclass(frozen=True)
class Site:
    """One site: its agent listens on `<number><usual port>`, the services behind it elsewhere."""

    number: int
    folder: Path

    @property
    def name(self):
        return f"DC {self.number}"

    @property
    def cloud(self):
        return f"dc{self.number}"

    def at_agent(self, service):
        return self.number * 10_000 + service.usual_port

    def behind_agent(self, service):
        return self.number * 10_000 + service.behind_port

    @property
    def admin(self):
        return self.number * 10_000 + 8700

    @property
    def mesh(self):
        return self.number * 10_000 + 7700

    def url(self, service):
        """Where callers find the service: always the agent of the site."""
        return f"http://127.0.0.1:{self.at_agent(service)}"


class Testbed:
    """The settings of one run."""

    def __init__(self, count, names):
        known = {name: s for s in SERVICES for name in (s.name, s.project)}
        unknown = [name for name in names if name not in known]
        if unknown:
            sys.exit(f"no such service: {', '.join(unknown)}; there are: {', '.join(known)}")
        self.services = tuple(s for s in SERVICES if {s.name, s.project} & set(names))
        if SERVICES[0] not in self.services:
            sys.exit("identity has to be among the services")
        if self.has("compute") and len(self.services) < len(SERVICES):
            sys.exit("compute needs all the others")
        # Identity and image are content with SQLite and no message queue: nothing of Debian.
        self.small = not (self.has("compute") or self.has("network") or self.has("placement"))
        self.home = Path(os.environ.get("CHEOPS_OPENSTACK", ROOT / ".out" / "openstack"))
        self.state = self.home / ("small" if self.small else "whole")
        self.sites = tuple(Site(n, self.state / f"dc{n}") for n in range(1, count + 1))
        self.venv = self.home / "venv"
        self.run = self.home / "run"
        self.logs = self.state / "log"
        self.clouds = self.state / "clouds.yaml"

    def has(self, name):
        return any(s.name == name for s in self.services)

    def bin(self, program):
        return str(self.venv / "bin" / program)

    def database(self, site, name):
        if self.small:
            return f"sqlite:///{site.folder}/data/{name}.sqlite"
        return f"mysql+pymysql://testbed:{PASSWORD}@127.0.0.1:{MARIADB_PORT}/{site.cloud}_{name}"

    def queue(self, site):
        return f"rabbit://testbed:{PASSWORD}@127.0.0.1:{RABBIT_PORT}/{site.cloud}"


def service(name):
    return next(s for s in SERVICES if s.name == name)
