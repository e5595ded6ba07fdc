// What may be done next? The order of reads, grants and gathers, with no thread in it: every call is made under the
// engine's lock.
//
// - Reads are issued span by span, in their order, once every step below the span's `after` is gathered.
// - Budget is granted to groups of steps in step order, and always when nothing else holds any: the oldest step that is
//   not taken can therefore always be finished, and nothing can get stuck.
// - A step is gathered when the reads of its group and all arena reads of its own and earlier spans are complete. Gathers
//   start in step order; they overlap unless one of them keeps bytes in the arena, since keeping writes where an earlier
//   step may read.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/memory.hpp"
#include "engine/span.hpp"

namespace headrace {

struct ReadWork {  // reads of one span for one thread; empty: nothing may be issued now
    SpanPtr span;
    std::vector<std::int32_t> reads;
};

struct GatherWork {
    SpanPtr span;
    std::int32_t step = -1;
    std::int64_t sequence = -1;
};

struct Delivery {
    Step step;
    std::shared_ptr<Slab> slab;
    std::vector<Failure> failures;
};

class Schedule {
  public:
    Schedule(std::int64_t budget, std::shared_ptr<Pool> pool);

    void submit(const SpanPtr& span);
    ReadWork pick_reads(std::size_t most, std::int64_t most_bytes, std::size_t share);
    bool can_read();
    bool pick_gather(GatherWork& work);
    bool can_gather() const;
    void add_failure(const Span& span, const Failure& failure);  // before its read is completed
    void complete_read(Span& span, std::int32_t read);
    void complete_gather(const GatherWork& work);
    void settle();  // after completed reads: grants, steps without copies, prefixes
    bool ready() const;   // the oldest step that is not taken is gathered
    std::int64_t waiting_steps() const { return gathered_ - taken_; }  // gathered, and nothing before them is missing
    bool empty() const { return steps_.empty(); }
    Delivery take();
    void clear();  // forgets all that is not taken

    std::int64_t unfinished() const { return unfinished_; }  // spans with work left
    std::int64_t used() const { return used_; }
    std::int64_t taken() const { return taken_; }
    std::int64_t submitted() const { return spans_submitted_; }
    std::string waiting() const;           // of the oldest step, as far as the schedule knows
    bool find(std::int64_t span, std::int64_t read, Read& out) const;  // a read of a span that is not complete
    std::int64_t awaited_span() const;     // number of the span whose reads the oldest step waits for; -1: none

  private:
    struct StepState {
        SpanPtr span;
        std::int32_t step = -1;  // of the span
        std::int64_t group = -1;
        bool keeps = false;
        bool gathered = false;
        std::shared_ptr<Slab> slab;
        std::vector<Failure> failures;
    };
    struct Group {
        std::int64_t first, last;  // sequence numbers of steps
        std::int64_t nbytes;
        std::int64_t reads_left;
        bool granted = false;
    };

    StepState& at(std::int64_t sequence) { return steps_[static_cast<std::size_t>(sequence - taken_)]; }
    const StepState& at(std::int64_t sequence) const { return steps_[static_cast<std::size_t>(sequence - taken_)]; }
    Group& group(std::int64_t number) { return groups_[static_cast<std::size_t>(number - groups_gone_)]; }
    const Group& group(std::int64_t number) const { return groups_[static_cast<std::size_t>(number - groups_gone_)]; }
    std::int64_t steps_end() const { return taken_ + static_cast<std::int64_t>(steps_.size()); }
    bool open(const Span& span) const;                  // its `after` is reached
    std::int32_t next_read(const Span& span) const;     // -1: none may be issued now
    void advance(Span& span, std::int32_t read);
    void allocate(StepState& step);
    void grant();
    bool gatherable(std::int64_t sequence) const;
    void mark_gathered(std::int64_t sequence);

    const std::int64_t budget_;
    const std::shared_ptr<Pool> pool_;
    std::deque<SpanPtr> spans_;     // from the first with reads to issue or to complete
    std::deque<StepState> steps_;   // not taken
    std::deque<Group> groups_;
    std::map<std::int64_t, std::vector<Failure>> arena_failures_;  // by span number
    std::int64_t spans_submitted_ = 0, groups_submitted_ = 0;
    std::int64_t arena_complete_ = 0;  // spans below this number have all their arena reads
    std::int64_t groups_gone_ = 0, groups_granted_ = 0;
    std::int64_t taken_ = 0;     // sequence numbers: steps below are taken,
    std::int64_t gathered_ = 0;  // ... are gathered,
    std::int64_t started_ = 0;   // ... have been given to a thread to gather
    std::int64_t keeping_ = 0;   // gathers under way that have KEEP copies
    std::int64_t used_ = 0;      // bytes granted and not taken
    std::int64_t unfinished_ = 0;
};

}  // namespace headrace
