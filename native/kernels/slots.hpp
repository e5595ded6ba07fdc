// Which slots of the arena are free? A slot is one unit; a sample takes one (fixed sizes) or a chain of them (ragged).
#pragma once
#include <cstdint>

#include "kernels/tables.hpp"

namespace headrace {

class Slots {
  public:
    static constexpr uint32_t NONE = UINT32_MAX;

    Slots(int64_t count, bool chained) : count_(count), uses_(count, 0) {
        if (chained) next_.assign(count, NONE);
    }

    // A slot that is about to be released: counts of uses lie apart from each other.
    void prefetch(uint32_t head) const {
        if (head != NONE) __builtin_prefetch(&uses_[head], 1);
    }

    int64_t free() const { return count_ - used_; }

    // Takes `units` slots, holding them for one use. The caller has made sure that they are free.
    uint32_t take(int64_t units) {
        uint32_t head = NONE;
        for (int64_t k = 0; k < units; ++k) {
            uint32_t slot;
            if (free_.empty()) {
                slot = static_cast<uint32_t>(fresh_++);
            } else {
                slot = free_.back();
                free_.pop_back();
                if (free_.size() > 8) __builtin_prefetch(&uses_[free_[free_.size() - 8]], 1);
            }
            if (!next_.empty()) next_[slot] = head;
            head = slot;
        }
        used_ += units;
        if (head != NONE) uses_[head] = 1;
        return head;
    }

    void hold(uint32_t head) {
        if (head != NONE) ++uses_[head];
    }

    // One use less; returns the units that became free.
    int64_t release(uint32_t head) {
        if (head == NONE || --uses_[head]) return 0;
        int64_t units = 0;
        for (uint32_t slot = head; slot != NONE;) {
            uint32_t following = next_.empty() ? NONE : next_[slot];
            free_.push_back(slot);
            ++units;
            slot = following;
        }
        used_ -= units;
        return units;
    }

    uint32_t following(uint32_t slot) const { return next_.empty() ? NONE : next_[slot]; }

  private:
    int64_t count_, used_ = 0, fresh_ = 0;
    Table<uint32_t> free_, next_, uses_;
};

// What is known of each position between its expansion and its end, addressed by the position itself.
template <class T>
class Ring {
  public:
    T& operator[](int64_t t) { return data_[t & mask_]; }
    void prefetch(int64_t t) const { __builtin_prefetch(&data_[t & mask_], 1); }

    // Makes room for positions [from, to).
    void span(int64_t from, int64_t to) {
        if (to - from <= static_cast<int64_t>(data_.size())) return;
        size_t size = data_.empty() ? 1024 : data_.size();
        while (static_cast<int64_t>(size) < to - from) size *= 2;
        Table<T> grown(size);
        for (int64_t t = from; t < from + static_cast<int64_t>(data_.size()); ++t) grown[t & (size - 1)] = data_[t & mask_];
        data_.swap(grown);
        mask_ = static_cast<int64_t>(size) - 1;
    }

  private:
    Table<T> data_;
    int64_t mask_ = 0;
};

}  // namespace headrace
