#include "engine/engine.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "engine/pump.hpp"

namespace headrace {

namespace {

// A signal may arrive between looking and sleeping; then the caller sees it after this long.
constexpr std::int64_t longest_sleep = 500'000'000;
constexpr double destructor_patience = 5.0;

void run(const std::shared_ptr<Core>& core, Progress* progress) noexcept {
    try {
        if (progress != nullptr)
            core->work(*progress);
        else
            core->pump();
    } catch (const std::bad_alloc&) {
        core->fail("out of memory in a thread of the engine");
    } catch (const std::exception& e) {
        core->fail(e.what());
    } catch (...) {
        core->fail("an unknown error in a thread of the engine");
    }
    core->leave();
}

std::string with_commas(std::int64_t n) {
    const std::string digits = std::to_string(n);
    std::string out;
    for (std::size_t k = 0; k < digits.size(); ++k) {
        if (k > 0 && (digits.size() - k) % 3 == 0) out += ',';
        out += digits[k];
    }
    return out;
}

}  // namespace

Engine::Engine(Options options, std::unique_ptr<Faults> faults)
    : core_(std::make_shared<Core>(std::move(options), std::move(faults))), owner_(getpid()) {
    start();
}

void Engine::start() {
    // Signals are for the interpreter's main thread: only there do they interrupt a wait.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const auto spawn = [this](Progress* progress, const char* name) {
        {
            const std::lock_guard lock(core_->mutex);
            ++core_->alive;
        }
        try {
            threads_.emplace_back([core = core_, progress] { run(core, progress); });
        } catch (...) {
            core_->leave();
            throw;
        }
        pthread_setname_np(threads_.back().native_handle(), name);
    };
    try {
        threads_.reserve(static_cast<std::size_t>(core_->options.threads) + 1);
        for (int t = 0; t < core_->options.threads; ++t) spawn(&core_->progress.emplace_back(), "headrace-io");
        if (core_->ring != nullptr) spawn(nullptr, "headrace-ring");
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        close(destructor_patience);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Engine::~Engine() {
    if (getpid() != owner_) {
        // The threads do not exist here, and locks may be held for ever: leave all of it to the end of the process.
        new std::shared_ptr<Core>(std::move(core_));
        new std::vector<std::thread>(std::move(threads_));
        return;
    }
    close(threads_.empty() ? 0.0 : destructor_patience);  // empty: closed before, with threads left behind or without
}

void Engine::check_process() const {
    if (const pid_t here = getpid(); here != owner_)
        throw Closed("the engine was opened in process " + std::to_string(owner_) + " and used in process " +
                     std::to_string(here) + ": open one after the fork");
}

void Engine::check_open() const {
    if (!core_->failure.empty()) throw Failed("the engine failed: " + core_->failure);
    if (core_->cancelled) throw Closed("the engine is closed");
}

Limits Engine::limits() const { return {core_->files.count(), core_->arena.size(), &core_->options.boxes}; }

Wait::Kind Engine::sleep(Event& event, std::uint32_t seen, std::int64_t deadline_ns) {
    const std::int64_t left = deadline_ns - now_ns();
    if (left <= 0) return Wait::timeout;
    // The end of a slice looks like a signal, so the caller has its signals handled and calls again.
    return event.wait(seen, std::min(left, longest_sleep)) == Event::Woken::signalled ? Wait::done : Wait::interrupted;
}

Wait::Kind Engine::submit(const SpanPtr& span, std::int64_t deadline_ns) {
    check_process();
    for (;;) {
        std::uint32_t seen;
        {
            const std::lock_guard lock(core_->mutex);
            check_open();
            if (core_->finished) throw std::invalid_argument("a span was submitted after finish()");
            if (core_->schedule.unfinished() < core_->options.max_spans) {
                core_->schedule.submit(span);
                core_->wake();
                return Wait::done;
            }
            seen = core_->room.now();
        }
        if (const Wait::Kind woken = sleep(core_->room, seen, deadline_ns); woken != Wait::done) return woken;
    }
}

Wait::Kind Engine::next(Delivery& out, std::int64_t deadline_ns) {
    check_process();
    for (;;) {
        std::uint32_t seen;
        {
            const std::lock_guard lock(core_->mutex);
            check_open();
            if (core_->schedule.ready()) {
                out = core_->schedule.take();
                core_->wake();
                return Wait::done;
            }
            if (core_->finished && core_->schedule.empty()) return Wait::end;
            seen = core_->ready.now();
        }
        const Wait::Kind woken = sleep(core_->ready, seen, deadline_ns);
        if (woken == Wait::timeout || woken == Wait::interrupted) return woken;
        const std::lock_guard lock(core_->mutex);
        ++core_->consumer_wakeups;
    }
}

void Engine::finish() {
    check_process();
    const std::lock_guard lock(core_->mutex);
    core_->finished = true;
    core_->wake();
}

void Engine::cancel() {
    check_process();
    const std::lock_guard lock(core_->mutex);
    core_->cancelled = true;
    core_->stopped = true;
    core_->wake();
}

bool Engine::close(double timeout) {
    cancel();
    bool gone;
    {
        std::unique_lock lock(core_->mutex);
        gone = core_->left.wait_for(lock, std::chrono::duration<double>(timeout), [this] { return core_->alive == 0; });
    }
    for (std::thread& t : threads_) {
        if (gone)
            t.join();
        else
            t.detach();  // stuck in the kernel: it holds a reference to all that it may still touch
    }
    threads_.clear();
    if (gone) core_->shut();
    return gone;
}

void Engine::release() {
    check_process();
    core_->faults->release();
}

std::int64_t Engine::ready() {
    check_process();
    const std::lock_guard lock(core_->mutex);
    return core_->schedule.waiting_steps();
}

std::vector<Operation> Engine::trace() const {
    check_process();
    return core_->trace.copy();
}

std::string Engine::waiting() {
    check_process();
    const std::lock_guard lock(core_->mutex);
    if (core_->over()) return core_->cancelled ? "the engine is closed" : "the engine failed: " + core_->failure;
    std::string text = core_->schedule.waiting();
    const std::int64_t span = core_->schedule.awaited_span();
    if (span < 0) return text;
    const Progress* oldest = nullptr;
    const auto look = [&](const std::deque<Progress>& all) {
        for (const Progress& p : all)
            if (p.span == span && (oldest == nullptr || p.since < oldest->since)) oldest = &p;
    };
    look(core_->progress);
    if (core_->ring != nullptr) look(core_->ring->progress());
    if (oldest == nullptr) return text;
    Read read;
    if (!core_->schedule.find(span, oldest->read, read)) return text;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", static_cast<double>(now_ns() - oldest->since) * 1e-9);
    return text + ", oldest is " + with_commas(read.nbytes) + " bytes at " + with_commas(read.offset) + " of " +
           core_->files.path(read.file) + ", in flight for " + seconds + " s";
}

std::vector<std::pair<std::string, double>> Engine::counters() {
    check_process();
    const std::lock_guard lock(core_->mutex);
    const Tally& t = core_->tally;
    const Pool::Stats pool = core_->pool->stats();
    const auto n = [](std::int64_t value) { return static_cast<double>(value); };
    return {{"operations", n(t.operations)},
            {"bytes", n(t.bytes)},
            {"rounding", n(t.rounding)},
            {"short_reads", n(t.short_reads)},
            {"retries", n(t.retries)},
            {"pieces", n(t.pieces)},
            {"failures", n(t.failures)},
            {"bytes_bounced", n(t.bytes_bounced)},
            {"bytes_copied", n(t.bytes_copied)},
            {"copies", n(t.copies)},
            {"gathers", n(t.gathers)},
            {"syscalls", n(t.syscalls)},
            {"opens", n(t.opens)},
            {"open_files", n(core_->files.open_count())},
            {"direct_refused", n(t.fallbacks)},
            {"mapped_pages_missed", n(core_->files.trust().missed())},
            {"consumer_wakeups", n(core_->consumer_wakeups)},
            {"thread_wakeups", n(t.wakeups)},
            {"spans", n(core_->schedule.submitted())},
            {"spans_unfinished", n(core_->schedule.unfinished())},
            {"steps_taken", n(core_->schedule.taken())},
            {"batch_bytes_used", n(core_->schedule.used())},
            {"buffers_allocated", n(pool.allocated)},
            {"buffers_live", n(pool.live)},
            {"buffer_bytes", n(pool.live_bytes)},
            {"buffer_bytes_free", n(pool.free_bytes)},
            {"bounce_bytes", n(core_->bounce_bytes)},
            {"arena", n(core_->arena.size())},
            {"depth_max", n(core_->depth.max())},
            {"depth_mean", core_->depth.mean()},
            {"busy_seconds", core_->depth.busy_seconds()},
            {"read_seconds", n(t.read_ns) * 1e-9},
            {"copy_seconds", n(t.copy_ns) * 1e-9},
            {"idle_seconds", n(t.idle_ns) * 1e-9}};
}

}  // namespace headrace
