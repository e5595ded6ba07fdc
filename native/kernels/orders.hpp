// The maps that orders are made of beyond one plain permutation. Each has the interface of permutation.hpp.
#pragma once

#include "kernels/permutation.hpp"

namespace headrace {

// 0..n-1 cut into consecutive cells of `size` values, the last one perhaps shorter, each with a permutation of its own.
struct Cells {
    std::uint64_t n = 1;
    std::uint32_t size = 1, count = 1, last_size = 1;
    Divider32 by_size{1};
    bool shuffled = true;  // false: every cell keeps its order
    Permutation full, last;
    Key key;

    Cells() = default;
    Cells(std::uint64_t n, std::uint64_t size, Key key, bool shuffled);

    // `j[i]` is a place inside cell `cell[i]`; m <= kBlock.
    void within_forward(const std::uint32_t* cell, std::uint32_t* j, std::size_t m) const;
    void within_inverse(const std::uint32_t* cell, std::uint32_t* j, std::size_t m) const;
};

// Cells in shuffled order (the shorter one at a random place among them): Async I/O's group shuffle.
struct Groups {
    std::uint64_t n = 1;
    Cells cells;
    Permutation outer;                 // slot -> cell
    std::uint32_t short_slot = 0;      // where the last cell stands
    std::uint32_t missing = 0;         // by how much it is shorter

    Groups(std::uint64_t n, std::uint64_t size, Key outer_key, Key inner_key, bool shuffled);
    void forward_block(std::uint32_t* x, std::size_t m) const;
    void inverse_block(std::uint32_t* x, std::size_t m) const;
};

// Positions are shuffled inside their cells; the result is turned by `rotation`: position p holds id (p' + rotation) mod n.
struct Windows {
    std::uint64_t n = 1;
    Cells cells;
    std::uint32_t rotation = 0;

    Windows(std::uint64_t n, std::uint64_t size, Key key, std::uint64_t rotation);
    void forward_block(std::uint32_t* x, std::size_t m) const;
    void inverse_block(std::uint32_t* x, std::size_t m) const;
};

// One link of the echo chain, a map of positions to positions of the epoch before: the first `carry` go to a shuffle
// of its last `carry`, the others to a shuffle of the rest.
struct Echo {
    std::uint64_t n = 1;
    std::uint32_t carry = 0;
    Permutation head, rest;

    Echo(std::uint64_t n, std::uint64_t carry, Key head_key, Key rest_key);
    void forward_block(std::uint32_t* x, std::size_t m) const;
    void inverse_block(std::uint32_t* x, std::size_t m) const;
};

}  // namespace headrace
