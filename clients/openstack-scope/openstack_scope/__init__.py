"""Sends a scope with every request of an OpenStack client; what it means is the agents' affair."""

HEADER = "X-Scope"


def put_on(session, scope):
    """From now on, every request of `session` carries `scope`: sign-in and discovery too.

    Without those, `compute: DC 1; DC 2` would fail at discovery while DC 1 is down, and
    `identity: DC 2` would sign in at the wrong site.
    """
    if scope:
        session.additional_headers[HEADER] = scope
