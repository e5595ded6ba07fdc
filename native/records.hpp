// What a span is made of: the same bytes as the NumPy dtypes of `headrace.values.span`, which says what they mean.
#pragma once

#include <cstdint>

namespace headrace {

struct Read {
    std::int32_t file;
    std::int32_t pieces;
    std::int64_t first;
    std::int64_t offset;
    std::int64_t nbytes;
    std::int64_t end() const { return offset + nbytes; }
};

struct Piece {
    std::int64_t offset;
    std::int64_t nbytes;
    std::int64_t dest;
    std::int64_t id;
    std::int32_t step;  // -1: the arena; else the batch of that step of the span
    std::int32_t part;
    std::int64_t end() const { return offset + nbytes; }
};

enum CopyKind : std::int32_t { gather = 0, keep = 1, repeat = 2, box = 3 };

struct Copy {
    std::int64_t arena;
    std::int64_t batch;
    std::int64_t nbytes;
    std::int32_t kind;
    std::int32_t box;
};

struct Step {
    std::int64_t step;
    std::int64_t position;
    std::int64_t rows;
    std::int64_t nbytes;
    std::int64_t first;
    std::int64_t copies;
};

static_assert(sizeof(Read) == 32 && sizeof(Piece) == 40 && sizeof(Copy) == 32 && sizeof(Step) == 48);

}  // namespace headrace
