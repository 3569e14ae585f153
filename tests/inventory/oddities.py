"""Input that no card deserves: what real tools wrote, what is almost right, and shapes that are no report at all."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from controllers.api import names
from tests.inventory.world import NODE
from tests.kit.reports import feature, reported

# Texts that real tools write, texts that look like others, and any text at all: NUL, control, 200 kB.
odd = st.sampled_from(
    [
        *(
            "",
            " ",
            "GPU is lost",
            "[N/A]",
            "ERR!",
            "Insufficient Permissions",
            "[REDACTED]",
            "-1",
            "0",
            "0x10de",
            "10DE",
        ),
        *(
            "81920M",
            "٣٣",
            "1e3",
            "9" * 30,
            "true",
            "Enabled",
            "nan",
            "null",
            "\x00",
            "a\nb",
            "x" * 200_000,
            "ＮＶＩＤＩＡ",
        ),
        *("0000:17:00.0", "00000000:17:00.0", "17:00.0", "0000:17:00.8", "ffffffff:ff:1f.7", "1g.10gb", "1g.10gb=999"),
        *("1g.10gb=1,1g.10gb=2", "vf", "NVIDIA H100 80GB HBM3", "-._", "ⅷ", "3\u200b", "🂡" * 40),
    ]
)
texts = odd | st.text(max_size=30)
keys = st.sampled_from(
    [*reported(0), "nvlink_peers", "nvlink_links", "pci_root", "mig_instances", "iommu_group", "subsystem_vendor"]
)
jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
# One word that is almost right, where it stands: each has been seen, or is what a hurried parser lets through.
ALMOST = (
    [("memory_mib", text) for text in ("81920M", "81559 MiB", "0", "-1", "٨١", "1e5", "9" * 12, "")]
    + [("product", text) for text in ("x" * 200_000, "-._", "-H100-", "a" * 90, "H100\x00", "Ⅷ", "N/A", "🂡" * 40, "")]
    + [("uuid", text) for text in ("GPU is lost", "GPU-" + "0" * 200, "GPU-1 2", "[REDACTED]", "")]
    + [(key, text) for key in ("vendor", "device") for text in ("0x10DE", "１０ｄｅ", "10d", "nvidia", "")]
    + [("class", text) for text in ("0x030200", "0680", "030", "0403", "120000", "０３０２", "")]
    + [("numa_node", text) for text in ("-1", "٣", "1.0", "4095", "")]
    + [(key, text) for key in ("compute_major", "compute_minor") for text in ("", "٩", "-9", "99", "9.0")]
    + [("mig_capable", text) for text in ("", "maybe", "false", "TRUE")]
    + [("mig_mode", text) for text in ("", "enabled", "Enabled", "pending")]
    + [("mig_profiles", text) for text in ("big", "1G.10GB, 2g.20gb+me", ",", "1g.10gb," * 9000)]
    + [("mig_instances", text) for text in ("1g.10gb=7", "1g.10gb", "1g.10gb=1,1g.10gb=2", "2g.20gb=٢", "1g.10gb=0")]
    + [("nvlink_peers", text) for text in ("0000:18:00.0", "0,1", "00000000:18:00.0,?", "0000:18:00.0," * 9000)]
    + [("nvlink_links", text) for text in ("1", "1,1", "-1", "٣", "1," * 9000)]
    + [("pci_root", text) for text in ("0000:16", "pci0000:16", "0000:16:00.0", "ffffffff:ff", "x" * 200_000)]
    + [("address", text) for text in ("0000:17:00.0", "00000000:18:00.0", "18:00.0", "0000:18:20.0", "")]
)
almost = st.sampled_from(ALMOST)
bent = st.builds(
    lambda number, changes, others: {**reported(number), **dict(changes), **others},
    st.integers(0, 3),
    st.lists(almost, max_size=3),
    st.dictionaries(keys, texts, max_size=2),
)
elements = st.lists(bent | st.dictionaries(keys | texts, texts, max_size=5), max_size=6)
gfd_keys = st.sampled_from(["product", "memory", "count", "compute.major", "compute.minor", "family", "replicas"])
gfd_values = st.sampled_from(
    ["1", "2", "8", "0", "9", "81559", "H100", "NVIDIA-H100-80GB-HBM3", "A100-SHARED", "A100-MIG-1g.5gb", "x" * 63]
)
gfd = st.dictionaries(gfd_keys.map(lambda key: f"{names.GFD_PREFIX}gpu.{key}"), gfd_values | texts, max_size=5)
node_labels = st.builds(
    lambda one, other: one | other,
    gfd,
    st.dictionaries(st.sampled_from([names.LABEL_PRESENT, names.LABEL_ENABLED]), texts, max_size=2),
)


def features_of(told: Any) -> dict[str, Any]:
    """A report whose cards are what was drawn, however bent."""
    return odd_report({"instances": {"gpu.device": told}})


def odd_report(told: Any) -> dict[str, Any]:
    """The agent's report with features that were drawn."""
    return feature(names.agent_feature(NODE), NODE, told)


near_shapes = st.one_of(
    jsons.map(features_of),
    jsons.map(lambda told: features_of({"elements": told})),
    st.lists(jsons, max_size=3).map(lambda told: features_of({"elements": told})),
    st.lists(jsons, max_size=3).map(lambda told: features_of({"elements": [{"attributes": one} for one in told]})),
    jsons.map(lambda told: odd_report({}) | {"spec": told}),
    jsons.map(odd_report),
    st.tuples(jsons, jsons).map(
        lambda two: odd_report(
            {
                "instances": {"pci.device": {"elements": two[0]}, "gpu.device": {"elements": []}},
                "attributes": {names.FEATURE_DRIVER: two[1], names.FEATURE_AGENT: {"elements": two[1]}},
            }
        )
    ),
)
