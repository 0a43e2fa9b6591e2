"""`--scope` on the stock `openstack` command, whatever the way to sign in.

An extension of that command may declare options, but is never given the session they are for. So
sessions made after this module was loaded are given the scope as they are made; nothing else of
keystoneauth changes, and other programs do not load this module.
"""

import argparse
import functools
import os

from keystoneauth1 import session

from openstack_scope import put_on

# What the command wants of every extension; this one adds no API of its own.
API_NAME = "scope"
API_VERSION_OPTION = "os_scope_api_version"
API_VERSIONS = {"1": "openstack_scope.command"}
DEFAULT_API_VERSION = "1"

# Taken out of the environment and kept out of the parsed options: the client reads braces in what
# it finds there as places to be filled in.
_scope = os.environ.pop("OS_SCOPE", None)


class _Remember(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        global _scope
        _scope = values


def build_option_parser(parser):
    parser.add_argument(
        "--scope",
        metavar="<scope>",
        dest=argparse.SUPPRESS,
        default=argparse.SUPPRESS,
        action=_Remember,
        help="where each service runs, such as '{ compute: DC 1, image: DC 2 }' (Env: OS_SCOPE)",
    )
    return parser


def make_client(instance):
    return None


def _sessions_carry_it():
    stock = session.Session.__init__

    @functools.wraps(stock)
    def init(self, *args, **kwargs):
        stock(self, *args, **kwargs)
        put_on(self, _scope)

    session.Session.__init__ = init


_sessions_carry_it()
