// The pure half of the core: no file, no clock, no thread.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void register_permutation(nb::module_& m);
void register_expand(nb::module_& m);

NB_MODULE(kernels, m) {
    m.doc() = "Pure kernels: permutations, residency loops, sorting and coalescing.";
    register_permutation(m);
    register_expand(m);
}
