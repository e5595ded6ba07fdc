#include "kernels/coalesce.hpp"

#include <algorithm>

namespace headrace {
namespace {

bool before(const Wanted& a, const Wanted& b) {
    return a.file != b.file ? a.file < b.file : a.piece.offset < b.piece.offset;
}

class Merger {
  public:
    Merger(const Merging& rule, std::vector<Read>& reads, std::vector<Piece>& pieces)
        : rule_(rule), most_(std::max(rule.align, rule.max_read / rule.align * rule.align)), reads_(reads), pieces_(pieces) {}

    void add(int32_t file, Piece piece) {
        while (piece.nbytes > 0) {
            int64_t start = piece.offset - piece.offset % rule_.align;
            int64_t stop = end(file, std::min(piece.offset + piece.nbytes, start + most_));
            if (!joins(file, start, stop, piece.offset)) open(file, start, stop);
            Piece cut = piece;
            cut.nbytes = std::min(piece.offset + piece.nbytes, start + most_) - piece.offset;
            Read& read = reads_.back();
            read.nbytes = std::max(read.nbytes, stop - read.offset);
            ++read.pieces;
            pieces_.push_back(cut);
            piece.offset += cut.nbytes;
            piece.dest += cut.nbytes;
            piece.nbytes -= cut.nbytes;
        }
    }

  private:
    int64_t end(int32_t file, int64_t stop) const {
        int64_t rounded = (stop + rule_.align - 1) / rule_.align * rule_.align;
        return std::max(stop, std::min(rounded, rule_.file_sizes[file]));
    }

    bool joins(int32_t file, int64_t start, int64_t stop, int64_t piece) const {
        if (!open_ || reads_.back().file != file) return false;
        // Two ids may stand for the same bytes, or for overlapping ones. The pieces of a read do not overlap: read twice.
        if (pieces_.back().end() > piece) return false;
        const Read& read = reads_.back();
        int64_t gap = start - (read.offset + read.nbytes);
        return gap <= rule_.gap && stop - read.offset <= most_;
    }

    void open(int32_t file, int64_t start, int64_t stop) {
        reads_.push_back({file, 0, static_cast<int64_t>(pieces_.size()), start, stop - start});
        open_ = true;
    }

    const Merging& rule_;
    int64_t most_;  // longest read: `max_read` in whole multiples of `align`
    std::vector<Read>& reads_;
    std::vector<Piece>& pieces_;
    bool open_ = false;
};

}  // namespace

void coalesce(std::vector<Wanted>& wanted, const Merging& rule, std::vector<Read>& reads, std::vector<Piece>& pieces) {
    if (!std::is_sorted(wanted.begin(), wanted.end(), before)) std::stable_sort(wanted.begin(), wanted.end(), before);
    Merger merger(rule, reads, pieces);
    for (const Wanted& w : wanted) merger.add(w.file, w.piece);
}

}  // namespace headrace
