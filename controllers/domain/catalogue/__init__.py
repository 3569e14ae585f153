"""The card catalogue: vendors, card models, MIG geometries and least drivers, as data with its sources (`*.toml`).

Read and checked once, at import: a slip in a file is a ValueError that names the file and the entry.
What is not in the catalogue is not known, and nothing here guesses it.
"""

from controllers.domain.catalogue.drivers import Requirement, for_card, is_older, requirement, strictest
from controllers.domain.catalogue.lookup import VENDORS, canonical_profile, geometry, is_card, model, vendor_id
from controllers.domain.catalogue.model import Geometry, Model, Profile, Vendor

__all__ = [
    "VENDORS",
    "Geometry",
    "Model",
    "Profile",
    "Requirement",
    "Vendor",
    "canonical_profile",
    "for_card",
    "geometry",
    "is_card",
    "is_older",
    "model",
    "requirement",
    "strictest",
    "vendor_id",
]
