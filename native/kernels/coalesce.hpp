// Which bytes are read together?
//
// 1. merge neighbours whose gap is cheaper to read through than to skip;
// 2. widen to `align` where reads go around the page cache;
// 3. cut at `max_read`, inside a sample if need be: no read is longer.
#pragma once
#include <cstdint>
#include <vector>

#include "records.hpp"

namespace headrace {

struct Wanted {
    int32_t file;
    Piece piece;
};

struct Merging {
    int64_t gap, max_read, align;
    const int64_t* file_sizes;
};

// Appends to `reads` and `pieces`. `wanted` is sorted by (file, offset) first, if it is not already.
void coalesce(std::vector<Wanted>& wanted, const Merging& rule, std::vector<Read>& reads, std::vector<Piece>& pieces);

}  // namespace headrace
