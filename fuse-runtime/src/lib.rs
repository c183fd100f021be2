//! Tensors, devices, kernel launching, and what generated CPU code calls.
