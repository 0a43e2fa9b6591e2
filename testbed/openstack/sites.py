"""The services of the sites: databases, first accounts, start."""

import json
import os
import sqlite3

import configure
import install
import processes
from processes import call, start, wait_http, wait_until
from settings import EPMD_PORT, HERE, MARIADB_PORT, PASSWORD, RABBIT_PORT, REGION, service

GUNICORN = """wsgi_app = "{module}"
bind = "127.0.0.1:{port}"
workers = {workers}
worker_class = "gthread"
threads = {threads}
timeout = 300
keepalive = 75
graceful_timeout = 3
"""

# Keystone's middleware keeps the token of the request at hand where all threads of the process see
# it: two requests at once, and one is judged by the other's roles. So it gets processes instead.
PROCESSES_AND_THREADS = {"identity": (2, 1), "image": (1, 4), "placement": (1, 4)}


def begin_database(bed):
    if bed.small:
        return
    folder = bed.state / "mariadb"
    root = ["--user=root"] if os.geteuid() == 0 else []
    if not (folder / "data").exists():
        folder.mkdir(parents=True, exist_ok=True)
        how = ["--no-defaults", *root, "--auth-root-authentication-method=normal", "--skip-test-db"]
        call(["mariadb-install-db", *how, f"--datadir={folder}/data"])
    # Nothing here has to survive a power cut: without fsync, migrations take seconds.
    careless = ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync",
                "--innodb-doublewrite=0", "--sync-frm=0"]
    start(bed, "mariadb", [
        install.MARIADB, "--no-defaults", *root, f"--datadir={folder}/data",
        f"--socket={folder}/socket", f"--pid-file={folder}/pid", "--bind-address=127.0.0.1",
        f"--port={MARIADB_PORT}", "--max-connections=500", "--performance-schema=off", *careless])
    wait_until(lambda: _sql(bed, "select 1"), "mariadb", 60)
    for host in ("127.0.0.1", "localhost"):
        _sql(bed, f"CREATE USER IF NOT EXISTS testbed@'{host}' IDENTIFIED BY '{PASSWORD}'")
        _sql(bed, f"GRANT ALL ON *.* TO testbed@'{host}'")


def _sql(bed, text):
    client = ["mariadb", "--no-defaults", "-uroot", "-S", f"{bed.state}/mariadb/socket", "-e", text]
    return processes.succeeds(client)


def begin_queue(bed):
    if bed.small:
        return
    folder = bed.state / "rabbit"
    for part in ("mnesia", "log"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "plugins").write_text("[].\n")
    only_here = "-kernel inet_dist_use_interface {127,0,0,1}"
    env = {
        "HOME": str(folder), "ERL_EPMD_PORT": str(EPMD_PORT), "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "testbed@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(RABBIT_PORT), "RABBITMQ_DIST_PORT": str(RABBIT_PORT + 1),
        "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia", "RABBITMQ_LOG_BASE": f"{folder}/log",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
        "RABBITMQ_CONFIG_FILE": f"{folder}/none", "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"+S 1:1 +sbwt none {only_here}",
    }
    start(bed, "epmd", ["epmd", "-address", "127.0.0.1", "-port", str(EPMD_PORT)], env)
    start(bed, "rabbit", [install.RABBIT], env)
    control = install.RABBIT.with_name("rabbitmqctl")
    await_startup = [control, "-q", "await_startup", "--timeout", "60"]
    wait_until(lambda: processes.succeeds(await_startup, env), "rabbitmq")

    def listed(what):
        rows = json.loads(call([control, "-q", "--formatter", "json", what], env))
        return {row.get("user") or row.get("name") for row in rows}

    if "testbed" not in listed("list_users"):
        call([control, "-q", "add_user", "testbed", PASSWORD], env)
    for site in bed.sites:
        if site.cloud not in listed("list_vhosts"):
            call([control, "-q", "add_vhost", site.cloud], env)
            call([control, "-q", "set_permissions", "-p", site.cloud, "testbed", ".*", ".*", ".*"], env)


def create_databases(bed, site):
    """Once per site."""
    done = site.folder / ".databases"
    if done.exists():
        return
    print(f"{site.name}: making databases", flush=True)
    etc = site.folder / "etc"
    names = ["keystone", "glance", "placement", "neutron", "nova", "nova_api", "nova_cell0"]
    if not bed.small:
        for name in names:
            _sql(bed, f"CREATE DATABASE IF NOT EXISTS {site.cloud}_{name} CHARACTER SET utf8")
    keystone = [bed.bin("keystone-manage"), "--config-file", etc / "keystone.conf"]
    call([*keystone, "db_sync"])
    owner = ["--keystone-user", str(os.geteuid()), "--keystone-group", str(os.getegid())]
    for step, keys in (("fernet_setup", "fernet-keys"), ("credential_setup", "credential-keys")):
        (etc / keys).mkdir(mode=0o700, exist_ok=True)
        call([*keystone, step, *owner])
    here = f"{site.url(service('identity'))}/v3"
    urls = [part for kind in ("public", "internal", "admin") for part in (f"--bootstrap-{kind}-url", here)]
    call([*keystone, "bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", REGION, *urls])
    if bed.has("image"):
        call([bed.bin("glance-manage"), "--config-file", etc / "glance-api.conf", "db_sync"])
    if bed.has("placement"):
        call([bed.bin("placement-manage"), "--config-file", etc / "placement.conf", "db", "sync"])
    if bed.has("network"):
        call([bed.bin("neutron-db-manage"), "--config-file", etc / "neutron.conf", "upgrade", "heads"])
    if bed.has("compute"):
        nova = nova_manage(bed, site)
        call([*nova, "api_db", "sync"])
        call([*nova, "cell_v2", "map_cell0", "--database_connection", bed.database(site, "nova_cell0")])
        call([*nova, "db", "sync"])
        if "cell1" not in call([*nova, "cell_v2", "list_cells"]):
            call([*nova, "cell_v2", "create_cell", "--name", "cell1"])
    if bed.small:
        # Kept in the file. Without it, two writers at once are "database is locked", and 500.
        for file in (site.folder / "data").glob("*.sqlite"):
            sqlite3.connect(file).execute("pragma journal_mode=wal")
    done.touch()


