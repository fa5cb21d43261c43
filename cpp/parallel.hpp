// Threads that live only during one call, so fork, joblib and notebooks are safe. Work is cut into
// tasks whose shape never depends on the number of threads: results are bitwise the same for any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace mm {

inline double now() {  // in seconds, since some moment
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

class Pool {
 public:
    explicit Pool(int threads) : threads_(threads < 1 ? 1 : threads) {}
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    ~Pool() {
        {
            std::lock_guard lock(mutex_);
            quit_ = true;
        }
        wake_.notify_all();
        for (auto& worker : workers_) worker.join();
    }

    int threads() const { return threads_; }

    // Calls task(index, worker) for every index in [0, tasks); the caller works too, as worker 0,
    // and alone where all tasks together are fewer multiplications than waking a thread repays.
    void run(std::int64_t tasks, std::int64_t effort,
             const std::function<void(std::int64_t, int)>& task) {
        if (threads_ == 1 || tasks <= 1 || effort < (1 << 20)) {
            for (std::int64_t index = 0; index < tasks; ++index) task(index, 0);
            return;
        }
        task_ = &task;
        tasks_ = tasks;
        next_ = 0;
        busy_ = static_cast<int>(workers_.size());
        {
            std::lock_guard lock(mutex_);
            ++round_;
        }
        wake_.notify_all();
        start();
        work(0);
        if (const auto idle = [this] { return busy_ == 0; }; !soon(idle)) {
            std::unique_lock lock(mutex_);
            idle_.wait(lock, idle);
        }
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }

 private:
    // Threads that are still missing, at work at once. Where there are no more, those there do.
    void start() {
        for (int id = static_cast<int>(workers_.size()) + 1; id < threads_; ++id) {
            ++busy_;
            try {
                workers_.emplace_back([this, id, seen = round_ - 1] { loop(id, seen); });
            } catch (...) {  // of memory too: those at work look at what the caller would free
                --busy_;
                return;
            }
            send_away(workers_.back());
        }
    }

    // Whether it comes true in less time than falling asleep and being woken takes.
    template <class F>
    static bool soon(const F& f) {
        constexpr double moment = 5e-5;
        for (const double until = now() + moment; !f(); std::this_thread::yield())
            if (now() > until) return false;
        return true;
    }

    // Linux may queue a thread behind the one that made it, for milliseconds, and leave another
    // core idle: ask for another core once. It may go where it likes from then on.
    static void send_away([[maybe_unused]] std::thread& worker) {
#if defined(__linux__)
        cpu_set_t allowed, others;
        const auto handle = worker.native_handle();
        if (pthread_getaffinity_np(handle, sizeof allowed, &allowed) != 0) return;
        others = allowed;
        const int here = sched_getcpu();
        if (here < 0 || here >= CPU_SETSIZE) return;
        CPU_CLR(here, &others);
        if (CPU_COUNT(&others) == 0) return;
        pthread_setaffinity_np(handle, sizeof others, &others);
        pthread_setaffinity_np(handle, sizeof allowed, &allowed);
#endif
    }

    void loop(int id, std::int64_t seen) {
        for (;;) {
            const auto wanted = [&] { return quit_ || round_ != seen; };
            if (!soon(wanted)) {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, wanted);
            }
            if (quit_) return;
            seen = round_;
            work(id);
            if (--busy_ == 0) {
                std::lock_guard lock(mutex_);
                idle_.notify_one();
            }
        }
    }

    void work(int id) {
        try {
            for (auto index = next_++; index < tasks_; index = next_++) (*task_)(index, id);
        } catch (...) {
            std::lock_guard lock(mutex_);
            if (!error_) error_ = std::current_exception();
            next_ = tasks_;
        }
    }

    int threads_;
    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_, idle_;
    const std::function<void(std::int64_t, int)>* task_ = nullptr;
    std::int64_t tasks_ = 0;
    std::atomic<std::int64_t> next_{0}, round_{0};
    std::atomic<int> busy_{0};
    std::atomic<bool> quit_{false};
    std::exception_ptr error_;
};

}  // namespace mm
