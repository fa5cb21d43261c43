// Large arrays without initial values. On Linux they ask for huge pages: the first touch of a small
// page costs more than computing the numbers that go there.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mm {

// While one of these lives, large blocks that are given back are handed out again, for touching
// them anew would cost more than computing what goes there: a machine for each pair of classes
// needs about the same memory as the last one. No block is kept beyond the last of these.
class KeptMemory {
 public:
    KeptMemory() {
        std::lock_guard lock(mutex_);
        ++holders_;
    }
    KeptMemory(const KeptMemory&) = delete;
    KeptMemory& operator=(const KeptMemory&) = delete;
    ~KeptMemory() {
        std::lock_guard lock(mutex_);
        if (--holders_ > 0) return;
        for (const auto& [memory, bytes] : kept_) std::free(memory);
        kept_.clear();
    }

    // A kept block that is not much too large, and its size; null where there is none.
    static std::pair<void*, std::size_t> take(std::size_t bytes) {
        std::lock_guard lock(mutex_);
        for (auto& block : kept_)
            if (block.second >= bytes && block.second <= 2 * bytes) {
                std::swap(block, kept_.back());
                const auto found = kept_.back();
                kept_.pop_back();
                return found;
            }
        return {nullptr, 0};
    }

    static void give(void* memory, std::size_t bytes) {
        constexpr std::size_t most = 64 << 20;
        std::lock_guard lock(mutex_);
        if (holders_ == 0 || bytes > most) return std::free(memory);
        kept_.emplace_back(memory, bytes);
        std::size_t all = 0;
        for (const auto& block : kept_) all += block.second;
        for (; all > most; kept_.erase(kept_.begin())) {  // the oldest is of a size no longer wanted
            all -= kept_.front().second;
            std::free(kept_.front().first);
        }
    }

    // A fork must not copy a lock that nobody is left to open.
    static void before_fork() { mutex_.lock(); }
    static void after_fork() { mutex_.unlock(); }

 private:
    static inline std::mutex mutex_;
    static inline int holders_ = 0;
    static inline std::vector<std::pair<void*, std::size_t>> kept_;
};

struct Free {
    std::size_t large = 0;  // bytes of a block worth keeping
    void operator()(void* memory) const {
        if (large > 0)
            KeptMemory::give(memory, large);
        else
            std::free(memory);
    }
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
        if (const auto [kept, size] = KeptMemory::take(bytes); kept)
            return Large<T>(static_cast<T*>(kept), Free{size});
        void* memory = std::aligned_alloc(huge, bytes);
        if (!memory) throw std::bad_alloc();
        madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: small pages do too
        return Large<T>(static_cast<T*>(memory), Free{bytes});
    }
#endif
    void* memory = std::malloc(bytes > 0 ? bytes : 1);
    if (!memory) throw std::bad_alloc();
    return Large<T>(static_cast<T*>(memory));
}

}  // namespace mm
