// Where do bytes live? In the arena (one mapping for the engine's life) and in batch buffers (mappings that are used again).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace headrace {

// An anonymous mapping: page-aligned, and not resident before it is touched.
class Mapping {
  public:
    Mapping() = default;
    explicit Mapping(std::int64_t nbytes);
    ~Mapping();
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;

    std::byte* data() const { return data_; }
    std::int64_t size() const { return size_; }
    void advise_huge() const;       // fewer page faults and TLB misses
    void advise_not_in_fork() const;  // a child neither copies its page table nor makes the parent copy pages

  private:
    std::byte* data_ = nullptr;
    std::int64_t size_ = 0;
};

class Pool;

// One batch's memory. It goes back to its pool when the last reference is dropped.
struct Slab {
    Mapping memory;
    std::int64_t nbytes = 0;  // asked for; the mapping may be larger
    bool taken = false;       // by the user: no longer part of the budget
};

// Batch buffers, used again by size. What the engine fills plus what lies free stays within the budget and one buffer: a
// user swaps one batch for the next without a new mapping, and who lets go of many at once gives their memory back.
class Pool : public std::enable_shared_from_this<Pool> {
  public:
    explicit Pool(std::int64_t budget);
    std::shared_ptr<Slab> take(std::int64_t nbytes);
    void hand_over(Slab& slab);  // to the user
    void close();                // from now on, what comes back is unmapped

    struct Stats {
        std::int64_t allocated, live, free_bytes, live_bytes;
    };
    Stats stats() const;

  private:
    void give_back(Slab* slab) noexcept;
    void trim(std::int64_t incoming);
    std::int64_t bound() const;

    const std::int64_t budget_;
    const pid_t owner_;
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Slab>> free_;
    std::int64_t free_bytes_ = 0;
    std::int64_t filling_bytes_ = 0;
    std::int64_t live_bytes_ = 0;
    std::int64_t largest_ = 0;
    std::int64_t allocated_ = 0;
    std::int64_t live_ = 0;
    bool closed_ = false;
};

}  // namespace headrace
