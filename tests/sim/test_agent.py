"""The simulated agent on a real control plane: what it says, in which order, and as whom."""

import asyncio
import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api import validation
from controllers.api.gpudevice import Allocation, GPUDevice, GPUDeviceStatus, Hardware, Pci, Published
from controllers.api.kube import Container, Node, Pod, PodSpec, PodStatus, ResourceRequirements
from controllers.api.meta import ObjectMeta
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from controllers.api.resources import NODEFEATURERULE
from controllers.bootstrap.health.dcgm_parser import parse
from controllers.domain import plugin_settings as offers
from controllers.domain.clock import stamp
from controllers.domain.mig import DISABLED, CardLayout, NodeLayout, PlannedCard, configmap
from controllers.domain.plugin_settings import PluginSettings
from controllers.inventory.reports.discovered_cards import read
from controllers.inventory.rule import node_feature_rule
from nodeagent.deviceplugin.devices.offers import DesiredOffer
from nodeagent.deviceplugin.devices.records import Listed, NodeScan
from nodeagent.discover.feature import confirm
from nodeagent.discover.feature import report as feature_report
from sim.controlplane import ProcessSpec, Ready, add_process, remove_process, wait_ready
from sim.controlplane.ports import free_ports
from sim.hardware import load
from sim.nodes import discover, kubelet, names, node_manifests, parse_profile, plugin
from sim.nodes.identity import Identities
from sim.nodes.machine import described, machine
from sim.nodes.report import Report, facts
from tests.kit import manifests, objects, planes
from tests.kit.waiting import PATIENCE
from tools.errors import UserError

REPOSITORY = Path(__file__).parents[2]
NAMESPACE = "d8-gpu-operator"
NFD = "node-feature-discovery"
FEATURES = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
DEVICES = "/apis/gpu.deckhouse.io/v1alpha1/gpudevices"
RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
FAULT = "sim.gpu.deckhouse.io/fault"
SHAPE = "sim.gpu.deckhouse.io/shape"

# --- pure ----------------------------------------------------------------------------------


def card(name, *taken, pool="p", slots=1):
    place = {"vendor": "10de", "device": "1eb8", "class_": "0302", "address": f"0000:{ord(name[0]):02x}:00.0"}
    status = GPUDeviceStatus(
        node_name="n",
        inventory_id=f"n-{name}",
        hardware=Hardware(uuid=f"GPU-{name}", pci=Pci(**place)),
        published=Published(pool=pool, config_version="v", slots=slots) if pool else None,
        allocations=tuple(taken),
    )
    return GPUDevice(metadata=ObjectMeta(name=name), status=status)


def asking(uid, *containers, init=(), phase="Running", devices=""):
    def made(number, slots, policy=None):
        resources = ResourceRequirements(limits={"gpu.deckhouse.io/p": str(slots)} if slots else {})
        return Container(name=f"c{number}", resources=resources, restart_policy=policy)

    return Pod(
        metadata=ObjectMeta(
            name=uid, namespace="d", uid=uid, annotations={"gpu.deckhouse.io/devices": devices} if devices else {}
        ),
        spec=PodSpec(
            node_name="n",
            containers=tuple(made(i, n) for i, n in enumerate(containers)),
            init_containers=tuple(made(f"i{i}", *entry) for i, entry in enumerate(init)),
        ),
        status=PodStatus(phase=phase),
    )


def listed(cards):
    return [
        Listed(f"GPU-{c.name}::{number}", f"GPU-{c.name}", c.name, c.status.hardware.pci.address)
        for c in cards
        if c.status.published
        for number in range(c.status.published.slots)
    ]


def serve(cards, *pods):
    held = kubelet.holdings(cards, pods, {"p": listed(cards)})
    found = {c.name: [] for c in cards}
    for entry in held:
        found[entry.ids[0].removeprefix("GPU-").partition("::")[0]].append((entry.pod, entry.container, len(entry.ids)))
    return {name: sorted(entries) for name, entries in found.items()}


def test_named_cards_first_then_others():
    cards = [card("a"), card("b"), card("c")]
    assert serve(cards, asking("x", 2, devices="n-c")) == {"a": [("x", "c0", 1)], "b": [], "c": [("x", "c0", 1)]}


def test_what_is_held_stays_and_is_not_given_twice():
    held = Allocation(pod_uid="old", namespace="d", pod="old", container="c0", slots=1)
    cards = [card("a"), card("b", held, pool=None)]
    assert serve(cards, asking("old", 1), asking("new", 1)) == {"a": [("new", "c0", 1)], "b": [("old", "c0", 1)]}
    assert serve(cards, asking("new", 1)) == {"a": [("new", "c0", 1)], "b": []}, "freed with its pod"


def test_only_running_pods_get_cards_and_finished_ones_lose_them():
    held = Allocation(pod_uid="x", namespace="d", pod="x", container="c0", slots=1)
    assert serve([card("a")], asking("x", 1, phase="Pending")) == {"a": []}
    assert serve([card("a", held)], asking("x", 1, phase="Succeeded")) == {"a": []}


def test_of_ordinary_init_containers_nothing_is_told_and_what_they_had_is_given_to_nobody_else():
    cards = [card(name) for name in "abcd"]
    pod = asking("x", 1, init=[(1, "Always"), (2,)], devices="n-b,n-c,n-d")
    assert (kubelet.demands(pod), kubelet.untold(pod)) == ({("p", "ci0"): 1, ("p", "c0"): 1}, {("p", ""): 1})
    first = serve(cards, pod)
    assert first == {"a": [], "b": [("x", "ci0", 1)], "c": [("x", "c0", 1)], "d": []}
    assert serve(cards, pod, asking("y", 2, devices="n-d"))["a"] == [("y", "c0", 1)], "one is left, and d is not"

    held = [Allocation(pod_uid="x", namespace="d", pod="x", container=c, slots=1) for c in ("ci0", "c0")]
    served = [card("a"), card("b", held[0]), card("c", held[1]), card("d")]
    assert serve(served, asking("a", 2, devices="n-d,n-a"), pod)["d"] == [], "who was there first keeps what it had"


def test_a_pod_of_which_only_an_init_container_asks_is_never_told_of():
    assert serve([card("a"), card("b")], asking("x", 0, init=[(1,)]), asking("y", 2))["a"] == []


