"""The services' configuration files. Whatever one service is told of another is an agent's address."""

import shutil

from settings import PASSWORD, REGION, service


def write(bed, site):
    for folder in ("etc", "log", "data/images", "data/staging", "data/tasks", "data/locks", "data/nova"):
        (site.folder / folder).mkdir(parents=True, exist_ok=True)
    makers = {
        "identity": keystone,
        "image": glance,
        "placement": placement,
        "network": neutron,
        "compute": nova,
    }
    for each in bed.services:
        sections = makers[each.name](bed, site)
        (site.folder / "etc" / file_name(each)).write_text(ini(sections))


def file_name(each):
    return "glance-api.conf" if each.name == "image" else f"{each.project}.conf"


def ini(sections):
    lines = []
    for name, options in sections.items():
        lines.append(f"[{name}]")
        lines.extend(f"{key} = {value}" for key, value in options.items())
    return "\n".join(lines) + "\n"


def account(site, user):
    """How a service signs in."""
    return {
        "auth_url": site.url(service("identity")),
        "auth_type": "password",
        "username": user,
        "password": PASSWORD,
        "project_name": "service",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
        "region_name": REGION,
    }


def token_check(site, user):
    """How a service checks the tokens that it is shown."""
    return {
        **account(site, user),
        "www_authenticate_uri": site.url(service("identity")),
        "interface": "internal",
        "service_token_roles": "service",
        "service_token_roles_required": "true",
    }


def keystone(bed, site):
    etc = site.folder / "etc"
    return {
        "DEFAULT": {"log_file": site.folder / "log/keystone.log"},
        "database": {"connection": bed.database(site, "keystone")},
        "identity": {"password_hash_rounds": 4},
        "token": {"provider": "fernet"},
        "fernet_tokens": {"key_repository": etc / "fernet-keys"},
        "credential": {"key_repository": etc / "credential-keys"},
    }


def glance(bed, site):
    data = site.folder / "data"
    return {
        "DEFAULT": {
            "log_file": site.folder / "log/glance.log",
            "enabled_backends": "files:file",
            "node_staging_uri": f"file://{data}/staging",
            "worker_self_reference_url": f"http://127.0.0.1:{site.behind_agent(service('image'))}",
            "transport_url": "fake://",
        },
        "database": {"connection": bed.database(site, "glance")},
        "glance_store": {"default_backend": "files"},
        "files": {"filesystem_store_datadir": data / "images"},
        "os_glance_staging_store": {"filesystem_store_datadir": data / "staging"},
        "os_glance_tasks_store": {"filesystem_store_datadir": data / "tasks"},
        "paste_deploy": {
            "flavor": "keystone",
            "config_file": bed.venv / "etc/glance/glance-api-paste.ini",
        },
        "oslo_concurrency": {"lock_path": data / "locks"},
        "keystone_authtoken": token_check(site, "glance"),
    }


def placement(bed, site):
    return {
        "DEFAULT": {"log_file": site.folder / "log/placement.log"},
        "placement_database": {"connection": bed.database(site, "placement")},
        "api": {"auth_strategy": "keystone"},
        "keystone_authtoken": token_check(site, "placement"),
    }


def neutron(bed, site):
    # The API alone: nova asks it for ports even of a server without any.
    paste = site.folder / "etc/neutron-api-paste.ini"
    shutil.copy(bed.venv / "etc/neutron/api-paste.ini", paste)
    return {
        "DEFAULT": {
            "log_file": site.folder / "log/neutron.log",
            "bind_host": "127.0.0.1",
            "bind_port": site.behind_agent(service("network")),
            "api_paste_config": paste,
            "state_path": site.folder / "data/neutron",
            "core_plugin": "ml2",
            "service_plugins": "",
            "auth_strategy": "keystone",
            "api_workers": 1,
            "rpc_workers": 0,
            "rpc_state_report_workers": 0,
            "transport_url": bed.queue(site),
            "notify_nova_on_port_status_changes": "false",
            "notify_nova_on_port_data_changes": "false",
        },
        "database": {"connection": bed.database(site, "neutron")},
        "ml2": {
            "type_drivers": "local,flat,vlan",
            "tenant_network_types": "local",
            "mechanism_drivers": "",
            "extension_drivers": "port_security",
        },
        "oslo_concurrency": {"lock_path": site.folder / "data/locks"},
        "keystone_authtoken": token_check(site, "neutron"),
    }


def nova(bed, site):
    paste = site.folder / "etc/nova-api-paste.ini"
    shutil.copy(bed.venv / "etc/nova/api-paste.ini", paste)

    def sibling(name):
        return {**account(site, "nova"), "endpoint_override": site.url(service(name))}

    return {
        "DEFAULT": {
            "host": f"compute-{site.cloud}",
            "my_ip": "127.0.0.1",
            "log_dir": site.folder / "log",
            "state_path": site.folder / "data/nova",
            "instances_path": site.folder / "data/nova/instances",
            "transport_url": bed.queue(site),
            "compute_driver": "fake.FakeDriver",
            "enabled_apis": "osapi_compute",
            "osapi_compute_listen": "127.0.0.1",
            "osapi_compute_listen_port": site.behind_agent(service("compute")),
            "osapi_compute_workers": 1,
            # Fake servers are forgotten by a restart; without this, nova would notice.
            "sync_power_state_interval": -1,
        },
        "wsgi": {"api_paste_config": paste},
        "api": {"auth_strategy": "keystone"},
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 10},
        "api_database": {"connection": bed.database(site, "nova_api")},
        "database": {"connection": bed.database(site, "nova")},
        "oslo_concurrency": {"lock_path": site.folder / "data/locks"},
        "vnc": {"enabled": "false"},
        "glance": sibling("image"),
        "placement": sibling("placement"),
        "neutron": sibling("network"),
        "service_user": {**account(site, "nova"), "send_service_user_token": "false"},
        "keystone_authtoken": token_check(site, "nova"),
    }
