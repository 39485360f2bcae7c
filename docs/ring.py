"""Attention over a ring of processes, by MPI: `mpiexec -n 4 python ring.py`.

Each process has an equal part of the positions. Its queries stay, and the keys and values of all parts travel around
the ring, so that no process ever holds more than two parts of them.
"""

import numpy as np
from mpi4py import MPI

import regard


def ring_attention(comm, queries, keys, values, *, causal=False, **options):
    """Attend with the queries of this process to the keys and values of all processes.

    queries (..., n, d), keys (..., n, d) and values (..., n, e) are equally long in all
    processes; the result (..., n, e) is that of this process. `options` are those of
    `regard.partial`, without a mask.
    """
    rank, size = comm.Get_rank(), comm.Get_size()
    here, total = (np.ascontiguousarray(keys), np.ascontiguousarray(values)), None
    for step in range(size):
        arriving = tuple(np.empty_like(array) for array in here)
        moving = []
        if step + 1 < size:  # the next part is on its way while this one is attended to
            for tag, (leaves, arrives) in enumerate(zip(here, arriving, strict=True)):
                moving.append(comm.Irecv(arrives, (rank - 1) % size, tag))
                moving.append(comm.Isend(leaves, (rank + 1) % size, tag))
        owner = (rank - step) % size
        if not causal or owner <= rank:
            mask = regard.mask.causal() if causal and owner == rank else None
            part = regard.partial(queries, *here, mask=mask, **options)
            total = part if total is None else regard.merge(total, part)
        for request in moving:
            request.Wait()
        here = arriving
    return total.context.astype(queries.dtype)


if __name__ == "__main__":
    comm = MPI.COMM_WORLD
    n, rng = 256, np.random.default_rng(0)
    whole = rng.standard_normal((3, comm.Get_size() * n, 64))
    mine = np.ascontiguousarray(whole[:, comm.Get_rank() * n :][:, :n])
    context = ring_attention(comm, *mine, causal=True)
    expected = regard.attention(*whole, mask=regard.mask.causal())[comm.Get_rank() * n :][:n]
    print(f"process {comm.Get_rank()} of {comm.Get_size()}: error {np.abs(context - expected).max():.0e}")