def test_slots_of_one_card_are_one_entry():
    assert serve([card("a", slots=4)], asking("x", 3), asking("y", 2)) == {"a": [("x", "c0", 3), ("y", "c0", 1)]}


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6), st.integers(1, 3), st.integers(1, 4))
def test_allocation_is_idempotent_and_never_exceeds(requests, size, count):
    cards = [card(str(n), slots=size) for n in range(count)]
    pods = [asking(f"p{n}", slots, phase="Running" if runs else "Pending") for n, (slots, runs) in enumerate(requests)]
    first = serve(cards, *pods)
    assert all(sum(slots for _, _, slots in taken) <= size for taken in first.values())
    told = {
        name: [
            Allocation(pod_uid=pod, namespace="d", pod=pod, container=container, slots=slots)
            for pod, container, slots in taken
        ]
        for name, taken in first.items()
    }
    after = [card(c.name, *told[c.name], slots=size) for c in cards]
    assert serve(after, *pods) == first


def test_profiles():
    assert parse_profile("", 5) == ["h100-sxm-8", "a100-sxm-8", "l40s-4", "l40s-4", "h100-sxm-8"]
    assert parse_profile("t4-4=2,no-gpu=1", 9) == ["t4-4", "t4-4", "no-gpu"]
    assert parse_profile("t4-4,no-gpu", 3) == ["t4-4", "no-gpu", "t4-4"]
    with pytest.raises(UserError, match="cannot read the profile"):
        parse_profile("t4-4=2,no-gpu", 3)
    with pytest.raises(UserError, match="no node shape"):
        node_manifests(["t5"])


def test_a_plugin_sees_the_bus_and_asks_the_driver_for_instances_alone():
    first, second, *_ = (card.address for card in load().shape("a100-sxm-8").cards)
    at = Pci(vendor="10de", device="20b0", class_="0302", address=first)
    mine = GPUDevice(metadata=ObjectMeta(name="a"), status=GPUDeviceStatus(hardware=Hardware(pci=at)))
    whole, divided = (
        DesiredOffer(last=PluginSettings("p", "Exclusive", 1)),
        DesiredOffer(last=PluginSettings("p", "MIG", 7, "1g.5gb")),
    )

    def seen(asked, faults=""):
        marks = {SHAPE: "a100-sxm-8", FAULT: faults, names.MIG: json.dumps({first: {"1g.5gb": 7}})}
        made = machine(Node(metadata=ObjectMeta(name="n", annotations=marks)), None, load())
        return plugin.seen("n", made, [mine], asked)

    assert seen(whole) == seen(whole, "no-driver") == NodeScan()
    assert seen(whole, f"card-lost:{first},card-lost:{second}").lost == {first}
    told = seen(divided)
    assert (len(told.instances[first]), told.instances[second], told.unresponsive) == (7, (), frozenset())
    gone = seen(divided, "no-driver")
    assert (gone.instances, gone.remembered) == (told.instances, gone.unresponsive)
    assert first in gone.unresponsive


@pytest.mark.parametrize("shape", sorted(load().shapes))
@pytest.mark.parametrize("faults", ["", "no-driver", "card-lost:0000:19:00.0"])
def test_the_inventory_reads_what_discovery_says(shape, faults):
    meta = ObjectMeta(name="n", annotations={SHAPE: shape, FAULT: faults})
    made = machine(Node(metadata=meta), None, load())
    raw = discover.manifest("n", discover.features("n", "boot", made))
    reading = read(adapter(NodeFeature).validate_python(raw))
    assert [card.problem for card in reading.cards] == [""] * len(made.cards)
    assert reading.problems == ()
    for told, card in zip(reading.cards, made.cards, strict=True):
        assert told.hardware.pci.address == card.address
        assert told.hardware.memory_mib == (None if faults == "no-driver" else card.memory_mib)


@pytest.mark.parametrize("then", ["", "no-driver", "no-nvml", "card-lost:0000:19:00.0", "no-toolkit"])
def test_discovery_says_at_once_what_the_real_agent_is_sure_of_in_the_end(then):
    """By the agent's own rule: from what it had published, with scans in a row that all find the same."""

    def played(faults):
        meta = ObjectMeta(name="n", annotations={SHAPE: "h100-sxm-8", FAULT: faults})
        return machine(Node(metadata=meta), None, load())

    published = adapter(NodeFeature).validate_python(discover.manifest("n", discover.features("n", "boot", played(""))))
    state = confirm.start(published.spec.features, "boot")
    for _ in range(confirm.SCANS):
        state = confirm.step(state, discover.scan("n", played(then)))
    cards = {address: known.values for address, known in state.cards.items()}
    driver = state.driver.values if state.driver is not None else None
    sure = feature_report.features(cards, driver, state.toolkit.values, "boot", state.system.values)
    assert discover.features("n", "boot", played(then)) == sure


def test_cards_described_by_hand_may_be_spelled_freely():
    at = {"address": "00000000:1A:00.0", "vendor": "0x10DE", "device": "2330", "class": "0x030200"}
    elements = [{"attributes": at}, {"attributes": {"address": "nowhere"}}, {"attributes": {"address": "0000:01:00.0"}}]
    report = Report(spec=facts({"features": {"instances": {"gpu.device": {"elements": elements}}}}))
    first, second = described(report)
    assert (first.address, first.vendor, first.class_) == ("0000:01:00.0", "ffff", "0302")
    assert (second.address, second.vendor, second.class_) == ("0000:1a:00.0", "10de", "0302")


def test_a_node_has_what_is_published_and_foreign_resources_stay():
    present = {"cpu": "8", pool_key("a"): "1k", pool_key("b"): "2", pool_key("c"): "1"}
    wanted = {pool_key("a"): 1000, pool_key("b"): 3}
    assert kubelet.resources_patch(present, wanted) == {pool_key("b"): "3", pool_key("c"): None}
    sick = replace(listed([card("a")])[0], healthy=False)
    assert kubelet.allocatable({"a": [sick, *listed([card("b")])], "b": []}) == {pool_key("a"): 1, pool_key("b"): 0}


