#include "engine/schedule.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace headrace {

Schedule::Schedule(std::int64_t budget, std::shared_ptr<Pool> pool) : budget_(budget), pool_(std::move(pool)) {}

void Schedule::submit(const SpanPtr& span) {
    span->number = spans_submitted_++;
    span->first_step = steps_end();
    span->first_group = groups_submitted_;
    for (const LocalGroup& g : span->groups)
        groups_.push_back({span->first_step + g.first, span->first_step + g.last, g.nbytes, g.reads});
    groups_submitted_ += static_cast<std::int64_t>(span->groups.size());
    for (std::size_t s = 0; s < span->entries.steps.size(); ++s) {
        StepState& state = steps_.emplace_back();
        state.span = span;
        state.step = static_cast<std::int32_t>(s);
        state.group = span->first_group + span->group_of_step[s];
        state.keeps = span->keeps[s];
    }
    if (span->reads_left > 0 || span->steps_left > 0) ++unfinished_;
    spans_.push_back(span);
    settle();
}

bool Schedule::open(const Span& span) const {
    return gathered_ == steps_end() || at(gathered_).span->number >= span.number ||
           at(gathered_).span->entries.steps[static_cast<std::size_t>(at(gathered_).step)].step >= span.after;
}

std::int32_t Schedule::next_read(const Span& span) const {
    std::int32_t best = -1;
    if (span.next_arena < span.arena_reads.size()) best = span.arena_reads[span.next_arena];
    if (span.next_batch < span.batch_reads.size()) {
        const std::int32_t r = span.batch_reads[span.next_batch];
        const std::int64_t g = span.first_group + span.group_of_read[static_cast<std::size_t>(r)];
        if (group(g).granted && (best < 0 || r < best)) best = r;
    }
    return best;
}

void Schedule::advance(Span& span, std::int32_t read) {
    const std::int32_t local = span.group_of_read[static_cast<std::size_t>(read)];
    if (local < 0) {
        ++span.next_arena;
        return;
    }
    ++span.next_batch;
    const Group& g = group(span.first_group + local);
    for (std::int64_t s = g.first; s <= g.last; ++s)
        if (at(s).slab == nullptr && span.direct[static_cast<std::size_t>(at(s).step)]) allocate(at(s));
}

void Schedule::allocate(StepState& step) {
    step.slab = pool_->take(step.span->entries.steps[static_cast<std::size_t>(step.step)].nbytes);
    step.span->batch[static_cast<std::size_t>(step.step)] = step.slab->memory.data();
}

ReadWork Schedule::pick_reads(std::size_t most, std::int64_t most_bytes, std::size_t share) {
    ReadWork work;
    for (const SpanPtr& span : spans_) {
        if (!open(*span)) break;
        std::int32_t r = next_read(*span);
        if (r < 0) continue;
        const std::size_t left = span->arena_reads.size() + span->batch_reads.size() - span->next_arena - span->next_batch;
        const std::size_t count = std::clamp<std::size_t>(left / share, 1, most);
        std::int64_t bytes = 0;
        work.span = span;
        while (r >= 0 && work.reads.size() < count && (work.reads.empty() || bytes < most_bytes)) {
            advance(*span, r);
            work.reads.push_back(r);
            bytes += span->read(r).nbytes;
            r = next_read(*span);
        }
        break;
    }
    return work;
}

bool Schedule::can_read() {
    for (const SpanPtr& span : spans_) {
        if (!open(*span)) return false;
        if (next_read(*span) >= 0) return true;
    }
    return false;
}

bool Schedule::gatherable(std::int64_t sequence) const {
    if (sequence >= steps_end()) return false;
    const StepState& state = at(sequence);
    const Group& g = group(state.group);
    return g.granted && g.reads_left == 0 && state.span->number < arena_complete_ && keeping_ == 0 &&
           (!state.keeps || gathered_ == sequence);
}

bool Schedule::can_gather() const { return gatherable(started_); }

bool Schedule::pick_gather(GatherWork& work) {
    if (!gatherable(started_)) return false;
    StepState& state = at(started_);
    if (state.slab == nullptr) allocate(state);
    keeping_ += state.keeps;
    work = {state.span, state.step, started_};
    ++started_;
    return true;
}

void Schedule::add_failure(const Span& span, const Failure& failure) {
    if (failure.step < 0)
        arena_failures_[span.number].push_back(failure);
    else
        at(span.first_step + failure.step).failures.push_back(failure);
}

void Schedule::complete_read(Span& span, std::int32_t read) {
    const auto r = static_cast<std::size_t>(read);
    if (span.lands_in_arena[r]) --span.arena_left;
    if (span.group_of_read[r] >= 0) --group(span.first_group + span.group_of_read[r]).reads_left;
    if (--span.reads_left == 0 && span.steps_left == 0) --unfinished_;
}

