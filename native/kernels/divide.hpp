// How many times does d go into x? By a multiplication: a division of 64 bits takes as long as all the rest of a position.
#pragma once
#include <cstdint>

namespace headrace {

// Exact for values of 32 bits; one multiplication.
class Divider32 {
  public:
    Divider32() = default;
    explicit Divider32(std::uint32_t divisor) : magic_(~0ull / divisor) {}
    std::uint32_t operator()(std::uint32_t x) const {
        __extension__ using wide = unsigned __int128;
        return static_cast<std::uint32_t>((static_cast<wide>(magic_) * (static_cast<std::uint64_t>(x) + 1)) >> 64);
    }

  private:
    std::uint64_t magic_ = 0;
};

// Exact for every x >= 0 and d >= 1: the estimate by the reciprocal is the quotient or one less.
class Divider64 {
  public:
    explicit Divider64(int64_t d = 1)
        : d_(static_cast<uint64_t>(d)), reciprocal_(d == 1 ? UINT64_MAX : UINT64_MAX / static_cast<uint64_t>(d)) {}

    int64_t of(int64_t x) const {
        const uint64_t value = static_cast<uint64_t>(x);
        uint64_t q = static_cast<uint64_t>((static_cast<unsigned __int128>(value) * reciprocal_) >> 64);
        // UINT64_MAX / d may be one below 2^64 / d: the estimate is then up to two less for the largest x.
        while (value - q * d_ >= d_) ++q;
        return static_cast<int64_t>(q);
    }

    int64_t floor_of(int64_t x) const { return x >= 0 ? of(x) : -of(-(x + 1)) - 1; }

  private:
    uint64_t d_, reciprocal_;
};

}  // namespace headrace