async def test_a_token_is_asked_for_once_and_renewed_in_time():
    asked, life = [], [100.0]

    class Server:
        def anonymous(self):
            return self

        def with_token(self, token):
            return token

        async def request(self, _, path, body):
            asked.append((path.split("/")[-2], body["spec"]["boundObjectRef"]["uid"]))
            await asyncio.sleep(0.01)
            expires = stamp(time.time() + life[0])
            return json.dumps({"status": {"token": f"t{len(asked)}", "expirationTimestamp": expires}}).encode()

    tokens = Identities(Server())
    node = Node(metadata=ObjectMeta(name="n", uid="u"))
    token = tokens.client("plugin", node)
    assert await asyncio.gather(token(), token(), token()) == ["t1"] * 3
    assert await tokens.client("plugin", node)() == "t1"
    life[0] = -1.0  # what comes now has to be renewed at once
    assert await tokens.client("discover", node)() == "t2"
    assert await tokens.client("discover", node)() == "t3"
    tokens.forget("n")
    life[0] = 100.0
    assert await tokens.client("plugin", node)() == "t4"
    assert asked == [("plugin", "u"), ("discover", "u"), ("discover", "u"), ("plugin", "u")]


# --- a real control plane ------------------------------------------------------------------


class Api:
    """The API server, as its administrator."""

    def __init__(self, plane):
        self.server, self.plane, self.exporters = plane.server, plane, None
        self.tls = ssl.create_default_context(cafile=str(plane.ca))
        self.tls.load_cert_chain(plane.cert, plane.key)

    def open(self, method, path, body=None, kind="application/json"):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data=data, method=method)  # noqa: S310 - https
        request.add_header("Content-Type", kind)
        return urllib.request.urlopen(request, context=self.tls, timeout=PATIENCE)  # noqa: S310 - https

    def call(self, method, path, body=None, kind="application/json"):
        try:
            with self.open(method, path, body, kind) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from error

    def get(self, path):
        try:
            with self.open("GET", path) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code in (404, 429):  # 429: a CRD that is being installed
                return None
            raise

    def create(self, path, **body):
        return self.call("POST", path, body)

    def merge(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def apply(self, path, body):
        """From the first apply on the API server notes who owns which field."""
        return self.call("PATCH", f"{path}?fieldManager=test", body, "application/apply-patch+yaml")

    def delete(self, path):
        return self.call("DELETE", path)

    def node(self, name):
        return self.get(f"/api/v1/nodes/{name}")

    def report(self, node):
        return self.get(f"{FEATURES}/gpu-{node}")

    def annotate(self, node, **annotations):
        self.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}})

    def devices(self, node):
        items = self.get(DEVICES + f"?fieldSelector=status.nodeName%3D{node}")["items"]
        return {d["status"]["hardware"]["pci"]["address"]: d for d in items}

    def offered(self, node, address):
        return self.devices(node)[address]["status"].get("published")

    def slots(self, node, pool):
        return self.node(node)["status"]["allocatable"].get(f"gpu.deckhouse.io/{pool}")

    def follow(self, path, seen):
        """Put every event of a kind into `seen` by revision, from now on."""
        start = self.get(path)["metadata"]["resourceVersion"]
        stream = self.open("GET", f"{path}?watch=1&resourceVersion={start}&timeoutSeconds={PATIENCE:.0f}")

        def read():
            with stream:
                for line in stream:
                    event = json.loads(line)
                    seen[int(event["object"]["metadata"]["resourceVersion"])] = event["object"]

        threading.Thread(target=read, daemon=True).start()


