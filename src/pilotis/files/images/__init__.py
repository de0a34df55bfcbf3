"""Variants of images."""
