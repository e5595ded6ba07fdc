#include "engine/uring.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace headrace {

bool Ring::open(unsigned entries, std::string& why) {
    io_uring_params p{};
    p.flags = IORING_SETUP_CLAMP;
    fd_ = static_cast<int>(syscall(SYS_io_uring_setup, entries, &p));
    if (fd_ < 0) {
        why = std::string("io_uring_setup: ") + std::strerror(errno);
        return false;
    }
    // One mapping (5.4), completions never dropped (5.5), plain read (5.6): older kernels read with threads.
    constexpr unsigned needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS;
    if ((p.features & needed) != needed) {
        why = "io_uring of this kernel is older than 5.6";
        return false;
    }
    if (!map(p)) {
        why = std::string("mapping the io_uring: ") + std::strerror(errno);
        return false;
    }
    return true;
}

bool Ring::map(const io_uring_params& p) {
    rings_size_ = std::max<std::size_t>(p.sq_off.array + p.sq_entries * sizeof(unsigned),
                                        p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe));
    void* m = mmap(nullptr, rings_size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, IORING_OFF_SQ_RING);
    if (m == MAP_FAILED) return false;
    rings_ = m;
    sqes_size_ = p.sq_entries * sizeof(io_uring_sqe);
    void* s = mmap(nullptr, sqes_size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, IORING_OFF_SQES);
    if (s == MAP_FAILED) return false;
    sqes_ = static_cast<io_uring_sqe*>(s);
    auto* base = static_cast<std::byte*>(rings_);
    const auto word = [base](unsigned at) { return reinterpret_cast<unsigned*>(base + at); };
    sq_tail_ = word(p.sq_off.tail), sq_mask_ = word(p.sq_off.ring_mask), sq_array_ = word(p.sq_off.array);
    cq_head_ = word(p.cq_off.head), cq_tail_ = word(p.cq_off.tail), cq_mask_ = word(p.cq_off.ring_mask);
    cqes_ = reinterpret_cast<io_uring_cqe*>(base + p.cq_off.cqes);
    // A forked child must not see the queues: it could submit to its parent's ring.
    madvise(rings_, rings_size_, MADV_DONTFORK);
    madvise(sqes_, sqes_size_, MADV_DONTFORK);
    return true;
}

Ring::~Ring() {
    if (sqes_ != nullptr) munmap(sqes_, sqes_size_);
    if (rings_ != nullptr) munmap(rings_, rings_size_);
    if (fd_ >= 0) close(fd_);
}

io_uring_sqe& Ring::next(std::uint8_t opcode, int fd, std::uint64_t tag) {
    const unsigned tail = *sq_tail_;  // this thread alone writes it
    const unsigned slot = tail & *sq_mask_;
    io_uring_sqe& e = sqes_[slot];
    e = {};
    e.opcode = opcode;
    e.fd = fd;
    e.user_data = tag;
    sq_array_[slot] = slot;
    __atomic_store_n(sq_tail_, tail + 1, __ATOMIC_RELEASE);
    ++pending_;
    return e;
}

void Ring::read(int fd, void* to, std::int64_t nbytes, std::int64_t offset, std::uint64_t tag) {
    io_uring_sqe& e = next(IORING_OP_READ, fd, tag);
    e.addr = reinterpret_cast<std::uint64_t>(to);
    e.len = static_cast<std::uint32_t>(std::min<std::int64_t>(nbytes, INT32_MAX & ~4095));
    e.off = static_cast<std::uint64_t>(offset);
}

void Ring::readv(int fd, const iovec* buffers, std::size_t n, std::int64_t offset, std::uint64_t tag) {
    io_uring_sqe& e = next(IORING_OP_READV, fd, tag);
    e.addr = reinterpret_cast<std::uint64_t>(buffers);
    e.len = static_cast<std::uint32_t>(n);
    e.off = static_cast<std::uint64_t>(offset);
}

void Ring::poll(int fd, std::uint64_t tag) { next(IORING_OP_POLL_ADD, fd, tag).poll32_events = POLLIN; }

int Ring::enter(unsigned wait_for) {
    const long n = syscall(SYS_io_uring_enter, fd_, pending_, wait_for, wait_for > 0 ? IORING_ENTER_GETEVENTS : 0U, nullptr, 0);
    if (n < 0) return -errno;
    pending_ -= static_cast<unsigned>(n);
    return static_cast<int>(n);
}

}  // namespace headrace
