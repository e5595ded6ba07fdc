// How does a caller sleep until something happens, and still answer Ctrl-C at once?
//
// A counter and a futex on it: a condition variable swallows EINTR, so a signal that came during the wait would be seen
// only after it. Take `now()` under the lock that guards the state, leave the lock, `wait(seen)`.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace headrace {

class Event {
  public:
    enum class Woken { signalled, timeout, interrupted };

    std::uint32_t now() const { return word_.load(std::memory_order_acquire); }

    void signal() {
        word_.fetch_add(1, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) > 0) call(FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
    }

    Woken wait(std::uint32_t seen, std::int64_t nanoseconds) {
        const timespec limit{static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        Woken woken = Woken::signalled;
        if (now() == seen && call(FUTEX_WAIT_PRIVATE, seen, &limit) < 0) {
            if (errno == ETIMEDOUT) woken = Woken::timeout;
            if (errno == EINTR) woken = Woken::interrupted;
        }
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        return woken;
    }

  private:
    long call(int op, std::uint32_t value, const timespec* limit) {
        return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), op, value, limit, nullptr, 0);
    }

    std::atomic<std::uint32_t> word_{0};
    std::atomic<int> sleepers_{0};
};

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

}  // namespace headrace
