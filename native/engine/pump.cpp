#include "engine/pump.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace headrace {

namespace {

constexpr std::uint64_t wake_tag = ~0ULL;
constexpr std::int64_t most_bounce = 32 << 20;  // of all reads in flight together, unless one alone needs more

}  // namespace

std::unique_ptr<Pump> Pump::make(Core& core, std::string& why) {
    std::unique_ptr<Pump> pump(new Pump(core));
    const auto entries = static_cast<unsigned>(core.options.depth + 1);
    if (!pump->ring_.open(entries, why)) return nullptr;
    pump->event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pump->event_ < 0) {
        why = std::string("eventfd: ") + std::strerror(errno);
        return nullptr;
    }
    return pump;
}

Pump::Pump(Core& core)
    : core_(core),
      scratch_(scratch_bytes),
      shaper_(core.means.rules, core.arena.data(), scratch_.data()),
      slots_(static_cast<std::size_t>(core.options.depth)),
      progress_(slots_.size()) {
    for (std::size_t s = slots_.size(); s-- > 0;) free_.push_back(s);
}

Pump::~Pump() {
    if (event_ >= 0) close(event_);
}

void Pump::wake() {
    parked_ = false;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(event_, &one, sizeof one);  // full means that it is awake already
}

// Takes reads for the free slots. It parks in the same breath, so that work which comes later finds it parked.
void Pump::fill() {
    const std::lock_guard lock(core_.mutex);
    while (!free_.empty() && !core_.over()) {
        ReadWork work = core_.schedule.pick_reads(free_.size(), INT64_MAX, 1);
        if (work.span == nullptr) break;
        for (const std::int32_t r : work.reads) {
            Slot& slot = slots_[free_.back()];
            slot.span = work.span;
            slot.read = r;
            progress_[free_.back()].start(work.span->number, r);
            waiting_.push_back(free_.back());
            free_.pop_back();
        }
        core_.depth.change(static_cast<std::int64_t>(work.reads.size()));
    }
    parked_ = !free_.empty();
}

void Pump::run() {
    while (true) {
        fill();
        if (start_waiting()) {  // slots came free: fill them before sleeping
            hand_in();
            ring_.enter(0);
            continue;
        }
        if (core_.stopped && in_ring_ == 0) return;
        if (!armed_) {
            ring_.poll(event_, wake_tag);
            armed_ = true;
        }
        const int n = ring_.enter(1);
        if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY)
            throw Failed(std::string("io_uring_enter: ") + std::strerror(-n));
        ++done_.syscalls;
        ring_.reap([&](std::uint64_t tag, std::int32_t result) {
            if (tag == wake_tag)
                awake();
            else
                finish(static_cast<std::size_t>(tag), result);
        });
        hand_in();
    }
}

void Pump::awake() {
    armed_ = false;
    std::uint64_t count;
    [[maybe_unused]] const ssize_t got = ::read(event_, &count, sizeof count);
    ++done_.wakeups;
}

// Puts the waiting slots into the ring; true where some went to the threads instead.
bool Pump::start_waiting() {
    std::vector<std::size_t> later;
    bool handed = false;
    for (const std::size_t s : waiting_) {
        Slot& slot = slots_[s];
        if (core_.stopped || !prepare(s)) {
            repair(s, slot.span->read(slot.read).offset);
            handed = true;
        } else if (slot.file == nullptr) {
            later.push_back(s);
        }
    }
    waiting_ = std::move(later);
    return handed && !core_.stopped;
}

bool Pump::lend_bounce(Slot& slot) {
    const auto least = static_cast<std::uint64_t>(std::max<std::int64_t>(slot.request.nbytes, 64 << 10));
    const auto want = static_cast<std::int64_t>(std::bit_ceil(least));
    for (auto it = bounces_.begin(); it != bounces_.end(); ++it)
        if (it->size() == want) {
            slot.bounce = std::move(*it);
            bounces_.erase(it);
            return true;
        }
    while (!bounces_.empty() && bounce_bytes_ + want > most_bounce) {
        bounce_bytes_ -= bounces_.back().size();
        bounces_.pop_back();
    }
    if (bounce_bytes_ > 0 && bounce_bytes_ + want > most_bounce) return false;
    slot.bounce = Mapping(want);
    bounce_bytes_ += want;
    return true;
}

