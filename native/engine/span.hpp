// What must be known of a span before its work can be dealt out?
//
// Checked once, when it is submitted, so that no later step can write outside its memory; then every read is classed:
// - an *arena read* has all its pieces in the arena and needs no budget;
// - a *batch read* has pieces in batches and may be issued only when these batches have been granted.
//
// Steps that share a read must be granted together, or two half-granted spans could wait for each other. A *group* is the
// shortest run of steps that no batch read crosses. A read with pieces on both sides ties all steps up to its last one
// together, because the first step of the span already waits for its arena pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/copy.hpp"
#include "engine/failure.hpp"
#include "records.hpp"

namespace headrace {

struct Limits {
    std::int32_t files;
    std::int64_t arena;
    const std::vector<BoxShape>* boxes;
};

struct SpanEntries {
    std::vector<Read> reads;
    std::vector<Piece> pieces;
    std::vector<Copy> copies;
    std::vector<Step> steps;
};

struct LocalGroup {
    std::int32_t first, last;  // steps of the span
    std::int64_t nbytes = 0;
    std::int64_t reads = 0;  // batch reads that land in it
};

class Span {
  public:
    // Throws std::invalid_argument that names the entry which does not fit.
    Span(std::int64_t index, std::int64_t after, SpanEntries entries, const Limits& limits);

    const std::int64_t index;
    const std::int64_t after;
    const SpanEntries entries;

    std::vector<LocalGroup> groups;
    std::vector<std::int32_t> group_of_step;
    std::vector<std::int32_t> group_of_read;  // -1: an arena read
    std::vector<std::uint8_t> lands_in_arena;  // per read: some of its pieces do (or it has none)
    std::vector<std::uint8_t> direct;          // per step: some pieces land in its batch
    std::vector<std::uint8_t> keeps;           // per step: some of its copies are KEEP
    std::vector<std::int32_t> arena_reads;     // in their order
    std::vector<std::int32_t> batch_reads;     // by group, then in their order

    // The rest is the schedule's, guarded by the engine's lock.
    std::int64_t number = -1;      // its place in the run of submitted spans
    std::int64_t first_step = -1;  // sequence number of its first step
    std::int64_t first_group = -1;
    std::size_t next_arena = 0, next_batch = 0;
    std::int64_t arena_left = 0;  // reads with arena pieces that are not complete
    std::int64_t reads_left = 0;
    std::int64_t steps_left = 0;
    std::vector<std::byte*> batch;  // where each step's batch is, once allocated

    const Read& read(std::int32_t r) const { return entries.reads[static_cast<std::size_t>(r)]; }
    const Piece* pieces(const Read& r) const { return entries.pieces.data() + r.first; }
    std::byte* address(const Piece& p, std::byte* arena) const {
        return (p.step < 0 ? arena : batch[static_cast<std::size_t>(p.step)]) + p.dest;
    }

  private:
    void check(const Limits& limits) const;
    void check_read(std::size_t r, const Limits& limits) const;
    void check_copies(const Step& step, const Limits& limits) const;
    void class_reads();
    void make_groups();
};

using SpanPtr = std::shared_ptr<Span>;

}  // namespace headrace
