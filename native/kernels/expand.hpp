// The mechanical half of the planner: from switches and ids to reads, slots, copies and steps, span by span.
//
// A fold over positions. It is fed the ids of the order, walks the residency ahead of the reads, lays every missing
// sample into a slice of a pass, gives it a slot when the slice is issued, and emits steps as soon as all they need
// has been read. Samples that do not fit wait in `late_` and are read just before their use: slow, never stuck.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <vector>

#include "kernels/coalesce.hpp"
#include "kernels/extents.hpp"
#include "records.hpp"
#include "kernels/residency.hpp"
#include "kernels/schedule.hpp"
#include "kernels/slots.hpp"
#include "kernels/sorting.hpp"

namespace headrace {

struct Switches {
    Mode mode;
    Policy policy;
    int64_t resident, resident_units;  // samples kept, and the slots they take together
    int64_t round, lead, span, widest; // positions; `widest`: the last window of a ramp
    int64_t units, unit_nbytes;        // slots of the arena, resident ones included
    bool ramp, by_group;               // by_group: a window ends where id / round changes
    Merging merging;
    std::vector<int64_t> ramp_gaps;    // of the first windows: the sparser they are, the wider a gap is worth reading
};

struct Span {
    int64_t after = 0, hits = 0, held = 0, late = 0;
    std::vector<Read> reads;
    std::vector<Piece> pieces;
    std::vector<Copy> copies;
    std::vector<Step> steps;
    std::vector<int64_t> ids, offsets;
};

enum class Progress { need_more, span, end, too_small };

class Expander {
  public:
    Expander(Layout layout, Steps steps, Switches switches, int64_t start_step);

    bool looks_ahead() const { return residency_->looks_ahead(); }
    int64_t fed() const { return fed_; }
    int64_t needs() const { return needs_; }  // feed up to this position
    void feed(const int64_t* ids, const int64_t* next, int64_t count);
    Progress next(Span& out);

  private:
    struct Position {
        uint32_t id, slot;
        int32_t cell;
        bool hit;
    };
    struct Slice {
        int64_t begin, end, ready;  // `ready`: all positions below are in memory once the slice is read (late ones apart)
    };
    struct Sought {  // an entry of the slice: what the ring says of its position, and the slot that it is given
        uint32_t id, slot;
        bool settles;
    };
    using Late = std::pair<int64_t, uint32_t>;  // position, rank

    Progress make(Span& out);

    // passes and slices (passes.cpp)
    bool require(int64_t position);
    bool find_window_end();
    bool open_window();
    bool open_fill();
    bool open_pass();
    bool peek_slice(Slice& slice);
    void take_slice();
    void into_sweep(int64_t t, uint32_t rank);

    // memory and reads
    void carry_out(const Slice& slice, Span& out);
    bool rescue(Span& out);
    void serve(int64_t urgent, Span& out);
    void take_due(int64_t below);
    void look_up();
    void admit(int64_t urgent_below, Span& out);
    void admit_scarce(int64_t urgent_below, Span& out);
    void read_into_arena(Span& out);
    void want(const Extent& extent, Piece piece, uint32_t slot, int64_t at);
    void free_below(int64_t position);

    // steps
    Progress direct(Span& out);
    void direct_step(Span& out);
    void read_into_batch(Span& out);
    void emit(int64_t limit, Span& out);
    void emit_step(Span& out);
    void begin_step(Span& out);
    void end_step(Span& out);
    void copy_row(uint32_t id, uint32_t slot, int64_t row, bool keep, Span& out);
    void occupy(int64_t t, int32_t cell, uint32_t slot, int64_t units);
    int64_t sample_nbytes(uint32_t id);
    bool settles(const Position& p) const { return switches_.policy == Policy::fixed && p.cell >= 0; }
    int64_t units_of(uint32_t id) { return layout_.fixed ? 1 : (sample_nbytes(id) + switches_.unit_nbytes - 1) / switches_.unit_nbytes; }
    int64_t stream_free() const { return slots_.free() - (switches_.resident_units - resident_used_); }
    int64_t position_of(uint32_t low) const { return freed_ + static_cast<uint32_t>(low - static_cast<uint32_t>(freed_)); }

    Layout layout_;
    Steps steps_;
    Switches switches_;
    Sweep sweep_;
    std::unique_ptr<Residency> residency_;
    Slots slots_;
    Ring<Position> ring_;
    Table<uint32_t> cells_;
    std::deque<std::pair<int64_t, uint32_t>> leaving_;  // slots that cells give up, at the position where they do
    std::priority_queue<Late, std::vector<Late>, std::greater<Late>> late_;

    int64_t start_, fed_, emitted_, freed_, needs_ = 0, ready_;
    int64_t resident_used_ = 0, reserve_ = 0, step_units_ = 0;

    // the window that is being read, and the one before it
    int64_t window_ = 0, window_end_ = 0, before_ = 0, width_ = 0, scanned_ = 0;
    std::vector<Entry> entries_;
    int64_t begin_ = 0, end_ = 0, slices_ = 0, slice_ = 0;
    bool pass_open_ = false, sweeping_ = false;
    size_t pass_ = 0;  // passes so far

    // the sweep: positions from `sweep_from_` on; entries of each slice, and those read while the ramp ends
    int64_t sweep_from_ = NEVER, sweep_begin_ = 0, bucket_base_ = 0;
    std::deque<std::vector<Entry>> buckets_;
    std::vector<Entry> fill_;

    std::vector<Entry> slice_entries_, scratch_;
    std::vector<Sought> sought_;  // of `slice_entries_`, one each
    std::vector<int64_t> hints_;  // one per part: see Part::locate
    std::vector<int64_t> rows_;   // of the step at hand: where each row of each field starts in its batch
    Step row_{};
    std::vector<Wanted> wanted_;
    std::array<size_t, 4> made_{};  // entries of the last span
    Merging merging_;
};

}  // namespace headrace
