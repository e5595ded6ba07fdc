// The records of a span, byte for byte those of headrace/values/span.py.
#pragma once
#include <cstdint>

namespace headrace {

struct Read {
    int32_t file, pieces;
    int64_t first, offset, nbytes;
};

struct Piece {
    int64_t offset, nbytes, dest, id;
    int32_t step, part;
};

struct Copy {
    int64_t arena, batch, nbytes;
    int32_t kind, box;
};

struct StepRow {
    int64_t step, position, rows, nbytes, first, copies;
};

enum CopyKind : int32_t { GATHER = 0, KEEP = 1, REPEAT = 2, BOX = 3 };

static_assert(sizeof(Read) == 32 && sizeof(Piece) == 40 && sizeof(Copy) == 32 && sizeof(StepRow) == 48);

}  // namespace headrace
