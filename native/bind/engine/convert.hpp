// How do Python's values become the engine's, and back?
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstring>
#include <string>
#include <vector>

#include "bind/gil.hpp"
#include "engine/engine.hpp"

namespace headrace {

namespace nb = nanobind;

// The NumPy dtype that an array of `T` must have; see `headrace.values.span`.
template <class T>
nb::object dtype_of();

// The bytes of a contiguous one-dimensional structured array of dtype `dtype`; TypeError names the argument otherwise.
struct Bytes {
    Bytes(nb::handle array, nb::handle dtype, const char* name);
    ~Bytes() { PyBuffer_Release(&view); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    Py_buffer view{};
};

template <class T>
std::vector<T> records(nb::handle array, const char* name) {
    const Bytes bytes(array, dtype_of<T>(), name);
    std::vector<T> out(static_cast<std::size_t>(bytes.view.len) / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.view.buf, out.size() * sizeof(T));
    return out;
}

void make_engine(Engine* self, nb::list paths, nb::list known, std::int64_t arena, nb::list boxes, int threads, int depth, std::string io,
                 std::string access, std::int64_t map_from, std::int64_t map_after, std::int64_t align,
                 std::int64_t batch_bytes, std::int64_t max_spans, std::string advice, bool drop, bool trace,
                 std::int64_t bounce, std::int64_t bounce_below, nb::object fault);
nb::object make_ready(Engine& engine, Delivery delivery);
nb::object make_trace(const Engine& engine);
bool close_engine(Engine& engine, double timeout);

}  // namespace headrace
