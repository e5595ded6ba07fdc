#include "engine/guard.hpp"

#include <csetjmp>
#include <csignal>
#include <mutex>
#include <utility>

namespace headrace {

namespace {

struct Region {  // what the thread is copying from
    const std::byte* from;
    std::size_t n;
    sigjmp_buf back;
};

thread_local Region* copying = nullptr;
std::mutex mutex;
int holders = 0;
struct sigaction before;

thread_local bool passing_on = false;

void on_fault(int number, siginfo_t* info, void* context) {
    Region* const region = copying;
    const auto* at = static_cast<const std::byte*>(info->si_addr);
    if (region != nullptr && at >= region->from && at < region->from + region->n) siglongjmp(region->back, 1);
    // A handler that was set after ours may call ours as the one before it, while ours knows it as the one before: then
    // it has had its turn.
    if (!std::exchange(passing_on, true)) {
        const bool full = (before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr;
        if (full) before.sa_sigaction(number, info, context);
        if (!full && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
        passing_on = false;
        if (full || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)) return;
    }
    // Not ours and nobody else's: with the default restored, the instruction faults again and ends the process.
    signal(number, SIG_DFL);
}

}  // namespace

Guard::Guard() {
    const std::lock_guard lock(mutex);
    if (holders++ > 0) return;
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    // Not deferred: the handler leaves by a jump, and the thread must be able to fault again.
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGBUS, &ours, &before);
}

Guard::~Guard() {
    const std::lock_guard lock(mutex);
    if (--holders > 0) return;
    struct sigaction now {};
    if (sigaction(SIGBUS, nullptr, &now) == 0 && now.sa_sigaction == on_fault) sigaction(SIGBUS, &before, nullptr);
}

void receive_faults() {
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

bool guarded(const std::byte* from, std::size_t n, void (*copy)(void*), void* argument) {
    Region region{from, n, {}};
    if (sigsetjmp(region.back, 0) != 0) {
        copying = nullptr;
        return false;
    }
    copying = &region;
    copy(argument);
    copying = nullptr;
    return true;
}

}  // namespace headrace
