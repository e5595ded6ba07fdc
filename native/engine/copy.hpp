// How do bytes get from the arena into the rows of a batch, and back?
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/counters.hpp"
#include "records.hpp"

namespace headrace {

// A box of a sample, made ready for copying: dimensions that are contiguous on both sides are merged, so that the inner
// loop copies the longest runs there are. Addresses are bytes from the stored chunk's start and from the row's start.
struct BoxShape {
    std::int64_t run = 0;           // bytes copied at once
    std::int64_t stored_bytes = 0;  // size of the stored chunk
    std::int64_t row_end = 0;       // first byte of the row beyond all it writes
    std::int64_t row_start = 0;
    std::vector<std::int64_t> count, stored_stride, row_stride;  // outermost first

    BoxShape(const std::vector<std::int64_t>& stored, const std::vector<std::int64_t>& valid,
             const std::vector<std::int64_t>& origin, std::int64_t itemsize, const std::vector<std::int64_t>& sample);
    std::int64_t copy(const std::byte* chunk, std::byte* row) const;  // bytes copied
};

// Carries out a step's copies in their order.
void copy_step(const Copy* copies, std::int64_t n, std::byte* arena, std::byte* batch,
               const std::vector<BoxShape>& boxes, Tally& tally);

}  // namespace headrace
