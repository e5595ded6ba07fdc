// Who does the work, and who waits for it?
//
// `Core` is all the state that threads share; each thread holds a reference, so a thread that is stuck in the kernel
// keeps its memory and may be left behind. `Engine` is the caller's handle. Threads sleep on a condition variable and are
// woken one by one: who takes work and sees more of it wakes the next, so a span costs a few wake-ups, not one per read.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/event.hpp"
#include "engine/guard.hpp"
#include "engine/mapped.hpp"
#include "engine/memory.hpp"
#include "engine/reader.hpp"
#include "engine/schedule.hpp"

namespace headrace {

struct Options {
    std::vector<std::string> paths;
    std::vector<Identity> known;  // of these files, or nothing
    std::int64_t arena = 0;
    std::vector<BoxShape> boxes;
    int threads = 4;
    int depth = 64;
    bool uring = false;
    Access access = Access::buffered;
    std::int64_t map_from = 1 << 20;   // a mapping costs microseconds and a page table: smaller files are read sooner
    std::int64_t map_after = 64 << 20;  // bytes that are read before
    std::int64_t align = 4096;
    std::int64_t bounce = 4 << 20;
    std::int64_t bounce_below = 1024;
    std::int64_t batch_bytes = 0;
    std::int64_t max_spans = 4;
    bool random = true;
    bool drop = false;
    bool trace = false;
};

struct Closed : std::runtime_error {  // cancelled, closed, or used in a forked child
    using std::runtime_error::runtime_error;
};
struct Failed : std::runtime_error {  // a thread of the engine failed by itself: out of memory, a broken invariant
    using std::runtime_error::runtime_error;
};

class Pump;

struct Repair {  // a read the ring could not finish: a thread carries it on from `at`
    SpanPtr span;
    std::int32_t read;
    std::int64_t at;
};

class Core {
  public:
    Core(Options options, std::unique_ptr<Faults> faults);
    ~Core();

    void work(Progress& progress);  // a thread's life
    void pump();                    // the ring thread's life
    void leave();                   // a thread's end

    const Options options;
    const std::unique_ptr<Faults> faults;
    Mapping arena;
    Mapping bounces;  // one for each thread, side by side in huge pages: a disk takes few long segments gladly, not many short ones
    const std::shared_ptr<Pool> pool;
    const std::unique_ptr<Guard> guard;  // where files are mapped
    Files files;
    Trace trace;
    const Means means;
    std::unique_ptr<Pump> ring;  // null: threads read
    std::string io;              // what runs, and why where it is not what was asked for

    std::mutex mutex;  // guards all below
    std::condition_variable workable, left;
    Event ready, room;
    Schedule schedule;
    std::deque<Repair> repairs;
    Tally tally;
    Level depth;
    std::int64_t idle = 0;     // threads waiting for work
    std::int64_t alive = 0;    // threads that have not left
    std::int64_t bounce_bytes = 0;
    std::int64_t readers = 0;  // threads that have taken their bounce buffer
    std::int64_t consumer_wakeups = 0;
    bool finished = false, cancelled = false;
    std::atomic<bool> stopped{false};  // cancelled or failed, for threads between two reads
    std::string failure;
    std::deque<Progress> progress;  // one per thread

    void wake();  // under the lock, after any change: whoever has something to do now
    void fail(const std::string& what) noexcept;
    void shut();  // gives back memory and files, once no thread is left
    void complete(const SpanPtr& span, const std::int32_t* reads, std::size_t n, const std::vector<Failure>& failures);
    bool over() const { return cancelled || !failure.empty(); }

    std::int64_t bounce_each() const;

  private:
    struct Job {
        ReadWork reads;
        std::int64_t at = -1;  // of a repair
        GatherWork gather;
    };
    bool pick(Job& job);
    bool workable_now();
    void read(Job& job, Reader& reader, Mapped& mapped, Progress& progress);
    void gather(Job& job);
};

struct Wait {  // how a blocking call came back
    enum Kind { done, end, timeout, interrupted } kind;
};

class Engine {
  public:
    Engine(Options options, std::unique_ptr<Faults> faults);
    ~Engine();  // cancels, and waits a few seconds for the threads
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Blocking calls return `interrupted` when a signal came, for the caller to look at it and call again.
    Wait::Kind submit(const SpanPtr& span, std::int64_t deadline_ns);
    Wait::Kind next(Delivery& out, std::int64_t deadline_ns);
    void finish();
    void cancel();
    bool close(double timeout);
    void release();  // of held reads (fault injection)
    std::string waiting();
    std::int64_t ready();  // steps that `next` would give at once
    Limits limits() const;
    std::vector<std::pair<std::string, double>> counters();
    std::vector<Operation> trace() const;
    const Core& core() const { return *core_; }
    void check_process() const;  // throws Closed in a forked child

  private:
    void check_open() const;  // under the lock
    void start();
    Wait::Kind sleep(Event& event, std::uint32_t seen, std::int64_t deadline_ns);

    std::shared_ptr<Core> core_;
    std::vector<std::thread> threads_;
    const pid_t owner_;
};

}  // namespace headrace
