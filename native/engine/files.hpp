// Which descriptor belongs to a file? Opened when first read, closed when long unused, never more than a few hundred.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/counters.hpp"
#include "engine/faults.hpp"
#include "engine/trust.hpp"

namespace headrace {

enum class Access { buffered, direct, mapped };  // through the page cache, around it, or out of it without a system call

struct Identity {  // of a file, as it was when the dataset was opened
    std::int64_t size, modified_ns;
};

// An open file. The table drops its reference to evict it; the descriptor closes when the last read of it is done.
class OpenFile {
  public:
    OpenFile(int fd, bool direct, std::int64_t map);  // its first `map` bytes mapped, 0: none
    ~OpenFile();
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    const int fd;
    const bool direct;
    const std::byte* view = nullptr;  // of the first `viewed` bytes, where the file is mapped
    std::int64_t viewed = 0;
};

using FilePtr = std::shared_ptr<const OpenFile>;

class Files {
  public:
    Files(std::vector<std::string> paths, std::vector<Identity> known, bool random, Access access, std::int64_t map_from,
          std::int64_t map_after, const Faults& faults);

    // Null with `error` where it cannot be opened: ESTALE where it is another file than it was. One that is shorter than
    // it was is opened: what is missing is told by the reads that miss it.
    FilePtr get(std::int32_t file, Tally& tally, int& error);
    FilePtr find(std::int32_t file);                           // null where it is not open now
    void refuse_direct(std::int32_t file, Tally& tally);       // the next `get` opens it buffered
    void close();
    Trust& trust() { return trust_; }  // in mapped files
    const std::string& path(std::int32_t file) const { return paths_[static_cast<std::size_t>(file)]; }
    std::int32_t count() const { return static_cast<std::int32_t>(paths_.size()); }
    std::int64_t open_count() const;

  private:
    struct Entry {
        FilePtr file;
        std::list<std::int32_t>::iterator place;
    };
    FilePtr open(std::int32_t file, bool direct, Tally& tally, int& error);
    bool changed(std::int32_t file, const struct stat& now) const;
    int open_once(std::int32_t file, bool direct, Tally& tally) const;
    void evict(std::size_t keep);

    const std::vector<std::string> paths_;
    const std::vector<Identity> known_;  // empty: not compared
    const bool random_;
    const Access access_;
    const std::int64_t map_from_;
    const std::size_t limit_;
    const Faults& faults_;
    Trust trust_;
    mutable std::mutex mutex_;
    std::list<std::int32_t> recent_;  // most recently used first
    std::unordered_map<std::int32_t, Entry> open_;
    std::unordered_set<std::int32_t> buffered_;  // files that refused direct I/O
};

}  // namespace headrace
