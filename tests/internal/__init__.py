"""Tests of modules that are no part of the API, by room: a refactoring may change them."""
