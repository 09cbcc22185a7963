"""The papers' tasks, one folder each: data, network and plugin. Shared code is next to the folders."""
