// What was done: plain sums that each thread keeps for itself and hands over when it takes the engine's lock anyway.
#pragma once

#include <chrono>
#include <cstdint>

namespace headrace {

inline std::int64_t now_ns() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

struct Tally {
    std::int64_t operations = 0;    // read calls or ring entries issued, repetitions included
    std::int64_t bytes = 0;         // bytes the kernel returned inside the ranges of the reads
    std::int64_t rounding = 0;      // bytes beyond them, read because direct I/O rounds to the alignment
    std::int64_t short_reads = 0;   // operations that returned less than asked, but not nothing
    std::int64_t retries = 0;       // operations repeated: interrupted, refused direct, or a piece read on its own
    std::int64_t pieces = 0;        // pieces delivered
    std::int64_t failures = 0;      // pieces not delivered
    std::int64_t bytes_bounced = 0; // bytes that went through a bounce buffer and were copied out of it
    std::int64_t bytes_copied = 0;  // bytes of the steps' copies
    std::int64_t copies = 0;
    std::int64_t gathers = 0;
    std::int64_t syscalls = 0;
    std::int64_t opens = 0;
    std::int64_t fallbacks = 0;     // files that refused direct I/O
    std::int64_t read_ns = 0;       // summed over operations, from issue to return
    std::int64_t copy_ns = 0;
    std::int64_t idle_ns = 0;       // summed over threads that waited for work
    std::int64_t wakeups = 0;       // of threads

    void add(const Tally& o) {
        operations += o.operations, bytes += o.bytes, rounding += o.rounding, short_reads += o.short_reads;
        retries += o.retries, pieces += o.pieces, failures += o.failures, bytes_bounced += o.bytes_bounced;
        bytes_copied += o.bytes_copied, copies += o.copies, gathers += o.gathers, syscalls += o.syscalls;
        opens += o.opens, fallbacks += o.fallbacks, read_ns += o.read_ns, copy_ns += o.copy_ns;
        idle_ns += o.idle_ns, wakeups += o.wakeups;
    }
};

// A level over time (the queue depth): its mean weighted by time, and its highest value.
class Level {
  public:
    void change(std::int64_t by) {
        const std::int64_t now = now_ns();
        if (start_ == 0) start_ = last_ = now;
        area_ += static_cast<double>(level_) * static_cast<double>(now - last_);
        if (level_ > 0) busy_ += now - last_;
        last_ = now;
        level_ += by;
        if (level_ > max_) max_ = level_;
    }
    std::int64_t level() const { return level_; }
    std::int64_t max() const { return max_; }
    double busy_seconds() const { return static_cast<double>(busy_) * 1e-9; }
    double mean() const { return busy_ > 0 ? area_ / static_cast<double>(busy_) : 0.0; }  // while not empty

  private:
    std::int64_t start_ = 0, last_ = 0, level_ = 0, max_ = 0, busy_ = 0;
    double area_ = 0.0;
};

}  // namespace headrace
