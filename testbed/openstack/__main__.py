"""Real OpenStack sites, each behind its own agent: `cargo xtask openstack up|down|test|status`.

    up      installs what is missing, configures, starts; may be run again
    test    the story told in story.py, against what is up (brings it up first)
    tempest the projects' own API tests, with and without the agent in between: the same results
    status  what runs, and how the agents see each other
    down    stops what `up` started, and nothing else

Everything is kept in `.out/openstack` of the project, or in the folder that CHEOPS_OPENSTACK names.
"""

import argparse
import sys
import time

import agents
import configure
import install
import processes
import sites
import story
import transparency
from settings import SERVICES, Testbed


def arguments():
    parser = argparse.ArgumentParser(prog="cargo xtask openstack", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chore", choices=["up", "down", "test", "tempest", "status"])
    parser.add_argument("--sites", type=int, default=2, choices=range(1, 6), metavar="1..5")
    parser.add_argument("--services", default=",".join(s.name for s in SERVICES),
                        help="identity,image (or keystone,glance) alone need no root and no Debian package")
    parser.add_argument("--tests", default=transparency.TESTS, metavar="REGEX",
                        help="with tempest: which (by default 441 of identity, image, compute)")
    return parser.parse_args()


def up(bed):
    began = time.monotonic()
    only_form(bed)
    program = install.everything(bed)
    bed.state.mkdir(parents=True, exist_ok=True)
    for site in bed.sites:
        configure.write(bed, site)
    sites.clouds(bed)
    agents.prepare(bed, program)
    sites.begin_database(bed)
    sites.begin_queue(bed)
    for site in bed.sites:
        sites.create_databases(bed, site)
    agents.begin(bed, program, bed.sites)
    begin_services(bed, bed.services[:1])
    for site in bed.sites:
        sites.seed(bed, site)
    begin_services(bed, bed.services[1:])
    if bed.has("compute"):
        for site in bed.sites:
            sites.map_compute_host(bed, site)
            sites.flavor(bed, site)
    agents.wait_connected(bed)
    names = ", ".join(site.name for site in bed.sites)
    print(f"up in {time.monotonic() - began:.0f} s: {names}, each with {', '.join(s.name for s in bed.services)}")
    print(f"try:\n  export OS_CLIENT_CONFIG_FILE={bed.clouds} PATH={bed.venv}/bin:$PATH\n"
          "  openstack --os-cloud dc1 image list --scope '{ image: DC 2 }'")


def only_form(bed):
    """Both forms use the same ports."""
    form = bed.run / "form"
    if processes.running(bed) and form.exists() and form.read_text() != bed.state.name:
        sys.exit(f"the {form.read_text()} form runs; `cargo xtask openstack down` first")
    bed.run.mkdir(parents=True, exist_ok=True)
    form.write_text(bed.state.name)


def begin_services(bed, services):
    for each in services:
        for site in bed.sites:
            sites.begin(bed, site, each)
    for each in services:
        for site in bed.sites:
            sites.wait_up(bed, site, each)


def status(bed):
    there = processes.running(bed)
    if not there:
        print("nothing runs")
        return
    for name, pid in there.items():
        print(f"{name:24} {pid}")
    for site in bed.sites:
        if f"agent-{site.cloud}" in there:
            seen = ", ".join(f"{name} {mark}" for name, mark in agents.marks(site).items())
            print(f"{site.name} sees: {seen}")


def main():
    asked = arguments()
    bed = Testbed(asked.sites, asked.services.split(","))
    if asked.chore == "test" and asked.sites < 2:
        sys.exit("the story needs two sites")
    if asked.chore == "up":
        up(bed)
    elif asked.chore == "test":
        up(bed)
        sys.exit(story.tell(bed))
    elif asked.chore == "tempest":
        up(bed)
        sys.exit(transparency.compare(bed, asked.tests))
    elif asked.chore == "status":
        status(bed)
    else:
        print(f"stopped {len(sites.stop_all(bed))} processes")


main()