void Schedule::complete_gather(const GatherWork& work) {
    keeping_ -= at(work.sequence).keeps;
    mark_gathered(work.sequence);
    settle();
}

void Schedule::mark_gathered(std::int64_t sequence) {
    StepState& state = at(sequence);
    state.gathered = true;
    if (--state.span->steps_left == 0 && state.span->reads_left == 0) --unfinished_;
    while (gathered_ < steps_end() && at(gathered_).gathered) ++gathered_;
}

void Schedule::grant() {
    while (groups_granted_ < groups_submitted_) {
        // The first batch first: readers that run ahead of it take the processor from the loop that waits for it.
        if (groups_granted_ > 0 && gathered_ == 0) return;
        Group& g = group(groups_granted_);
        if (used_ > 0 && used_ + g.nbytes > budget_) return;
        used_ += g.nbytes;
        g.granted = true;
        ++groups_granted_;
    }
}

void Schedule::settle() {
    for (const SpanPtr& span : spans_) {
        if (span->number < arena_complete_) continue;
        if (span->arena_left > 0) break;
        arena_complete_ = span->number + 1;
    }
    while (!spans_.empty() && spans_.front()->reads_left == 0 && spans_.front()->number < arena_complete_) spans_.pop_front();
    grant();
    // A step whose reads landed where they belong has nothing to copy: no thread needs to wake up for it.
    while (gatherable(started_)) {
        StepState& state = at(started_);
        if (state.span->entries.steps[static_cast<std::size_t>(state.step)].copies > 0) break;
        if (state.slab == nullptr) allocate(state);
        mark_gathered(started_++);
    }
    grant();
}

bool Schedule::ready() const { return !steps_.empty() && steps_.front().gathered; }

Delivery Schedule::take() {
    StepState state = std::move(steps_.front());
    steps_.pop_front();
    ++taken_;
    const Step& step = state.span->entries.steps[static_cast<std::size_t>(state.step)];
    Delivery out{step, std::move(state.slab), {}};
    while (!arena_failures_.empty() && arena_failures_.begin()->first <= state.span->number) {
        const auto& known = arena_failures_.begin()->second;
        out.failures.insert(out.failures.end(), known.begin(), known.end());
        arena_failures_.erase(arena_failures_.begin());
    }
    out.failures.insert(out.failures.end(), state.failures.begin(), state.failures.end());
    std::sort(out.failures.begin(), out.failures.end(), [](const Failure& a, const Failure& b) {
        return std::tie(a.file, a.offset, a.id, a.part) < std::tie(b.file, b.offset, b.id, b.part);
    });
    pool_->hand_over(*out.slab);
    used_ -= step.nbytes;
    while (!groups_.empty() && groups_.front().last < taken_) {
        groups_.pop_front();
        ++groups_gone_;
    }
    settle();
    return out;
}

void Schedule::clear() {
    spans_.clear();
    steps_.clear();
    groups_.clear();
    arena_failures_.clear();
}

std::int64_t Schedule::awaited_span() const {
    if (steps_.empty() || steps_.front().gathered) return -1;
    const StepState& head = steps_.front();
    for (const SpanPtr& span : spans_) {
        if (span->number > head.span->number) break;
        if (span->arena_left > 0) return span->number;
    }
    return group(head.group).reads_left > 0 ? head.span->number : -1;
}

bool Schedule::find(std::int64_t span, std::int64_t read, Read& out) const {
    for (const SpanPtr& s : spans_) {
        if (s->number != span || read < 0 || read >= static_cast<std::int64_t>(s->entries.reads.size())) continue;
        out = s->read(static_cast<std::int32_t>(read));
        return true;
    }
    return false;
}

std::string Schedule::waiting() const {
    if (steps_.empty()) return "no step is submitted beyond the " + std::to_string(taken_) + " that were taken";
    const StepState& head = steps_.front();
    const Step& step = head.span->entries.steps[static_cast<std::size_t>(head.step)];
    const std::string name = "step " + std::to_string(step.step);
    if (head.gathered) return name + " is ready";
    const std::int64_t number = awaited_span();
    if (number < 0) return name + (started_ > taken_ ? " is being gathered" : " waits for a thread to gather it");
    for (const SpanPtr& span : spans_) {
        if (span->number != number) continue;
        std::string text = "span " + std::to_string(span->index) + ": " + std::to_string(span->reads_left) + " of " +
                           std::to_string(span->entries.reads.size()) + " reads outstanding";
        if (!open(*span)) text += ", none issued before the steps below " + std::to_string(span->after) + " are gathered";
        return text;
    }
    return name + " is under way";
}

}  // namespace headrace
