// The half of the core with effects: files, threads, memory.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void register_engine(nb::module_& m);

NB_MODULE(engine, m) {
    m.doc() = "The reader pool, the arena and the batches.";
}
