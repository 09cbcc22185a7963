"""Several processes begin with the same data and the same state."""

from __future__ import annotations

import tempfile
from pathlib import Path

from parser.distributed.process_group import ProcessGroup
from parser.training.checkpoint import Training, load_checkpoint


def refuse_other_data(processes: ProcessGroup, digest: str) -> None:
    """Raises ValueError if the processes have read different files. digest: see `TrainingData.digest`."""
    digests = processes.gathered(digest)
    for rank, found in enumerate(digests):
        if found != digests[0]:
            raise ValueError(
                f"process {rank} has read other treebanks, word vectors, teachers or another transformer "
                "than process 0"
            )


def copy_checkpoint(processes: ProcessGroup, path: Path, training: Training) -> None:
    """Restore the checkpoint of the first process in the others, which may be on other machines."""
    if processes.count == 1:
        return
    content = processes.from_first(path.read_bytes() if processes.is_first else None)
    if not processes.is_first:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            load_checkpoint(Path(file.name), training, processes.rank)
