// How does one thread keep many reads in flight? It fills the ring from the schedule and reaps what is done.
//
// The ring carries the common case only: an open file and a read that comes back whole. Everything else (a file to open,
// a short read, an error, an injected fault) is handed to the threads as a repair, so both ways of reading share one
// piece of code for what is rare.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/uring.hpp"

namespace headrace {

class Pump {
  public:
    static std::unique_ptr<Pump> make(Core& core, std::string& why);  // null with the reason
    ~Pump();
    void run();
    void wake();                             // under the lock
    bool parked() const { return parked_; }  // under the lock: it sleeps and has room for more
    const std::deque<Progress>& progress() const { return progress_; }

  private:
    struct Slot {
        SpanPtr span;  // null: free
        std::int32_t read = -1;
        FilePtr file;  // null: not in the ring yet
        Request request;
        Mapping bounce;
    };
    explicit Pump(Core& core);
    void fill();
    bool start_waiting();
    bool prepare(std::size_t slot);  // false: it needs a thread
    bool lend_bounce(Slot& slot);
    void awake();
    void finish(std::size_t slot, std::int32_t result);
    void repair(std::size_t slot, std::int64_t at);
    void release(std::size_t slot);
    void hand_in();

    struct Finished {
        SpanPtr span;
        std::int32_t read;
    };
    Core& core_;
    Ring ring_;
    int event_ = -1;
    bool armed_ = false;
    bool parked_ = false;
    Mapping scratch_;
    Shaper shaper_;
    std::vector<Slot> slots_;
    std::deque<Progress> progress_;  // one per slot
    std::vector<std::size_t> free_;
    std::vector<Mapping> bounces_;  // free bounce buffers
    std::int64_t bounce_bytes_ = 0, bounce_told_ = 0;
    std::size_t in_ring_ = 0;
    Tally done_;
    std::vector<Finished> finished_;
    std::vector<Repair> repairs_;
    std::vector<std::size_t> waiting_;  // slots without room to bounce
};

}  // namespace headrace
