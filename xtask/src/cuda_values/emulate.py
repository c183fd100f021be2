"""Runs kernels on a PTX emulator: `emulate.py FOLDER JOBS`.

FOLDER has a Python module `cudaemu`. Each line of JOBS is `PTX ENTRY GRID BLOCK SHARED ARGUMENT...`; an argument is
`@FILE`, memory that is read from the file and written back, or `u32:N`.
"""

import sys

sys.path.insert(0, sys.argv[1])
import numpy as np
from cudaemu import Module, aligned

for line in open(sys.argv[2]):
    ptx, entry, grid, block, shared, *arguments = line.split()
    values, files = [], []
    for argument in arguments:
        if argument.startswith("@"):
            data = np.fromfile(argument[1:], np.uint8)
            memory = aligned(data.shape, np.uint8)
            memory[...] = data
            values.append(memory)
            files.append((argument[1:], memory))
        else:
            dtype, _, number = argument.partition(":")
            values.append({"u32": np.uint32, "f32": np.float32}[dtype](float(number)))
    dims = tuple(int(n) for n in grid.split(",")), tuple(int(n) for n in block.split(","))
    try:
        module = Module.from_ptx(open(ptx).read())
        module.run(entry, *dims, values, smem=int(shared), race=True, init=True)
    except Exception as error:
        sys.exit(f"{ptx}: {error}")
    for name, memory in files:
        memory.tofile(name)
