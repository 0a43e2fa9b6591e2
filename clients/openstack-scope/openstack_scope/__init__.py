"""Sends a scope with every request of an OpenStack client; what it means is the agents' affair."""

from keystoneauth1 import exceptions

HEADER = "X-Scope"


class Refused(exceptions.ClientException):
    """An agent, not a service, refused a request: the site is cut off, the scope is wrong, …

    Not one of the HTTP errors that clients take for a service without the version they look for.
    """


def put_on(session, scope):
    """From now on, every request of `session` carries `scope`: sign-in and discovery too.

    Without those, `compute: DC 1; DC 2` would fail at discovery while DC 1 is down, and
    `identity: DC 2` would sign in at the wrong site.
    """
    if not scope:
        return
    session.additional_headers[HEADER] = scope
    hooks = session.session.hooks.setdefault("response", [])
    if _explain not in hooks:
        hooks.append(_explain)


def _explain(response, *_, **__):
    """Says what the agent said; clients show no more of its problems than a number."""
    if not response.headers.get("Content-Type", "").startswith("application/problem+json"):
        return
    try:
        problem = response.json()
    except ValueError:
        return
    # What is not there is for the caller to make something of, as ever.
    if problem.get("type", "").startswith("urn:cheops:problem:") and response.status_code != 404:
        said = problem.get("detail") or problem.get("title")
        raise Refused(f"{said} ({problem.get('code')}, HTTP {response.status_code})")
