"""One image on both sites: `image create … --scope '{ image: DC 1 & DC 2 }'`, and what has to come of it."""

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import agents
import processes
from settings import service

BOTH = "{ image: DC 1 & DC 2 }"
SITES = ("DC 1", "DC 2")
WORDS = ["image", "create", "debian", "--disk-format", "raw", "--container-format", "bare"]
PATIENCE = 60
LIFETIME = 45  # seconds: enough to sign in and make an image on a busy machine


def tell(story):
    on_both(story)
    cut_during(story)
    by_accident(story)
    revoked(story)
    expired(story)


def on_both(story):
    story.say("\n# one image on both sites")
    made = create(story)
    story.check("active", bool(made) and made["status"] == "active", made and made["id"])
    if not made:
        return
    same_everywhere(story, made["id"])
    for site in SITES:
        listed = [row["ID"] for row in story.read("alice", "image", "list", scope=at(site)) or []]
        story.check(f"listed once at {site}", listed == [made["id"]], listed)
    listed = [row["ID"] for row in story.read("alice", "image", "list", scope=BOTH) or []]
    story.check("listed once over both", listed == [made["id"]], listed)
    succeeded, said, _ = story.run("alice", "image", "set", made["id"], "--property", "colour=blue", scope=at("DC 2"))
    story.check("changed at DC 2", succeeded, said)
    for site in SITES:
        blue = lambda: (shown(story, made["id"], site) or {}).get("properties", {}).get("colour") == "blue"
        story.check(f"changed as {site} shows it", soon(blue))
    if story.bed.has("compute"):
        server = story.read("alice", "server", "create", "my-vm", "--image", made["id"], "--flavor", "tiny", "--nic", "none", "--wait")
        story.check("a server of it at DC 1: ACTIVE", bool(server) and server["status"] == "ACTIVE", server and server["id"])
        story.run("alice", "server", "delete", "my-vm", "--wait")
    remove(story, made["id"], "DC 2")


def cut_during(story):
    story.say("\n# the same, with DC 2 cut off in the middle of the command, and brought back")
    with cut_off(story, when=made_at_dc1(story)):
        made = create(story)
        story.check("active", bool(made) and made["status"] == "active", made and made["id"])
        if not made:
            return
        known = states(story, made["id"])
        story.check("DC 2 was cut off before it had it all", known.get("DC 2") not in (None, "live"), known)
        listed = [row["ID"] for row in story.read("alice", "image", "list") or []]
        story.check("listed at DC 1 meanwhile", listed == [made["id"]], listed)
        there = (story.read("alice", "image", "show", made["id"]) or {}).get("status")
        story.check("shown at DC 1 meanwhile", there == "active", there)
        story.check("saved from DC 1 meanwhile, byte for byte", saved(story, made["id"]))
        succeeded, said, _ = story.run("alice", "image", "set", made["id"], "--name", "debian-13")
        story.check("changed at DC 1 meanwhile", succeeded, said)
    agents.wait_connected(story.bed)
    same_everywhere(story, made["id"])
    for site in SITES:
        named = lambda: (shown(story, made["id"], site) or {}).get("name") == "debian-13"
        story.check(f"its new name at {site}", soon(named))
    with cut_off(story):
        succeeded, said, _ = story.run("alice", "image", "delete", made["id"])
        story.check("deleted at DC 1 while DC 2 is away", succeeded, said)
    agents.wait_connected(story.bed)
    gone_everywhere(story, made["id"])


