// How are reads of mapped files carried out? By copying, with no system call but one look at each file's size.
//
// What cannot be copied (a file that is not mapped, a page that cannot be had, a file that was cut meanwhile) is left to
// the reader, which meets the error or the end of the file itself and names it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/reader.hpp"

namespace headrace {

class Mapped {  // one thread's
  public:
    explicit Mapped(const Means& means);

    // Copies what it can of these reads; `reached` gets the offset that each one got to.
    void take(const Span& span, const std::vector<std::int32_t>& reads, std::vector<std::int64_t>& reached, Tally& tally);

  private:
    struct Source {
        std::int32_t number;
        FilePtr file;
    };
    void find(const Span& span, const std::vector<std::int32_t>& reads, Tally& tally);
    bool copy(const OpenFile& file, const Span& span, const Read& read) const;
    void distrust_cut_files(Tally& tally);

    const Means means_;
    const Shaper shaper_;
    std::vector<Source> sources_;           // of the reads under way
    std::vector<const OpenFile*> from_;     // of each read; null: not copied
    std::int64_t faults_;                   // of this thread that went to a disk, so far
};

}  // namespace headrace
