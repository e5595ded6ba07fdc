#include "kernels/expand.hpp"

#include <unordered_set>
#include <utility>

namespace headrace {

namespace {

constexpr std::size_t ahead = 16;  // entries: as many waits for memory as a core keeps under way

}  // namespace

Expander::Expander(Layout layout, Steps steps, Switches switches, int64_t start_step)
    : layout_(std::move(layout)), steps_(steps), switches_(switches),
      sweep_{switches.round, switches.lead, std::max<int64_t>(1, switches.round / switches.span),
             switches.policy == Policy::fixed ? switches.resident : 0, layout_.n},
      residency_(make_residency(switches.policy, switches.resident)), slots_(switches.units, !layout_.fixed),
      cells_(static_cast<size_t>(switches.resident), Slots::NONE), hints_(layout_.parts.size(), 0),
      merging_(switches.merging) {
    start_ = fed_ = emitted_ = freed_ = ready_ = window_ = before_ = steps_.start(start_step);
    if (layout_.fixed) reserve_ = steps_.batch;
    width_ = switches_.ramp ? std::min(steps_.batch, switches_.round) : switches_.round;
    if (switches_.mode != Mode::sweep) return;
    sweep_from_ = start_;
    if (switches_.ramp)
        for (int64_t width = steps_.batch; width <= switches_.widest && sweep_from_ < steps_.total; width *= 2)
            sweep_from_ = std::min(sweep_from_ + width, steps_.total);
    sweep_begin_ = sweep_from_ - sweep_.lead;
    int64_t round = floor_div(sweep_begin_, sweep_.round);
    bucket_base_ = round * sweep_.slices + sweep_.slice_of(sweep_begin_ - round * sweep_.round);
    width_ = steps_.batch;
}

void Expander::feed(const int64_t* ids, const int64_t* next, int64_t count) {
    ring_.span(freed_, fed_ + count);
    for (int64_t k = 0; k < count; ++k) {
        int64_t t = fed_ + k;
        uint32_t id = static_cast<uint32_t>(ids[k]);
        uint32_t rank = layout_.rank(id);
        Verdict verdict = residency_->use(id, rank, next ? next[k] : NEVER);
        ring_[t] = {id, Slots::NONE, verdict.cell, verdict.hit};
        if (!verdict.hit && t >= sweep_from_) into_sweep(t, rank);
        if (!layout_.fixed) {
            if (t % steps_.used % steps_.batch == 0) step_units_ = 0;
            step_units_ += units_of(id);
            reserve_ = std::max(reserve_, step_units_);
        }
    }
    fed_ += count;
}

Progress Expander::next(Span& out) {
    // As large as the last one: spans are alike, and growing means copying.
    out.reads.reserve(made_[0]);
    out.pieces.reserve(made_[1]);
    out.copies.reserve(made_[2]);
    out.ids.reserve(made_[3]);
    const Progress progress = make(out);
    if (progress == Progress::span) made_ = {out.reads.size(), out.pieces.size(), out.copies.size(), out.ids.size()};
    return progress;
}

Progress Expander::make(Span& out) {
    if (switches_.mode == Mode::direct) return emitted_ >= steps_.total ? Progress::end : direct(out);
    while (emitted_ < steps_.total) {
        Slice slice{};
        if (!peek_slice(slice)) return Progress::need_more;
        int64_t after = steps_.step_of(std::clamp(slice.begin, start_, steps_.total));
        if (steps_.start(after) > emitted_) return rescue(out) ? Progress::span : Progress::too_small;
        out.after = after;
        carry_out(slice, out);
        if (!out.reads.empty() || !out.steps.empty()) return Progress::span;
    }
    return Progress::end;
}

void Expander::carry_out(const Slice& slice, Span& out) {
    free_below(steps_.start(out.after));
    take_slice();
    ready_ = slice.ready;
    serve(std::min(ready_, slice.end + sweep_.lead + switches_.span), out);
}

// Reads the slice's entries and the late ones below `urgent`, and emits the steps that end there. Everything below
// `urgent` is known by now, so urgent samples get their slots in the order of their positions.
void Expander::serve(int64_t urgent, Span& out) {
    take_due(urgent);
    admit(urgent, out);
    emit(late_.empty() ? urgent : std::min(urgent, late_.top().first), out);
    out.held = switches_.units - slots_.free();
}

// The next slice needs steps that wait for late samples: those are read now, once all before them is gathered.
bool Expander::rescue(Span& out) {
    out.after = steps_.step_of(emitted_);
    free_below(emitted_);
    int64_t from = emitted_;
    slice_entries_.clear();
    serve(std::min(ready_, std::max(steps_.end_from(emitted_), emitted_ + switches_.span)), out);
    return emitted_ > from;
}

void Expander::take_due(int64_t below) {
    bool any = false;
    for (; !late_.empty() && late_.top().first < below; late_.pop()) {
        slice_entries_.push_back({late_.top().second, static_cast<uint32_t>(late_.top().first)});
        any = true;
    }
    if (any) sort_by_rank(slice_entries_, scratch_);
}

// What the ring says of the slice's entries, in one pass: their positions lie all over it, and each line is fetched once.
void Expander::look_up() {
    const size_t count = slice_entries_.size();
    sought_.resize(count);
    for (size_t k = 0; k < count; ++k) {
        if (k + ahead < count) ring_.prefetch(position_of(slice_entries_[k + ahead].low));
        const Position& p = ring_[position_of(slice_entries_[k].low)];
        sought_[k] = {p.id, Slots::NONE, settles(p)};
    }
}

// Gives slots to the entries of the slice. Samples that are not urgent leave enough free for any one step, so that an
// urgent one always finds room once the steps before it are gathered.
void Expander::admit(int64_t urgent_below, Span& out) {
    look_up();
    int64_t units = 0;
    bool all_urgent = true;
    for (size_t k = 0; k < sought_.size(); ++k) {
        if (sought_[k].settles) continue;
        all_urgent &= position_of(slice_entries_[k].low) < urgent_below;
        if (k == 0 || slice_entries_[k].rank != slice_entries_[k - 1].rank) units += units_of(sought_[k].id);
    }
    if (stream_free() - units < (all_urgent ? 0 : reserve_)) {
        admit_scarce(urgent_below, out);
        look_up();
    }
    read_into_arena(out);
}

void Expander::admit_scarce(int64_t urgent_below, Span& out) {
    std::vector<Entry> candidates;
    candidates.swap(slice_entries_);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [this](const Entry& a, const Entry& b) { return position_of(a.low) < position_of(b.low); });
    std::unordered_set<uint32_t> admitted;
    int64_t free = stream_free();
    bool full = false;
    for (const Entry& e : candidates) {
        int64_t t = position_of(e.low);
        int64_t units = settles(ring_[t]) ? 0 : units_of(ring_[t].id);
        int64_t more = admitted.count(e.rank) ? 0 : units;
        // a second use keeps the slot beyond the first one: it must leave as much free as a slot of its own would
        // and once one sample has to wait, no later one may take the room that it will need
        full |= t < urgent_below ? free < more : free - units < reserve_;
        if (!full || units == 0) {
            free -= more;
            admitted.insert(e.rank);
            slice_entries_.push_back(e);
        } else {
            late_.push({t, e.rank});
            ++out.late;
        }
    }
    sort_by_rank(slice_entries_, scratch_);
}

