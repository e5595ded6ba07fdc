#include "kernels/permutation.hpp"

#include <cmath>
#include <stdexcept>

// One build serves every x86-64: the loops exist twice and the loader picks the wider ones where the processor has them.
// Needs ifunc (glibc), and sanitizers do not survive it.
#if defined(__x86_64__) && defined(__GNUC__) && defined(__GLIBC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HEADRACE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define HEADRACE_CLONES
#endif

namespace headrace {
namespace {

using u32 = std::uint32_t;

// The tweaked and the plain loops differ only in where their keys come from.
struct Tweaks {
    const u32 *first, *second;
    u32 one(std::size_t i) const { return first[i]; }
    u32 two(std::size_t i) const { return second[i]; }
};
struct NoTweaks {
    u32 one(std::size_t) const { return 0; }
    u32 two(std::size_t) const { return 0; }
};

template <class T>
[[gnu::always_inline]] inline void rounds_forward(const Permutation& p, u32* __restrict left, u32* __restrict right,
                                                  std::size_t m, T t) {
    const u32 a = p.a, b = p.b;
    for (int r = 0; r < p.rounds; r += 2) {
        const u32 k1 = p.first[r], k2 = p.second[r], k3 = p.first[r + 1], k4 = p.second[r + 1];
        for (std::size_t i = 0; i < m; ++i) {
            const u32 l = Permutation::add(left[i], Permutation::addend(right[i], k1 ^ t.one(i), k2 ^ t.two(i), a), a);
            right[i] = Permutation::add(right[i], Permutation::addend(l, k3 ^ t.one(i), k4 ^ t.two(i), b), b);
            left[i] = l;
        }
    }
}

template <class T>
[[gnu::always_inline]] inline void rounds_inverse(const Permutation& p, u32* __restrict left, u32* __restrict right,
                                                  std::size_t m, T t) {
    const u32 a = p.a, b = p.b;
    for (int r = p.rounds - 2; r >= 0; r -= 2) {
        const u32 k1 = p.first[r], k2 = p.second[r], k3 = p.first[r + 1], k4 = p.second[r + 1];
        for (std::size_t i = 0; i < m; ++i) {
            const u32 x =
                Permutation::subtract(right[i], Permutation::addend(left[i], k3 ^ t.one(i), k4 ^ t.two(i), b), b);
            left[i] = Permutation::subtract(left[i], Permutation::addend(x, k1 ^ t.one(i), k2 ^ t.two(i), a), a);
            right[i] = x;
        }
    }
}

HEADRACE_CLONES void plain_forward(const Permutation& p, u32* left, u32* right, std::size_t m) {
    rounds_forward(p, left, right, m, NoTweaks{});
}
HEADRACE_CLONES void plain_inverse(const Permutation& p, u32* left, u32* right, std::size_t m) {
    rounds_inverse(p, left, right, m, NoTweaks{});
}
HEADRACE_CLONES void tweaked_forward(const Permutation& p, u32* left, u32* right, std::size_t m, const u32* t1,
                                     const u32* t2) {
    rounds_forward(p, left, right, m, Tweaks{t1, t2});
}
HEADRACE_CLONES void tweaked_inverse(const Permutation& p, u32* left, u32* right, std::size_t m, const u32* t1,
                                     const u32* t2) {
    rounds_inverse(p, left, right, m, Tweaks{t1, t2});
}

void split(const Permutation& p, const u32* x, u32* left, u32* right, std::size_t m) {
    for (std::size_t i = 0; i < m; ++i) {
        left[i] = p.by_b(x[i]);
        right[i] = x[i] - left[i] * p.b;
    }
}

// Joins the halves; true if every value fell below n (about one in sqrt(n) does not).
bool join(const Permutation& p, const u32* left, const u32* right, u32* x, std::size_t m) {
    const u32 last = static_cast<u32>(p.n - 1);
    u32 highest = 0;
    for (std::size_t i = 0; i < m; ++i) {
        x[i] = left[i] * p.b + right[i];
        highest = std::max(highest, x[i]);
    }
    return highest <= last;
}

Tweak tweak_of(const u32* t1, const u32* t2, std::size_t i) { return t1 ? Tweak{t1[i], t2[i]} : Tweak{}; }

u32 ceil_sqrt(std::uint64_t n) {
    auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
    while (root * root >= n && root > 0) --root;
    while (root * root < n) ++root;
    return static_cast<u32>(root);
}

// How many half rounds? A neighbouring pair keeps its distance through a double round with probability 1/b; it is let
// do so, over all rounds, with probability 2^-36 at most, and four double rounds are the least.
int rounds_for(u32 b) {
    int doubles = 0;
    for (std::uint64_t kept = 1; kept < (1ull << 36); kept *= b) ++doubles;
    return 2 * std::max(doubles, 4);
}

}  // namespace

Permutation::Permutation(std::uint64_t size, Key key) : n(size) {
    if (n < 1 || n > kMaxN) throw std::invalid_argument("a permutation has 1 to 4,294,967,295 values");
    a = std::max<u32>(2, ceil_sqrt(n));
    a += a % 2;
    b = std::max<u32>(2, static_cast<u32>((n + a - 1) / a));
    by_b = Divider32(b);
    rounds = rounds_for(b);
    for (int r = 0; r < rounds; ++r) {
        const std::uint64_t word = mix64(key.lo + mix64(key.hi + 0x9E3779B97F4A7C15ull * static_cast<unsigned>(r + 1)));
        first[r] = static_cast<u32>(word);
        second[r] = static_cast<u32>(word >> 32);
    }
}

void Permutation::forward_block(u32* x, std::size_t m, const u32* t1, const u32* t2) const {
    u32 left[kBlock], right[kBlock];
    split(*this, x, left, right, m);
    if (t1) tweaked_forward(*this, left, right, m, t1, t2);
    else plain_forward(*this, left, right, m);
    if (join(*this, left, right, x, m)) return;
    for (std::size_t i = 0; i < m; ++i)
        if (x[i] >= n) x[i] = static_cast<u32>(forward(x[i], tweak_of(t1, t2, i)));
}

void Permutation::inverse_block(u32* x, std::size_t m, const u32* t1, const u32* t2) const {
    u32 left[kBlock], right[kBlock];
    split(*this, x, left, right, m);
    if (t1) tweaked_inverse(*this, left, right, m, t1, t2);
    else plain_inverse(*this, left, right, m);
    if (join(*this, left, right, x, m)) return;
    for (std::size_t i = 0; i < m; ++i)
        if (x[i] >= n) x[i] = static_cast<u32>(inverse(x[i], tweak_of(t1, t2, i)));
}

void Permutation::forward_range(std::uint64_t start, std::uint64_t count, std::int64_t* out) const {
    headrace::forward_range(*this, start, count, out);
}

}  // namespace headrace
