"""Accounts and catalogue of one site: PASSWORD REGION type=user=url… member=user=project… (cloud: OS_CLOUD).

May be run again: what is there is left alone, or set right.
"""

import sys

import openstack

password, region, *wanted = sys.argv[1:]
identity = openstack.connect().identity


def project(name):
    return identity.find_project(name) or identity.create_project(name=name, domain_id="default")


def user(name, at, roles):
    known = identity.find_user(name)
    known = known or identity.create_user(name=name, password=password, domain_id="default")
    for role in roles:
        identity.assign_project_role_to_user(at, known, identity.find_role(role))


def catalogue(kind, name, url):
    entry = next(iter(identity.services(type=kind)), None)
    entry = entry or identity.create_service(type=kind, name=name)
    for interface in ("public", "internal", "admin"):
        there = list(identity.endpoints(service_id=entry.id, interface=interface))
        if not there:
            identity.create_endpoint(
                service_id=entry.id, interface=interface, url=url, region_id=region)
        elif there[0].url != url:
            identity.update_endpoint(there[0], url=url)


services = project("service")
for text in wanted:
    kind, name, url = text.split("=", 2)
    if kind == "member":
        user(name, project(url), ["member"])
        continue
    catalogue(kind, name, url)
    if kind != "identity":
        user(name, services, ["admin", "service"])
