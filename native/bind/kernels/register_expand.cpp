// headrace.native.kernels.Expander: see kernels/expand.hpp.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "bind/gil.hpp"
#include "kernels/expand.hpp"

namespace nb = nanobind;
using namespace headrace;

namespace {

using I64 = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using I32 = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Bytes of a vector as a NumPy array that owns them.
template <class T>
nb::object array(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    size_t nbytes = kept->size() * sizeof(T);
    return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(reinterpret_cast<uint8_t*>(kept->data()), {nbytes}, owner));
}

// The expander and the arrays that it looks into.
class Bound {
  public:
    Bound(nb::list parts, std::vector<int64_t> fields, I64 file_sizes, nb::object location, int64_t n, nb::dict steps,
          nb::dict switches, int64_t start_step) {
        Layout layout;
        layout.n = n;
        layout.fixed = true;
        layout.sample_nbytes = 0;
        for (nb::handle h : parts) layout.parts.push_back(part(nb::cast<nb::tuple>(h), n, layout));
        for (int64_t nbytes : fields) layout.fields.push_back({nbytes});
        files_ = file_sizes;
        layout.file_sizes = files_.data();
        layout.location = nullptr;
        if (!location.is_none()) {
            location_ = nb::cast<I64>(location);
            layout.location = location_.data();
        }
        auto step = [&](const char* key) { return nb::cast<int64_t>(steps[key]); };
        auto value = [&](const char* key) { return nb::cast<int64_t>(switches[key]); };
        Switches s{static_cast<Mode>(value("mode")), static_cast<Policy>(value("policy")),
                   value("resident"), value("resident_units"), value("round"), value("lead"), value("span"),
                   value("widest"), value("units"), value("unit_nbytes"), value("ramp") != 0, value("by_group") != 0,
                   {value("gap"), value("max_read"), value("align"), layout.file_sizes},
                   nb::cast<std::vector<int64_t>>(switches["ramp_gaps"])};
        Steps st{step("batch"), step("used"), step("per_epoch"), step("total") < 0 ? NEVER : step("total")};
        core_ = std::make_unique<Expander>(std::move(layout), st, s, start_step);
    }

    bool looks_ahead() const { return core_->looks_ahead(); }
    int64_t fed() const { return core_->fed(); }
    int64_t needs() const { return core_->needs(); }

    void feed(I64 ids, nb::object next) {
        const int64_t* ahead = nullptr;
        I64 kept;
        if (!next.is_none()) {
            kept = nb::cast<I64>(next);
            if (kept.shape(0) != ids.shape(0)) throw std::invalid_argument("next: one entry per id");
            ahead = kept.data();
        }
        if (core_->looks_ahead() && !ahead) throw std::invalid_argument("next: this residency looks ahead");
        const headrace::GilReleased released;
        core_->feed(ids.data(), ahead, static_cast<int64_t>(ids.shape(0)));
    }

    // A span as a tuple of byte arrays, None at the end, False where more positions must be fed first.
    nb::object next() {
        Span span;
        Progress progress;
        {
            const headrace::GilReleased released;
            progress = core_->next(span);
        }
        if (progress == Progress::need_more) return nb::bool_(false);
        if (progress == Progress::end) return nb::none();
        if (progress == Progress::too_small) throw std::length_error("one step does not fit into the arena");
        return nb::make_tuple(span.after, span.hits, span.held, span.late, array(std::move(span.reads)),
                              array(std::move(span.pieces)), array(std::move(span.copies)), array(std::move(span.steps)),
                              array(std::move(span.ids)), array(std::move(span.offsets)));
    }

  private:
    Part part(nb::tuple t, int64_t n, Layout& layout) {
        I64 first = nb::cast<I64>(t[0]), offset = nb::cast<I64>(t[2]), stride = nb::cast<I64>(t[3]), nbytes = nb::cast<I64>(t[4]);
        I32 file = nb::cast<I32>(t[1]);
        Part p{first.data(), file.data(), offset.data(), stride.data(), nbytes.data(),
               static_cast<int64_t>(first.shape(0)), n, nb::cast<int64_t>(t[5]), nb::cast<int32_t>(t[6]), nb::cast<int32_t>(t[7])};
        for (const I64& a : {first, offset, stride, nbytes}) longs_.push_back(a);
        ints_.push_back(file);
        if (p.fixed < 0) layout.fixed = false;
        else layout.sample_nbytes += p.fixed;
        return p;
    }

    std::vector<I64> longs_;
    std::vector<I32> ints_;
    I64 files_, location_;
    std::unique_ptr<Expander> core_;
};

}  // namespace

void register_expand(nb::module_& m) {
    nb::class_<Bound>(m, "Expander", "The mechanical half of the planner, as a fold over positions.")
        .def(nb::init<nb::list, std::vector<int64_t>, I64, nb::object, int64_t, nb::dict, nb::dict, int64_t>(),
             nb::arg("parts"), nb::arg("fields"), nb::arg("file_sizes"), nb::arg("location").none(), nb::arg("n"),
             nb::arg("steps"), nb::arg("switches"), nb::arg("start_step"),
             nb::sig("def __init__(self, parts: collections.abc.Sequence[tuple[typing.Any, ...]], "
                     "fields: collections.abc.Sequence[int], file_sizes: numpy.typing.NDArray[numpy.int64], "
                     "location: numpy.typing.NDArray[numpy.int64] | None, n: int, steps: dict[str, int], "
                     "switches: dict[str, typing.Any], start_step: int) -> None"))
        .def_prop_ro("looks_ahead", &Bound::looks_ahead)
        .def_prop_ro("fed", &Bound::fed)
        .def_prop_ro("needs", &Bound::needs)
        .def("feed", &Bound::feed, nb::arg("ids"), nb::arg("next").none(),
             nb::sig("def feed(self, ids: numpy.typing.NDArray[numpy.int64], "
                     "next: numpy.typing.NDArray[numpy.int64] | None) -> None"))
        .def("next", &Bound::next, nb::sig("def next(self) -> tuple[typing.Any, ...] | bool | None"));
}
