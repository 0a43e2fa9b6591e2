"""Ways to sign in that carry a scope: those of keystoneauth, with one more option."""

from keystoneauth1 import loading

from openstack_scope import put_on


def _with_scope(plugin):
    """The auth plugin, with a scope on every session that it is used with."""

    class WithScope(plugin):
        def __init__(self, *args, scope=None, **kwargs):
            super().__init__(*args, **kwargs)
            self._geo_scope = scope

        def get_auth_ref(self, session, **kwargs):
            put_on(session, self._geo_scope)
            return super().get_auth_ref(session, **kwargs)

        def get_headers(self, session, **kwargs):
            # A cached token comes without signing in.
            put_on(session, self._geo_scope)
            return super().get_headers(session, **kwargs)

        def get_cache_id_elements(self):
            # Tokens of different sites must not be taken for each other.
            return {**super().get_cache_id_elements(), "geo_scope": self._geo_scope or ""}

    WithScope.__name__ = f"Scope{plugin.__name__}"
    return WithScope


def _loader(name):
    stock = type(loading.get_plugin_loader(name))

    class Loader(stock):
        @property
        def plugin_class(self):
            return _with_scope(super().plugin_class)

        def get_options(self):
            say = "where each service runs, such as `{ compute: DC 1, image: DC 2 }`"
            return [*super().get_options(), loading.Opt("scope", help=say)]

    return Loader


Password = _loader("password")
Token = _loader("token")
ApplicationCredential = _loader("v3applicationcredential")
