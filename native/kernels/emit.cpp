// Steps: which bytes go to which row of which batch?
#include <algorithm>
#include <unordered_map>

#include "kernels/expand.hpp"

namespace headrace {

void Expander::emit(int64_t limit, Span& out) {
    while (emitted_ < steps_.total && steps_.end_from(emitted_) <= limit) emit_step(out);
}

void Expander::emit_step(Span& out) {
    begin_step(out);
    for (int64_t row = 0; row < row_.rows; ++row) {
        int64_t t = emitted_ + row;
        Position& p = ring_[t];
        if (p.hit) {
            p.slot = cells_[p.cell];
            ++out.hits;
        } else if (p.cell >= 0) {
            slots_.hold(p.slot);
            occupy(t, p.cell, p.slot, units_of(p.id));
        }
        copy_row(p.id, p.slot, row, false, out);
    }
    end_step(out);
}

// The sample in `slot` stays in `cell`; what was there before goes when position t is gathered.
void Expander::occupy(int64_t t, int32_t cell, uint32_t slot, int64_t units) {
    if (cells_[cell] != Slots::NONE)
        leaving_.push_back({t, cells_[cell]});
    else if (switches_.policy != Policy::fixed)
        resident_used_ += units;
    cells_[cell] = slot;
}

// Lays out the batch: one array per field, each at a multiple of 64.
void Expander::begin_step(Span& out) {
    const size_t fields = layout_.fields.size();
    row_ = {steps_.step_of(emitted_), emitted_, steps_.end_from(emitted_) - emitted_, 0,
            static_cast<int64_t>(out.copies.size()), 0};
    rows_.resize(static_cast<size_t>(row_.rows) * fields);
    int64_t at = 0;
    for (size_t f = 0; f < fields; ++f) {
        at = (at + 63) / 64 * 64;
        out.offsets.push_back(at);
        const Part* ragged = nullptr;
        int64_t* hint = nullptr;
        for (size_t p = 0; p < layout_.parts.size(); ++p)
            if (layout_.fields[f].nbytes < 0 && layout_.parts[p].field == static_cast<int32_t>(f)) {
                ragged = &layout_.parts[p];
                hint = &hints_[p];
            }
        for (int64_t row = 0; row < row_.rows; ++row) {
            rows_[static_cast<size_t>(row) * fields + f] = at;
            at += ragged ? ragged->size(ring_[emitted_ + row].id, *hint) : layout_.fields[f].nbytes;
        }
    }
    row_.nbytes = at;
    for (int64_t row = 0; row < row_.rows; ++row) out.ids.push_back(ring_[emitted_ + row].id);
}

void Expander::end_step(Span& out) {
    row_.copies = static_cast<int64_t>(out.copies.size()) - row_.first;
    out.steps.push_back(row_);
    emitted_ += row_.rows;
}

// Copies between the sample's slots and its row, part by part and slot by slot.
void Expander::copy_row(uint32_t id, uint32_t slot, int64_t row, bool keep, Span& out) {
    const int64_t unit = switches_.unit_nbytes;
    int64_t at = 0;
    for (size_t k = 0; k < layout_.parts.size(); ++k) {
        const Part& part = layout_.parts[k];
        int64_t left = part.size(id, hints_[k]);
        int64_t batch = rows_[static_cast<size_t>(row) * layout_.fields.size() + part.field];
        while (left > 0) {
            if (at == unit) {
                slot = slots_.following(slot);
                at = 0;
            }
            int64_t nbytes = std::min(left, unit - at);
            int32_t kind = keep ? CopyKind::keep : part.box >= 0 ? CopyKind::box : CopyKind::gather;
            out.copies.push_back({slot * unit + at, batch, nbytes, kind, part.box});
            at += nbytes;
            batch += nbytes;
            left -= nbytes;
        }
    }
}

// Direct reads land in their batch; the arena holds resident samples only.
Progress Expander::direct(Span& out) {
    int64_t stop = emitted_;
    for (int64_t k = std::max<int64_t>(1, switches_.span / steps_.batch); k && stop < steps_.total; --k)
        stop = steps_.end_from(stop);
    if (!require(stop)) return Progress::need_more;
    while (emitted_ < stop) direct_step(out);
    freed_ = emitted_;
    ready_ = emitted_;
    out.held = switches_.units - slots_.free();
    return Progress::span;
}

void Expander::direct_step(Span& out) {
    begin_step(out);
    read_into_batch(out);
    for (int64_t row = 0; row < row_.rows; ++row) {
        Position& p = ring_[emitted_ + row];
        if (p.hit) {
            copy_row(p.id, cells_[p.cell], row, false, out);
            ++out.hits;
        } else if (p.cell >= 0) {
            if (cells_[p.cell] != Slots::NONE) slots_.release(cells_[p.cell]);
            cells_[p.cell] = slots_.take(units_of(p.id));
            copy_row(p.id, cells_[p.cell], row, true, out);
        }
    }
    end_step(out);
}

// The step's missing samples, each read once: a second use of one is a copy of its first row, made before all others.
void Expander::read_into_batch(Span& out) {
    slice_entries_.clear();
    for (int64_t t = emitted_; t < emitted_ + row_.rows; ++t)
        if (!ring_[t].hit) slice_entries_.push_back({layout_.rank(ring_[t].id), static_cast<uint32_t>(t)});
    sort_by_rank(slice_entries_, scratch_);
    wanted_.clear();
    const int32_t step = static_cast<int32_t>(out.steps.size());
    for (size_t k = 0; k < layout_.parts.size(); ++k) {
        const Part& part = layout_.parts[k];
        int64_t first = 0;
        for (size_t e = 0; e < slice_entries_.size(); ++e) {
            int64_t row = position_of(slice_entries_[e].low) - emitted_;
            uint32_t id = ring_[emitted_ + row].id;
            int64_t dest = rows_[static_cast<size_t>(row) * layout_.fields.size() + part.field];
            Extent extent = part.locate(id, hints_[k]);
            if (e && slice_entries_[e].rank == slice_entries_[e - 1].rank) {
                out.copies.push_back({first, dest, extent.nbytes, CopyKind::repeat, -1});
            } else {
                first = dest;
                wanted_.push_back({extent.file, {extent.offset, extent.nbytes, dest, id, step, static_cast<int32_t>(k)}});
            }
        }
    }
    coalesce(wanted_, merging_, out.reads, out.pieces);
}

}  // namespace headrace
