"""Pods that wait for cards, and the reservations made for them. Pure."""