void Expander::read_into_arena(Span& out) {
    size_t distinct = 0;
    const size_t count = slice_entries_.size();
    for (size_t k = 0; k < count; ++k) {
        if (k + ahead < count) ring_.prefetch(position_of(slice_entries_[k + ahead].low));
        const Entry& entry = slice_entries_[k];
        Sought& sought = sought_[k];
        if (k && entry.rank == slice_entries_[distinct - 1].rank) {  // two uses, one read
            sought.slot = sought_[distinct - 1].slot;
            slots_.hold(sought.slot);
        } else {
            sought.slot = slots_.take(units_of(sought.id));
            if (sought.settles) resident_used_ += units_of(sought.id);  // its room is set aside from the start
            slice_entries_[distinct] = entry;
            sought_[distinct++] = sought;
        }
        ring_[position_of(entry.low)].slot = sought.slot;
    }
    wanted_.clear();
    int64_t at = 0;
    for (size_t part = 0; part < layout_.parts.size(); ++part) {
        for (size_t k = 0; k < distinct; ++k) {
            const uint32_t id = sought_[k].id;
            Extent extent = layout_.parts[part].locate(id, hints_[part]);
            int64_t from = at;
            if (!layout_.fixed) {
                from = 0;
                for (size_t q = 0; q < part; ++q) from += layout_.parts[q].size(id, hints_[q]);
            }
            want(extent, {extent.offset, extent.nbytes, 0, id, -1, static_cast<int32_t>(part)}, sought_[k].slot, from);
        }
        if (layout_.fixed) at += layout_.parts[part].fixed;
    }
    coalesce(wanted_, merging_, out.reads, out.pieces);
}

// A piece of the arena, cut where the chain goes on in another slot; `at` counts from the sample's first byte.
void Expander::want(const Extent& extent, Piece piece, uint32_t slot, int64_t at) {
    const int64_t unit = switches_.unit_nbytes;
    for (; at >= unit; at -= unit) slot = slots_.following(slot);
    for (int64_t left = extent.nbytes; left > 0;) {
        piece.nbytes = std::min(left, unit - at);
        piece.dest = slot * unit + at;
        wanted_.push_back({extent.file, piece});
        piece.offset += piece.nbytes;
        left -= piece.nbytes;
        at = 0;
        if (left) slot = slots_.following(slot);
    }
}

void Expander::free_below(int64_t position) {
    for (; freed_ < position; ++freed_) {
        if (freed_ + static_cast<int64_t>(ahead) < position) slots_.prefetch(ring_[freed_ + static_cast<int64_t>(ahead)].slot);
        Position& p = ring_[freed_];
        if (!p.hit) slots_.release(p.slot);
        for (; !leaving_.empty() && leaving_.front().first <= freed_; leaving_.pop_front())
            slots_.release(leaving_.front().second);
    }
}

int64_t Expander::sample_nbytes(uint32_t id) {
    if (layout_.fixed) return layout_.sample_nbytes;
    int64_t total = 0;
    for (size_t part = 0; part < layout_.parts.size(); ++part) total += layout_.parts[part].size(id, hints_[part]);
    return total;
}

}  // namespace headrace
