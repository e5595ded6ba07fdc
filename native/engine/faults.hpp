// Faults for tests: ranges that fail, reads that come short, reads that hang until released, files without direct I/O.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace headrace {

struct FaultRange {
    int error;  // 0: hold
    std::int32_t file;  // -1: every file
    std::int64_t offset;
    std::int64_t nbytes;
    bool hits(std::int32_t f, std::int64_t at, std::int64_t n) const {
        return (file < 0 || file == f) && at < offset + nbytes && offset < at + n;
    }
};

class Faults {
  public:
    std::vector<FaultRange> fail;
    std::vector<FaultRange> held;
    std::vector<FaultRange> open;  // opening these files fails
    std::int64_t at_most = 0;      // > 0: no read returns more bytes
    bool refuse_direct = false;

    bool any() const { return !fail.empty() || !held.empty(); }
    int error(std::int32_t file, std::int64_t at, std::int64_t n) const { return first(fail, file, at, n); }
    int open_error(std::int32_t file) const { return first(open, file, 0, 1); }
    // Pretends that fewer bytes came; direct I/O only ever comes short at a multiple of its alignment.
    std::int64_t clip(std::int64_t n, std::int64_t align) const {
        return at_most > 0 ? std::min(n, (at_most + align - 1) / align * align) : n;
    }
    bool touches(std::int32_t file, std::int64_t at, std::int64_t n) const {
        const auto hit = [&](const FaultRange& r) { return r.hits(file, at, n); };
        return std::any_of(fail.begin(), fail.end(), hit) || std::any_of(held.begin(), held.end(), hit);
    }

    // Blocks like a read of a hung disk: cancelling does not end it, only `release` does.
    void hold(std::int32_t file, std::int64_t at, std::int64_t n) {
        for (const FaultRange& r : held)
            if (r.hits(file, at, n)) {
                std::unique_lock lock(mutex_);
                released_.wait(lock, [&] { return free_; });
                return;
            }
    }
    void release() {
        const std::lock_guard lock(mutex_);
        free_ = true;
        released_.notify_all();
    }

  private:
    static int first(const std::vector<FaultRange>& ranges, std::int32_t file, std::int64_t at, std::int64_t n) {
        for (const FaultRange& r : ranges)
            if (r.hits(file, at, n)) return r.error;
        return 0;
    }

    std::mutex mutex_;
    std::condition_variable released_;
    bool free_ = false;
};

}  // namespace headrace
