// What `Engine.next` gives: a step that is ready, and the buffer that holds its batch.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <utility>

#include "bind/engine/convert.hpp"
#include "engine/engine.hpp"

namespace nb = nanobind;
using namespace headrace;

namespace {

// The handle of a batch's memory. Every view holds it, so the memory returns to the pool when the last of them is gone.
struct Buffer {
    std::shared_ptr<Slab> slab;
};

struct Ready {
    Step step;
    nb::object buffer;
    nb::list failures;
};

using View = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

View view(nb::handle_t<Buffer> self, std::int64_t offset, std::int64_t nbytes) {
    const Slab& slab = *nb::cast<Buffer&>(self).slab;
    if (offset < 0 || nbytes < 0 || nbytes > slab.nbytes || offset > slab.nbytes - nbytes)
        throw nb::index_error((std::to_string(nbytes) + " bytes at " + std::to_string(offset) + " lie outside a batch of " +
                               std::to_string(slab.nbytes) + " bytes")
                                  .c_str());
    const auto size = static_cast<std::size_t>(nbytes);
    return View(slab.memory.data() + offset, {size}, self);
}

nb::object decode_path(const std::string& path) {
    return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

}  // namespace

namespace headrace {

nb::object make_ready(Engine& engine, Delivery delivery) {
    nb::list failures;
    for (const Failure& f : delivery.failures)
        failures.append(nb::make_tuple(f.id, f.part, decode_path(engine.core().files.path(f.file)), f.offset, f.nbytes, f.error, f.got));
    return nb::cast(Ready{delivery.step, nb::cast(Buffer{std::move(delivery.slab)}), std::move(failures)});
}

}  // namespace headrace

void register_batch(nb::module_& m) {
    nb::class_<Buffer>(m, "Buffer", nb::is_weak_referenceable(), "A batch's memory, used again when nobody holds it or a view of it.")
        .def("view", &view, nb::arg("offset"), nb::arg("nbytes"), "A writable array over a part of it, without a copy.")
        .def_prop_ro("nbytes", [](const Buffer& b) { return b.slab->nbytes; })
        .def_prop_ro("address", [](const Buffer& b) { return reinterpret_cast<std::uintptr_t>(b.slab->memory.data()); });

    nb::class_<Ready>(m, "Ready", "A step that is ready.")
        .def_prop_ro("step", [](const Ready& r) { return r.step.step; }, "Its number in the run.")
        .def_prop_ro("position", [](const Ready& r) { return r.step.position; })
        .def_prop_ro("rows", [](const Ready& r) { return r.step.rows; })
        .def_prop_ro("nbytes", [](const Ready& r) { return r.step.nbytes; })
        .def_ro("buffer", &Ready::buffer)
        .def_ro("failures", &Ready::failures, "(id, part, path, offset, nbytes, errno, got) of each piece that could not be read.");
}
