// The engine as Python sees it: arrays in, batches out, the GIL released around all that waits or loops.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "bind/engine/convert.hpp"
#include "engine/engine.hpp"

namespace nb = nanobind;
using namespace headrace;

namespace {

struct Timeout : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A wait without end is a wait of centuries.
std::int64_t deadline(std::optional<double> timeout) {
    if (!timeout || !(*timeout < 1e9)) return std::numeric_limits<std::int64_t>::max();
    return now_ns() + static_cast<std::int64_t>(std::max(*timeout, 0.0) * 1e9);
}

// Repeats a blocking call for as long as only signals end it, and lets Python handle them in between.
template <class Call>
Wait::Kind attend(Call&& call) {
    for (;;) {
        Wait::Kind kind;
        {
            const GilReleased released;
            kind = call();
        }
        if (kind != Wait::interrupted) return kind;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
}

bool submit(Engine& engine, std::int64_t index, std::int64_t after, nb::handle reads, nb::handle pieces, nb::handle copies,
            nb::handle steps, std::optional<double> timeout) {
    engine.check_process();
    SpanEntries entries{records<Read>(reads, "reads"), records<Piece>(pieces, "pieces"), records<Copy>(copies, "copies"),
                        records<Step>(steps, "steps")};
    SpanPtr span;
    const std::int64_t until = deadline(timeout);
    const Wait::Kind kind = attend([&] {
        if (span == nullptr) span = std::make_shared<Span>(index, after, std::move(entries), engine.limits());
        return engine.submit(span, until);
    });
    return kind == Wait::done;
}

nb::object next(Engine& engine, std::optional<double> timeout) {
    Delivery out;
    const std::int64_t until = deadline(timeout);
    const Wait::Kind kind = attend([&] { return engine.next(out, until); });
    if (kind == Wait::end) return nb::none();
    if (kind == Wait::timeout) throw Timeout(engine.waiting());
    return make_ready(engine, std::move(out));
}

nb::dict counters(Engine& engine) {
    nb::dict out;
    for (const auto& [name, value] : engine.counters()) {
        const bool seconds = name.ends_with("_seconds") || name == "depth_mean";
        out[name.c_str()] = seconds ? nb::object(nb::float_(value)) : nb::object(nb::int_(static_cast<std::int64_t>(value)));
    }
    return out;
}

}  // namespace

void register_engine(nb::module_& m) {
    nb::exception<Timeout>(m, "EngineTimeout", PyExc_TimeoutError);
    nb::exception<Closed>(m, "EngineClosed", PyExc_RuntimeError);
    nb::exception<Failed>(m, "EngineFailed", PyExc_RuntimeError);

    nb::class_<Engine>(m, "Engine", nb::is_weak_referenceable(), "Carries out spans: reads, copies, and batches in their order.")
        .def("__init__", &make_engine, nb::kw_only(), nb::arg("paths"), nb::arg("known") = nb::list(), nb::arg("arena"), nb::arg("boxes") = nb::list(),
             nb::arg("threads") = 4, nb::arg("depth") = 64, nb::arg("io") = "threads", nb::arg("access") = "buffered", nb::arg("map_from") = 1 << 20, nb::arg("map_after") = 64 << 20,
             nb::arg("align") = 4096, nb::arg("batch_bytes"), nb::arg("max_spans") = 4, nb::arg("advice") = "random",
             nb::arg("drop") = false, nb::arg("trace") = false, nb::arg("bounce") = 4 << 20,
             nb::arg("bounce_below") = 1024, nb::arg("fault") = nb::none())
        .def("submit", &submit, nb::arg("index"), nb::arg("after"), nb::arg("reads"), nb::arg("pieces"), nb::arg("copies"),
             nb::arg("steps"), nb::arg("timeout") = nb::none(), "Queue a span; False if there was no room in time.")
        .def("finish", &Engine::finish, "Say that no span follows.")
        .def("next", &next, nb::arg("timeout") = nb::none(), "The next step in order, or None after the last.")
        .def("waiting", &Engine::waiting, "What the next step waits for.")
        .def_prop_ro("ready", &Engine::ready, "Steps that next() would give at once.")
        .def("cancel", &Engine::cancel, "End every wait; submit() and next() raise EngineClosed.")
        .def("close", &close_engine, nb::arg("timeout") = 5.0,
             "Cancel and join the threads; False if one is stuck in the kernel and was left behind.")
        .def("counters", &counters, "What was done so far.")
        .def("trace", &make_trace, "Each operation issued, in order: (file, offset, nbytes); empty without trace=True.")
        .def("release", &Engine::release, "Let reads go on that an injected fault holds.")
        .def_prop_ro("io", [](const Engine& e) { return e.core().io; }, "What reads: 'uring' or 'threads', with the reason "
                                                                         "where it is not what was asked for.");
}
