// Passes and slices: which samples are read when? See schedule.hpp.
#include <algorithm>

#include "kernels/expand.hpp"

namespace headrace {

bool Expander::require(int64_t position) {
    position = std::min(position, steps_.total);
    needs_ = std::max(needs_, position);
    return fed_ >= position;
}

// A window ends where its width says; a group at its last position, and no group spans two epochs.
bool Expander::find_window_end() {
    int64_t end = std::min(window_ + width_, steps_.total);
    if (switches_.mode == Mode::group) {
        int64_t epoch_end = (window_ / steps_.used + 1) * steps_.used;
        end = std::min(end, epoch_end);
        if (!switches_.by_group) {
            int64_t within = window_ % steps_.used;
            end = std::min(end, window_ + switches_.round - within % switches_.round);
        }
    }
    if (!require(end)) return false;
    if (switches_.by_group) {
        int64_t group = ring_[window_].id / switches_.round;
        for (int64_t t = window_; t < end; ++t) {
            if (ring_[t].id / switches_.round != group) {
                end = t;
                break;
            }
        }
    }
    window_end_ = end;
    return true;
}

bool Expander::open_window() {
    if (!find_window_end()) return false;
    entries_.clear();
    for (int64_t t = window_; t < window_end_; ++t) {
        const Position& p = ring_[t];
        if (!p.hit) entries_.push_back({layout_.rank(p.id), static_cast<uint32_t>(t)});
    }
    return true;
}

// The ramp ends: what the sweep would hold by now is read in one pass.
bool Expander::open_fill() {
    if (!require(sweep_begin_ + sweep_.round + sweep_.lead)) return false;
    window_end_ = window_;
    entries_.swap(fill_);
    std::vector<Entry>().swap(fill_);
    sweeping_ = true;
    return true;
}

bool Expander::open_pass() {
    if (window_ >= sweep_from_ && window_ < steps_.total) {
        if (!open_fill()) return false;
    } else if (!open_window()) {
        return false;
    }
    sort_by_rank(entries_, scratch_);
    int64_t lead = before_ < steps_.total ? sweep_.lead : 0;  // at the run's very end nothing is read ahead of anything
    begin_ = before_ - lead;
    end_ = window_ - lead;
    slices_ = switches_.mode == Mode::group ? 1 : std::max<int64_t>(1, (end_ - begin_) / switches_.span);
    slice_ = 0;
    pass_open_ = true;
    merging_.gap = pass_ < switches_.ramp_gaps.size() ? switches_.ramp_gaps[pass_] : switches_.merging.gap;
    ++pass_;
    return true;
}

bool Expander::peek_slice(Slice& slice) {
    if (!pass_open_ && sweeping_) {
        slice.begin = std::max(sweep_.slice_begin(bucket_base_), sweep_begin_);
        slice.end = sweep_.slice_begin(bucket_base_ + 1);
        slice.ready = std::min(slice.end + sweep_.lead, steps_.total);
        return require(slice.end + sweep_.lead + sweep_.round);
    }
    if (!pass_open_ && !open_pass()) return false;
    slice.begin = begin_ + (end_ - begin_) * slice_ / slices_;
    slice.end = begin_ + (end_ - begin_) * (slice_ + 1) / slices_;
    slice.ready = slice_ + 1 == slices_ ? window_end_ : window_;
    return true;
}

void Expander::take_slice() {
    slice_entries_.clear();
    if (!pass_open_) {
        merging_.gap = switches_.merging.gap;
        if (!buckets_.empty()) {
            slice_entries_.swap(buckets_.front());
            buckets_.pop_front();
        }
        ++bucket_base_;
        sort_by_rank(slice_entries_, scratch_);
        return;
    }
    int64_t count = static_cast<int64_t>(entries_.size());
    slice_entries_.assign(entries_.begin() + count * slice_ / slices_, entries_.begin() + count * (slice_ + 1) / slices_);
    if (++slice_ < slices_) return;
    pass_open_ = false;
    before_ = window_;
    window_ = window_end_;
    int64_t limit = switches_.mode == Mode::sweep ? switches_.widest : switches_.round;
    width_ = std::min(2 * width_, limit);
}

void Expander::into_sweep(int64_t t, uint32_t rank) {
    int64_t phase = sweep_.phase(rank);
    int64_t round = sweep_.round_of(t, phase);
    Entry entry{rank, static_cast<uint32_t>(t)};
    if (round * sweep_.round + phase < sweep_begin_) {
        fill_.push_back(entry);
        return;
    }
    size_t index = static_cast<size_t>(round * sweep_.slices + sweep_.slice_of(phase) - bucket_base_);
    while (buckets_.size() <= index) buckets_.emplace_back();
    buckets_[index].push_back(entry);
}

}  // namespace headrace
