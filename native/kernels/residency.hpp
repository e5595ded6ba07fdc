// Which samples stay in memory after their use? Policies are walked in the order of positions, ahead of all reads.
#pragma once
#include <cstdint>
#include <memory>

namespace headrace {

// `hit`: the sample is in `cell` when its turn comes. Otherwise it is read, and stays in `cell` afterwards if that is
// not -1 (whatever was in the cell before leaves it at that moment).
struct Verdict {
    int32_t cell;
    bool hit;
};

constexpr int64_t NEVER = INT64_MAX;

class Residency {
  public:
    virtual ~Residency() = default;
    virtual Verdict use(uint32_t id, uint32_t rank, int64_t next) = 0;
    virtual bool looks_ahead() const { return false; }
};

enum class Policy { none = 0, fixed = 1, next_use = 2, lru = 3 };

std::unique_ptr<Residency> make_residency(Policy policy, int64_t resident);

}  // namespace headrace
