"""The optimization problems behind complexities and allocations: interior points, optimal designs, divergences."""
