// Entries of a slice in storage order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace headrace {

// A sample that has to be read: its rank in storage order and the position that needs it.
struct Entry {
    uint32_t rank;
    uint32_t low;  // the position's low 32 bits; see Expander::position_of
};

// Stable by rank, so entries of one sample stay in the order of their positions. A slice covers a narrow range of
// ranks, so counting digits of (rank - least) takes one to three passes.
inline void sort_by_rank(std::vector<Entry>& entries, std::vector<Entry>& scratch) {
    if (entries.size() < 256) {
        std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.rank < b.rank; });
        return;
    }
    constexpr int BITS = 11;
    uint32_t least = UINT32_MAX, most = 0;
    for (const Entry& e : entries) {
        least = std::min(least, e.rank);
        most = std::max(most, e.rank);
    }
    scratch.resize(entries.size());
    for (int shift = 0; shift < 32 && ((most - least) >> shift) > 0; shift += BITS) {
        uint32_t starts[(1 << BITS) + 1] = {};
        for (const Entry& e : entries) ++starts[(((e.rank - least) >> shift) & ((1 << BITS) - 1)) + 1];
        for (int k = 0; k < (1 << BITS); ++k) starts[k + 1] += starts[k];
        for (const Entry& e : entries) scratch[starts[((e.rank - least) >> shift) & ((1 << BITS) - 1)]++] = e;
        entries.swap(scratch);
    }
}

}  // namespace headrace
