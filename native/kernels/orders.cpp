#include "kernels/orders.hpp"

#include <stdexcept>

namespace headrace {
namespace {

using u32 = std::uint32_t;

// Those of a block's values that one permutation is for, with where they came from.
struct Picked {
    u32 value[kBlock], from[kBlock];
    std::size_t m = 0;

    // Without a branch, which would often be predicted wrongly: what is not `wanted` is overwritten by the next.
    void add(u32 v, std::size_t i, bool wanted) {
        value[m] = v;
        from[m] = static_cast<u32>(i);
        m += wanted;
    }
    void put_back(u32* x, u32 offset = 0) const {
        for (std::size_t k = 0; k < m; ++k) x[from[k]] = value[k] + offset;
    }
};

// A cell's tweak. Runs of one cell are usual, so it is computed once for each.
void tweaks_of(Key key, const u32* cell, u32* t1, u32* t2, std::size_t m) {
    for (std::size_t i = 0; i < m; ++i) {
        if (i > 0 && cell[i] == cell[i - 1]) {
            t1[i] = t1[i - 1];
            t2[i] = t2[i - 1];
            continue;
        }
        const std::uint64_t word = mix64(key.lo ^ mix64(key.hi + 0x9E3779B97F4A7C15ull * (cell[i] + 1ull)));
        t1[i] = static_cast<u32>(word);
        t2[i] = static_cast<u32>(word >> 32);
    }
}

// A family member for every value of the block; the last cell's values are of another size and go by themselves.
template <class Full, class Last>
void within(const Cells& c, const u32* cell, u32* j, std::size_t m, Full full, Last last) {
    if (!c.shuffled) return;
    Picked common, tail;
    u32 cells[kBlock] = {}, t1[kBlock], t2[kBlock];
    for (std::size_t i = 0; i < m; ++i) {
        const bool is_last = cell[i] + 1 == c.count;
        cells[common.m] = cell[i];
        common.add(j[i], i, !is_last);
        tail.add(j[i], i, is_last);
    }
    if (common.m > 0) {
        tweaks_of(c.key, cells, t1, t2, common.m);
        full(common.value, common.m, t1, t2);
        common.put_back(j);
    }
    if (tail.m > 0) {
        last(tail.value, tail.m);
        tail.put_back(j);
    }
}

// A block's slots through the outer permutation, once for each run of equal slots.
void outer_forward(const Permutation& outer, const u32* slot, u32* cell, std::size_t m) {
    u32 runs[kBlock], run_of[kBlock];
    std::size_t count = 0;
    for (std::size_t i = 0; i < m; ++i) {
        if (i == 0 || slot[i] != slot[i - 1]) runs[count++] = slot[i];
        run_of[i] = static_cast<u32>(count - 1);
    }
    outer.forward_block(runs, count);
    for (std::size_t i = 0; i < m; ++i) cell[i] = runs[run_of[i]];
}

}  // namespace

Cells::Cells(std::uint64_t total, std::uint64_t cell_size, Key cell_key, bool shuffle)
    : n(total), shuffled(shuffle), key(cell_key) {
    if (n < 1 || n > kMaxN || cell_size < 1) throw std::invalid_argument("cells need 1 to 4,294,967,295 values");
    size = static_cast<u32>(std::min(cell_size, n));
    by_size = Divider32(size);
    count = static_cast<u32>((n + size - 1) / size);
    last_size = static_cast<u32>(n - static_cast<std::uint64_t>(count - 1) * size);
    full = Permutation(size, key);
    // A key of its own: the last cell's size differs, so its tweak could not be one of the family's.
    last = Permutation(last_size, Key{mix64(key.lo), ~key.hi});
}

void Cells::within_forward(const u32* cell, u32* j, std::size_t m) const {
    within(
        *this, cell, j, m,
        [&](u32* x, std::size_t k, const u32* t1, const u32* t2) { full.forward_block(x, k, t1, t2); },
        [&](u32* x, std::size_t k) { last.forward_block(x, k); });
}

void Cells::within_inverse(const u32* cell, u32* j, std::size_t m) const {
    within(
        *this, cell, j, m,
        [&](u32* x, std::size_t k, const u32* t1, const u32* t2) { full.inverse_block(x, k, t1, t2); },
        [&](u32* x, std::size_t k) { last.inverse_block(x, k); });
}

Groups::Groups(std::uint64_t total, std::uint64_t size, Key outer_key, Key inner_key, bool shuffled)
    : n(total), cells(total, size, inner_key, shuffled), outer(cells.count, outer_key) {
    short_slot = static_cast<u32>(outer.inverse(cells.count - 1));
    missing = cells.size - cells.last_size;
}

void Groups::forward_block(u32* x, std::size_t m) const {
    // With the short cell filled up in thought, slots are found by one division.
    const u32 after = static_cast<u32>(static_cast<std::uint64_t>(short_slot) * cells.size) + cells.last_size;
    u32 slot[kBlock] = {}, cell[kBlock] = {}, j[kBlock] = {};
    for (std::size_t i = 0; i < m; ++i) {
        if (x[i] < after) {
            slot[i] = cells.by_size(x[i]);
            j[i] = x[i] - slot[i] * cells.size;
        } else {
            const u32 beyond = cells.by_size(x[i] - after);
            slot[i] = short_slot + 1 + beyond;
            j[i] = x[i] - after - beyond * cells.size;
        }
    }
    outer_forward(outer, slot, cell, m);
    cells.within_forward(cell, j, m);
    for (std::size_t i = 0; i < m; ++i) x[i] = cell[i] * cells.size + j[i];
}

void Groups::inverse_block(u32* x, std::size_t m) const {
    u32 cell[kBlock] = {}, slot[kBlock] = {}, j[kBlock] = {};
    for (std::size_t i = 0; i < m; ++i) {
        slot[i] = cell[i] = cells.by_size(x[i]);
        j[i] = x[i] - cell[i] * cells.size;
    }
    cells.within_inverse(cell, j, m);
    outer.inverse_block(slot, m);
    // Unsigned arithmetic: slot * size may pass 2^32 before `missing` brings it back below n.
    for (std::size_t i = 0; i < m; ++i) x[i] = slot[i] * cells.size + j[i] - (slot[i] > short_slot ? missing : 0);
}

Windows::Windows(std::uint64_t total, std::uint64_t size, Key key, std::uint64_t turn)
    : n(total), cells(total, size, key, true), rotation(static_cast<u32>(turn % total)) {}

void Windows::forward_block(u32* x, std::size_t m) const {
    const u32 modulus = static_cast<u32>(n), wraps_at = modulus - rotation;
    u32 cell[kBlock] = {}, j[kBlock] = {};
    for (std::size_t i = 0; i < m; ++i) {
        cell[i] = cells.by_size(x[i]);
        j[i] = x[i] - cell[i] * cells.size;
    }
    cells.within_forward(cell, j, m);
    for (std::size_t i = 0; i < m; ++i) {
        const u32 p = cell[i] * cells.size + j[i];
        x[i] = p >= wraps_at ? p - wraps_at : p + rotation;
    }
}

void Windows::inverse_block(u32* x, std::size_t m) const {
    const u32 modulus = static_cast<u32>(n);
    u32 cell[kBlock] = {}, j[kBlock] = {};
    for (std::size_t i = 0; i < m; ++i) {
        const u32 p = x[i] >= rotation ? x[i] - rotation : x[i] + (modulus - rotation);
        cell[i] = cells.by_size(p);
        j[i] = p - cell[i] * cells.size;
    }
    cells.within_inverse(cell, j, m);
    for (std::size_t i = 0; i < m; ++i) x[i] = cell[i] * cells.size + j[i];
}

Echo::Echo(std::uint64_t total, std::uint64_t carried, Key head_key, Key rest_key)
    : n(total), carry(static_cast<u32>(carried)) {
    if (n < 1 || n > kMaxN || carried > n) throw std::invalid_argument("echo carries at most all of its values");
    if (carry > 0) head = Permutation(carry, head_key);
    if (carry < n) rest = Permutation(n - carry, rest_key);
}

void Echo::forward_block(u32* x, std::size_t m) const {
    Picked carried, others;
    for (std::size_t i = 0; i < m; ++i) {
        carried.add(x[i], i, x[i] < carry);
        others.add(x[i] - carry, i, x[i] >= carry);
    }
    head.forward_block(carried.value, carried.m);
    rest.forward_block(others.value, others.m);
    carried.put_back(x, static_cast<u32>(n - carry));
    others.put_back(x);
}

void Echo::inverse_block(u32* x, std::size_t m) const {
    const u32 boundary = static_cast<u32>(n - carry);
    Picked carried, others;
    for (std::size_t i = 0; i < m; ++i) {
        carried.add(x[i] - boundary, i, x[i] >= boundary);
        others.add(x[i], i, x[i] < boundary);
    }
    head.inverse_block(carried.value, carried.m);
    rest.inverse_block(others.value, others.m);
    carried.put_back(x);
    others.put_back(x, carry);
}

}  // namespace headrace
