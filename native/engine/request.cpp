#include "engine/request.hpp"

#include <algorithm>
#include <cstring>

namespace headrace {

namespace {

// Adds a buffer, or lengthens the last one where the two are neighbours in memory.
void add(std::vector<iovec>& buffers, std::byte* to, std::int64_t n) {
    if (!buffers.empty()) {
        iovec& last = buffers.back();
        if (static_cast<std::byte*>(last.iov_base) + last.iov_len == to) {
            last.iov_len += static_cast<std::size_t>(n);
            return;
        }
    }
    buffers.push_back({to, static_cast<std::size_t>(n)});
}

}  // namespace

const Piece* first_piece(const Span& span, const Read& read, std::int64_t at) {
    const Piece* begin = span.pieces(read);
    return std::partition_point(begin, begin + read.pieces, [at](const Piece& p) { return p.end() <= at; });
}

std::int64_t Request::useful(std::int64_t returned) const {
    return std::clamp<std::int64_t>(low + returned - at, 0, end - at);
}

void Shaper::gather_buffers(Request& out, const Span& span, const Read& read, std::int64_t at) const {
    out.buffers.clear();
    const auto gap = [&](std::int64_t n) {
        for (; n > 0 && out.buffers.size() <= most_buffers; n -= std::min(n, scratch_bytes))
            out.buffers.push_back({scratch_, static_cast<std::size_t>(std::min(n, scratch_bytes))});
    };
    const Piece* last = span.pieces(read) + read.pieces;
    for (const Piece* p = first_piece(span, read, at); p != last && out.buffers.size() <= most_buffers; ++p) {
        if (p->offset > at) gap(p->offset - at);
        const std::int64_t from = std::max(at, p->offset);
        add(out.buffers, span.address(*p, arena_) + (from - p->offset), p->end() - from);
        at = p->end();
    }
    if (at < read.end()) gap(read.end() - at);
}

void Shaper::shape(Request& out, const Span& span, const Read& read, std::int64_t at, bool direct) const {
    out.at = out.low = at;
    out.end = read.end();
    out.bounced = direct;
    if (!direct) {
        gather_buffers(out, span, read, at);
        const auto n = static_cast<std::int64_t>(out.buffers.size());
        out.bounced = out.buffers.size() > most_buffers || (n > 1 && (out.end - at) / n < rules_.bounce_below);
    }
    if (out.bounced) {
        out.end = std::min(out.end, at + rules_.bounce);
        if (direct) out.low = at / rules_.align * rules_.align;
    }
    out.nbytes = out.end - out.low;
    if (direct) out.nbytes = (out.nbytes + rules_.align - 1) / rules_.align * rules_.align;
}

void Shaper::scatter(const Span& span, const Read& read, std::int64_t at, std::int64_t n, const std::byte* from) const {
    const std::int64_t end = at + n;
    const Piece* last = span.pieces(read) + read.pieces;
    for (const Piece* p = first_piece(span, read, at); p != last && p->offset < end; ++p) {
        const std::int64_t low = std::max(at, p->offset), high = std::min(end, p->end());
        std::memcpy(span.address(*p, arena_) + (low - p->offset), from + (low - at), static_cast<std::size_t>(high - low));
    }
}

}  // namespace headrace