def eventually(check, seconds=PATIENCE):
    """The first true value of a check."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
    return value


def daemonset(name, account, selector, **more):
    spec = {"nodeSelector": selector, "serviceAccountName": account, "tolerations": [{"operator": "Exists"}]}
    template = {
        "metadata": {"labels": {"app": name} | more},
        "spec": spec | {"containers": [{"name": "main", "image": "none"}]},
    }
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}}


def settings(pool, slots=1, **mode):
    mode = mode or {"mode": "Exclusive"}
    return json.dumps({"pool": pool, "resource": f"gpu.deckhouse.io/{pool}", "slots": slots, **mode})


def version(pool):
    """What a plugin acknowledges of those settings."""
    offer = offers.read(pool, settings(pool))
    assert offer is not None
    return offer.of("").config_version


BOUND_ONLY = {
    "metadata": {"name": "agents-write-about-their-own-node"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["gpu.deckhouse.io", "nfd.k8s-sigs.io"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["gpudevices/status", "nodefeatures"],
                }
            ]
        },
        "matchConditions": [
            {
                "name": "agents",
                "expression": "request.userInfo.username.startsWith('system:serviceaccount:d8-gpu-operator:')",
            }
        ],
        "validations": [
            {
                "expression": "request.userInfo.extra['authentication.kubernetes.io/node-name'][0] == "
                "(request.resource.resource == 'nodefeatures' "
                "? object.metadata.labels['nfd.node.kubernetes.io/node-name'] : dyn(oldObject).status.nodeName)"
            }
        ],
    },
}


def start_agent(plane):
    port, exporters = free_ports(2)
    argv = (sys.executable, "-m", "sim.nodes.agent", "--kubeconfig", str(plane.kubeconfig))
    argv += (f"--health-port={port}", f"--exporter-port={exporters}")
    ready = Ready(urls=(f"http://127.0.0.1:{port}/readyz",))
    spec = ProcessSpec("sim-nodes", argv, env={"PYTHONPATH": str(REPOSITORY)}, ready=ready)
    add_process(plane.dir, spec)
    wait_ready(plane.dir, "sim-nodes", 30)
    return f"http://127.0.0.1:{exporters}"


def identities(api):
    """The node agents' accounts, with no more rights than they need."""
    cards, said = ("gpu.deckhouse.io", "gpudevices", ["get"]), ("gpu.deckhouse.io", "gpudevices/status", ["patch"])
    seen = [("", "nodes", ["get"]), ("", "pods", ["list"]), cards]
    rules = {
        "gpu-nodeagent-discover": [("nfd.k8s-sigs.io", "nodefeatures", ["list", "create", "patch"])],
        "gpu-nodeagent-validate": [("nfd.k8s-sigs.io", "nodefeatures", ["patch"])],
        "gpu-nodeagent-device-plugin": [said],
        "gpu-nodeagent-mig": [said, *seen],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for name, rights in rules.items():
        api.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", metadata={"name": name})
        made = [{"apiGroups": [group], "resources": [kind], "verbs": verbs} for group, kind, verbs in rights]
        api.create(f"{rbac}/clusterroles", metadata={"name": name}, rules=made)
        api.create(
            f"{rbac}/clusterrolebindings",
            metadata={"name": name},
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        )
    policies = "/apis/admissionregistration.k8s.io/v1"
    api.create(f"{policies}/validatingadmissionpolicies", **BOUND_ONLY)
    name = BOUND_ONLY["metadata"]["name"]
    binding = {"policyName": name, "validationActions": ["Deny"]}
    api.create(f"{policies}/validatingadmissionpolicybindings", metadata={"name": name}, spec=binding)


def kubectl(plane, *args):
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def plane(worker_plane):
    return worker_plane.take("agent", planes.plane)


@pytest.fixture(scope="module")
def api(plane):
    api = Api(plane)
    crds = [p for p in (REPOSITORY / "crds").glob("*.yaml") if not p.name.startswith("doc-ru")]
    files = [f"-f={path}" for path in (*crds, REPOSITORY / "sim" / "crds")]
    applied = kubectl(plane, "apply", "--server-side", *files)
    assert "Warning" not in applied.stderr
    for come in ("jsonpath={.status.conditions}", "condition=Established"):
        kubectl(plane, "wait", f"--for={come}", "crd", "--all")
    api.create("/api/v1/namespaces", metadata={"name": NAMESPACE})
    identities(api)
    present = {"gpu.deckhouse.io/present": "true"}
    component = {"gpu.deckhouse.io/component": "discover"}
    discover = daemonset("gpu-nodeagent-discover", "gpu-nodeagent-discover", present, **component)
    api.create(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", **discover)
    eventually(lambda: api.get("/api/v1/namespaces/default/serviceaccounts/default"))
    for kind in (FEATURES, DEVICES, RULES):
        eventually(lambda kind=kind: api.get(kind) is not None)
    put_rule(api, "ours", node_feature_rule.manifest()["spec"]["rules"])
    api.exporters = start_agent(plane)
    return api


@pytest.fixture
def node(api, request):
    """A T4 node of the test's own with its cards recorded, as inventory would."""
    name = request.node.name.replace("_", "-").removeprefix("test-")[:40].rstrip("-")
    make_node(api, name)
    yield name
    api.delete(f"/api/v1/nodes/{name}")


def put_rule(api, name, rules):
    """As inventory installs ours."""
    kind = {"apiVersion": NODEFEATURERULE.api_version, "kind": NODEFEATURERULE.kind}
    api.create(RULES, **kind, metadata={"name": name}, spec={"rules": rules})


def make_node(api, name, shape="t4-4"):
    (node,) = node_manifests([shape], prefix="x")
    node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = name
    api.create("/api/v1/nodes", **node)
    report = eventually(lambda: api.report(name))
    for element in report["spec"]["features"]["instances"]["gpu.device"]["elements"]:
        at = element["attributes"]
        pci = {key: at[key] for key in ("vendor", "device", "class")}
        found = objects.card(name, at["address"], hardware={"pci": pci, "uuid": at["uuid"]})
        api.create(DEVICES, **manifests.manifest(found))
        api.apply(f"{DEVICES}/{found.name}/status", manifests.manifest(found))
    return report


T4 = ["0000:3b:00.0", "0000:86:00.0", "0000:af:00.0", "0000:d8:00.0"]


def make_pool(api, pool, node, *addresses, slots=1, **mode):
    config = f"gpu-device-plugin-{pool}"
    data = {"settings.json": settings(pool, slots, **mode), "DP_ALLOWED_DEVICES": allowed(node, addresses)}
    api.create(f"/api/v1/namespaces/{NAMESPACE}/configmaps", metadata={"name": config}, data=data)
    selector = {"kubernetes.io/hostname": node}
    body = daemonset(config, "gpu-nodeagent-device-plugin", selector)
    api.create(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", **body)


def allowed(node, addresses):
    return "\n".join(f"{node}-{address}" for address in sorted(addresses))


def allow(api, pool, node, *addresses):
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/gpu-device-plugin-{pool}"
    api.merge(path, {"data": {"DP_ALLOWED_DEVICES": allowed(node, addresses)}})


def run_pod(api, name, pool, *, count=1, devices=""):
    spec = {"containers": [{"name": "main", "image": "none", "resources": {"limits": {pool_key(pool): str(count)}}}]}
    meta = {"name": name, "annotations": {"gpu.deckhouse.io/devices": devices}}
    tolerations = [{"operator": "Exists"}]
    api.create("/api/v1/namespaces/default/pods", metadata=meta, spec=spec | {"tolerations": tolerations})


def pool_key(pool):
    return f"gpu.deckhouse.io/{pool}"


def labels(api, node):
    return api.node(node)["metadata"].get("labels", {})


def managers(obj):
    return {entry["manager"] for entry in obj["metadata"]["managedFields"]}


def versions_of(obj, revisions):
    """Those of an object that a watch has shown, the earliest first; its deletion is one, too."""
    name = obj["metadata"]["name"]
    return [each for _, each in sorted(revisions.items()) if each["metadata"]["name"] == name]


def holders(api, node):
    return {address: [a["pod"] for a in d["status"].get("allocations", ())] for address, d in api.devices(node).items()}


pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_discovery(api, plane):
    name = "disc"
    report = make_node(api, name, "h100-sxm-8")
    nfd = api.get(f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NFD}/nodefeatures/{name}")
    assert len(json.dumps(nfd["spec"])) > 10_000
    node = api.node(name)
    ours = {k.removeprefix("gpu.deckhouse.io/"): v for k, v in labels(api, name).items()}
    assert (ours["present"], ours["device-count"], ours["driver.name"]) == ("true", "8", "nvidia")
    seat = {key: ours[f"device.07.{key}"] for key in ("vendor", "device", "class")}
    assert seat == {"vendor": "10de", "device": "2330", "class": "0302"}
    features = report["spec"]["features"]
    assert features["attributes"]["gpu.agent"]["elements"]["boot_id"] == node["status"]["nodeInfo"]["bootID"] != ""
    assert features["attributes"]["gpu.driver"]["elements"] == {"version": "580.105.08", "cuda_version": "13.0"}
    first = features["instances"]["gpu.device"]["elements"][0]["attributes"]
    assert (first["address"], first["memory_mib"], first["mig_capable"]) == ("0000:19:00.0", "81559", "true")
    assert len(first["nvlink_peers"].split(",")) == 7
    assert managers(report) == {"gpu-nodeagent-discover"}
    revisions = {}
    api.follow(FEATURES, revisions)
    assert api.report(name)["metadata"]["resourceVersion"] == report["metadata"]["resourceVersion"]
    api.annotate(name, **{FAULT: "no-driver"})
    eventually(lambda: versions_of(report, revisions))
    api.annotate(name, **{FAULT: None})
    found = eventually(lambda: versions_of(report, revisions)[1:] and versions_of(report, revisions))
    assert "gpu.driver" not in found[0]["spec"]["features"]["attributes"], "before, it was written for no reason"
    assert [one["spec"] for one in found[1:]] == [report["spec"]]
    api.delete(f"/api/v1/nodes/{name}")
    eventually(lambda: api.report(name) is None)


def test_labels_come_from_the_rules_in_the_cluster_and_go_with_them(api, node):
    def own():
        return {k.removeprefix("x/"): v for k, v in labels(api, node).items() if k.startswith("x/")}

    bus = [{"feature": "pci.device", "matchExpressions": {"vendor": {"op": "In", "value": ["10de"]}}}]
    flag = {"name": "flag", "labels": {"x/flag": "1"}, "matchFeatures": bus}
    count = {"name": "count", "labelsTemplate": "x/count={{ len .pci.device }}", "matchFeatures": bus}
    never = {"name": "never", "labelsTemplate": "x/never={{ .Match.Features }}", "matchFeatures": bus}
    put_rule(api, "theirs", [flag, never])
    eventually(lambda: own() == {"flag": "1"})
    assert labels(api, node)["gpu.deckhouse.io/device-count"] == "4"
    api.merge(f"{RULES}/theirs", {"spec": {"rules": [never, count]}})
    eventually(lambda: own() == {"count": "4"})
    api.delete(f"{RULES}/theirs")
    eventually(lambda: own() == {})
    api.delete(f"{RULES}/ours")
    eventually(lambda: not any(key.startswith("gpu.deckhouse.io/") for key in labels(api, node)))
    assert labels(api, node)["kubernetes.io/hostname"] == node
    put_rule(api, "ours", node_feature_rule.manifest()["spec"]["rules"])
    eventually(lambda: labels(api, node).get("gpu.deckhouse.io/device-count") == "4")


def test_labels_of_anybodys_node_features_are_merged(api, node):
    path = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NFD}/nodefeatures"
    spec = {"features": {}, "labels": {"x/own": "1", "plain": "2"}}
    meta = {"name": f"zz-{node}", "labels": {"nfd.node.kubernetes.io/node-name": node}}
    kind = {"apiVersion": NODEFEATURERULE.api_version, "kind": "NodeFeature"}
    api.create(path, **kind, metadata=meta, spec=spec)
    eventually(lambda: labels(api, node).get("x/own") == "1")
    assert labels(api, node)["feature.node.kubernetes.io/plain"] == "2"
    owned = api.node(node)["metadata"]["annotations"]["nfd.node.kubernetes.io/feature-labels"].split(",")
    assert {"x/own", "plain"} <= set(owned)
    api.delete(f"{path}/zz-{node}")
    eventually(lambda: not {"x/own", "feature.node.kubernetes.io/plain"} & set(labels(api, node)))


def test_gpu_feature_discovery_labels_nodes_while_its_pod_runs_there(api, node):
    def told():
        return {k.removeprefix("nvidia.com/"): v for k, v in labels(api, node).items() if k.startswith("nvidia.com/")}

    assert told() == {}
    body = daemonset("gpu-gfd", "gpu-nodeagent-discover", {"kubernetes.io/hostname": node})
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
    api.create(path, **body)
    eventually(lambda: told().get("gpu.product") == "Tesla-T4")
    assert (told()["gpu.count"], told()["gpu.memory"], told()["gpu.family"]) == ("4", "15360", "turing")
    report = api.get(f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NFD}/nodefeatures/{node}")
    assert report["spec"]["labels"]["nvidia.com/gpu.product"] == "Tesla-T4"
    assert report["spec"]["features"]["attributes"]["local.label"]["elements"] == report["spec"]["labels"]
    api.annotate(node, **{FAULT: "no-driver"})
    eventually(lambda: told() == {})
    api.annotate(node, **{FAULT: None})
    eventually(lambda: told().get("gpu.count") == "4")
    api.delete(f"{path}/gpu-gfd")
    eventually(lambda: told() == {})


def make_report(api, name):
    """A report of one card, made by a person."""
    at = {"address": "0000:17:00.0", "vendor": "10de", "device": "20b0", "class": "0302", "product": "Mine"}
    features = {"instances": {"gpu.device": {"elements": [{"attributes": at}]}}}
    return api.create(
        f"{FEATURES}?fieldManager=kubectl-create",
        apiVersion="nfd.k8s-sigs.io/v1alpha1",
        kind="NodeFeature",
        metadata={"name": f"gpu-{name}", "labels": {"nfd.node.kubernetes.io/node-name": name}},
        spec={"features": features},
    )


def test_a_report_made_by_hand_is_left_alone(api):
    name = "by-hand"
    made = make_report(api, name)
    revisions = {}
    api.follow(FEATURES, revisions)
    meta = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake", SHAPE: "t4-4"}}
    api.create("/api/v1/nodes", metadata=meta)
    eventually(lambda: labels(api, name).get("gpu.deckhouse.io/device-count") == "1")

    def agent_runs():
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=spec.nodeName%3D{name}"
        return [p for p in api.get(path)["items"] if p["status"]["phase"] == "Running"]

    eventually(agent_runs)
    make_node(api, "reported-later")  # the agent takes nodes in order: it has begun with this one while that was there
    api.delete("/api/v1/nodes/reported-later")
    # Deleted, it is the agent's to make: what it did before about this node it has done by then.
    api.delete(f"{FEATURES}/gpu-{name}")
    eventually(lambda: labels(api, name).get("gpu.deckhouse.io/device-count") == "4" and api.report(name))
    deleted, anew = eventually(lambda: versions_of(made, revisions)[1:] and versions_of(made, revisions)[:2])
    assert deleted["spec"] == made["spec"]
    assert [managers(each) for each in (deleted, anew)] == [{"kubectl-create"}, {"gpu-nodeagent-discover"}]
    api.delete(f"/api/v1/nodes/{name}")
    eventually(lambda: api.report(name) is None)


def test_a_report_made_by_hand_outlives_its_node(api):
    name = "outlived"
    made = make_report(api, name)
    api.create("/api/v1/nodes", metadata={"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}})
    eventually(lambda: labels(api, name).get("gpu.deckhouse.io/device-count") == "1")
    api.delete(f"/api/v1/nodes/{name}")
    eventually(lambda: not api.get(f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NFD}/nodefeatures/{name}"))
    assert api.report(name)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a_node_without_shape_has_no_cards(api):
    meta = {"name": "bare", "annotations": {"kwok.x-k8s.io/node": "fake"}}
    api.create("/api/v1/nodes", metadata=meta)
    eventually(lambda: labels(api, "bare").get("gpu.deckhouse.io/os.id") == "ubuntu")
    assert "gpu.deckhouse.io/present" not in labels(api, "bare")
    assert api.get(f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NFD}/nodefeatures/bare")
    assert api.report("bare") is None


def test_never_allocatable_without_acknowledgement(api, node):
    revisions = {}
    api.follow("/api/v1/nodes", revisions)
    api.follow(DEVICES, revisions)
    make_pool(api, "ack", node, *T4[:3])
    eventually(lambda: api.slots(node, "ack") == "3")
    offered = api.offered(node, T4[0])
    assert offered == {"pool": "ack", "configVersion": version("ack"), "slots": 1}
    assert api.offered(node, T4[3]) is None
    allow(api, "ack", node, T4[3])
    eventually(lambda: api.slots(node, "ack") == "1" and api.offered(node, T4[3]))
    assert [api.offered(node, address) for address in T4[:3]] == [None] * 3
    allow(api, "ack", node, *T4)
    eventually(lambda: api.slots(node, "ack") == "4")
    allow(api, "ack", node)
    eventually(lambda: api.slots(node, "ack") == "0" and not any(map(api.offered, [node] * 4, T4)))
    api.delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/gpu-device-plugin-ack")
    eventually(lambda: api.slots(node, "ack") is None)
    last = [api.node(node), *api.devices(node).values()]
    eventually(lambda: {int(obj["metadata"]["resourceVersion"]) for obj in last} <= set(revisions))
    published, counts = {}, []
    for _, obj in sorted(revisions.items()):
        if obj["kind"] == "GPUDevice":
            published[obj["metadata"]["name"]] = (obj.get("status", {}).get("published") or {}).get("slots", 0)
        elif obj["metadata"]["name"] == node:
            counts.append(int(obj["status"]["allocatable"].get(pool_key("ack"), 0)))
        assert (counts or [0])[-1] <= sum(published.values())
    assert {0, 3, 1, 4} <= set(counts)
    assert counts[-1] == 0


def test_a_card_is_published_by_one_plugin(api, node):
    make_pool(api, "one", node, T4[0], T4[1])
    eventually(lambda: api.slots(node, "one") == "2")
    make_pool(api, "two", node, T4[1], T4[2])
    eventually(lambda: api.slots(node, "two") == "1")
    assert api.offered(node, T4[1])["pool"] == "one"
    allow(api, "one", node, T4[0])
    eventually(lambda: api.slots(node, "two") == "2")
    assert (api.slots(node, "one"), api.offered(node, T4[1])["pool"]) == ("1", "two")


def test_allocations_and_a_restart(api, plane, node):
    make_pool(api, "alloc", node, *T4[:3])
    eventually(lambda: api.slots(node, "alloc") == "3")
    run_pod(api, "first", "alloc", devices=f"{node}-{T4[2]}")
    eventually(lambda: holders(api, node)[T4[2]] == ["first"])
    entry = api.devices(node)[T4[2]]["status"]["allocations"][0]
    pod = api.get("/api/v1/namespaces/default/pods/first")
    assert entry == {
        "podUID": pod["metadata"]["uid"],
        "namespace": "default",
        "pod": "first",
        "container": "main",
        "slots": 1,
    }
    allow(api, "alloc", node, *T4[:2])  # the card is withdrawn, the pod keeps it
    eventually(lambda: api.offered(node, T4[2]) is None)
    assert holders(api, node)[T4[2]] == ["first"]

    remove_process(plane.dir, "sim-nodes")
    run_pod(api, "second", "alloc", devices=f"{node}-{T4[1]}")
    eventually(lambda: api.get("/api/v1/namespaces/default/pods/second")["status"]["phase"] == "Running")
    allow(api, "alloc", node, *T4[1:])
    before = api.devices(node)[T4[2]]["metadata"]["resourceVersion"]
    assert holders(api, node)[T4[1]] == []
    api.exporters = start_agent(plane)
    eventually(lambda: holders(api, node)[T4[1]] == ["second"] and api.slots(node, "alloc") == "3")
    assert holders(api, node) == {T4[0]: [], T4[1]: ["second"], T4[2]: ["first"], T4[3]: []}
    assert int(api.devices(node)[T4[2]]["metadata"]["resourceVersion"]) > int(before)
    api.delete("/api/v1/namespaces/default/pods/first?gracePeriodSeconds=0")
    eventually(lambda: holders(api, node)[T4[2]] == [])
    api.delete("/api/v1/namespaces/default/pods/second?gracePeriodSeconds=0")


def test_cards_are_divided_turned_back_and_offered(api):
    name = "mig"
    make_node(api, name, "a100-sxm-8")
    seats = sorted(api.devices(name))[:3]
    api.merge(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {FAULT: f"mig-fails:{seats[1]}"}}})
    seven = CardLayout(enabled=True, instances={"1g.5gb": 7})
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"

    def layout(*cards):
        parts = [PlannedCard(at, "10de", "20b0", None, n, cut, ours=True) for n, (at, cut) in enumerate(cards)]
        made = configmap(adapter(Node).validate_python(api.node(name)), NodeLayout(tuple(parts)))
        made["metadata"]["name"] = f"gpu-mig-layout-{name}"
        return made

    def said(address):
        told = api.devices(name)[address]["status"].get("migApply") or {}
        return told.get("phase")

    def attributes(address):
        elements = api.report(name)["spec"]["features"]["instances"]["gpu.device"]["elements"]
        return next(one["attributes"] for one in elements if one["attributes"]["address"] == address)

    api.create(path, **layout((seats[0], seven), (seats[1], seven), (seats[2], DISABLED)))
    body = daemonset("gpu-mig-manager-m", "gpu-nodeagent-mig", {"kubernetes.io/hostname": name})
    api.create(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", **body)
    eventually(lambda: [said(seat) for seat in seats] == ["Done", "Failed", "Done"])
    eventually(lambda: attributes(seats[0])["mig_mode"] == "enabled")
    assert attributes(seats[0])["mig_instances"] == "1g.5gb=7"
    assert attributes(seats[1])["mig_mode"] == attributes(seats[2])["mig_mode"] == "disabled"
    card = api.devices(name)[seats[0]]
    owners = {entry["manager"] for entry in card["metadata"]["managedFields"] if "f:migApply" in json.dumps(entry)}
    assert owners == {"gpu-nodeagent-mig"}

    make_pool(api, "m", name, seats[0], slots=7, mode="MIG", profile="1g.5gb")
    eventually(lambda: api.slots(name, "m") == "7")
    api.merge(f"{path}/gpu-mig-layout-{name}", {"data": layout((seats[0], DISABLED))["data"]})
    eventually(lambda: said(seats[0]) == "Waiting")  # it is still offered
    allow(api, "m", name)
    eventually(lambda: said(seats[0]) == "Done" and attributes(seats[0])["mig_mode"] == "disabled")
    assert "mig_instances" not in attributes(seats[0])
    api.delete(f"/api/v1/nodes/{name}")


def test_faults(api, node):
    def attributes():
        return api.report(node)["spec"]["features"]["attributes"]

    def addresses():
        elements = api.report(node)["spec"]["features"]["instances"]["gpu.device"]["elements"]
        return [element["attributes"]["address"] for element in elements]

    api.annotate(node, **{FAULT: "no-driver,no-toolkit"})
    eventually(lambda: "gpu.driver" not in attributes())
    assert attributes()["gpu.toolkit"]["elements"] == {"installed": "false"}
    elements = api.report(node)["spec"]["features"]["instances"]["gpu.device"]["elements"]
    assert "uuid" not in elements[0]["attributes"]
    eventually(lambda: "gpu.deckhouse.io/driver.name" not in labels(api, node))
    api.annotate(node, **{FAULT: None})
    eventually(lambda: "gpu.driver" in attributes())

    make_pool(api, "faulty", node, *T4[:2])
    eventually(lambda: api.slots(node, "faulty") == "2")
    api.annotate(node, **{FAULT: f"card-lost:{T4[1]}"})
    eventually(lambda: api.slots(node, "faulty") == "1" and api.offered(node, T4[1]) is None)
    eventually(lambda: T4[1] not in addresses())
    eventually(lambda: labels(api, node)["gpu.deckhouse.io/device-count"] == "3")
    api.annotate(node, **{FAULT: "no-ack"})
    eventually(lambda: T4[1] in addresses())
    allow(api, "faulty", node, *T4[1:])
    # A later ConfigMap that is heard of elsewhere, and then a pod of this node: both changes are known here by now.
    make_node(api, "hears")
    make_pool(api, "heard", "hears", T4[0])
    eventually(lambda: api.slots("hears", "heard") == "1")
    run_pod(api, "served", "faulty")
    eventually(lambda: holders(api, node)[T4[0]] == ["served"])
    assert (api.slots(node, "faulty"), api.offered(node, T4[1])) == ("1", None)
    assert api.offered(node, T4[0])["pool"] == "faulty"
    api.annotate(node, **{FAULT: None})
    eventually(lambda: api.slots(node, "faulty") == "3")
    api.delete("/api/v1/namespaces/default/pods/served?gracePeriodSeconds=0")
    api.delete("/api/v1/nodes/hears")


# --- the module's own pods -------------------------------------------------------------------


@pytest.fixture
def operand(api, node):
    """Run components on the node as bootstrap would, and see what becomes of their pods."""
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
    made = []

    def run(*components):
        for component in components:
            labels = {"gpu.deckhouse.io/component": component}
            body = daemonset(f"gpu-{component}", "default", {"kubernetes.io/hostname": node}, **labels)
            api.create(path, **body)
            made.append(component)

    yield run
    for component in made:
        api.delete(f"{path}/gpu-{component}")


def pod_of(api, node, component):
    query = f"fieldSelector=spec.nodeName%3D{node}&labelSelector=gpu.deckhouse.io/component%3D{component}"
    items = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?{query}")["items"]
    return items[0] if items else None


def ready(api, node, component):
    """None while there is no pod."""
    pod = pod_of(api, node, component)
    conditions = pod["status"].get("conditions", ()) if pod else ()
    return next((c["status"] == "True" for c in conditions if c["type"] == "Ready"), None)


def validated(api, node, role):
    elements = api.report(node)["spec"]["features"]["attributes"].get("gpu.validation", {}).get("elements", {})
    return validation.read(elements, role)


def scrape(api, node, timeout=PATIENCE):
    """Status, cards and the whole text; status 0 where nothing is answered."""
    try:
        with urllib.request.urlopen(f"{api.exporters}/nodes/{node}/metrics", timeout=timeout) as answer:  # noqa: S310
            text = answer.read()
            return answer.status, {c.address: c for c in parse(text)}, text
    except TimeoutError:
        return 0, {}, b""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}, error.read()


def test_exporters_answer_while_their_pod_is_ready(api, node, operand):
    assert scrape(api, node)[0] == 503
    assert scrape(api, "nobody")[0] == 404
    operand("dcgm-exporter")
    eventually(lambda: scrape(api, node)[0] == 200)
    reported = api.report(node)["spec"]["features"]["instances"]["gpu.device"]["elements"]
    uuids = {element["attributes"]["address"]: element["attributes"]["uuid"] for element in reported}
    assert {address: card.uuid for address, card in scrape(api, node)[1].items()} == uuids
    assert scrape(api, node)[2] != scrape(api, node)[2], "it wavers"

    api.annotate(node, **{FAULT: f"xid:{T4[1]}=79,hot:{T4[2]}=99"})
    eventually(lambda: scrape(api, node)[1][T4[1]].xids == (79,))
    found = scrape(api, node)[1]
    assert (found[T4[2]].temperature, found[T4[0]].xids) == (99, ())
    api.annotate(node, **{FAULT: "not-ready:dcgm-exporter"})
    eventually(lambda: scrape(api, node)[0] == 503)
    api.annotate(node, **{FAULT: None})
    eventually(lambda: scrape(api, node)[1] and scrape(api, node)[1][T4[1]].xids == ())


def test_exporters_fail_as_they_are_told(api, node, operand):
    operand("dcgm-exporter")
    eventually(lambda: scrape(api, node)[0] == 200)
    api.annotate(node, **{FAULT: "exporter-down"})
    eventually(lambda: scrape(api, node)[0] == 503)
    api.annotate(node, **{FAULT: "exporter-empty"})
    eventually(lambda: scrape(api, node) == (200, {}, b""))
    api.annotate(node, **{FAULT: "exporter-garbage"})
    eventually(lambda: b"<html>" in scrape(api, node)[2])
    assert scrape(api, node)[:2] == (200, {})
    api.annotate(node, **{FAULT: "exporter-silent"})

    def silent():
        try:
            urllib.request.urlopen(f"{api.exporters}/nodes/{node}/metrics", timeout=0.5).close()  # noqa: S310
        except TimeoutError:
            return True
        return False

    eventually(silent)
    api.annotate(node, **{FAULT: None})
    # One scrape that comes before the agent hears of it is left without an answer.
    eventually(lambda: len(scrape(api, node, timeout=2)[1]) == len(T4))


def test_validators_say_what_they_find_each_under_its_own_name(api, node, operand):
    assert validated(api, node, "driver") is None
    operand("driver-validator", "validator")
    eventually(lambda: ready(api, node, "driver-validator") and ready(api, node, "validator"))
    boot = api.node(node)["status"]["nodeInfo"]["bootID"]
    for role in validation.ROLES:
        found = validated(api, node, role)
        assert (found.result, found.cards, found.boot_id) == ("ok", 4, boot)
    owners = {
        entry["manager"]: [key for key in json.dumps(entry).split('"') if key.startswith(("f:driver", "f:container"))]
        for entry in api.report(node)["metadata"]["managedFields"]
    }
    assert all(key.startswith("f:driver") for key in owners["gpu-nodeagent-validate-driver"])
    assert all(key.startswith("f:container") for key in owners["gpu-nodeagent-validate-container"])
    before = api.report(node)["metadata"]["resourceVersion"]

    api.annotate(node, **{FAULT: "driver-check-failed"})
    eventually(lambda: ready(api, node, "driver-validator") is False)
    assert validated(api, node, "driver").reason == "LibraryMismatch"
    assert ready(api, node, "validator")
    api.annotate(node, **{FAULT: f"container-check-failed,card-check-failed:{T4[0]}"})
    eventually(lambda: ready(api, node, "validator") is False and ready(api, node, "driver-validator"))
    assert (validated(api, node, "driver").result, validated(api, node, "driver").cards_failed) == ("ok", (T4[0],))
    assert validated(api, node, "container").result == "failed"
    api.annotate(node, **{FAULT: None})
    eventually(lambda: ready(api, node, "validator"))
    assert validated(api, node, "container").cards == 4
    assert int(api.report(node)["metadata"]["resourceVersion"]) > int(before)

    api.delete(f"{FEATURES}/gpu-{node}")  # discovery makes it anew, and the validators add to it again
    eventually(lambda: api.report(node) and all(validated(api, node, role) for role in validation.ROLES))


def test_a_pod_is_never_ready_where_a_fault_forbids_it(api, node, operand):
    seen = {}
    api.annotate(node, **{FAULT: "not-ready:toolkit,driver-check-failed"})
    api.follow(f"/api/v1/namespaces/{NAMESPACE}/pods", seen)
    operand("toolkit", "driver-validator", "gfd")

    def waiting():
        pod = pod_of(api, node, "toolkit")
        states = [c["state"] for c in pod["status"].get("containerStatuses", ())] if pod else []
        return pod if any("waiting" in state for state in states) else None

    pod = eventually(waiting)
    (container,) = pod["status"]["containerStatuses"]
    assert container["state"]["waiting"] == {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "none"'}
    assert (pod["status"]["phase"], ready(api, node, "toolkit")) == ("Pending", False)
    eventually(lambda: validated(api, node, "driver") and ready(api, node, "gfd"))
    assert ready(api, node, "driver-validator") is False

    def were_ready(component):
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for pod in seen.values()
            if pod["metadata"]["labels"].get("gpu.deckhouse.io/component") == component
            and pod["spec"].get("nodeName") == node
            for condition in pod["status"].get("conditions", ())
        )

    eventually(lambda: were_ready("gfd"))
    assert not were_ready("toolkit")
    assert not were_ready("driver-validator")
    api.annotate(node, **{FAULT: None})
    eventually(lambda: ready(api, node, "toolkit") and ready(api, node, "driver-validator"))
    assert pod_of(api, node, "toolkit")["status"]["phase"] == "Running"


def test_without_its_agent_a_node_says_nothing_new(api, node):
    eventually(lambda: ready(api, node, "discover"))
    api.annotate(node, **{FAULT: "no-agent,no-driver"})
    eventually(lambda: ready(api, node, "discover") is False)
    assert "gpu.driver" in api.report(node)["spec"]["features"]["attributes"]
    api.annotate(node, **{FAULT: "no-driver"})
    eventually(lambda: ready(api, node, "discover"))
    eventually(lambda: "gpu.driver" not in api.report(node)["spec"]["features"]["attributes"])
