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

// Blocks of whole huge pages. They go back to the system at once: left to malloc they would stay
// between smaller ones. A sanitizer wants to see them.
struct Pages {
    static constexpr std::size_t huge = 2 << 20;

    static void* get(std::size_t bytes) {
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
        void* memory =
            mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        auto* first = static_cast<char*>(memory);
        const auto before = (huge - reinterpret_cast<std::uintptr_t>(first) % huge) % huge;
        if (before > 0) munmap(first, before);
        munmap(first + before + bytes, huge - before);
        madvise(first + before, bytes, MADV_HUGEPAGE);  // a wish: small pages do too
        return first + before;
#else
        void* memory = std::malloc(bytes);
        if (!memory) throw std::bad_alloc();
        return memory;
#endif
    }

    static void give_back(void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
        munmap(memory, bytes);
#else
        std::free(memory);
#endif
    }
};

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
        for (const auto& [memory, bytes] : kept_) Pages::give_back(memory, bytes);
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
        constexpr std::size_t most = 32 << 20;
        std::lock_guard lock(mutex_);
        if (holders_ == 0 || bytes > most) return Pages::give_back(memory, bytes);
        kept_.emplace_back(memory, bytes);
        std::size_t all = 0;
        for (const auto& block : kept_) all += block.second;
        for (; all > most;
             kept_.erase(kept_.begin())) {  // the oldest is of a size no longer wanted
            all -= kept_.front().second;
            Pages::give_back(kept_.front().first, kept_.front().second);
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
    if (bytes >= 2 * Pages::huge) {
        bytes = (bytes + Pages::huge - 1) / Pages::huge * Pages::huge;
        if (const auto [kept, size] = KeptMemory::take(bytes); kept)
            return Large<T>(static_cast<T*>(kept), Free{size});
        return Large<T>(static_cast<T*>(Pages::get(bytes)), Free{bytes});
    }
    void* memory = std::malloc(bytes > 0 ? bytes : 1);
    if (!memory) throw std::bad_alloc();
    return Large<T>(static_cast<T*>(memory));
}

}  // namespace mm
