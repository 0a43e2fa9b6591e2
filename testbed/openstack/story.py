"""The commands that the testbed is for, with the stock client, and what has to come of them.

Alice has an account at DC 1 and nowhere else; the sites share no secret. Each step says what it
wants and what it saw; all of it is kept in `story.txt` beside the sites.
"""

import json
import os
import shlex
import signal
import subprocess
import time

import agents
import install
import processes
import replicas
import sites
from settings import service

SERVER = ["server", "create", "my-vm", "--image", "debian", "--flavor", "tiny", "--nic", "none", "--wait"]
SHARED = "{ compute: DC 1, image: DC 2 }"
TOKEN = "gAAAAA"  # how Keystone's begin


class Story:
    def __init__(self, bed):
        self.bed = bed
        self.held = self.failed = 0
        self.file = open(bed.state / "story.txt", "w")
        self.picture = bed.state / "debian.raw"
        if not self.picture.exists():
            self.picture.write_bytes(os.urandom(5_000_000))

    def say(self, text):
        print(text, flush=True)
        print(text, file=self.file, flush=True)

    def run(self, cloud, *words, scope=None, env=None):
        """One command of the stock client: (succeeded, what it said, seconds)."""
        words = [*words, *(["--scope", scope] if scope else [])]
        shown = ["TOKEN" if word.startswith(TOKEN) else word for word in words]
        self.say(f"{cloud}$ openstack {shlex.join(shown)}")
        set_to = {"OS_CLIENT_CONFIG_FILE": str(self.bed.clouds), "OS_CLOUD": cloud, **(env or {})}
        began = time.monotonic()
        done = subprocess.run([self.bed.bin("openstack"), *words], env={**os.environ, **set_to},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        said = (done.stdout + done.stderr).strip()
        return done.returncode == 0, said, time.monotonic() - began

    def read(self, cloud, *words, scope=None):
        """What the client answers, as data; nothing if it refused."""
        succeeded, said, _ = self.run(cloud, *words, "-f", "json", scope=scope)
        return json.loads(said) if succeeded and said else None

    def check(self, what, true, saw=""):
        self.held += bool(true)
        self.failed += not true
        saw = f"   [{' '.join(str(saw).split())[:400]}]" if saw != "" else ""
        self.say(f"  {'ok    ' if true else 'FAILED'} {what}{saw}")

    def names(self, cloud, kind, scope=None):
        rows = self.read(cloud, kind, "list", scope=scope)
        return None if rows is None else [row["Name"] for row in rows]

    def check_kept_nowhere(self, what, text):
        """In no file and no log of the agents."""
        files = [file for site in self.bed.sites for file in (site.folder / "agent").rglob("*")]
        files += self.bed.logs.glob("agent-*.log")
        files = [file for file in files if file.is_file()]
        found = [file.name for file in files if text.encode() in file.read_bytes()]
        self.check(f"{what} in {len(files)} files", files and text and not found, found or "")


def tell(bed):
    story = Story(bed)
    unpatched(story)
    clear(story)
    image_here_and_there(story)
    replicas.tell(story)
    if bed.has("compute"):
        server_here(story)
        server_shared(story)
        first_of(story)
        site_down(story)
        cut_off(story)
    wrong_scopes(story)
    sdk(story)
    no_token_kept(story)
    unpatched(story)
    clear(story)
    story.say(f"{story.held} held, {story.failed} failed")
    return 1 if story.failed else 0


def unpatched(story):
    looked, changed = install.changed(story.bed)
    what = f"all {looked} installed files are as their packages were published"
    story.check(what, looked > 0 and not changed, changed or "")


def clear(story):
    for site in story.bed.sites:
        if story.bed.has("compute"):
            everywhere = story.read(site.cloud, "server", "list", "--all-projects") or []
            for row in everywhere:
                story.run(site.cloud, "server", "delete", "--wait", row["ID"])
        for row in story.read(site.cloud, "image", "list") or []:
            story.run(site.cloud, "image", "delete", row["ID"])


def upload(story, site):
    words = ["image", "create", "debian", "--disk-format", "raw", "--container-format", "bare"]
    return story.read("alice", *words, "--file", str(story.picture), scope=f"{{ image: {site} }}")


def image_here_and_there(story):
    story.say("\n# an image at either site, asked for at DC 1")
    for site in ("DC 1", "DC 2"):
        made = upload(story, site)
        story.check(f"made at {site}", bool(made) and made["status"] == "active", made and made["id"])
        there, elsewhere = (f"{{ image: {s} }}" for s in ((site, "DC 2" if site == "DC 1" else "DC 1")))
        story.check(f"listed at {site}", story.names("alice", "image", there) == ["debian"])
        story.check("listed there alone", story.names("alice", "image", elsewhere) == [])
        copy = story.bed.state / "copy.raw"
        story.run("alice", "image", "save", "debian", "--file", str(copy), scope=there)
        same = copy.exists() and copy.read_bytes() == story.picture.read_bytes()
        story.check("saved again, byte for byte", same)
        copy.unlink(missing_ok=True)
        succeeded, said, _ = story.run("alice", "image", "set", "debian", "--property", "colour=blue", scope=there)
        story.check("changed", succeeded, said)
        succeeded, said, _ = story.run("alice", "image", "delete", "debian", scope=there)
        story.check("deleted", succeeded, said)


def server_here(story):
    story.say("\n# no scope, and a scope that says the same")
    upload(story, "DC 1")
    for scope in (None, "{ compute: DC 1, image: DC 1 }"):
        made = story.read("alice", *SERVER, scope=scope)
        active = bool(made) and made["status"] == "ACTIVE"
        story.check("ACTIVE", active, made and f"{made['id']} {made['image']}")
        story.run("alice", "server", "delete", "my-vm", "--wait")
    story.run("alice", "image", "delete", "debian")


def server_shared(story):
    story.say("\n# a server of DC 1 from an image that only DC 2 has")
    upload(story, "DC 2")
    story.check("DC 1 has no image", story.names("alice", "image") == [])
    succeeded, said, _ = story.run("alice", *SERVER)
    story.check("without a scope there is no such image", not succeeded, said)
    made = story.read("alice", *SERVER, scope=SHARED)
    story.check("ACTIVE", bool(made) and made["status"] == "ACTIVE", made and f"{made['id']} {made['image']}")
    where = {site.name: story.read(site.cloud, "server", "list", "--all-projects", "--no-name-lookup")
             for site in story.bed.sites}
    story.check("it is at DC 1", [row["Name"] for row in where["DC 1"] or []] == ["my-vm"])
    story.check("and not at DC 2", where["DC 2"] == [])
    story.run("alice", "server", "delete", "my-vm", "--wait")


def first_of(story):
    story.say("\n# the first of two sites, while the first one's compute service is down")
    processes.stop(story.bed, ["nova-api-dc1"])
    scope = "{ compute: DC 1; DC 2, image: DC 2 }"
    made = story.read("alice", *SERVER, scope=scope)
    story.check("ACTIVE", bool(made) and made["status"] == "ACTIVE", made and f"{made['id']} {made['image']}")
    rows = story.read("dc2", "server", "list", "--all-projects", "--no-name-lookup") or []
    story.check("it is at DC 2", [row["Name"] for row in rows] == ["my-vm"])
    succeeded, said, _ = story.run("alice", *SERVER, scope=SHARED)
    story.check("DC 1 alone is refused", not succeeded and "502" in said, said)
    story.run("alice", "server", "delete", "my-vm", "--wait", scope=scope)
    sites.begin(story.bed, story.bed.sites[0], service("compute"))
    sites.wait_up(story.bed, story.bed.sites[0], service("compute"))


def site_down(story):
    story.say("\n# the same while all of DC 1 is down, its agent too: asked at DC 2")
    bed, site = story.bed, story.bed.sites[0]
    processes.stop(bed, [name for name in processes.running(bed) if name.endswith(f"-{site.cloud}")])
    made = story.read("dc2", *SERVER, scope="{ compute: DC 1; DC 2 }")
    story.check("ACTIVE", bool(made) and made["status"] == "ACTIVE", made and f"{made['id']} {made['image']}")
    rows = story.read("dc2", "server", "list", "--all-projects", "--no-name-lookup") or []
    story.check("it is at DC 2", [row["Name"] for row in rows] == ["my-vm"])
    succeeded, said, took = story.run("dc2", *SERVER, scope="{ compute: DC 1 }")
    story.check("DC 1 alone is refused", not succeeded and "503" in said, f"{took:.1f} s: {said}")
    story.run("dc2", "server", "delete", "my-vm", "--wait")
    agents.begin(bed, install.agent(), [site])
    for each in bed.services:
        sites.begin(bed, site, each)
        sites.wait_up(bed, site, each)
    agents.wait_connected(bed)
    # Its API answers before its scheduler has heard of the host again.
    services = lambda: story.read(site.cloud, "compute", "service", "list", "--service", "nova-compute") or []
    story.check("back, and its host is up", replicas.soon(lambda: [row["State"] for row in services()] == ["up"]))


def cut_off(story):
    story.say("\n# DC 2 is cut off: its agent answers nobody")
    agent = processes.running(story.bed)["agent-dc2"]
    os.kill(agent, signal.SIGSTOP)
    try:
        succeeded, said, took = story.run("alice", *SERVER, scope=SHARED)
        story.check("refused", not succeeded and "503" in said, f"{took:.1f} s: {said}")
        succeeded, said, took = story.run("alice", *SERVER, scope=SHARED)
        story.check("again, now that it is known", not succeeded and "503" in said, f"{took:.1f} s: {said}")
        rows = story.read("dc1", "server", "list", "--all-projects", "--no-name-lookup")
        story.check("nothing was made at DC 1", rows == [])
    finally:
        os.kill(agent, signal.SIGCONT)
    agents.wait_connected(story.bed)
    made = story.read("alice", *SERVER, scope=SHARED)
    story.check("back: ACTIVE", bool(made) and made["status"] == "ACTIVE", made and made["id"])
    story.run("alice", "server", "delete", "my-vm", "--wait")


def wrong_scopes(story):
    story.say("\n# scopes that cannot be")
    for scope, word in (("{ image: DC 9 }", "DC 9"), ("{ volume: DC 1 }", "volume"), ("{ image: ", "syntax")):
        succeeded, said, _ = story.run("alice", "image", "list", scope=scope)
        story.check("refused, and says what", not succeeded and word in said, said)


SCRIPT = """import json, openstack
conn = openstack.connect()
print(json.dumps([image.name for image in conn.image.images()]))
"""


def sdk(story):
    story.say("\n# the same by clouds.yaml, for the SDK; and the identity binding of a scope")
    upload(story, "DC 2") if not story.bed.has("compute") else None
    text = story.bed.clouds.read_text()
    at_dc1 = text[text.index("  alice:"):]
    scoped = story.bed.state / "scoped.yaml"
    scope = '    auth_type: scope_password\n    auth:\n      scope: "{ image: DC 2 }"\n'
    scoped.write_text("clouds:\n" + at_dc1.replace("    auth:\n", scope))
    env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(scoped), "OS_CLOUD": "alice"}
    done = subprocess.run([story.bed.bin("python"), "-c", SCRIPT], env=env, capture_output=True, text=True)
    said = done.stdout.strip() or done.stderr
    story.check("the SDK sees the image of DC 2", said == '["debian"]', said)
    # DC 2's administrator signs in through DC 1's agent. The catalogue that she is given is DC 2's.
    listed = story.names("dc1", "image", "{ identity: DC 2 }")
    story.check("signed in at DC 2: its catalogue", listed == ["debian"], listed)
    listed = story.names("dc1", "image", "{ identity: DC 2, image: DC 1 }")
    story.check("a token of DC 2 is good at DC 1", listed == [], listed)
    story.run("alice", "image", "delete", "debian", scope="{ image: DC 2 }")


def no_token_kept(story):
    story.say("\n# what the agents keep")
    token = (story.read("alice", "token", "issue") or {}).get("id", "")
    story.check("a token begins as expected", token.startswith(TOKEN))
    story.check_kept_nowhere("no token", TOKEN)
