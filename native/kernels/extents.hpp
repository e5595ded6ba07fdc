// Where is sample i? The layout's segments, as the kernels see them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace headrace {

struct Extent {
    int32_t file;
    int64_t offset, nbytes;
};

// One part of one field: a piecewise-affine map from sample to extent. `fixed` is the size of every sample, or -1.
struct Part {
    const int64_t* first;
    const int32_t* file;
    const int64_t* offset;
    const int64_t* stride;
    const int64_t* nbytes;
    int64_t segments;
    int64_t n;
    int64_t fixed;
    int32_t field;
    int32_t box;  // -1: the stored bytes are the delivered ones

    // `hint` is the segment of the sample asked before: neighbours are mostly in the same one.
    Extent locate(int64_t id, int64_t& hint) const {
        if (id < first[hint] || (hint + 1 < segments && id >= first[hint + 1]))
            hint = segments == n ? id : std::upper_bound(first, first + segments, id) - first - 1;
        return {file[hint], offset[hint] + (id - first[hint]) * stride[hint], nbytes[hint]};
    }

    int64_t size(int64_t id, int64_t& hint) const { return fixed >= 0 ? fixed : locate(id, hint).nbytes; }
};

// A field as it is delivered: bytes per sample, or -1 where sizes differ.
struct Field {
    int64_t nbytes;
};

struct Layout {
    std::vector<Part> parts;
    std::vector<Field> fields;
    const int64_t* file_sizes;
    const int64_t* location;  // id -> rank in storage order; null: the same
    int64_t n;
    bool fixed;            // every part of every sample has the same stored size
    int64_t sample_nbytes; // stored bytes of a sample, where fixed

    uint32_t rank(uint32_t id) const { return location ? static_cast<uint32_t>(location[id]) : id; }
};

}  // namespace headrace
