"""The papers' tasks, a folder each: data, network and plugin. What several share lies beside the folders."""