def by_accident(story):
    story.say("\n# an id that an image of DC 2 has by accident")
    taken = f"0f0f0f0f-0000-4000-8000-{time.time_ns() >> 20:012x}"
    other = story.read("alice", *WORDS, "--id", taken, scope=at("DC 2"))
    story.check("somebody's image at DC 2", bool(other) and other["id"] == taken)
    succeeded, said, _ = story.run("alice", "image", "set", taken, "--property", "colour=red", scope=BOTH)
    story.check("it is no image of both: refused", not succeeded, said)
    status, said = patched(story, taken)
    story.check("and whoever does not look first is told why", status == 409 and "adopt" in said, said)
    made = story.read("alice", *WORDS, "--id", taken, scope=BOTH)
    story.check("made at DC 1, which has none", bool(made) and made["id"] == taken)
    refused = soon(lambda: states(story, taken).get("DC 2") == "diverged")
    story.check("shown as diverged at DC 2", refused, states(story, taken))
    story.check("DC 2's own is as it was", untouched(story, other))
    succeeded, said, _ = story.run("alice", "image", "delete", taken)
    story.check("deleted at DC 1", succeeded, said)
    gone = soon(lambda: behind(story, "DC 1", f"/v2/images/{taken}")[0] == 404)
    story.check("gone at DC 1", gone, states(story, taken))
    story.check("DC 2's own is as it was", untouched(story, other))
    behind(story, "DC 2", f"/v2/images/{taken}", method="DELETE")


def patched(story, image):
    """The client looks for an image before it changes it; this does not."""
    token = (story.read("alice", "token", "issue") or {}).get("id", "")
    url = f"{story.bed.sites[0].url(service('image'))}/v2/images/{image}"
    how = {"X-Scope": BOTH, "Content-Type": "application/openstack-images-v2.1-json-patch"}
    status, _, said = http(url, token, "PATCH", [{"op": "add", "path": "/colour", "value": "red"}], how)
    return status, said.get("detail", "")


def revoked(story):
    story.say("\n# a token that is revoked while its operation waits for DC 2")
    token = (story.read("alice", "token", "issue") or {}).get("id", "")
    lapsed(story, token, lambda: story.run("alice", "token", "revoke", token))


def expired(story):
    story.say("\n# a token that expires while its operation waits for DC 2")
    until = datetime.now(timezone.utc) + timedelta(seconds=LIFETIME)
    words = ["application", "credential", "create", f"brief-{time.time_ns()}", "--expiration", f"{until:%Y-%m-%dT%H:%M:%S}"]
    brief = story.read("alice", *words) or {}
    token, ends = signed_in(story, brief)
    story.check("a token that ends with its credential", abs((ends - until).total_seconds()) < 1, ends)

    def lapse():
        time.sleep(max(0, (ends - datetime.now(timezone.utc)).total_seconds()) + 1)
        status, _, _ = http(story.bed.sites[0].url(service("image")) + "/v2/images", token)
        story.check("good no more, at DC 1 either", status == 401, status)

    lapsed(story, token, lapse)
    story.run("alice", "application", "credential", "delete", brief.get("id", ""))


def signed_in(story, credential):
    """A token for an application credential, and when it ends. The client would keep it to itself."""
    how = {"id": credential.get("id"), "secret": credential.get("secret")}
    body = {"auth": {"identity": {"methods": ["application_credential"], "application_credential": how}}}
    _, headers, said = http(story.bed.sites[0].url(service("identity")) + "/v3/auth/tokens", None, "POST", body)
    ends = said.get("token", {}).get("expires_at", "1970-01-01T00:00:00.000000Z")
    return headers.get("X-Subject-Token", ""), datetime.fromisoformat(ends)


def lapsed(story, token, lapse):
    """An image of both sites whose token is good at DC 1, and no more when it is DC 2's turn."""
    url = story.bed.sites[0].url(service("image")) + "/v2/images"
    body = {"name": "debian", "disk_format": "raw", "container_format": "bare"}
    with cut_off(story):
        status, headers, made = http(url, token, "POST", body, {"X-Scope": BOTH})
        story.check("made at DC 1", status == 201, status)
        story.check_kept_nowhere("the waiting operation's token is not", token)
        lapse()
    agents.wait_connected(story.bed)
    if status != 201:
        return
    of_dc2 = lambda: operation(story, headers["X-Cheops-Operation"]).get("DC 2", {})
    waits = soon(lambda: of_dc2().get("state") == "waiting")
    story.check("shown as waiting at DC 2", waits, of_dc2())
    story.check("nothing was made there", behind(story, "DC 2", f"/v2/images/{made['id']}")[0] == 404)
    succeeded, said, _ = story.run("alice", "image", "delete", made["id"])
    story.check("and can be deleted in another's name", succeeded, said)
    gone_everywhere(story, made["id"])


