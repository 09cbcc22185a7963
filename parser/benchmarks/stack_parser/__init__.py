"""The project's own parser, as the speed harness measures it (Ding & Koehn 2019)."""
