// The maps of permutation.hpp and orders.hpp as Python classes of one shape: `range`, `forward`, `inverse`.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "bind/gil.hpp"
#include "kernels/orders.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Values = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// 16 bytes, little-endian, so that a key means the same permutation on every machine.
headrace::Key key_of(const nb::bytes& bytes) {
    if (bytes.size() != 16) throw nb::value_error("a key has 16 bytes");
    const auto* data = reinterpret_cast<const unsigned char*>(bytes.c_str());
    headrace::Key key;
    for (int i = 7; i >= 0; --i) {
        key.lo = key.lo << 8 | data[i];
        key.hi = key.hi << 8 | data[i + 8];
    }
    return key;
}

// No conversions: a converted `out` would be a copy, and the caller's array would stay as it was.
template <class Map>
void bind_evaluation(nb::class_<Map>& cls) {
    cls.def_ro("n", &Map::n);
    cls.def(
        "range",
        [](const Map& map, std::uint64_t start, Out out) {
            if (start > map.n || out.size() > map.n - start) throw nb::value_error("the range leaves 0..n");
            const headrace::GilReleased released;
            headrace::forward_range(map, start, out.size(), out.data());
        },
        "start"_a, "out"_a.noconvert(), "Fill `out` with the values at positions start, start + 1, …");
    cls.def(
        "forward",
        [](const Map& map, Values positions, Out out) {
            if (out.size() != positions.size()) throw nb::value_error("`out` and `positions` differ in length");
            const headrace::GilReleased released;
            return headrace::forward_at(map, positions.data(), positions.size(), out.data());
        },
        "positions"_a.noconvert(), "out"_a.noconvert(),
        "Fill `out`; return the index of the first position outside 0..n-1, or -1.");
    cls.def(
        "inverse",
        [](const Map& map, Values ids, Out out) {
            if (out.size() != ids.size()) throw nb::value_error("`out` and `ids` differ in length");
            const headrace::GilReleased released;
            return headrace::inverse_at(map, ids.data(), ids.size(), out.data());
        },
        "ids"_a.noconvert(), "out"_a.noconvert(),
        "Fill `out` with the positions; return the index of the first id outside 0..n-1, or -1.");
}

}  // namespace

void register_permutation(nb::module_& m) {
    using namespace headrace;
    m.attr("MAX_PERMUTATION") = kMaxN;  // also the largest n of the other maps

    nb::class_<Permutation> permutation(m, "Permutation", "A keyed permutation of 0..n-1.");
    permutation.def("__init__", [](Permutation* self, std::uint64_t n, const nb::bytes& key) {
        new (self) Permutation(n, key_of(key));
    }, "n"_a, "key"_a);
    permutation.def_ro("rounds", &Permutation::rounds);
    bind_evaluation(permutation);

    nb::class_<Groups> groups(m, "Groups", "Contiguous groups in shuffled order, shuffled or not inside.");
    groups.def("__init__", [](Groups* self, std::uint64_t n, std::uint64_t size, const nb::bytes& outer,
                              const nb::bytes& inner, bool within) {
        new (self) Groups(n, size, key_of(outer), key_of(inner), within);
    }, "n"_a, "size"_a, "outer"_a, "inner"_a, "within"_a);
    bind_evaluation(groups);

    nb::class_<Windows> windows(m, "Windows", "Consecutive windows, shuffled inside, from a rotation on.");
    windows.def("__init__", [](Windows* self, std::uint64_t n, std::uint64_t size, const nb::bytes& key,
                               std::uint64_t rotation) { new (self) Windows(n, size, key_of(key), rotation); },
                "n"_a, "size"_a, "key"_a, "rotation"_a);
    bind_evaluation(windows);

    nb::class_<Echo> echo(m, "Echo", "One link of the echo chain: positions to positions of the epoch before.");
    echo.def("__init__", [](Echo* self, std::uint64_t n, std::uint64_t carry, const nb::bytes& head,
                            const nb::bytes& rest) { new (self) Echo(n, carry, key_of(head), key_of(rest)); },
             "n"_a, "carry"_a, "head"_a, "rest"_a);
    bind_evaluation(echo);
}