def create(story):
    return story.read("alice", *WORDS, "--file", str(story.picture), scope=BOTH)


def at(site):
    return f"{{ image: {site} }}"


def shown(story, image, site):
    return story.read("alice", "image", "show", image, scope=at(site))


def same_everywhere(story, image):
    for site in SITES:
        there = soon(lambda: (shown(story, image, site) or {}).get("status") == "active")
        story.check(f"active at {site} under the one id", there, states(story, image))
        story.check(f"saved from {site}, byte for byte", saved(story, image, at(site)))


def saved(story, image, scope=None):
    copy = story.bed.state / "copy.raw"
    story.run("alice", "image", "save", image, "--file", str(copy), scope=scope)
    same = copy.exists() and copy.read_bytes() == story.picture.read_bytes()
    copy.unlink(missing_ok=True)
    return same


def remove(story, image, site):
    succeeded, said, _ = story.run("alice", "image", "delete", image, scope=at(site))
    story.check(f"deleted at {site}", succeeded, said)
    gone_everywhere(story, image)


def gone_everywhere(story, image):
    for site in SITES:
        gone = soon(lambda: behind(story, site, f"/v2/images/{image}")[0] == 404)
        story.check(f"gone at {site}, as its own service says", gone)


def untouched(story, other):
    """By the service itself, behind the agent's back."""
    status, now = behind(story, "DC 2", f"/v2/images/{other['id']}")
    return status == 200 and (now["updated_at"], now["status"]) == (other["updated_at"], other["status"])


def behind(story, name, path, method="GET"):
    """What a site's image service says to its administrator, with no agent between."""
    site = next(site for site in story.bed.sites if site.name == name)
    token = (story.read(site.cloud, "token", "issue") or {}).get("id", "")
    status, _, body = http(f"http://127.0.0.1:{site.behind_agent(service('image'))}{path}", token, method)
    return status, body


def states(story, image):
    """Site → the state of its replica, as DC 1's agent knows it."""
    _, _, found = http(f"http://127.0.0.1:{story.bed.sites[0].admin}/v1/resources/{image}")
    return {site: replica["state"] for site, replica in (found.get("replicas") or {}).items()}


def operation(story, op):
    _, _, found = http(f"http://127.0.0.1:{story.bed.sites[0].admin}/v1/operations/{op}")
    return found.get("sites") or {}


def http(url, token=None, method="GET", body=None, headers=None):
    """Status, headers, and the body as data."""
    data = json.dumps(body).encode() if body is not None else None
    sent = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {}), **(headers or {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, sent, method=method), timeout=30) as answer:
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else {}
    except urllib.error.HTTPError as refusal:
        text = refusal.read()
        said = json.loads(text) if "json" in refusal.headers.get("Content-Type", "") and text else {}
        return refusal.code, refusal.headers, said


def soon(true):
    until = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.5)
    return True


def made_at_dc1(story):
    """Whether DC 1's agent has answered the next create: its content is about to be sent."""
    log = story.bed.logs / "agent-dc1.log"
    until_now = log.stat().st_size

    def answered():
        with open(log, "rb") as lines:
            lines.seek(until_now)
            return b"method=POST path=/v2/images status=201" in lines.read()

    return answered


@contextmanager
def cut_off(story, when=None):
    """DC 2's agent answers nobody, from now on or as soon as `when` says so, until the end."""
    agent = processes.running(story.bed)["agent-dc2"]
    over = threading.Event()

    def cut():
        while when and not when() and not over.wait(0.005):
            pass
        os.kill(agent, signal.SIGSTOP)

    cutter = threading.Thread(target=cut)
    cutter.start()
    if when is None:
        cutter.join()
    try:
        yield
    finally:
        over.set()
        cutter.join()
        os.kill(agent, signal.SIGCONT)
