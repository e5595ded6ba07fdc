#include "engine/mapped.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "engine/fetch.hpp"
#include "engine/guard.hpp"

namespace headrace {

namespace {

// Copies that take longer than this may have waited for a disk: then the kernel is asked.
std::int64_t suspicious_ns(std::int64_t nbytes) { return 50'000 + nbytes; }

std::int64_t disk_faults() {
    rusage usage{};
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_majflt : 0;
}

}  // namespace

Mapped::Mapped(const Means& means)
    : means_(means), shaper_(means.rules, means.arena, nullptr), faults_(disk_faults()) {}

bool Mapped::copy(const OpenFile& file, const Span& span, const Read& read) const {
    struct Job {
        const Shaper& shaper;
        const Span& span;
        const Read& read;
        const std::byte* from;
    } job{shaper_, span, read, file.view + read.offset};
    return guarded(job.from, static_cast<std::size_t>(read.nbytes), [](void* given) {
        const Job& j = *static_cast<const Job*>(given);
        j.shaper.scatter(j.span, j.read, j.read.offset, j.read.nbytes, j.from);
    }, &job);
}

void Mapped::find(const Span& span, const std::vector<std::int32_t>& reads, Tally& tally) {
    sources_.clear();
    from_.assign(reads.size(), nullptr);
    for (std::size_t k = 0; k < reads.size(); ++k) {
        const Read& read = span.read(reads[k]);
        auto source = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) { return s.number == read.file; });
        if (source == sources_.end()) {
            int error = 0;
            source = sources_.insert(source, {read.file, means_.files.get(read.file, tally, error)});
        }
        if (source->file != nullptr && read.end() <= source->file->viewed) from_[k] = source->file.get();
    }
}

// A file that was cut has zeros between its new end and the end of that page, and no fault tells. So its size is looked
// at after the copies: what was copied before it was cut is good.
void Mapped::distrust_cut_files(Tally& tally) {
    for (const Source& s : sources_) {
        if (s.file == nullptr || s.file->view == nullptr) continue;
        struct stat status {};
        ++tally.syscalls;
        if (fstat(s.file->fd, &status) == 0 && status.st_size >= s.file->viewed) continue;
        means_.files.trust().never();
        for (const OpenFile*& file : from_)
            if (file == s.file.get()) file = nullptr;
    }
}

void Mapped::take(const Span& span, const std::vector<std::int32_t>& reads, std::vector<std::int64_t>& reached, Tally& tally) {
    const std::int64_t start = now_ns();
    find(span, reads, tally);
    for (std::size_t k = 0; k < reads.size(); ++k) {
        if (k + 1 < reads.size() && from_[k + 1] != nullptr) {
            const Read& next = span.read(reads[k + 1]);
            fetch_ahead(from_[k + 1]->view + next.offset, next.nbytes);
        }
        if (from_[k] != nullptr && !copy(*from_[k], span, span.read(reads[k]))) from_[k] = nullptr;
    }
    distrust_cut_files(tally);
    std::int64_t copied = 0;
    for (std::size_t k = 0; k < reads.size(); ++k) {
        const Read& read = span.read(reads[k]);
        reached[k] = read.offset;
        if (from_[k] == nullptr) continue;
        reached[k] = read.end();
        means_.trace.add(read.file, read.offset, read.end());
        ++tally.operations;
        copied += read.nbytes;
    }
    const std::int64_t took = now_ns() - start;
    tally.bytes += copied;
    tally.read_ns += took;
    const std::int64_t before = faults_;
    if (took > suspicious_ns(copied)) faults_ = disk_faults();
    means_.files.trust().copied(copied, faults_ - before);
    sources_.clear();  // only the table of files decides how long one stays open
}

}  // namespace headrace
