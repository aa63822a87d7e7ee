"""Tests of engines. A package, so that workers import the stand-in by its name."""
