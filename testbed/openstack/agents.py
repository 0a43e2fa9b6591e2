"""One agent per site, in front of its services."""

import json
import urllib.request

from pathlib import Path

from processes import call, start, stop, wait_http, wait_until


def prepare(bed, program):
    """Identities by `cheops init`, and a file per site."""
    mesh = bed.state / "mesh"
    names = [part for site in bed.sites for part in ("--site", site.name)]
    call([program, "init", "--mesh", "testbed", "--out", mesh, *names])
    for site in bed.sites:
        file, text = site.folder / "agent.toml", toml(bed, site)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        call([program, "agent", "--config", site.folder / "agent.toml", "--check"])


def toml(bed, site):
    others = [other for other in bed.sites if other != site]
    trusted = json.dumps([other.name for other in others])
    join = json.dumps([f"127.0.0.1:{other.mesh}" for other in others])
    text = f"""site = "{site.name}"
data = "{site.folder}/agent"
[log]
access = true
[admin]
listen = "127.0.0.1:{site.admin}"
[mesh]
listen = "127.0.0.1:{site.mesh}"
identity = "{bed.state}/mesh/{site.name}"
join = {join}
"""
    for each in bed.services:
        aliases = json.dumps([each.project] if each.project != each.name else [])
        text += f"""[service.{each.name}]
aliases = {aliases}
listen = "127.0.0.1:{site.at_agent(each)}"
backend = "http://127.0.0.1:{site.behind_agent(each)}"
profile = "openstack-{each.name}"
"""
    # A token of another site is checked there: the roles it has there count here.
    return text + f"[service.identity.home]\ntrust = {trusted}\n"


def begin(bed, program, sites):
    for site in sites:
        started = bed.run / f"agent-{site.cloud}.json"
        made_of = (Path(program), site.folder / "agent.toml")
        if started.exists() and any(f.stat().st_mtime > started.stat().st_mtime for f in made_of):
            stop(bed, [f"agent-{site.cloud}"])
        start(bed, f"agent-{site.cloud}", [program, "agent", "--config", site.folder / "agent.toml"])
    for site in sites:
        wait_http(f"http://127.0.0.1:{site.admin}/v1/health", f"the agent of {site.name}", 20)


def marks(site):
    """Site → how this site's agent sees it."""
    url = f"http://127.0.0.1:{site.admin}/v1/sites"
    with urllib.request.urlopen(url, timeout=5) as answer:
        return {item["name"]: item["mark"] for item in json.load(answer)["items"]}


def wait_connected(bed):
    """Every site is in reach of every other; what one has to catch up with may take longer."""
    for site in bed.sites:
        in_reach = lambda: set(marks(site).values()) <= {"connected", "synchronizing"}
        wait_until(in_reach, f"{site.name}'s link", 30)
