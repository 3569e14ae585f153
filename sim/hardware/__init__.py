"""What a simulated node is made of: shapes of real machines, as data (`shapes/*.toml`)."""

from sim.hardware.catalogue import Catalogue, load
from sim.hardware.shape import Card, Device, Shape, Software

__all__ = ["Card", "Catalogue", "Device", "Shape", "Software", "load"]
