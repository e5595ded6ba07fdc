#include "engine/reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace headrace {

Reader::Reader(const Means& means, std::byte* bounce)
    : means_(means),
      scratch_(scratch_bytes),
      bounce_(bounce),
      shaper_(means.rules, means.arena, scratch_.data()) {}

std::int64_t Reader::issue(const OpenFile& file, const Read& read, Tally& tally) {
    const Request& r = request_;
    ++tally.operations;
    means_.trace.add(read.file, r.at, r.end);
    if (means_.faults.any()) {
        means_.faults.hold(read.file, r.at, r.end - r.at);
        if (const int error = means_.faults.error(read.file, r.at, r.end - r.at); error != 0) return -error;
    }
    ++tally.syscalls;
    const std::int64_t start = now_ns();
    ssize_t n;
    if (r.bounced)
        n = pread(file.fd, bounce_, static_cast<std::size_t>(r.nbytes), r.low);
    else if (r.buffers.size() == 1)
        n = pread(file.fd, r.buffers[0].iov_base, static_cast<std::size_t>(r.nbytes), r.low);
    else
        n = preadv(file.fd, r.buffers.data(), static_cast<int>(r.buffers.size()), r.low);
    const int error = errno;
    tally.read_ns += now_ns() - start;
    return n < 0 ? -error : means_.faults.clip(n, file.direct ? means_.rules.align : 1);
}

Reader::Outcome Reader::transfer(const Span& span, const Read& read, std::int64_t at, Tally& tally) {
    if (at >= read.end()) return {at, 0};
    int error = 0;
    FilePtr file = means_.files.get(read.file, tally, error);
    if (file == nullptr) return {at, error};
    while (at < read.end()) {
        shaper_.shape(request_, span, read, at, file->direct);
        const std::int64_t n = issue(*file, read, tally);
        if (n == -EINTR || n == -EAGAIN) {
            ++tally.retries;
            continue;
        }
        if (n == -EINVAL && file->direct) {
            ++tally.retries;
            means_.files.refuse_direct(read.file, tally);
            file = means_.files.get(read.file, tally, error);
            if (file == nullptr) return {at, error};
            continue;
        }
        if (n < 0) return {at, static_cast<int>(-n)};
        const std::int64_t useful = request_.useful(n);
        tally.bytes += useful;
        means_.files.trust().read(useful);
        tally.rounding += n - useful;
        if (useful == 0) break;  // the file ends here
        if (request_.bounced) {
            shaper_.scatter(span, read, at, useful, bounce_ + (at - request_.low));
            tally.bytes_bounced += useful;
        }
        at += useful;
        if (at < request_.end) ++tally.short_reads;
    }
    return {at, 0};
}

void Reader::run(const Span& span, const Read& read, std::int64_t at, Tally& tally, std::vector<Failure>& failures) {
    finish(span, read, transfer(span, read, at, tally), tally, failures);
    if (means_.drop) drop_behind(means_, span, read, tally);
}

void Reader::finish(const Span& span, const Read& read, Outcome outcome, Tally& tally, std::vector<Failure>& failures) {
    if (outcome.reached >= read.end()) {
        tally.pieces += read.pieces;
        return;
    }
    const Piece* begin = span.pieces(read);
    const Piece* last = begin + read.pieces;
    const Piece* p = first_piece(span, read, outcome.reached);
    tally.pieces += p - begin;
    const bool coalesced = read.pieces > 1 || (p != last && (p->offset != read.offset || p->end() != read.end()));
    // A file that could not be opened fails for all its pieces alike: trying each would only take longer.
    const bool apart = outcome.error != 0 && coalesced && means_.files.find(read.file) != nullptr;
    for (; p != last; ++p) {
        Outcome own = outcome;
        if (apart) {
            const Read alone{read.file, 1, p - span.entries.pieces.data(), p->offset, p->nbytes};
            ++tally.retries;
            own = transfer(span, alone, std::max(outcome.reached, p->offset), tally);
        }
        if (own.reached >= p->end()) {
            ++tally.pieces;
        } else {
            ++tally.failures;
            fail(span, *p, read, own, failures);
        }
    }
}

void Reader::fail(const Span& span, const Piece& p, const Read& read, Outcome outcome, std::vector<Failure>& failures) {
    // Zeros rather than whatever the buffer held before: nobody may take another sample's bytes for this one's.
    std::memset(span.address(p, means_.arena), 0, static_cast<std::size_t>(p.nbytes));
    const std::int64_t got = std::clamp<std::int64_t>(outcome.reached - p.offset, 0, p.nbytes);
    failures.push_back({p.id, p.part, read.file, p.offset, p.nbytes, outcome.error, p.step, got});
}

void drop_behind(const Means& means, const Span& span, const Read& read, Tally& tally) {
    const Piece* begin = span.pieces(read);
    if (std::none_of(begin, begin + read.pieces, [](const Piece& p) { return p.step < 0; })) return;
    if (const FilePtr file = means.files.find(read.file); file != nullptr && !file->direct) {
        ++tally.syscalls;
        posix_fadvise(file->fd, read.offset, read.nbytes, POSIX_FADV_DONTNEED);
    }
}

}  // namespace headrace
