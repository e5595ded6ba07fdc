#include "engine/copy.hpp"

#include <cstring>
#include <stdexcept>

#include "engine/fetch.hpp"

namespace headrace {

namespace {

void copy_run(std::byte* to, const std::byte* from, std::int64_t n) {
    switch (n) {  // a fixed size compiles to a load and a store; narrow boxes live on these
        case 1: std::memcpy(to, from, 1); break;
        case 2: std::memcpy(to, from, 2); break;
        case 4: std::memcpy(to, from, 4); break;
        case 8: std::memcpy(to, from, 8); break;
        case 16: std::memcpy(to, from, 16); break;
        default: std::memcpy(to, from, static_cast<std::size_t>(n));
    }
}

}  // namespace

BoxShape::BoxShape(const std::vector<std::int64_t>& stored, const std::vector<std::int64_t>& valid,
                   const std::vector<std::int64_t>& origin, std::int64_t itemsize,
                   const std::vector<std::int64_t>& sample) {
    const std::size_t n = stored.size();
    if (n > 32 || valid.size() != n || origin.size() != n || sample.size() != n || itemsize <= 0)
        throw std::invalid_argument("a box needs stored, valid, origin and sample shape of one rank, and an item size");
    std::vector<std::int64_t> from(n), to(n);
    std::int64_t a = itemsize, b = itemsize, last = 0;
    for (std::size_t d = n; d-- > 0;) {
        if (valid[d] < 0 || origin[d] < 0 || valid[d] > stored[d] || origin[d] + valid[d] > sample[d])
            throw std::invalid_argument("a box must lie inside its stored chunk and inside its sample");
        from[d] = a, to[d] = b;
        row_start += origin[d] * b;
        last += (valid[d] - 1) * b;
        a *= stored[d], b *= sample[d];
    }
    stored_bytes = a;
    bool empty = false;
    for (const std::int64_t v : valid) empty = empty || v == 0;
    row_end = empty ? 0 : row_start + last + itemsize;
    run = empty ? 0 : itemsize;
    for (std::size_t d = n; d-- > 0;) {  // innermost first: grow the run while both sides are contiguous
        if (count.empty() && from[d] == run && to[d] == run) {
            run *= valid[d];
        } else {
            count.insert(count.begin(), valid[d]);
            stored_stride.insert(stored_stride.begin(), from[d]);
            row_stride.insert(row_stride.begin(), to[d]);
        }
    }
}

std::int64_t BoxShape::copy(const std::byte* chunk, std::byte* row) const {
    if (run == 0) return 0;
    row += row_start;
    const std::size_t n = count.size();
    if (n == 0) {
        copy_run(row, chunk, run);
        return run;
    }
    std::int64_t at[32] = {};
    std::int64_t runs = 0;
    const std::int64_t inner = count[n - 1], a = stored_stride[n - 1], b = row_stride[n - 1];
    for (;;) {
        for (std::int64_t i = 0; i < inner; ++i) copy_run(row + i * b, chunk + i * a, run);
        runs += inner;
        std::size_t d = n - 1;
        for (;;) {  // the odometer of the outer dimensions
            if (d == 0) return runs * run;
            --d;
            chunk += stored_stride[d], row += row_stride[d];
            if (++at[d] < count[d]) break;
            chunk -= stored_stride[d] * count[d], row -= row_stride[d] * count[d];
            at[d] = 0;
        }
    }
}

void copy_step(const Copy* copies, std::int64_t n, std::byte* arena, std::byte* batch,
               const std::vector<BoxShape>& boxes, Tally& tally) {
    const std::int64_t start = now_ns();
    std::int64_t bytes = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const Copy& c = copies[i];
        if (i + 1 < n && copies[i + 1].kind == CopyKind::gather) fetch_ahead(arena + copies[i + 1].arena, copies[i + 1].nbytes);
        const auto size = static_cast<std::size_t>(c.nbytes);
        switch (c.kind) {
            case CopyKind::gather: std::memcpy(batch + c.batch, arena + c.arena, size); bytes += c.nbytes; break;
            case CopyKind::keep: std::memcpy(arena + c.arena, batch + c.batch, size); bytes += c.nbytes; break;
            case CopyKind::repeat: std::memmove(batch + c.batch, batch + c.arena, size); bytes += c.nbytes; break;
            default: bytes += boxes[static_cast<std::size_t>(c.box)].copy(arena + c.arena, batch + c.batch);
        }
    }
    tally.copies += n;
    tally.bytes_copied += bytes;
    ++tally.gathers;
    tally.copy_ns += now_ns() - start;
}

}  // namespace headrace
