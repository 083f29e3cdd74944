"""The rooms in their order: folders, each a library and a namespace, that may include those above them.

tests/tidy.py holds the includes to this order; the linker does the same with calls (cmake/rooms.cmake).
"""
import pathlib

ORDER = """
    base
    topology/slurm_text topology/tuner topology/graph topology/fabric topology/doctor topology/sources
    topology/nccl topology/plan
    checkpoint
    trainer/contract trainer/data trainer/device trainer/cpu trainer/ranks trainer/mpi trainer/nccl trainer/cuda
    trainer/plugins trainer/watch trainer/samples trainer/tasks trainer/model trainer/numerics trainer/step trainer/run
    trainer/interchange trainer/probe trainer/bench trainer/cli
    orchestrator/frozen orchestrator/files orchestrator/runs orchestrator/slurm orchestrator/batch
    orchestrator/sbatch orchestrator/text orchestrator/store orchestrator/site orchestrator/webhooks orchestrator/plan
    orchestrator/simulate orchestrator/advise orchestrator/compare orchestrator/sweeps orchestrator/experiments orchestrator/control
    orchestrator/checkpoints
    orchestrator/api orchestrator/cli
""".split()


def room_of(path):
    """Of a file of the product; None for one that is in no room."""
    parts = pathlib.PurePosixPath(path).parts
    room = parts[0] if parts[0] in ORDER else "/".join(parts[:2])
    return room if room in ORDER and len(parts) > len(room.split("/")) else None


def against_order(path, header):
    """Why `path` may not include the product's `header`, or None."""
    here, there = room_of(path), room_of(header)
    if here is None or there is None or ORDER.index(there) <= ORDER.index(here):
        return None
    return f"{here} comes before {there} (tests/rooms.py)"
