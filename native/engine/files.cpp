#include "engine/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

OpenFile::OpenFile(int fd, bool direct, std::int64_t map) : fd(fd), direct(direct) {
    if (map <= 0) return;
    const auto size = static_cast<std::size_t>(map);
    void* p = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return;  // a filesystem that cannot map: read it by system calls
    // No read-ahead around a page that is missing, and no page table to copy at a fork.
    madvise(p, size, MADV_RANDOM);
    madvise(p, size, MADV_DONTFORK);
    view = static_cast<const std::byte*>(p);
    viewed = map;
}

OpenFile::~OpenFile() {
    if (view != nullptr) munmap(const_cast<std::byte*>(view), static_cast<std::size_t>(viewed));
    ::close(fd);
}

Files::Files(std::vector<std::string> paths, std::vector<Identity> known, bool random, Access access,
             std::int64_t map_from, std::int64_t map_after, const Faults& faults)
    : paths_(std::move(paths)),
      known_(std::move(known)),
      random_(random),
      access_(access),
      map_from_(map_from),
      limit_(descriptor_limit()),
      faults_(faults),
      // Injected faults act on system calls.
      trust_(access == Access::mapped && !faults.any() && faults.at_most == 0, map_after) {}

FilePtr Files::find(std::int32_t file) {
    const std::lock_guard lock(mutex_);
    const auto it = open_.find(file);
    if (it == open_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, it->second.place);
    return it->second.file;
}

FilePtr Files::get(std::int32_t file, Tally& tally, int& error) {
    for (;;) {
        if (FilePtr found = find(file)) return found;
        bool direct = access_ == Access::direct;
        if (direct) {
            const std::lock_guard lock(mutex_);
            direct = !buffered_.contains(file);
        }
        // Opened without the lock: on a network filesystem an open takes a round trip, and they must overlap.
        FilePtr opened = open(file, direct, tally, error);
        if (opened == nullptr) return nullptr;
        const std::lock_guard lock(mutex_);
        if (opened->direct && buffered_.contains(file)) continue;  // refused meanwhile: open it again, without
        if (const auto it = open_.find(file); it != open_.end()) return it->second.file;  // another thread was first
        evict(limit_ - 1);
        recent_.push_front(file);
        open_.emplace(file, Entry{opened, recent_.begin()});
        return opened;
    }
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
    const bool map = trust_.ever();
    struct stat now {};
    if (map || !known_.empty()) {
        ++tally.syscalls;
        if (fstat(fd, &now) != 0) now.st_size = 0;
    }
    if (changed(file, now)) {
        ::close(fd);
        error = ESTALE;
        return nullptr;
    }
    const auto opened = std::make_shared<const OpenFile>(fd, direct, map && now.st_size >= map_from_ ? now.st_size : 0);
    if (opened->view != nullptr) tally.syscalls += 3;
    return opened;
}

bool Files::changed(std::int32_t file, const struct stat& now) const {
    if (known_.empty()) return false;
    const Identity& known = known_[static_cast<std::size_t>(file)];
    const std::int64_t modified = now.st_mtim.tv_sec * std::int64_t{1'000'000'000} + now.st_mtim.tv_nsec;
    return now.st_size > known.size || (now.st_size == known.size && modified != known.modified_ns);
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
    if (buffered_.insert(file).second) ++tally.fallbacks;
    const auto it = open_.find(file);
    if (it == open_.end() || !it->second.file->direct) return;
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
    for (;;) {
        FilePtr last;  // closed without the lock: giving up a large mapping takes milliseconds, and threads share the work
        const std::lock_guard lock(mutex_);
        if (open_.empty()) return;
        const auto it = open_.find(recent_.back());
        last = std::move(it->second.file);
        open_.erase(it);
        recent_.pop_back();
    }
}

std::int64_t Files::open_count() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(open_.size());
}

}  // namespace headrace
