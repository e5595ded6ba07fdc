#include <algorithm>
#include <exception>
#include <utility>

#include "engine/engine.hpp"
#include "engine/pump.hpp"

namespace headrace {

namespace {

// A thread takes several small reads at once, so that reads of a few microseconds do not queue for the lock; never more
// than its share of what is left, so that the last reads of a span still run side by side. Copies out of mapped files are
// a microsecond each and share one check of their files' sizes: more of them at once.
struct Handful {
    std::size_t reads;
    std::int64_t bytes;
};
constexpr Handful read_at_once{16, 256 << 10}, copied_at_once{64, 512 << 10};

Mapping make_huge(std::int64_t nbytes) {
    Mapping arena(nbytes);
    arena.advise_huge();
    arena.advise_not_in_fork();
    return arena;
}

}  // namespace

Core::Core(Options given, std::unique_ptr<Faults> injected)
    : options(std::move(given)),
      faults(std::move(injected)),
      arena(make_huge(options.arena)),
      bounces(make_huge(options.threads * bounce_each())),
      pool(std::make_shared<Pool>(options.batch_bytes)),
      guard(options.access == Access::mapped ? std::make_unique<Guard>() : nullptr),
      files(options.paths, options.known, options.random, options.access, options.map_from, options.map_after, *faults),
      trace(options.trace),
      means{files, *faults, trace, {options.bounce, options.bounce_below, options.align}, arena.data(), options.drop},
      io("threads"),
      schedule(options.batch_bytes, pool) {
    if (!options.uring) return;
    if (options.access == Access::mapped) {
        io = "threads (files are mapped)";
        return;
    }
    std::string why;
    ring = Pump::make(*this, why);
    io = ring != nullptr ? "uring" : "threads (" + why + ")";
}

std::int64_t Core::bounce_each() const {
    constexpr std::int64_t page = 4096;
    return (options.bounce + 2 * options.align + page - 1) / page * page;
}

Core::~Core() { pool->close(); }

void Core::fail(const std::string& what) noexcept {
    try {
        const std::lock_guard lock(mutex);
        if (failure.empty()) failure = what.empty() ? "unknown" : what;
        stopped = true;
        wake();
    } catch (...) {
        std::terminate();  // a broken mutex: there is nobody left to tell
    }
}

bool Core::workable_now() {
    return !repairs.empty() || schedule.can_gather() || (ring == nullptr && schedule.can_read());
}

void Core::wake() {
    if (over()) {
        workable.notify_all();
        ready.signal();
        room.signal();
        if (ring != nullptr) ring->wake();
        return;
    }
    if (schedule.ready() || (finished && schedule.empty())) ready.signal();
    if (idle > 0 && workable_now()) workable.notify_one();
    if (ring != nullptr && ring->parked() && schedule.can_read()) ring->wake();
    if (schedule.unfinished() < options.max_spans) room.signal();
}

bool Core::pick(Job& job) {
    if (schedule.pick_gather(job.gather)) return true;
    if (!repairs.empty()) {
        job.reads = {repairs.front().span, {repairs.front().read}};
        job.at = repairs.front().at;
        repairs.pop_front();
        return true;
    }
    if (ring != nullptr) return false;
    const Handful most = files.trust().now() ? copied_at_once : read_at_once;
    job.reads = schedule.pick_reads(most.reads, most.bytes, 2 * static_cast<std::size_t>(options.threads));
    return job.reads.span != nullptr;
}

void Core::work(Progress& mine) {
    if (guard) receive_faults();
    std::unique_lock lock(mutex);
    Reader reader(means, bounces.data() + readers++ * bounce_each());
    Mapped mapped(means);
    bounce_bytes += bounce_each();
    while (!over()) {
        Job job;
        if (!pick(job)) {
            ++idle;
            const std::int64_t start = now_ns();
            workable.wait(lock);
            tally.idle_ns += now_ns() - start;
            ++tally.wakeups;
            --idle;
            continue;
        }
        const bool reads = job.gather.span == nullptr;
        if (reads) depth.change(1);
        if (idle > 0 && workable_now()) workable.notify_one();
        lock.unlock();
        if (reads)
            read(job, reader, mapped, mine);
        else
            gather(job);
        job = {};
        lock.lock();
    }
}

void Core::gather(Job& job) {
    const Step& step = job.gather.span->entries.steps[static_cast<std::size_t>(job.gather.step)];
    Tally done;
    copy_step(job.gather.span->entries.copies.data() + step.first, step.copies, arena.data(),
              job.gather.span->batch[static_cast<std::size_t>(job.gather.step)], options.boxes, done);
    const std::lock_guard lock(mutex);
    tally.add(done);
    schedule.complete_gather(job.gather);
    wake();
}

void Core::read(Job& job, Reader& reader, Mapped& mapped, Progress& mine) {
    const Span& span = *job.reads.span;
    Tally done;
    std::vector<Failure> failures;
    const std::vector<std::int32_t>& reads = job.reads.reads;
    std::vector<std::int64_t> reached(reads.size(), job.at);
    if (files.trust().now() && job.at < 0) {
        mine.start(span.number, reads.front());
        mapped.take(span, reads, reached, done);
    }
    for (std::size_t k = 0; k < reads.size(); ++k) {
        const Read& read = span.read(reads[k]);
        if (reached[k] == read.end()) {
            done.pieces += read.pieces;
            continue;
        }
        if (stopped.load(std::memory_order_relaxed)) break;  // nobody will ask for what is missing
        mine.start(span.number, reads[k]);
        reader.run(span, read, std::max(reached[k], read.offset), done, failures);
    }
    mine.span = -1;
    const std::lock_guard lock(mutex);
    depth.change(-1);
    tally.add(done);
    if (over()) return;
    complete(job.reads.span, job.reads.reads.data(), job.reads.reads.size(), failures);
}

void Core::complete(const SpanPtr& span, const std::int32_t* reads, std::size_t n, const std::vector<Failure>& failures) {
    for (const Failure& f : failures) schedule.add_failure(*span, f);
    for (std::size_t i = 0; i < n; ++i) schedule.complete_read(*span, reads[i]);
    schedule.settle();
    wake();
}

void Core::pump() { ring->run(); }

void Core::shut() {
    const std::lock_guard lock(mutex);
    files.close();
    schedule.clear();
    repairs.clear();
    pool->close();
    ring.reset();
    arena = Mapping();
    bounces = Mapping();
}

void Core::leave() {
    files.close();
    const std::lock_guard lock(mutex);
    --alive;
    left.notify_all();
}

}  // namespace headrace
