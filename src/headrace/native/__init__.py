"""The native core: `kernels` is pure, `engine` has the effects."""
