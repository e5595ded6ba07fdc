// Which id stands at position p of a shuffle of 0..n-1, and where does id x stand? Without a table.
//
// A keyed permutation: a generalised Feistel network on Z_a x Z_b with a*b a little above n. A value is (left, right);
// every half round adds to one half a keyed hash of the other, modulo its size. Results at or above n walk on until
// they fall below it, which is again a permutation. All maps here are immutable and share one interface:
//
//   uint64_t n;  forward_block(x, m), inverse_block(x, m): map m <= kBlock values, all below n, in place
//
// from which `forward_range`, `forward_at` and `inverse_at` below are made for arrays.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "kernels/divide.hpp"

namespace headrace {

inline constexpr std::size_t kBlock = 512;
inline constexpr std::uint64_t kMaxN = 0xFFFFFFFFull;

struct Key {
    std::uint64_t lo = 0, hi = 0;
};

// Finaliser of splitmix64: a bijection whose output bits each depend on all input bits.
constexpr std::uint64_t mix64(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Turns one permutation into a family: the same round keys, changed by 64 bits that stand for a cell's number.
struct Tweak {
    std::uint32_t first = 0, second = 0;
};

struct Permutation {
    static constexpr int kMaxRounds = 72;

    std::uint64_t n = 1;
    std::uint32_t a = 2, b = 2;  // sizes of the halves; a is even, so that odd permutations can be reached as well
    int rounds = kMaxRounds;     // half rounds: an even number
    Divider32 by_b{2};
    std::array<std::uint32_t, kMaxRounds> first{}, second{};  // two key words per half round

    Permutation() = default;
    Permutation(std::uint64_t n, Key key);

    std::uint64_t forward(std::uint64_t position, Tweak tweak = {}) const {
        auto x = static_cast<std::uint32_t>(position);
        do x = step(x, tweak);
        while (x >= n);
        return x;
    }
    std::uint64_t inverse(std::uint64_t id, Tweak tweak = {}) const {
        auto x = static_cast<std::uint32_t>(id);
        do x = step_back(x, tweak);
        while (x >= n);
        return x;
    }

    // Values `x[0..m)` in place, each under its own tweak where `tweaks` (first words, then second words) are given.
    void forward_block(std::uint32_t* x, std::size_t m, const std::uint32_t* t1 = nullptr,
                       const std::uint32_t* t2 = nullptr) const;
    void inverse_block(std::uint32_t* x, std::size_t m, const std::uint32_t* t1 = nullptr,
                       const std::uint32_t* t2 = nullptr) const;

    void forward_range(std::uint64_t start, std::uint64_t count, std::int64_t* out) const;

    // What one half round adds: a keyed hash of the other half, reduced to 0..size-1 by its high bits.
    static std::uint32_t addend(std::uint32_t x, std::uint32_t k1, std::uint32_t k2, std::uint32_t size) {
        std::uint32_t h = x + k1;
        h = (h ^ (h >> 16)) * 0x21F0AAADu;
        h = (h ^ (h >> 15) ^ k2) * 0xD35A2D97u;
        return static_cast<std::uint32_t>((static_cast<std::uint64_t>(h) * size) >> 32);
    }
    // Sum and difference modulo `size`, free of branches: of the two candidates the wrong one is the larger.
    static std::uint32_t add(std::uint32_t x, std::uint32_t y, std::uint32_t size) {
        return std::min(x + y, x + y - size);
    }
    static std::uint32_t subtract(std::uint32_t x, std::uint32_t y, std::uint32_t size) {
        return std::min(x - y, x - y + size);
    }

    std::uint32_t step(std::uint32_t x, Tweak t) const {
        std::uint32_t left = by_b(x), right = x - left * b;
        for (int r = 0; r < rounds; r += 2) {
            left = add(left, addend(right, first[r] ^ t.first, second[r] ^ t.second, a), a);
            right = add(right, addend(left, first[r + 1] ^ t.first, second[r + 1] ^ t.second, b), b);
        }
        return left * b + right;
    }
    std::uint32_t step_back(std::uint32_t x, Tweak t) const {
        std::uint32_t left = by_b(x), right = x - left * b;
        for (int r = rounds - 2; r >= 0; r -= 2) {
            right = subtract(right, addend(left, first[r + 1] ^ t.first, second[r + 1] ^ t.second, b), b);
            left = subtract(left, addend(right, first[r] ^ t.first, second[r] ^ t.second, a), a);
        }
        return left * b + right;
    }
};

// The three ways to evaluate a map on arrays. `forward_at` and `inverse_at` return the index of the first value that
// lies outside 0..n-1, or -1; they stop there.
template <class Map>
void forward_range(const Map& map, std::uint64_t start, std::uint64_t count, std::int64_t* out) {
    std::uint32_t x[kBlock];
    for (std::uint64_t done = 0; done < count; done += kBlock) {
        const auto m = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, count - done));
        std::iota(x, x + m, static_cast<std::uint32_t>(start + done));
        map.forward_block(x, m);
        std::copy(x, x + m, out + done);
    }
}

namespace detail {
template <class Evaluate>
std::int64_t over_blocks(std::uint64_t n, const std::int64_t* in, std::size_t count, std::int64_t* out,
                         Evaluate evaluate) {
    std::uint32_t x[kBlock];
    for (std::size_t done = 0; done < count; done += kBlock) {
        const std::size_t m = std::min(kBlock, count - done);
        bool fits = true;
        for (std::size_t i = 0; i < m; ++i) {
            fits &= static_cast<std::uint64_t>(in[done + i]) < n;
            x[i] = static_cast<std::uint32_t>(in[done + i]);
        }
        if (!fits) {
            const auto* bad = std::find_if(in + done, in + done + m,
                                           [n](std::int64_t v) { return static_cast<std::uint64_t>(v) >= n; });
            return bad - in;
        }
        evaluate(x, m);
        std::copy(x, x + m, out + done);
    }
    return -1;
}
}  // namespace detail

template <class Map>
std::int64_t forward_at(const Map& map, const std::int64_t* positions, std::size_t count, std::int64_t* out) {
    return detail::over_blocks(map.n, positions, count, out,
                               [&](std::uint32_t* x, std::size_t m) { map.forward_block(x, m); });
}

template <class Map>
std::int64_t inverse_at(const Map& map, const std::int64_t* ids, std::size_t count, std::int64_t* out) {
    return detail::over_blocks(map.n, ids, count, out,
                               [&](std::uint32_t* x, std::size_t m) { map.inverse_block(x, m); });
}

}  // namespace headrace
