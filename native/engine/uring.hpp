// An io_uring of one thread: submission and completion queues over raw system calls.
//
// Only what the engine needs: read, readv, and a poll on the eventfd that wakes the thread. Made without liburing so that
// a C++ compiler is all a build takes.
#pragma once

#include <linux/io_uring.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace headrace {

class Ring {
  public:
    Ring() = default;
    ~Ring();
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    bool open(unsigned entries, std::string& why);  // false with the reason where the kernel has no usable ring

    void read(int fd, void* to, std::int64_t nbytes, std::int64_t offset, std::uint64_t tag);
    void readv(int fd, const iovec* buffers, std::size_t n, std::int64_t offset, std::uint64_t tag);
    void poll(int fd, std::uint64_t tag);
    int enter(unsigned wait_for);  // submits what was added, and waits; -errno
    template <class F>
    void reap(F&& completed) {  // completed(tag, result)
        unsigned head = *cq_head_;
        const unsigned tail = __atomic_load_n(cq_tail_, __ATOMIC_ACQUIRE);
        for (; head != tail; ++head) {
            const io_uring_cqe& e = cqes_[head & *cq_mask_];
            completed(e.user_data, e.res);
        }
        __atomic_store_n(cq_head_, head, __ATOMIC_RELEASE);
    }

  private:
    io_uring_sqe& next(std::uint8_t opcode, int fd, std::uint64_t tag);
    bool map(const io_uring_params& p);

    int fd_ = -1;
    void* rings_ = nullptr;
    std::size_t rings_size_ = 0;
    io_uring_sqe* sqes_ = nullptr;
    std::size_t sqes_size_ = 0;
    unsigned *sq_tail_ = nullptr, *sq_mask_ = nullptr, *sq_array_ = nullptr;
    unsigned *cq_head_ = nullptr, *cq_tail_ = nullptr, *cq_mask_ = nullptr;
    io_uring_cqe* cqes_ = nullptr;
    unsigned pending_ = 0;  // added and not submitted
};

}  // namespace headrace
