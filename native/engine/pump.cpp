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
      slots_(static_cast<std::size_t>(core.options.depth)) {
    for (std::size_t s = slots_.size(); s-- > 0;) free_.push_back(s);
}

Pump::~Pump() {
    if (event_ >= 0) close(event_);
}

void Pump::wake() {
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
            slot.since = now_ns();
            waiting_.push_back(free_.back());
            free_.pop_back();
        }
        core_.depth.change(static_cast<std::int64_t>(work.reads.size()));
    }
    parked_ = !free_.empty();
}

void Pump::run() {
    for (;;) {
        fill();
        Tally done;
        std::vector<std::size_t> later;
        bool handed = false;
        for (const std::size_t s : waiting_) {
            Slot& slot = slots_[s];
            if (core_.stopped || !prepare(s, done)) {
                repair(slot, slot.span->read(slot.read).offset);
                free_.push_back(s);
                handed = true;
            } else if (slot.file == nullptr) {
                later.push_back(s);
            }
        }
        waiting_ = std::move(later);
        hand_in(done);
        if (core_.stopped && in_ring_ == 0) return;
        if (handed && !core_.stopped) {
            ring_.enter(0);  // slots came free: fill them before waiting
            continue;
        }
        if (!armed_) {
            ring_.poll(event_, wake_tag);
            armed_ = true;
        }
        const int n = ring_.enter(1);
        if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY) throw Failed(std::string("io_uring_enter: ") + std::strerror(-n));
        Tally reaped;
        ++reaped.syscalls;
        ring_.reap([&](std::uint64_t tag, std::int32_t result) {
            if (tag == wake_tag) {
                armed_ = false;
                std::uint64_t count;
                [[maybe_unused]] const ssize_t got = ::read(event_, &count, sizeof count);
                ++reaped.wakeups;
            } else {
                finish(static_cast<std::size_t>(tag), result, reaped);
            }
        });
        hand_in(reaped);
    }
}

bool Pump::lend_bounce(Slot& slot) {
    const auto want = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(slot.request.nbytes, 64 << 10))));
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

void Pump::free_bounce(Slot& slot) {
    if (slot.bounce.size() > 0) bounces_.push_back(std::move(slot.bounce));
    slot.bounce = Mapping();
}

bool Pump::prepare(std::size_t s, Tally& done) {
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
    ++done.operations;
    core_.trace.add(read.file, r);
    if (r.bounced)
        ring_.read(slot.file->fd, slot.bounce.data(), r.nbytes, r.low, s);
    else if (r.buffers.size() == 1)
        ring_.read(slot.file->fd, r.buffers[0].iov_base, r.nbytes, r.low, s);
    else
        ring_.readv(slot.file->fd, r.buffers.data(), r.buffers.size(), r.low, s);
    ++in_ring_;
    return true;
}

void Pump::finish(std::size_t s, std::int32_t result, Tally& done) {
    --in_ring_;
    Slot& slot = slots_[s];
    const Read& read = slot.span->read(slot.read);
    const std::int64_t n = result < 0 ? 0 : core_.faults->clip(result, slot.file->direct ? core_.options.align : 1);
    const std::int64_t useful = slot.request.useful(n);
    done.read_ns += now_ns() - slot.since;
    done.bytes += useful;
    done.rounding += n > useful ? n - useful : 0;
    if (slot.request.bounced) {
        shaper_.scatter(*slot.span, read, read.offset, useful, slot.bounce.data() + (read.offset - slot.request.low));
        done.bytes_bounced += useful;
    }
    if (useful == read.nbytes) {
        done.pieces += read.pieces;
        if (core_.options.drop) drop_behind(core_.means, *slot.span, read, done);
        finished_.push_back({std::move(slot.span), slot.read});
    } else {
        // A thread finds out why: it goes on where this one stopped, and meets the error or the end of the file itself.
        useful > 0 ? ++done.short_reads : ++done.retries;
        repair(slot, read.offset + useful);
    }
    slot.span = nullptr;
    slot.file = nullptr;
    free_bounce(slot);
    free_.push_back(s);
}

void Pump::repair(Slot& slot, std::int64_t at) {
    repairs_.push_back({std::move(slot.span), slot.read, at});
    slot.span = nullptr;
    free_bounce(slot);
}

void Pump::hand_in(Tally& done) {
    const std::lock_guard lock(core_.mutex);
    core_.tally.add(done);
    core_.bounce_bytes = std::max(core_.bounce_bytes, bounce_bytes_);
    core_.depth.change(-static_cast<std::int64_t>(finished_.size() + repairs_.size()));
    if (!core_.over()) {
        for (const Finished& f : finished_) core_.schedule.complete_read(*f.span, f.read);
        for (Repair& r : repairs_) core_.repairs.push_back(std::move(r));
        if (!finished_.empty() || !repairs_.empty()) {
            core_.schedule.settle();
            core_.wake();
        }
    }
    finished_.clear();
    repairs_.clear();
}

bool Pump::oldest(std::int64_t span, std::int32_t& read, std::int64_t& since) const {
    bool found = false;
    for (const Slot& slot : slots_)
        if (slot.span != nullptr && slot.span->number == span && (!found || slot.since < since)) {
            found = true;
            read = slot.read, since = slot.since;
        }
    return found;
}

}  // namespace headrace
