// The half of the core with effects: files, threads, memory.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void register_engine(nb::module_& m);
void register_batch(nb::module_& m);

NB_MODULE(engine, m) {
    m.doc() = "The reader pool, the arena and the batches.";
    // A user may keep a batch to the interpreter's end; that is no leak worth a warning on their screen.
    nb::set_leak_warnings(false);
    register_batch(m);
    register_engine(m);
}
