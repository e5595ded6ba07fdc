// How does one thread keep many reads in flight? It fills the ring from the schedule and reaps what is done.
//
// The ring carries the common case only: an open file and a read that comes back whole. Everything else (a file to open,
// a short read, an error, an injected fault) is handed to the threads as a repair, so both ways of reading share one
// piece of code for what is rare.
#pragma once

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
    void wake();                           // from any thread
    bool parked() const { return parked_; }  // under the lock: it waits and has room for more
    // Under the lock: the read of a span that is longest in flight.
    bool oldest(std::int64_t span, std::int32_t& read, std::int64_t& since) const;

  private:
    struct Slot {
        SpanPtr span;  // null: free
        std::int32_t read = -1;
        std::int64_t since = 0;
        FilePtr file;
        Request request;
        Mapping bounce;
    };
    explicit Pump(Core& core);
    void fill();
    bool prepare(std::size_t slot, Tally& done);  // false: it needs a thread
    bool lend_bounce(Slot& slot);
    void free_bounce(Slot& slot);
    void finish(std::size_t slot, std::int32_t result, Tally& done);
    void hand_in(Tally& done);
    void repair(Slot& slot, std::int64_t at);

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
    std::vector<std::size_t> free_;
    std::vector<Mapping> bounces_;  // free bounce buffers
    std::int64_t bounce_bytes_ = 0;
    std::size_t in_ring_ = 0;
    std::vector<Finished> finished_;
    std::vector<Repair> repairs_;
    std::vector<std::size_t> waiting_;  // slots without room to bounce
};

}  // namespace headrace
