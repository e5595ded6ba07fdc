// Where do large tables live? In huge pages where the kernel has them: they are visited in random order, and a page table
// walk for each visit would take as long as the visit itself.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace headrace {

template <class T>
struct TableAllocator {
    using value_type = T;
    static constexpr std::size_t huge = std::size_t{2} << 20;

    TableAllocator() = default;
    template <class U>
    TableAllocator(const TableAllocator<U>&) {}

    T* allocate(std::size_t count) {
        const std::size_t nbytes = count * sizeof(T);
        if (nbytes < 2 * huge) return static_cast<T*>(::operator new(nbytes));
        void* at = ::operator new(nbytes, std::align_val_t{huge});
        madvise(at, nbytes / huge * huge, MADV_HUGEPAGE);  // advice: without it, it is only slower
        return static_cast<T*>(at);
    }

    void deallocate(T* at, std::size_t count) {
        if (count * sizeof(T) < 2 * huge)
            ::operator delete(at);
        else
            ::operator delete(at, std::align_val_t{huge});
    }

    bool operator==(const TableAllocator&) const { return true; }
};

template <class T>
using Table = std::vector<T, TableAllocator<T>>;

}  // namespace headrace
