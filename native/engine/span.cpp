#include "engine/span.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace headrace {

namespace {

[[noreturn]] void refuse(const std::string& what, std::int64_t entry, const std::string& why) {
    throw std::invalid_argument(what + " " + std::to_string(entry) + " of the span " + why);
}

bool inside(std::int64_t at, std::int64_t n, std::int64_t size) { return at >= 0 && n >= 0 && n <= size && at <= size - n; }

}  // namespace

Span::Span(std::int64_t index, std::int64_t after, SpanEntries given, const Limits& limits)
    : index(index), after(after), entries(std::move(given)) {
    check(limits);
    class_reads();
    make_groups();
    reads_left = static_cast<std::int64_t>(entries.reads.size());
    steps_left = static_cast<std::int64_t>(entries.steps.size());
    batch.resize(entries.steps.size(), nullptr);
}

void Span::check(const Limits& limits) const {
    const auto& steps = entries.steps;
    for (std::size_t s = 0; s < steps.size(); ++s) {
        const auto entry = static_cast<std::int64_t>(s);
        if (steps[s].nbytes < 0) refuse("step", entry, "has a batch of negative size");
        if (s > 0 && steps[s].step <= steps[s - 1].step) refuse("step", entry, "does not ascend");
        if (!inside(steps[s].first, steps[s].copies, static_cast<std::int64_t>(entries.copies.size())))
            refuse("step", entry, "has copies beyond the end of the copies");
        check_copies(steps[s], limits);
    }
    if (!steps.empty() && after > steps.front().step)
        refuse("after", after, "lies beyond its own first step " + std::to_string(steps.front().step));
    for (std::size_t r = 0; r < entries.reads.size(); ++r) check_read(r, limits);
}

void Span::check_read(std::size_t number, const Limits& limits) const {
    const Read& r = entries.reads[number];
    const auto entry = static_cast<std::int64_t>(number);
    if (r.file < 0 || r.file >= limits.files) refuse("read", entry, "names file " + std::to_string(r.file));
    if (r.nbytes <= 0 || r.offset < 0 || r.offset > INT64_MAX - r.nbytes) refuse("read", entry, "has no valid range");
    if (!inside(r.first, r.pieces, static_cast<std::int64_t>(entries.pieces.size())))
        refuse("read", entry, "has pieces beyond the end of the pieces");
    std::int64_t at = r.offset;
    for (std::int64_t k = r.first; k < r.first + r.pieces; ++k) {
        const Piece& p = entries.pieces[static_cast<std::size_t>(k)];
        if (p.nbytes <= 0 || p.offset < at || p.nbytes > r.end() - p.offset)
            refuse("piece", k, "does not ascend inside its read");
        at = p.end();
        if (p.step < -1 || p.step >= static_cast<std::int64_t>(entries.steps.size()))
            refuse("piece", k, "names step " + std::to_string(p.step));
        const std::int64_t room = p.step < 0 ? limits.arena : entries.steps[static_cast<std::size_t>(p.step)].nbytes;
        if (!inside(p.dest, p.nbytes, room)) refuse("piece", k, "lands outside its memory");
    }
}

void Span::check_copies(const Step& step, const Limits& limits) const {
    for (std::int64_t k = step.first; k < step.first + step.copies; ++k) {
        const Copy& c = entries.copies[static_cast<std::size_t>(k)];
        bool fits = false;
        switch (c.kind) {
            case CopyKind::gather:
            case CopyKind::keep: fits = inside(c.arena, c.nbytes, limits.arena) && inside(c.batch, c.nbytes, step.nbytes); break;
            case CopyKind::repeat: fits = inside(c.arena, c.nbytes, step.nbytes) && inside(c.batch, c.nbytes, step.nbytes); break;
            case CopyKind::box: {
                if (c.box < 0 || c.box >= static_cast<std::int64_t>(limits.boxes->size())) refuse("copy", k, "names no box");
                const BoxShape& b = (*limits.boxes)[static_cast<std::size_t>(c.box)];
                fits = inside(c.arena, b.stored_bytes, limits.arena) && inside(c.batch, b.row_end, step.nbytes);
                break;
            }
            default: refuse("copy", k, "has unknown kind " + std::to_string(c.kind));
        }
        if (!fits) refuse("copy", k, "leaves its memory");
    }
}

void Span::class_reads() {
    const std::size_t n = entries.reads.size();
    group_of_read.assign(n, -1);
    lands_in_arena.assign(n, 0);
    direct.assign(entries.steps.size(), 0);
    keeps.assign(entries.steps.size(), 0);
    for (std::size_t s = 0; s < entries.steps.size(); ++s) {
        const Copy* c = entries.copies.data() + entries.steps[s].first;
        for (std::int64_t k = 0; k < entries.steps[s].copies; ++k) keeps[s] |= c[k].kind == CopyKind::keep;
    }
    for (std::size_t r = 0; r < n; ++r) {
        const Read& read = entries.reads[r];
        const Piece* p = pieces(read);
        lands_in_arena[r] = read.pieces == 0;
        for (std::int32_t k = 0; k < read.pieces; ++k) {
            if (p[k].step < 0)
                lands_in_arena[r] = 1;
            else
                direct[static_cast<std::size_t>(p[k].step)] = 1;
        }
        arena_left += lands_in_arena[r];
    }
}

void Span::make_groups() {
    const auto steps = static_cast<std::int32_t>(entries.steps.size());
    std::vector<std::int32_t> reach(entries.steps.size()), lowest(entries.reads.size(), -1);
    for (std::int32_t s = 0; s < steps; ++s) reach[static_cast<std::size_t>(s)] = s;
    for (std::size_t r = 0; r < entries.reads.size(); ++r) {
        const Read& read = entries.reads[r];
        const Piece* p = pieces(read);
        std::int32_t low = steps, high = -1;
        for (std::int32_t k = 0; k < read.pieces; ++k) {
            if (p[k].step < 0) continue;
            low = std::min(low, p[k].step), high = std::max(high, p[k].step);
        }
        if (high < 0) continue;
        if (lands_in_arena[r]) low = 0;
        lowest[r] = low;
        reach[static_cast<std::size_t>(low)] = std::max(reach[static_cast<std::size_t>(low)], high);
    }
    group_of_step.resize(entries.steps.size());
    for (std::int32_t s = 0; s < steps;) {
        LocalGroup g{s, s};
        for (std::int32_t k = s; k <= g.last; ++k) {
            g.last = std::max(g.last, reach[static_cast<std::size_t>(k)]);
            g.nbytes += entries.steps[static_cast<std::size_t>(k)].nbytes;
            group_of_step[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(groups.size());
        }
        groups.push_back(g);
        s = g.last + 1;
    }
    for (std::size_t r = 0; r < entries.reads.size(); ++r) {
        if (lowest[r] < 0) {
            arena_reads.push_back(static_cast<std::int32_t>(r));
            continue;
        }
        group_of_read[r] = group_of_step[static_cast<std::size_t>(lowest[r])];
        ++groups[static_cast<std::size_t>(group_of_read[r])].reads;
        batch_reads.push_back(static_cast<std::int32_t>(r));
    }
    std::stable_sort(batch_reads.begin(), batch_reads.end(), [&](std::int32_t a, std::int32_t b) {
        return group_of_read[static_cast<std::size_t>(a)] < group_of_read[static_cast<std::size_t>(b)];
    });
}

}  // namespace headrace
