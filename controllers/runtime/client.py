"""The one way to the API server.

kubernetes-asyncio reads kubeconfigs and in-cluster credentials; requests and answers are
bytes, so that each kind is decoded once, into the fields used. A client lives as long as
its process. Every call has a deadline, and raises the tree of `controllers.runtime.errors`.
`fence`, when set, is asked before each write: a process that lost its lease must not write,
however late it learns of it. It is asked once more when the body goes out: a process can be
stopped, or wait for a connection, between the two.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from aiohttp.payload import BytesPayload
from yaml import YAMLError
from yarl import URL

from controllers.api.resources import POD
from controllers.runtime import metrics
from controllers.runtime.connections import connector
from controllers.runtime.errors import (
    ApiError,
    EvictionRefused,
    Forbidden,
    Invalid,
    Unreachable,
    from_answer,
    no_credentials,
)
from controllers.runtime.library import Configuration, config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from aiohttp.abc import AbstractStreamWriter

    from controllers.api.resources import Resource

JSON = "application/json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
REQUEST_TIMEOUT = 15.0  # seconds
OK, MULTIPLE_CHOICES = 200, 300
TOO_MANY_REQUESTS, INTERNAL_ERROR = 429, 500
DENIALS = ("denied", "being terminated")
"""In the API server's words where not the right to evict is missing, but somebody does not want it."""
UNSENT = 400
"""What an API server would have answered."""


def _json(body: Any, what: str) -> bytes:
    """What is sent; raises Invalid for what no API server would take, such as a number of more than 64 bits."""
    try:
        return orjson.dumps(body)
    except TypeError as error:  # orjson's own error is one
        raise Invalid(UNSENT, "Invalid", f"{what} is not sent, since it is no JSON: {error}") from error


