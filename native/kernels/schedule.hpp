// When is a sample read? Time is counted in positions of the order, over the whole run.
//
// A *pass* goes over its entries once, in storage order, while training uses the positions [begin, end). It is cut into
// slices; a slice [a, b) may be issued when the positions below `a` are gathered, and lets those below `ready` follow.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/divide.hpp"
#include "kernels/residency.hpp"

namespace headrace {

// Steps of a run: `batch` positions each, the last of an epoch may be short.
struct Steps {
    int64_t batch, used, per_epoch, total;  // `total`: positions of the run, or NEVER

    int64_t step_of(int64_t t) const { return t / used * per_epoch + t % used / batch; }
    int64_t start(int64_t step) const { return step / per_epoch * used + step % per_epoch * batch; }
    int64_t end_from(int64_t t) const {  // end of the step that starts at t
        int64_t within = t % used;
        return t - within + std::min(within + batch, used);
    }
};

enum class Mode { direct = 0, window = 1, sweep = 2, group = 3 };

inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The sweep: the sample of rank x that is needed at t is read on the last round before t - lead.
struct Sweep {
    int64_t round, lead, slices, resident, n;

    Sweep(int64_t round, int64_t lead, int64_t slices, int64_t resident, int64_t n)
        : round(round), lead(lead), slices(slices), resident(resident), n(n),
          narrow_(static_cast<__int128>(std::max(n, slices)) * round <= INT64_MAX), by_round_(round),
          by_resident_(std::max<int64_t>(resident, 1)), by_swept_(std::max<int64_t>(n - resident, 1)) {}

    // Where in a round the reader passes a rank. The resident region is passed beside the rest: it is read once only.
    int64_t phase(uint32_t rank) const {
        int64_t within = rank < resident ? rank : rank - resident;
        if (narrow_) return (rank < resident ? by_resident_ : by_swept_).of(within * round);
        int64_t width = rank < resident ? resident : n - resident;
        return static_cast<int64_t>(static_cast<__int128>(within) * round / width);
    }

    int64_t round_of(int64_t t, int64_t phase) const { return by_round_.floor_of(t - lead - phase); }
    int64_t slice_of(int64_t phase) const {
        if (narrow_) return by_round_.of(phase * slices);
        return static_cast<int64_t>(static_cast<__int128>(phase) * slices / round);
    }
    int64_t slice_begin(int64_t index) const {  // of slice `index`, counted over all rounds
        int64_t r = floor_div(index, slices), j = index - r * slices;
        return r * round + static_cast<int64_t>((static_cast<__int128>(j) * round + slices - 1) / slices);
    }

  private:
    bool narrow_;  // products of a rank or a slice and a round fit into 64 bits
    Divider64 by_round_, by_resident_, by_swept_;
};

}  // namespace headrace
