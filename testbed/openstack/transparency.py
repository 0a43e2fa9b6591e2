"""The projects' own API tests (tempest), against DC 1's services and through its agent, no scope.

An agent that is in nobody's way gives the same result for every test. The few tests that the fake
compute driver cannot pass are left in: they have to fail alike.
"""

import json
import os
import re
import shutil
import subprocess
import sys

from processes import call
from settings import HERE, PASSWORD, REGION, service

VERSION = "42.0.0"
TESTS = r"^tempest\.api\.(identity|image\.v2|compute\.(" + "|".join([
    "flavors", "images", "keypairs", "limits", "test_quotas", "test_versions", "test_extensions",
    r"servers\.test_(create_server|servers|server_metadata|server_tags|list_server_filters|instance_actions)\b",
    r"admin\.test_(flavors|aggregates|hypervisor|availability_zone|services|quotas|keypairs_v210)",
]) + "))"
# One line per test; where the set-up of a class failed or was skipped, one for the class.
LINE = re.compile(r"^\{\d+\} (setUpClass \(\S+\)|\S+).* \.\.\. (ok|FAILED|SKIPPED)")


def compare(bed, tests=TESTS):
    install(bed)
    site = bed.sites[0]
    prepare(bed, site)
    seen = {}
    try:
        for way in ("agent", "direct"):
            point_catalogue(bed, site, way)
            seen[way] = run(bed, site, way, tests)
            print(f"{way}: {counts(seen[way])}", flush=True)
    finally:
        point_catalogue(bed, site, "agent")
    (bed.state / "transparency.json").write_text(json.dumps(seen, indent=1, sort_keys=True))
    names = sorted({*seen["agent"], *seen["direct"]})
    differ = [name for name in names if seen["agent"].get(name) != seen["direct"].get(name)]
    for name in differ:
        print(f"differs: {name}: direct {seen['direct'].get(name)}, agent {seen['agent'].get(name)}")
    print(f"{len(names)} tests, {len(differ)} differ")
    return 1 if differ or not names else 0


def install(bed):
    tempest = bed.home / "tempest"
    if not (tempest / "bin" / "tempest").exists():
        call([sys.executable, "-m", "venv", tempest])
        call([tempest / "bin" / "pip", "install", "-q", "-c", HERE / "pins.txt", f"tempest=={VERSION}"])


def url(site, each, way):
    port = site.at_agent(each) if way == "agent" else site.behind_agent(each)
    return f"http://127.0.0.1:{port}{each.catalogue_path}"


def point_catalogue(bed, site, way):
    wanted = [f"{s.name}={s.project}={url(site, s, way)}" for s in bed.services]
    env = {"OS_CLIENT_CONFIG_FILE": str(bed.clouds), "OS_CLOUD": site.cloud}
    call([bed.bin("python"), HERE / "seed.py", PASSWORD, REGION, *wanted], env)


def prepare(bed, site):
    """What an operator of such a site has: a second flavor, and Glance's own metadata definitions."""
    env = {"OS_CLIENT_CONFIG_FILE": str(bed.clouds)}
    openstack = [bed.bin("openstack"), "--os-cloud", site.cloud, "flavor"]
    if bed.has("compute") and '"small"' not in call([*openstack, "list", "-f", "json"], env):
        call([*openstack, "create", "--id", "small", "--ram", "128", "--disk", "1", "--vcpus", "1", "small"], env)
    glance = [bed.bin("glance-manage"), "--config-file", site.folder / "etc" / "glance-api.conf"]
    call([*glance, "db_load_metadefs", bed.venv / "etc" / "glance" / "metadefs"])


def images(bed, site):
    """Two images for tests that need some, as everybody may see them."""
    openstack = [bed.bin("openstack"), "--os-cloud", site.cloud, "image"]
    env = {"OS_CLIENT_CONFIG_FILE": str(bed.clouds)}
    picture = bed.state / "tempest.raw"
    picture.write_bytes(bytes(65_536))
    there = json.loads(call([*openstack, "list", "-f", "json"], env))
    found = {row["Name"]: row["ID"] for row in there}
    shape = ["--public", "--disk-format", "raw", "--container-format", "bare", "--file", picture]
    for name in ("tempest-a", "tempest-b"):
        if name not in found:
            found[name] = call([*openstack, "create", *shape, name, "-f", "value", "-c", "id"], env).strip()
    return found["tempest-a"], found["tempest-b"]


def run(bed, site, way, tests):
    folder = bed.state / f"tempest-{way}"
    shutil.rmtree(folder, ignore_errors=True)
    tempest = bed.home / "tempest" / "bin" / "tempest"
    known = bed.state / f"tempest-{way}.yaml"
    known.unlink(missing_ok=True)
    call([tempest, "init", "--workspace-path", known, folder])
    (folder / "etc" / "tempest.conf").write_text(config(bed, site, way, folder))
    done = subprocess.run([tempest, "run", "--regex", tests, "--concurrency", "2"], cwd=folder,
                          env={**os.environ, "HOME": str(folder)},  # where it leaves a folder
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    (folder / "said.txt").write_text(done.stdout + done.stderr)
    found = (LINE.match(line) for line in done.stdout.splitlines())
    return {match[1]: match[2] for match in found if match}


def config(bed, site, way, folder):
    first, second = images(bed, site)
    return f"""[DEFAULT]
log_file = {folder}/tempest.log
[oslo_concurrency]
lock_path = {folder}/locks
[auth]
admin_username = admin
admin_password = {PASSWORD}
admin_project_name = admin
admin_domain_name = Default
use_dynamic_credentials = true
create_isolated_networks = false
tempest_roles = member
[identity]
uri_v3 = {url(site, service("identity"), way)}
auth_version = v3
region = {REGION}
[identity-feature-enabled]
api_v2 = false
api_v2_admin = false
[compute]
image_ref = {first}
image_ref_alt = {second}
flavor_ref = tiny
flavor_ref_alt = small
region = {REGION}
min_microversion = 2.1
max_microversion = latest
[compute-feature-enabled]
vnc_console = false
live_migration = false
# The fake driver never delivers one.
snapshot = false
[image]
region = {REGION}
# Glance looks into what is uploaded, and tempest uploads noise.
disk_formats = raw
container_formats = bare,ovf,docker
build_timeout = 60
[image-feature-enabled]
import_image = false
[service_available]
cinder = false
swift = false
horizon = false
neutron = true
glance = true
nova = true
[validation]
run_validation = false
"""


def counts(seen):
    words = list(seen.values())
    return ", ".join(f"{words.count(word)} {word.lower()}" for word in ("ok", "FAILED", "SKIPPED"))