class Client:
    """A connection pool to one API server under one identity."""

    def __init__(
        self, configuration: Configuration, *, user_agent: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Open the session; must run inside the event loop. `headers` go with every request."""
        self._configuration = configuration
        self._base = str(configuration.host).rstrip("/")
        proxy = configuration.proxy or _environment_proxy(self._base)  # may fail: nothing is open yet
        # Not the library's session, which looks for ~/.netrc and for proxies in a thread, twice for each request: half
        # of a request's cost. Nor its connector, which leaves connections open when it is closed.
        self._session = aiohttp.ClientSession(
            connector=connector(configuration),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy,
            # Ours are never compressed: the API server would spend more on it than a page takes to travel.
            headers={"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": "identity", **(headers or {})},
            auto_decompress=False,
            response_class=Answer,
        )
        self._server_name: str | None = configuration.tls_server_name or None
        self.fence: Callable[[], None] | None = None
        self.timeout = REQUEST_TIMEOUT
        """Seconds for a request; a watch is opened in as many."""
        self._token: Callable[[], Awaitable[str]] | None = None

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None,
        *,
        user_agent: str,
        connections: int = 64,
        context: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A client from a kubeconfig, or from the pod's own credentials without one.

        `context` of the kubeconfig, else its current one. Raises ConfigurationError where neither is usable.
        """
        configuration: Configuration = type.__call__(Configuration)
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                await config.load_kube_config(
                    config_file=str(kubeconfig), context=context, client_configuration=configuration
                )
            configuration.connection_pool_maxsize = connections
            return cls(configuration, user_agent=user_agent, headers=headers)
        # A kubeconfig of the wrong shape surfaces as any of these.
        except (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError, YAMLError) as error:
            raise no_credentials(kubeconfig or "the pod's own credentials", error) from error

    def anonymous(self) -> Self:
        """A client of the same server without credentials: a base for `with_token`.

        A certificate belongs to its connection and wins over any token, so tokens need
        connections of their own.
        """
        bare = copy(self._configuration)
        bare.cert_file = bare.key_file = bare.refresh_api_key_hook = None
        bare.api_key = {}
        return type(self)(bare, user_agent=self._session.headers["User-Agent"])

    def with_token(self, token: Callable[[], Awaitable[str]]) -> Self:
        """The same connections under the identity of a token, asked for before each request; not to be closed."""
        view = copy(self)
        view._token = token  # noqa: SLF001
        return view

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    @property
    def server(self) -> str:
        """Its address, for sentences."""
        return self._base

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - becomes the request's own deadline
    ) -> bytes:
        """Send one request and return the answer's body; raises ApiError or Unreachable.

        `timeout`: seconds for all of it; None means `self.timeout`.
        """
        fence = self.fence if method != "GET" else None
        if fence is not None:
            fence()
        data: Any = body if body is None or isinstance(body, bytes) else _json(body, f"{method} {path}")
        if data is not None and fence is not None:
            data = _Fenced(data, fence)
        try:
            async with self._session.request(
                method,
                self._url(path, query),
                data=data,
                headers=await self._headers(content_type if data is not None else None),
                timeout=aiohttp.ClientTimeout(total=timeout or self.timeout),
                allow_redirects=False,
                server_hostname=self._server_name,
            ) as answer:
                content = await answer.read()
                status, retry_after = answer.status, answer.headers.get("Retry-After")
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            metrics.REQUESTS.labels(method, "unreachable").inc()
            if fence is not None:
                fence()  # raises where this is why it was not sent
            raise Unreachable(f"{method} {path}: {type(error).__name__}: {error}") from error
        metrics.REQUESTS.labels(method, str(status)).inc()
        if not OK <= status < MULTIPLE_CHOICES:
            raise from_answer(status, content, retry_after)
        return content

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle: float
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a watch: an iterator of the lines of each piece that arrives.

        `idle` seconds without a byte count as a dead connection (Unreachable): a half-open
        connection would otherwise look like a quiet cluster for ever.
        """
        timeout = aiohttp.ClientTimeout(total=None, connect=self.timeout, sock_read=idle)
        try:
            async with self._session.get(
                self._url(path, query),
                headers=await self._headers(None),
                timeout=timeout,
                allow_redirects=False,
                server_hostname=self._server_name,
            ) as answer:
                if answer.status != OK:
                    raise from_answer(answer.status, await answer.read(), answer.headers.get("Retry-After"))
                yield _lines(answer.content)
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"watch {path}: {type(error).__name__}: {error}") from error

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """One object, by quorum read."""
        return await self.request("GET", resource.path(namespace, name))

    async def create(self, resource: Resource, body: Any, namespace: str | None = None, *, manager: str) -> bytes:
        """Create an object; raises AlreadyExists."""
        return await self.request("POST", resource.path(namespace), query={"fieldManager": manager}, body=body)

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: Any,
        *,
        manager: str,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """Server-side apply of the fields in `body`, taking them over from whoever had them."""
        return await self.request(
            "PATCH",
            resource.path(namespace, name, subresource),
            query={"fieldManager": manager, "force": "true"},
            body=body,
            content_type=APPLY,
        )

    async def merge(
        self,
        resource: Resource,
        name: str,
        body: Any,
        *,
        manager: str,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """JSON merge patch; conditional where the body carries `metadata.resourceVersion`."""
        return await self.request(
            "PATCH",
            resource.path(namespace, name, subresource),
            query={"fieldManager": manager},
            body=body,
            content_type=MERGE,
        )

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: Any,
        *,
        manager: str,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """JSON patch (RFC 6902); conditional where an operation sets `/metadata/resourceVersion`."""
        return await self.request(
            "PATCH",
            resource.path(namespace, name, subresource),
            query={"fieldManager": manager},
            body=operations,
            content_type=JSON_PATCH,
        )

    async def replace(
        self, resource: Resource, name: str, body: Any, namespace: str | None = None, *, manager: str
    ) -> bytes:
        """PUT of a whole object; conditional on its resourceVersion."""
        return await self.request("PUT", resource.path(namespace, name), query={"fieldManager": manager}, body=body)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str,
        resource_version: str | None,
        orphan: bool = False,
    ) -> None:
        """Delete exactly the object with that uid (and version, where one is given); with `orphan` not what it owns."""
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        body |= {"propagationPolicy": "Orphan"} if orphan else {}
        await self.request("DELETE", resource.path(namespace, name), body=body)

    async def evict(self, name: str, namespace: str, *, uid: str, dry_run: bool = False) -> None:
        """Ask for the eviction of exactly the pod with that uid, or whether it may be evicted now.

        Raises EvictionRefused where a budget says no, NotFound where the pod is gone, Conflict where it is another one.
        """
        options: dict[str, Any] = {"preconditions": {"uid": uid}} | ({"dryRun": ["All"]} if dry_run else {})
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        query = {"dryRun": "All"} if dry_run else None
        try:
            await self.request("POST", POD.path(namespace, name, "eviction"), query=query, body=body)
        except ApiError as error:
            if _is_refusal(error):
                raise EvictionRefused(error.status, error.reason, error.message) from error
            raise

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        return URL(f"{self._base}{path}{'?' + urlencode(query) if query else ''}", encoded=True)

    async def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {} if content_type is None else {"Content-Type": content_type}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {await self._token()}"
        elif self._configuration.api_key:
            for setting in (await self._configuration.auth_settings()).values():
                headers["Authorization"] = setting["value"]
        return headers


def _is_refusal(error: ApiError) -> bool:
    """Whether an answer to an eviction is about the pod.

    A server that has too much to do answers 429, too, but in plain words. Where a pod has several budgets the API
    server cannot evict it, and says so with 500. A webhook or policy of others denies with a status of its choice, and
    of a namespace that is being deleted the pods go by themselves.
    """
    if error.status == TOO_MANY_REQUESTS:
        return error.reason == "TooManyRequests"
    if error.status == INTERNAL_ERROR:
        return "PodDisruptionBudget" in error.message
    return isinstance(error, Forbidden | Invalid) and any(word in error.message for word in DENIALS)


class Answer(aiohttp.ClientResponse):
    """One whose connection ends at once where it is not read to its end: TLS would wait for a farewell, up to 30 s."""

    def close(self) -> None:
        """End an exchange that failed."""
        self._cut()
        super().close()

    def release(self) -> Any:
        """End an exchange, whether or not all of it was read."""
        self._cut()
        return super().release()

    def _cut(self) -> None:
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()


class _Fenced(BytesPayload):
    """A body that is sent only if the fence still allows it."""

    def __init__(self, data: bytes, fence: Callable[[], None]) -> None:
        super().__init__(data)
        self._fence = fence

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._fence()
        await super().write_with_length(writer, content_length)


def _environment_proxy(server: str) -> str | None:
    """The proxy that HTTPS_PROXY and NO_PROXY mean for a server."""
    url = urlsplit(server)
    return None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines, in the batches in which they came; a line may be megabytes long."""
    rest = b""
    async for piece in content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        if whole:
            yield whole
        # A busy watch always has more to read: let timers and other tasks have their turn.
        await asyncio.sleep(0)
