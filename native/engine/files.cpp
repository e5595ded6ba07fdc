#include "engine/files.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace headrace {

namespace {

// Half of what the process may open, so that the user's own files always find room.
std::size_t descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 512;
    return std::clamp<std::size_t>(limit.rlim_cur / 2, 1, 512);
}

}  // namespace

OpenFile::~OpenFile() { ::close(fd); }

Files::Files(std::vector<std::string> paths, bool random, bool direct, const Faults& faults)
    : paths_(std::move(paths)), random_(random), direct_(direct), limit_(descriptor_limit()), faults_(faults) {}

FilePtr Files::find(std::int32_t file) {
    const std::lock_guard lock(mutex_);
    const auto it = open_.find(file);
    if (it == open_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, it->second.place);
    return it->second.file;
}

FilePtr Files::get(std::int32_t file, Tally& tally, int& error) {
    if (FilePtr found = find(file)) return found;
    bool direct = direct_;
    if (direct) {
        const std::lock_guard lock(mutex_);
        direct = !buffered_.contains(file);
    }
    // Opened without the lock: on a network filesystem an open takes a round trip, and they must overlap.
    FilePtr opened = open(file, direct, tally, error);
    if (opened == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto it = open_.find(file);
    if (it != open_.end()) return it->second.file;  // another thread was first; ours closes
    evict(limit_ - 1);
    recent_.push_front(file);
    open_.emplace(file, Entry{opened, recent_.begin()});
    return opened;
}

FilePtr Files::open(std::int32_t file, bool direct, Tally& tally, int& error) {
    int fd = open_once(file, direct, tally);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        {
            const std::lock_guard lock(mutex_);
            evict(0);
        }
        fd = open_once(file, direct, tally);
    }
    if (fd < 0 && direct && errno == EINVAL) {
        refuse_direct(file, tally);
        direct = false;
        fd = open_once(file, direct, tally);
    }
    if (fd < 0) {
        error = errno;
        return nullptr;
    }
    if (random_) {
        ++tally.syscalls;
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    }
    return std::make_shared<const OpenFile>(fd, direct);
}

int Files::open_once(std::int32_t file, bool direct, Tally& tally) const {
    if (const int fault = faults_.open_error(file); fault != 0) {
        errno = fault;
        return -1;
    }
    if (direct && faults_.refuse_direct) {
        errno = EINVAL;
        return -1;
    }
    ++tally.syscalls, ++tally.opens;
    int fd;
    do {
        fd = ::open(path(file).c_str(), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
    } while (fd < 0 && errno == EINTR);
    return fd;
}

void Files::refuse_direct(std::int32_t file, Tally& tally) {
    const std::lock_guard lock(mutex_);
    if (!buffered_.insert(file).second) return;
    ++tally.fallbacks;
    const auto it = open_.find(file);
    if (it == open_.end()) return;
    recent_.erase(it->second.place);
    open_.erase(it);
}

void Files::evict(std::size_t keep) {
    while (open_.size() > keep) {
        open_.erase(recent_.back());
        recent_.pop_back();
    }
}

void Files::close() {
    const std::lock_guard lock(mutex_);
    evict(0);
}

std::int64_t Files::open_count() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(open_.size());
}

}  // namespace headrace
