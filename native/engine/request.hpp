// Into which memory does one operation read?
//
// Straight into the pieces' places (a vector of buffers, gaps into a scratch buffer), or into a bounce buffer from which
// the pieces are copied. Bounced are: direct I/O (the kernel wants aligned memory), operations with more buffers than
// the kernel takes, and operations whose buffers are so small on average that the kernel's work per buffer costs more
// than copying the bytes twice (docs/decisions/003-read-path.md has the figures).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/span.hpp"

namespace headrace {

struct ReadRules {
    std::int64_t bounce;        // largest operation that is bounced; longer reads are cut
    std::int64_t bounce_below;  // bounce where the mean buffer is smaller than this
    std::int64_t align;         // of direct I/O
};

constexpr std::size_t most_buffers = 1024;  // the kernel's IOV_MAX
constexpr std::int64_t scratch_bytes = 64 << 10;

// One operation: bytes [at, end) of a file are wanted; [low, low + nbytes) is asked of the kernel.
struct Request {
    std::int64_t at = 0, end = 0;
    std::int64_t low = 0, nbytes = 0;
    bool bounced = false;
    std::vector<iovec> buffers;  // where not bounced

    std::int64_t useful(std::int64_t returned) const;  // of what was returned, the bytes of [at, end) counted from `at`
};

class Shaper {
  public:
    Shaper(const ReadRules& rules, std::byte* arena, std::byte* scratch) : rules_(rules), arena_(arena), scratch_(scratch) {}

    // Shapes the operation for the rest of `read` from `at` on.
    void shape(Request& out, const Span& span, const Read& read, std::int64_t at, bool direct) const;
    // Copies bytes [at, at + n) of the file, which lie at `from`, to the pieces' places.
    void scatter(const Span& span, const Read& read, std::int64_t at, std::int64_t n, const std::byte* from) const;
    std::byte* arena() const { return arena_; }

  private:
    void gather_buffers(Request& out, const Span& span, const Read& read, std::int64_t at) const;

    const ReadRules rules_;
    std::byte* const arena_;
    std::byte* const scratch_;
};

// The first piece of `read` that ends after `at`.
const Piece* first_piece(const Span& span, const Read& read, std::int64_t at);

}  // namespace headrace
