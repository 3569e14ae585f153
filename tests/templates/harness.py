"""A scratch etcd and kube-apiserver for the tests of the chart, and ways to talk to them.

Nothing else runs: no controller answers for a ServiceAccount or a token but the API server
itself, so that what a test sees is admission and authorization alone.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.kit import planes
from tests.kit.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "d8-gpu-operator"
KUBE_VERSION = "1.34.4"
NAMESAKE = "gpupool-controller"
DEAD_WEBHOOK = "https://127.0.0.1:1"
GROUP = "/apis/gpu.deckhouse.io/v1alpha1"
FEATURES = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpu-control-plane"
VALIDATING = WEBHOOK.replace("mutating", "validating")
DRIVERS = "gpuControlPlane.driver.enabled=true"
"""The value by which the module has its fifth process."""
CONSOLE = "gpuControlPlane.console.enabled=true"
"""The value by which it has its console."""
PROGRAMS = ("kubectl", "helm", "kube-controller-manager")


def programs() -> dict[str, Path]:
    """Where the programs are."""
    from tools.programs import ensure

    return ensure(PROGRAMS)


def render(
    helm: Path,
    *sets: str,
    include_crds: bool = False,
    hooks: bool = True,
    release_namespace: str = "default",
    apis: Sequence[str] = (),
    values: Sequence[Path] = (),
) -> str:
    """What Helm makes of the chart. `apis`: what the cluster serves beside Kubernetes' own; `values`: files."""
    command = [str(helm), "template", "gpu-control-plane", str(ROOT), "--namespace", release_namespace]
    command += ["--api-versions=" + api for api in apis] + ["--values=" + str(path) for path in values]
    command += [] if hooks else ["--no-hooks"]
    # A Helm built from its Go module does not know its own Kubernetes version.
    command += ["--kube-version", KUBE_VERSION]
    command += [part for item in sets for part in ("--set", item)] + (["--include-crds"] if include_crds else [])
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of a rendered text."""
    return [o for o in yaml.safe_load_all(text) if o]


@dataclass
class Answer:
    """What the API server said."""

    code: int
    body: dict[str, Any]
    headers: Message = field(default_factory=Message)

    @property
    def warnings(self) -> list[str]:
        """Warnings beside the answer."""
        return [str(w) for w in self.headers.get_all("Warning") or []]

    @property
    def message(self) -> str:
        """The sentence of a refusal."""
        return str(self.body.get("message", ""))


@dataclass(frozen=True)
class Kube:
    """One identity at one API server."""

    server: str
    ca: Path
    token: str
    kubeconfig: Path
    binaries: dict[str, Path]
    namesake: str
    """Token of a person who is called like a process of ours."""

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Answer:
        """One request; refusals are answers, not exceptions."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data=data, method=method)  # noqa: S310 - https
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", kind)
        tls = ssl.create_default_context(cafile=str(self.ca))
        try:
            with urllib.request.urlopen(request, context=tls, timeout=PATIENCE) as answer:  # noqa: S310 - https
                return Answer(answer.status, json.loads(answer.read()), answer.headers)
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                parsed = json.loads(text)
            except ValueError:
                parsed = {"message": text.decode()}
            return Answer(error.code, parsed, error.headers)

    def get(self, path: str) -> Answer:
        """Read."""
        return self.call("GET", path)

    def create(self, path: str, body: object) -> Answer:
        """Create."""
        return self.call("POST", path, body)

    def delete(self, path: str) -> Answer:
        """Delete."""
        return self.call("DELETE", path)

    def merge(self, path: str, body: object) -> Answer:
        """JSON merge patch."""
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def apply(self, path: str, body: object, manager: str) -> Answer:
        """Server-side apply by force."""
        return self.call("PATCH", f"{path}?fieldManager={manager}&force=true", body, "application/apply-patch+yaml")

    def bearer(self, token: str) -> Kube:
        """The same server as another user."""
        return Kube(self.server, self.ca, token, self.kubeconfig, self.binaries, self.namesake)

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Kubectl as the administrator."""
        command = [str(self.binaries["kubectl"]), "--kubeconfig", str(self.kubeconfig), *args]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    def token_for(self, account: str, node: str | None = None, namespace: str = NAMESPACE) -> str:
        """A token of a ServiceAccount; bound to a Node where one is given."""
        spec: dict[str, Any] = {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600}
        if node:
            uid = self.get(f"/api/v1/nodes/{node}").body["metadata"]["uid"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
        assert answer.code == 201, answer.body
        return str(answer.body["status"]["token"])

    def account(self, account: str, node: str | None = None, namespace: str = NAMESPACE) -> Kube:
        """The same server as a ServiceAccount."""
        return self.bearer(self.token_for(account, node, namespace))


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Kube]:
    """A running API server, and nothing that acts by itself."""
    # A person with every right of RBAC, who is nobody to the policies: in system:masters, as in most clusters.
    second = secrets.token_hex(16)
    with planes.server(folder, {NAMESAKE: second}) as made:
        kubeconfig = made.kubeconfig(folder / "kubeconfig")
        yield Kube(made.url, made.plane.ca, made.token, kubeconfig, programs(), second)


@contextlib.contextmanager
def type_checker(kube: Kube, folder: Path) -> Iterator[None]:
    """The controller that type-checks policies and reports in their status."""
    command = [
        str(kube.binaries["kube-controller-manager"]), f"--kubeconfig={kube.kubeconfig}", "--leader-elect=false",
        "--controllers=validatingadmissionpolicy-status-controller", "--secure-port=0",
    ]  # fmt: skip
    with (folder / "kcm.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            yield
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def eventually(check: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for what the API server learns from its own watches: policies, webhooks, CRDs."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def install(kube: Kube, url: str = DEAD_WEBHOOK) -> subprocess.CompletedProcess[str]:
    """Apply what Helm renders, server-side, as an installer of another field manager than any process."""
    sets = (f"gpuControlPlane.webhook.url={url}", DRIVERS, CONSOLE)
    text = render(kube.binaries["helm"], *sets, include_crds=True, hooks=False)
    return kube.kubectl("apply", "--server-side", "--field-manager=installer", "-f", "-", stdin=text)


@contextlib.contextmanager
def without_webhook(kube: Kube) -> Iterator[None]:
    """No webhook is configured, so that pods come as they are written, their marks too."""
    assert kube.delete(WEBHOOK).code == 200
    pods = "/api/v1/namespaces/default/pods?dryRun=All"
    marked = pod("probe", marks=True, containers=[{"name": "main", "image": "none", "resources": asking()}])
    eventually(lambda: kube.create(pods, marked).code == 201, "the webhook is still called")
    try:
        yield
    finally:
        assert install(kube).returncode == 0
        eventually(lambda: kube.create(pods, marked).code == 500, "the webhook is not called again")


@contextlib.contextmanager
def without_any_webhook(kube: Kube) -> Iterator[None]:
    """Nor is one asked when the last scheduling gate of a pod is removed: what policies say is all that counts."""
    path = "/api/v1/namespaces/default/pods"
    probe = {**pod("gated-probe", schedulingGates=[{"name": "example.com/probe"}])}
    probe["metadata"]["labels"] = {"gpu.deckhouse.io/pool": "a"}
    probe["metadata"]["annotations"] = {"gpu.deckhouse.io/request-id": "r"}
    probe["spec"]["containers"][0]["resources"] = asking()
    ungated = {"spec": {"schedulingGates": None}}
    with without_webhook(kube):
        assert kube.create(path, probe).code == 201
        assert kube.delete(VALIDATING).code == 200

        def goes(code: int) -> bool:
            return kube.merge(f"{path}/gated-probe?dryRun=All", ungated).code == code

        eventually(lambda: goes(200), "the validating webhook is still called")
        try:
            yield
        finally:
            assert install(kube).returncode == 0
            eventually(lambda: goes(500), "the validating webhook is not called again")
            kube.delete(f"{path}/gated-probe?gracePeriodSeconds=0")


def node_feature_crd() -> dict[str, Any]:
    """A stand-in for NFD's CRD, which the chart does not bring."""
    return stand_in("nfd.k8s-sigs.io", "nodefeatures", "NodeFeature", "v1alpha1")


def stand_in(group: str, plural: str, kind: str, version: str) -> dict[str, Any]:
    """A definition of namespaced objects whose spec takes anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def pod(name: str, *, marks: bool = False, namespace: str = "default", **parts: Any) -> dict[str, Any]:
    """A pod of one container, with or without the webhook's marks."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if marks:
        metadata["labels"] = {"gpu.deckhouse.io/pool": "a"}
        metadata["annotations"] = {"gpu.deckhouse.io/request-id": "r", "gpu.deckhouse.io/devices": "d"}
    spec = {"containers": [{"name": "main", "image": "none", "resources": {}}], **parts}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def asking(amount: str = "1", pool: str = "a") -> dict[str, Any]:
    """Resources that ask for cards of a pool."""
    return {"limits": {f"gpu.deckhouse.io/{pool}": amount}}
