// Large arrays without initial values. On Linux they ask for huge pages: the first touch of a small
// page costs more than computing the numbers that go there.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mm {

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

template <class T>
using Large = std::unique_ptr<T[], Free>;

template <class T>
Large<T> allocate(std::int64_t count) {
    auto bytes = static_cast<std::size_t>(count) * sizeof(T);
#if defined(__linux__)
    constexpr std::size_t huge = 2 << 20;
    if (bytes >= 2 * huge) {
        bytes = (bytes + huge - 1) / huge * huge;
        void* memory = std::aligned_alloc(huge, bytes);
        if (!memory) throw std::bad_alloc();
        madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: small pages do too
        return Large<T>(static_cast<T*>(memory));
    }
#endif
    void* memory = std::malloc(bytes > 0 ? bytes : 1);
    if (!memory) throw std::bad_alloc();
    return Large<T>(static_cast<T*>(memory));
}

}  // namespace mm