def nova_manage(bed, site):
    return [bed.bin("nova-manage"), "--config-file", site.folder / "etc" / "nova.conf"]


def begin(bed, site, each):
    """Starts one service of one site."""
    etc = site.folder / "etc"
    config = ["--config-file", etc / configure.file_name(each)]
    modules = {
        "identity": ("keystone.wsgi.api:application", {"OS_KEYSTONE_CONFIG_FILES": f"{etc}/keystone.conf"}),
        "image": ("glance.wsgi.api:application", {"OS_GLANCE_CONFIG_DIR": str(etc)}),
        "placement": ("placement.wsgi.api:application", {"OS_PLACEMENT_CONFIG_DIR": str(etc)}),
    }
    if each.name in modules:
        module, env = modules[each.name]
        options = etc / f"gunicorn-{each.project}.py"
        workers, threads = PROCESSES_AND_THREADS[each.name]
        options.write_text(GUNICORN.format(
            module=module, port=site.behind_agent(each), workers=workers, threads=threads))
        # Keystone reads the command line as its own, so gunicorn is told elsewhere.
        env = {**env, "GUNICORN_CMD_ARGS": f"-c {options}"}
        start(bed, f"{each.project}-{site.cloud}", [bed.bin("gunicorn")], env, cwd=site.folder / "data")
    elif each.name == "network":
        start(bed, f"neutron-{site.cloud}", [bed.bin("neutron-server"), *config])
    else:
        start(bed, f"nova-api-{site.cloud}", [bed.bin("nova-api-os-compute"), *config])
        start(bed, f"nova-conductor-{site.cloud}", [bed.bin("nova-conductor"), *config])
        start(bed, f"nova-scheduler-{site.cloud}", [bed.bin("nova-scheduler"), *config])
        fake = [HERE / "fake_compute.py", f"compute-{site.cloud}", site.folder / "data/nova"]
        start(bed, f"nova-compute-{site.cloud}", [bed.bin("python"), *fake, *config])


def wait_up(bed, site, each):
    wait_http(f"http://127.0.0.1:{site.behind_agent(each)}/", f"{each.project} of {site.name}")


def seed(bed, site):
    """Accounts and catalogue: asked for through the agent, as an operator would."""
    wanted = [f"{s.name}={s.project}={site.url(s)}{s.catalogue_path}" for s in bed.services]
    if site == bed.sites[0]:
        wanted.append("member=alice=demo")
    env = {"OS_CLIENT_CONFIG_FILE": str(bed.clouds), "OS_CLOUD": site.cloud}
    call([bed.bin("python"), HERE / "seed.py", PASSWORD, REGION, *wanted], env)


def flavor(bed, site):
    """The same id at every site: flavors are data of the operator."""
    openstack = [bed.bin("openstack"), "--os-cloud", site.cloud, "flavor"]
    env = {"OS_CLIENT_CONFIG_FILE": str(bed.clouds)}
    if '"tiny"' not in call([*openstack, "list", "-f", "json"], env):
        size = ["--ram", "64", "--disk", "1", "--vcpus", "1"]
        call([*openstack, "create", "--id", "tiny", *size, "tiny"], env)


def map_compute_host(bed, site):
    nova = nova_manage(bed, site)

    def mapped():
        call([*nova, "cell_v2", "discover_hosts"])
        return f"compute-{site.cloud}" in call([*nova, "cell_v2", "list_hosts"])

    wait_until(mapped, f"a compute host of {site.name}")


def clouds(bed):
    """The stock client's own file: an administrator per site, and a member who exists at DC 1 alone."""
    entries = [(site.cloud, site, "admin", "admin") for site in bed.sites]
    entries.append(("alice", bed.sites[0], "alice", "demo"))
    text = "clouds:\n"
    for cloud, site, user, project in entries:
        text += (
            f"  {cloud}:\n    region_name: {REGION}\n    identity_api_version: 3\n    auth:\n"
            f"      auth_url: {site.url(service('identity'))}/v3\n"
            f"      username: {user}\n      password: {PASSWORD}\n      project_name: {project}\n"
            "      user_domain_name: Default\n      project_domain_name: Default\n")
    bed.clouds.write_text(text)


def stop_all(bed):
    names = list(processes.running(bed))
    last = [name for name in ("rabbit", "epmd", "mariadb") if name in names]
    processes.stop(bed, [name for name in names if name not in last])
    processes.stop(bed, last)
    return names
