// How is one read carried out, whatever happens? The thread's own way of reading, to the end or to a named failure.
//
// A read that comes short is continued; one that was interrupted is repeated; a file that refuses direct I/O is opened
// again without. A coalesced read that fails is repeated piece by piece, so that only the pieces that cannot be read
// fail. Where the file ends early, exactly the pieces that were not covered fail, with error 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/faults.hpp"
#include "engine/files.hpp"
#include "engine/memory.hpp"
#include "engine/request.hpp"

namespace headrace {

struct Operation {  // one issued operation, for the trace
    std::int64_t file, offset, nbytes;
};

class Trace {
  public:
    explicit Trace(bool on) : on_(on) {}
    void add(std::int32_t file, std::int64_t at, std::int64_t end) {
        if (!on_) return;
        const std::lock_guard lock(mutex_);
        operations_.push_back({file, at, end - at});
    }
    std::vector<Operation> copy() const {
        const std::lock_guard lock(mutex_);
        return operations_;
    }

  private:
    const bool on_;
    mutable std::mutex mutex_;
    std::vector<Operation> operations_;
};

struct Means {  // what readers share
    Files& files;
    Faults& faults;
    Trace& trace;
    ReadRules rules;
    std::byte* arena;
    bool drop;  // tell the kernel to forget what landed in the arena: it is not read again from the cache
};

// What a thread or a slot of the ring is reading now, for whoever asks what the engine waits for.
struct Progress {
    std::atomic<std::int64_t> span{-1}, read{-1}, since{0};
    void start(std::int64_t of_span, std::int64_t of_read) {
        span = of_span, read = of_read, since = now_ns();
    }
};

class Reader {
  public:
    // `bounce` has room for `rules.bounce` bytes and what direct I/O rounds up on either side.
    Reader(const Means& means, std::byte* bounce);

    // Reads the rest of a read from `at` on: what lies before is already in place.
    void run(const Span& span, const Read& read, std::int64_t at, Tally& tally, std::vector<Failure>& failures);

  private:
    struct Outcome {
        std::int64_t reached;  // bytes before this offset are in place
        int error;             // 0: complete, or the file ended
    };
    Outcome transfer(const Span& span, const Read& read, std::int64_t at, Tally& tally);
    std::int64_t issue(const OpenFile& file, const Read& read, Tally& tally);
    void finish(const Span& span, const Read& read, Outcome outcome, Tally& tally, std::vector<Failure>& failures);
    void fail(const Span& span, const Piece& piece, const Read& read, Outcome outcome, std::vector<Failure>& failures);

    const Means means_;
    Mapping scratch_;
    std::byte* const bounce_;
    Shaper shaper_;
    Request request_;
};

void drop_behind(const Means& means, const Span& span, const Read& read, Tally& tally);

}  // namespace headrace
