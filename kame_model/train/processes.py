"""The processes of a run: one, or those that `torchrun` started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from backends.codec.moshi_codec import device_name
from data_schemas.errors import ConfigError
from kame_model.data.loader import ALONE, Share


@dataclass(frozen=True, slots=True)
class Processes:
    """All processes of a run, seen from one of them.

    Attributes:
        device: where it computes.
        share: this process among all.
        mesh: all of them, to shard weights over; None: it is alone.
        control: a group of their CPUs, for what must not wait for a GPU; None: it is alone.
    """

    device: torch.device
    share: Share = ALONE
    mesh: DeviceMesh | None = None
    control: dist.ProcessGroup | None = None

    @property
    def is_first(self) -> bool:
        """Whether this one writes what is written once."""
        return self.share.rank == 0

    def summed(self, values: torch.Tensor) -> torch.Tensor:
        """A vector summed over all processes, on the CPU."""
        values = values.cpu()
        if self.control is not None:
            dist.all_reduce(values, group=self.control)
        return values

    def wait(self) -> None:
        """Until all are here."""
        if self.control is not None:
            dist.barrier(group=self.control)


def find_device(wanted: str) -> torch.device:
    """cpu, cuda, or what `auto` comes to here.

    Raises:
        ConfigError: no such device.
    """
    try:
        return torch.device(device_name(wanted))
    except RuntimeError as error:
        raise ConfigError(f"There is no device {wanted!r}.", "Choose cpu, cuda or auto.") from error


@contextmanager
def joined(wanted: str) -> Iterator[Processes]:
    """The processes of this run for as long as the block lasts; under `torchrun` it joins the others.

    Args:
        wanted: hardware.device; each process of a machine takes a GPU of its own.

    Raises:
        ConfigError: no such device.
    """
    device = find_device(wanted)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes(device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        share = Share(dist.get_rank(), dist.get_world_size())
        mesh = init_device_mesh(device.type, (share.world,))
        yield Processes(device, share, mesh, dist.new_group(backend="gloo"))
    finally:
        dist.destroy_process_group()
