// Do copies out of mapped files pay now? Only while their pages are in memory: a page that is not there is read alone.
//
// Every byte that is copied earns a little credit, every page that had to be waited for costs as much as 64 pages earn.
// Without credit the files are read by system calls; after a gigabyte of that, mapping is tried again. It also begins
// with system calls: the first touch of a page costs a fault, and a run's first batch should not wait for thousands.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace headrace {

class Trust {
  public:
    // `after`: bytes that are read before mapping begins.
    Trust(bool mapped, std::int64_t after) : on_(mapped && after <= 0), left_(mapped ? after : forever) {}

    bool ever() const { return now() || left_.load(std::memory_order_relaxed) != forever; }

    bool now() const { return on_.load(std::memory_order_relaxed); }
    std::int64_t missed() const { return missed_.load(std::memory_order_relaxed); }

    void copied(std::int64_t nbytes, std::int64_t missed) {
        missed_.fetch_add(missed, std::memory_order_relaxed);
        const std::int64_t credit = credit_.load(std::memory_order_relaxed) + nbytes - missed * price;
        credit_.store(std::min(credit, most), std::memory_order_relaxed);
        if (credit >= 0) return;
        left_.store(again_after, std::memory_order_relaxed);
        on_.store(false, std::memory_order_relaxed);
    }

    void read(std::int64_t nbytes) {  // by system calls
        if (now() || left_.load(std::memory_order_relaxed) == forever) return;
        if (left_.fetch_sub(nbytes, std::memory_order_relaxed) > nbytes) return;
        credit_.store(start, std::memory_order_relaxed);
        on_.store(true, std::memory_order_relaxed);
    }

    void never() {
        left_.store(forever, std::memory_order_relaxed);
        on_.store(false, std::memory_order_relaxed);
    }

  private:
    // Threads may overwrite each other's sums: they need not be exact.
    static constexpr std::int64_t price = 64 * 4096, start = 64 * price, most = 256 * price;
    static constexpr std::int64_t again_after = 1 << 30, forever = INT64_MAX;
    std::atomic<bool> on_;
    std::atomic<std::int64_t> credit_{start}, left_, missed_{0};
};

}  // namespace headrace
