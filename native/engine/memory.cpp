#include "engine/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace headrace {

namespace {

constexpr std::int64_t page = 4096;
constexpr std::int64_t huge = 2 << 20;

// Sizes that buffers are rounded to: sixteen per power of two, so that batches of about one size share buffers, and a
// buffer is at most a sixteenth larger than what was asked for.
std::int64_t size_class(std::int64_t nbytes) {
    const auto n = static_cast<std::uint64_t>(std::max(nbytes, page));
    const std::uint64_t step = std::max<std::uint64_t>(std::bit_floor(n) / 16, page);
    return static_cast<std::int64_t>((n + step - 1) / step * step);
}

}  // namespace

std::int64_t Pool::bound() const { return std::max(budget_ + budget_ / 16, largest_) + largest_; }

Mapping::Mapping(std::int64_t nbytes) {
    if (nbytes <= 0) return;
    void* p = mmap(nullptr, static_cast<std::size_t>(nbytes), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(p);
    size_ = nbytes;
}

Mapping::~Mapping() {
    if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(size_));
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    Mapping old(std::move(*this));
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
}

void Mapping::advise_huge() const {
    if (size_ >= huge) madvise(data_, static_cast<std::size_t>(size_), MADV_HUGEPAGE);
}

void Mapping::advise_not_in_fork() const {
    if (data_ != nullptr) madvise(data_, static_cast<std::size_t>(size_), MADV_DONTFORK);
}

Pool::Pool(std::int64_t budget) : budget_(budget), owner_(getpid()) {}

std::shared_ptr<Slab> Pool::take(std::int64_t nbytes) {
    std::unique_ptr<Slab> slab;
    {
        const std::lock_guard lock(mutex_);
        const std::int64_t want = size_class(nbytes);
        auto best = free_.end();
        for (auto it = free_.begin(); it != free_.end(); ++it) {
            const std::int64_t size = (*it)->memory.size();
            if (size >= want && size <= 2 * want && (best == free_.end() || size < (*best)->memory.size())) best = it;
        }
        if (best != free_.end()) {
            slab = std::move(*best);
            free_.erase(best);
            free_bytes_ -= slab->memory.size();
        } else {
            largest_ = std::max(largest_, want);
            trim(want);
            slab = std::make_unique<Slab>();
            slab->memory = Mapping(want);
            slab->memory.advise_huge();
            ++allocated_, ++live_;
            live_bytes_ += want;
        }
        filling_bytes_ += slab->memory.size();
    }
    slab->nbytes = nbytes;
    slab->taken = false;
    // The deleter keeps the pool alive, so a buffer may outlive the engine.
    return {slab.release(), [self = shared_from_this()](Slab* s) { self->give_back(s); }};
}

void Pool::hand_over(Slab& slab) {
    const std::lock_guard lock(mutex_);
    slab.taken = true;
    filling_bytes_ -= slab.memory.size();
}

void Pool::trim(std::int64_t incoming) {
    while (!free_.empty() && filling_bytes_ + free_bytes_ + incoming > bound()) {
        free_bytes_ -= free_.front()->memory.size();
        live_bytes_ -= free_.front()->memory.size();
        --live_;
        free_.erase(free_.begin());
    }
}

void Pool::give_back(Slab* raw) noexcept {
    // In a forked child another thread may have held the lock at the fork, and the memory is a copy: leave it alone.
    if (getpid() != owner_) return;
    std::unique_ptr<Slab> slab(raw);
    const std::lock_guard lock(mutex_);
    const std::int64_t size = slab->memory.size();
    if (!slab->taken) filling_bytes_ -= size;
    if (!closed_ && filling_bytes_ + free_bytes_ + size <= bound()) {
        try {
            free_.push_back(std::move(slab));
            free_bytes_ += size;
            return;
        } catch (const std::bad_alloc&) {
            // No room for a pointer: unmapping the buffer below is what helps.
        }
    }
    live_bytes_ -= size;
    --live_;
}

void Pool::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (const auto& slab : free_) live_bytes_ -= slab->memory.size();
    live_ -= static_cast<std::int64_t>(free_.size());
    free_bytes_ = 0;
    free_.clear();
}

Pool::Stats Pool::stats() const {
    const std::lock_guard lock(mutex_);
    return {allocated_, live_, free_bytes_, live_bytes_};
}

}  // namespace headrace
