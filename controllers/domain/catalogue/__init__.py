"""The card catalogue: vendors, card models and MIG geometries, as data with its sources (`*.toml`).

Read and checked once, at import: a slip in a file is a ValueError that names the file and the entry.
What is not in the catalogue is not known, and nothing here guesses it.
"""

from controllers.domain.catalogue.lookup import VENDORS, canonical_profile, geometry, is_card, model, vendor_id
from controllers.domain.catalogue.model import Geometry, Model, Profile, Vendor
from controllers.domain.catalogue.placement import fits, place

__all__ = [
    "VENDORS",
    "Geometry",
    "Model",
    "Profile",
    "Vendor",
    "canonical_profile",
    "fits",
    "geometry",
    "is_card",
    "model",
    "place",
    "vendor_id",
]
