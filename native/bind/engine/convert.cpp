#include "bind/engine/convert.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

namespace headrace {

namespace {

nb::object make_dtype(std::initializer_list<std::pair<const char*, const char*>> fields) {
    nb::list list;
    for (const auto& [name, type] : fields) list.append(nb::make_tuple(name, type));
    return nb::module_::import_("numpy").attr("dtype")(list);
}

std::string text(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

[[noreturn]] void refuse(const std::string& why) { throw nb::value_error(why.c_str()); }

std::vector<BoxShape> read_boxes(const nb::list& boxes) {
    using Ints = std::vector<std::int64_t>;
    std::vector<BoxShape> out;
    for (const nb::handle h : boxes) {
        const auto b = nb::cast<nb::tuple>(h);
        if (b.size() != 5) refuse("a box is (stored, valid, origin, itemsize, sample shape), not " + text(h));
        const auto ints = [&](std::size_t k) { return nb::cast<Ints>(nb::list(b[k])); };
        out.emplace_back(ints(0), ints(1), ints(2), nb::cast<std::int64_t>(b[3]), ints(4));
    }
    return out;
}

FaultRange read_range(const nb::dict& d, int error) {
    const auto get = [&](const char* key, std::int64_t otherwise) {
        return d.contains(key) ? nb::cast<std::int64_t>(d[key]) : otherwise;
    };
    return {error, static_cast<std::int32_t>(get("file", -1)), get("offset", 0), get("nbytes", INT64_MAX / 2)};
}

void read_fault(const nb::dict& d, Faults& out) {
    if (d.contains("errno")) out.fail.push_back(read_range(d, nb::cast<int>(d["errno"])));
    if (d.contains("open")) out.open.push_back(read_range(d, nb::cast<int>(d["open"])));
    if (d.contains("hold") && nb::cast<bool>(d["hold"])) out.held.push_back(read_range(d, 0));
    if (d.contains("short")) out.at_most = nb::cast<std::int64_t>(d["short"]);
    if (d.contains("refuse_direct")) out.refuse_direct = nb::cast<bool>(d["refuse_direct"]);
}

std::unique_ptr<Faults> read_faults(const nb::object& fault) {
    auto out = std::make_unique<Faults>();
    if (fault.is_none()) return out;
    if (nb::isinstance<nb::dict>(fault))
        read_fault(nb::cast<nb::dict>(fault), *out);
    else
        for (const nb::handle h : nb::cast<nb::list>(fault)) read_fault(nb::cast<nb::dict>(h), *out);
    return out;
}

Access access_of(const std::string& name) {
    return name == "direct" ? Access::direct : name == "mapped" ? Access::mapped : Access::buffered;
}

std::string encode_path(nb::handle path) {  // as the filesystem wants it, whatever bytes it has
    const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(path.ptr()));
    if (!encoded.is_valid()) throw nb::python_error();
    return {PyBytes_AsString(encoded.ptr()), static_cast<std::size_t>(PyBytes_Size(encoded.ptr()))};
}

}  // namespace

template <>
nb::object dtype_of<Read>() {
    return make_dtype({{"file", "<i4"}, {"pieces", "<i4"}, {"first", "<i8"}, {"offset", "<i8"}, {"nbytes", "<i8"}});
}
template <>
nb::object dtype_of<Piece>() {
    return make_dtype({{"offset", "<i8"}, {"nbytes", "<i8"}, {"dest", "<i8"}, {"id", "<i8"}, {"step", "<i4"}, {"part", "<i4"}});
}
template <>
nb::object dtype_of<Copy>() {
    return make_dtype({{"arena", "<i8"}, {"batch", "<i8"}, {"nbytes", "<i8"}, {"kind", "<i4"}, {"box", "<i4"}});
}
template <>
nb::object dtype_of<Step>() {
    return make_dtype(
        {{"step", "<i8"}, {"position", "<i8"}, {"rows", "<i8"}, {"nbytes", "<i8"}, {"first", "<i8"}, {"copies", "<i8"}});
}
template <>
nb::object dtype_of<Operation>() {
    return make_dtype({{"file", "<i8"}, {"offset", "<i8"}, {"nbytes", "<i8"}});
}

Bytes::Bytes(nb::handle array, nb::handle dtype, const char* name) {
    if (!nb::hasattr(array, "dtype") || !nb::hasattr(array, "ndim") || !array.attr("dtype").equal(dtype) ||
        nb::cast<int>(array.attr("ndim")) != 1)
        throw nb::type_error((std::string(name) + " must be a one-dimensional array of dtype " + text(dtype)).c_str());
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
}

void make_engine(Engine* self, nb::list paths, nb::list known, std::int64_t arena, nb::list boxes, int threads, int depth, std::string io,
                 std::string access, std::int64_t map_from, std::int64_t map_after, std::int64_t align,
                 std::int64_t batch_bytes, std::int64_t max_spans, std::string advice, bool drop, bool trace,
                 std::int64_t bounce, std::int64_t bounce_below, nb::object fault) {
    if (threads < 1 || threads > 1024) refuse("threads must be 1 to 1024, not " + std::to_string(threads));
    if (depth < 1 || depth > 4096) refuse("depth must be 1 to 4096, not " + std::to_string(depth));
    if (io != "threads" && io != "uring") refuse("io must be 'threads' or 'uring', not '" + io + "'");
    if (access != "buffered" && access != "direct" && access != "mapped")
        refuse("access must be 'buffered', 'direct' or 'mapped', not '" + access + "'");
    if (advice != "random" && advice != "normal") refuse("advice must be 'random' or 'normal', not '" + advice + "'");
    if (align < 512 || (align & (align - 1)) != 0) refuse("align must be a power of two from 512 on, not " + std::to_string(align));
    if (arena < 0 || batch_bytes < 0 || max_spans < 1 || bounce < 1) refuse("arena, batch_bytes, max_spans and bounce are sizes");
    Options o;
    for (const nb::handle p : paths) o.paths.push_back(encode_path(p));
    for (const nb::handle k : known) {
        const auto pair = nb::cast<nb::tuple>(k);
        o.known.push_back({nb::cast<std::int64_t>(pair[0]), nb::cast<std::int64_t>(pair[1])});
    }
    if (!o.known.empty() && o.known.size() != o.paths.size()) refuse("known has one (size, time) for each path, or none");
    o.boxes = read_boxes(boxes);
    o.arena = arena, o.threads = threads, o.depth = depth, o.uring = io == "uring", o.align = align;
    o.access = access_of(access), o.map_from = map_from, o.map_after = map_after;
    o.bounce = (bounce + align - 1) / align * align, o.bounce_below = bounce_below;
    o.batch_bytes = batch_bytes, o.max_spans = max_spans, o.random = advice == "random", o.drop = drop, o.trace = trace;
    new (self) Engine(std::move(o), read_faults(fault));
}

nb::object make_trace(const Engine& engine) {
    const std::vector<Operation> operations = engine.trace();
    const nb::object bytes = nb::steal(PyByteArray_FromStringAndSize(
        reinterpret_cast<const char*>(operations.data()), static_cast<Py_ssize_t>(operations.size() * sizeof(Operation))));
    return nb::module_::import_("numpy").attr("frombuffer")(bytes, dtype_of<Operation>());
}

bool close_engine(Engine& engine, double timeout) {
    engine.check_process();
    const GilReleased released;
    return engine.close(timeout);
}

}  // namespace headrace