bool Pump::prepare(std::size_t s) {
    Slot& slot = slots_[s];
    const Read& read = slot.span->read(slot.read);
    const Faults& faults = *core_.faults;
    if (faults.any() && faults.touches(read.file, read.offset, read.nbytes)) return false;
    FilePtr file = core_.files.find(read.file);
    if (file == nullptr) return false;
    Request& r = slot.request;
    shaper_.shape(r, *slot.span, read, read.offset, file->direct);
    if (r.end < read.end()) return false;  // longer than the bounce buffer: many operations
    if (r.bounced && !lend_bounce(slot)) return true;  // without a file: it waits for another to finish
    slot.file = std::move(file);
    ++done_.operations;
    core_.trace.add(read.file, r.at, r.end);
    if (r.bounced)
        ring_.read(slot.file->fd, slot.bounce.data(), r.nbytes, r.low, s);
    else if (r.buffers.size() == 1)
        ring_.read(slot.file->fd, r.buffers[0].iov_base, r.nbytes, r.low, s);
    else
        ring_.readv(slot.file->fd, r.buffers.data(), r.buffers.size(), r.low, s);
    ++in_ring_;
    return true;
}

void Pump::finish(std::size_t s, std::int32_t result) {
    --in_ring_;
    Slot& slot = slots_[s];
    const Read& read = slot.span->read(slot.read);
    const std::int64_t n = result < 0 ? 0 : core_.faults->clip(result, slot.file->direct ? core_.options.align : 1);
    const std::int64_t useful = slot.request.useful(n);
    done_.read_ns += now_ns() - progress_[s].since;
    done_.bytes += useful;
    done_.rounding += n - useful;
    if (slot.request.bounced) {
        shaper_.scatter(*slot.span, read, read.offset, useful, slot.bounce.data() + (read.offset - slot.request.low));
        done_.bytes_bounced += useful;
    }
    if (useful < read.nbytes) {
        // A thread finds out why: it goes on where this one stopped, and meets the error or the end of the file itself.
        ++(useful > 0 ? done_.short_reads : done_.retries);
        repair(s, read.offset + useful);
        return;
    }
    done_.pieces += read.pieces;
    if (core_.options.drop) drop_behind(core_.means, *slot.span, read, done_);
    finished_.push_back({std::move(slot.span), slot.read});
    release(s);
}

void Pump::repair(std::size_t s, std::int64_t at) {
    repairs_.push_back({std::move(slots_[s].span), slots_[s].read, at});
    release(s);
}

void Pump::release(std::size_t s) {
    Slot& slot = slots_[s];
    progress_[s].span = -1;
    slot.span = nullptr;
    slot.file = nullptr;
    if (slot.bounce.size() > 0) bounces_.push_back(std::move(slot.bounce));
    slot.bounce = Mapping();
    free_.push_back(s);
}

void Pump::hand_in() {
    const std::lock_guard lock(core_.mutex);
    core_.tally.add(done_);
    done_ = {};
    core_.bounce_bytes += bounce_bytes_ - bounce_told_;
    bounce_told_ = bounce_bytes_;
    const bool any = !finished_.empty() || !repairs_.empty();
    core_.depth.change(-static_cast<std::int64_t>(finished_.size() + repairs_.size()));
    if (any && !core_.over()) {
        for (const Finished& f : finished_) core_.schedule.complete_read(*f.span, f.read);
        for (Repair& r : repairs_) core_.repairs.push_back(std::move(r));
        parked_ = false;  // it looks for work next, without being told
        core_.schedule.settle();
        core_.wake();
    }
    finished_.clear();
    repairs_.clear();
}

}  // namespace headrace
