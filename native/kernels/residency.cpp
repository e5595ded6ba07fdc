#include "kernels/residency.hpp"

#include <utility>
#include <vector>

namespace headrace {
namespace {

// id -> cell by open addressing: memory follows the cells, not the dataset.
class IdMap {
  public:
    explicit IdMap(int64_t cells) {
        size_t size = 16;
        while (static_cast<int64_t>(size) < 2 * cells) size *= 2;
        keys_.assign(size, EMPTY);
        cells_.resize(size);
        mask_ = size - 1;
    }

    int32_t find(uint32_t id) const {
        for (size_t k = home(id); keys_[k] != EMPTY; k = (k + 1) & mask_)
            if (keys_[k] == id) return cells_[k];
        return -1;
    }

    void insert(uint32_t id, int32_t cell) {
        size_t k = home(id);
        while (keys_[k] != EMPTY) k = (k + 1) & mask_;
        keys_[k] = id;
        cells_[k] = cell;
    }

    void erase(uint32_t id) {
        size_t k = home(id);
        while (keys_[k] != id) k = (k + 1) & mask_;
        for (size_t j = (k + 1) & mask_; keys_[j] != EMPTY; j = (j + 1) & mask_) {
            if (((j - home(keys_[j])) & mask_) < ((j - k) & mask_)) continue;
            keys_[k] = keys_[j];
            cells_[k] = cells_[j];
            k = j;
        }
        keys_[k] = EMPTY;
    }

  private:
    static constexpr uint32_t EMPTY = UINT32_MAX;
    size_t home(uint32_t id) const { return (id * 0x9E3779B97F4A7C15ull >> 32) & mask_; }
    std::vector<uint32_t> keys_;
    std::vector<int32_t> cells_;
    size_t mask_;
};

class None final : public Residency {
  public:
    Verdict use(uint32_t, uint32_t, int64_t) override { return {-1, false}; }
};

// The first `resident` locations, for ever.
class Static final : public Residency {
  public:
    explicit Static(int64_t resident) : resident_(resident), seen_(static_cast<size_t>(resident), false) {}

    Verdict use(uint32_t, uint32_t rank, int64_t) override {
        if (rank >= resident_) return {-1, false};
        bool hit = seen_[rank];
        seen_[rank] = true;
        return {static_cast<int32_t>(rank), hit};
    }

  private:
    int64_t resident_;
    std::vector<bool> seen_;
};

// Belady's rule: what is used furthest in the future leaves first, or does not enter.
class NextUse final : public Residency {
  public:
    explicit NextUse(int64_t resident) : capacity_(resident), map_(resident), ids_(resident), next_(resident), place_(resident) {
        heap_.reserve(static_cast<size_t>(resident));
    }

    bool looks_ahead() const override { return true; }

    Verdict use(uint32_t id, uint32_t, int64_t next) override {
        if (int32_t cell = map_.find(id); cell >= 0) {
            next_[cell] = next;
            up(down(place_[cell]));
            return {cell, true};
        }
        if (next == NEVER || capacity_ == 0) return {-1, false};
        int32_t cell;
        if (static_cast<int64_t>(heap_.size()) < capacity_) {
            cell = static_cast<int32_t>(heap_.size());
            heap_.push_back(cell);
            place_[cell] = heap_.size() - 1;
        } else {
            cell = heap_[0];
            if (next_[cell] <= next) return {-1, false};
            map_.erase(ids_[cell]);
        }
        ids_[cell] = id;
        next_[cell] = next;
        map_.insert(id, cell);
        up(down(place_[cell]));
        return {cell, false};
    }

  private:
    bool above(size_t a, size_t b) const { return next_[heap_[a]] > next_[heap_[b]]; }

    void swap(size_t a, size_t b) {
        std::swap(heap_[a], heap_[b]);
        place_[heap_[a]] = a;
        place_[heap_[b]] = b;
    }

    size_t down(size_t k) {
        for (;;) {
            size_t child = 2 * k + 1;
            if (child >= heap_.size()) return k;
            if (child + 1 < heap_.size() && above(child + 1, child)) ++child;
            if (!above(child, k)) return k;
            swap(k, child);
            k = child;
        }
    }

    void up(size_t k) {
        for (; k && above(k, (k - 1) / 2); k = (k - 1) / 2) swap(k, (k - 1) / 2);
    }

    int64_t capacity_;
    IdMap map_;
    std::vector<uint32_t> ids_;
    std::vector<int64_t> next_;
    std::vector<size_t> place_;
    std::vector<int32_t> heap_;
};

// What was used longest ago leaves first: the baseline of every cache that does not know the order.
class Lru final : public Residency {
  public:
    explicit Lru(int64_t resident) : capacity_(static_cast<int32_t>(resident)), map_(resident), ids_(resident), newer_(resident + 1), older_(resident + 1) {
        newer_[resident] = older_[resident] = capacity_;
    }

    Verdict use(uint32_t id, uint32_t, int64_t) override {
        if (capacity_ == 0) return {-1, false};
        int32_t cell = map_.find(id);
        bool hit = cell >= 0;
        if (hit) {
            unlink(cell);
        } else {
            if (count_ < capacity_) {
                cell = count_++;
            } else {
                cell = newer_[capacity_];  // the list is a ring through cell `capacity_`: its newer side is the oldest
                unlink(cell);
                map_.erase(ids_[cell]);
            }
            ids_[cell] = id;
            map_.insert(id, cell);
        }
        link(cell);
        return {cell, hit};
    }

  private:
    void unlink(int32_t cell) {
        newer_[older_[cell]] = newer_[cell];
        older_[newer_[cell]] = older_[cell];
    }

    void link(int32_t cell) {
        int32_t newest = older_[capacity_];
        older_[cell] = newest;
        newer_[cell] = capacity_;
        newer_[newest] = cell;
        older_[capacity_] = cell;
    }

    int32_t capacity_, count_ = 0;
    IdMap map_;
    std::vector<uint32_t> ids_;
    std::vector<int32_t> newer_, older_;
};

}  // namespace

std::unique_ptr<Residency> make_residency(Policy policy, int64_t resident) {
    switch (policy) {
        case Policy::fixed: return std::make_unique<Static>(resident);
        case Policy::next_use: return std::make_unique<NextUse>(resident);
        case Policy::lru: return std::make_unique<Lru>(resident);
        default: return std::make_unique<None>();
    }
}

}  // namespace headrace
