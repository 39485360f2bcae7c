// Thread pool: processor affinity, waiting for work, and the phases of an attention.
#include "library/library.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

namespace regard {

constexpr size_t FEW_THREADS = 8;  // with more threads, setting their affinity costs more than one delayed thread
// At least 64 however few processors; threads live as long as the process. Asked once, since Linux reads a file.
static const int64_t MOST_THREADS = std::max<int64_t>(std::thread::hardware_concurrency(), 64);
constexpr int64_t SMALL_PHASE = 1000;  // tasks of a second phase that take less time than waking another thread

#if defined(__linux__)
// Linux wakes a thread on its waker's processor and may leave both there for long. So sleeping threads are excluded
// from the caller's processor, and each thread moves to a processor that no other one has taken. Afterwards it may run
// on all of its former processors again.
class Processors {
    std::atomic<bool> taken[CPU_SETSIZE] = {};

   public:
    void take() {
        int current_processor = sched_getcpu();
        cpu_set_t allowed, target;
        if (current_processor < 0 || current_processor >= CPU_SETSIZE || !taken[current_processor].exchange(true))
            return;
        if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
        for (int c = 0; c < CPU_SETSIZE; c++)
            if (CPU_ISSET(c, &allowed) && !taken[c].exchange(true)) {
                CPU_ZERO(&target);
                CPU_SET(c, &target);
                if (!sched_setaffinity(0, sizeof target, &target)) sched_setaffinity(0, sizeof allowed, &allowed);
                return;
            }
    }
    // A new thread inherits the affinity of its creator, which may be restricted. Reset it to that of the process,
    // without the processor `excluded`.
    static void set_affinity(int thread, int excluded) {
        cpu_set_t allowed;
        if (sched_getaffinity(getpid(), sizeof allowed, &allowed)) return;
        if (excluded >= 0 && excluded < CPU_SETSIZE) CPU_CLR(excluded, &allowed);
        if (CPU_COUNT(&allowed)) sched_setaffinity(thread, sizeof allowed, &allowed);
    }
    static int current_processor() { return sched_getcpu(); }
    static int this_thread() { return int(syscall(SYS_gettid)); }
    // CPU time of a thread in nanoseconds.
    static int64_t time_of(int thread) {
        constexpr int OF_A_THREAD = 6;  // how Linux encodes the CPU clock of a thread
        timespec t;
        if (clock_gettime(clockid_t(~unsigned(thread) << 3 | OF_A_THREAD), &t)) return 0;
        return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
    }
    // Move a thread to this processor now.
    static void move_here(int thread) {
        const int processor = current_processor();
        cpu_set_t target;
        CPU_ZERO(&target);
        if (processor < 0 || processor >= CPU_SETSIZE) return;
        CPU_SET(processor, &target);
        if (!sched_setaffinity(thread, sizeof target, &target)) set_affinity(thread, -1);
    }
};
#else
struct Processors {
    void take() {}
    static void set_affinity(int, int) {}
    static int current_processor() { return -1; }
    static int this_thread() { return 0; }
    static int64_t time_of(int) { return 0; }
    static void move_here(int) {}
};
#endif

// One phase of one call: tasks that threads take until none are left.
struct Job {
    const Kernel* kernel;
    const Problem* problem;
    bool backward;
    int phase;
    int64_t tasks;
    char* shared;
    std::atomic<int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
    Processors* processors = nullptr;  // processors of the threads that share this job

    void work() {
        if (next.load(std::memory_order_relaxed) >= tasks) return;
        Scratch scratch(kernel->scratch(*problem, backward));
        if (!scratch.at) {
            out_of_memory = true;
            return;
        }
        for (int64_t task; !stopped(problem->stop) && (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
            kernel->run(*problem, backward, phase, task, shared, scratch.at);
    }
};

// Worker threads that wait for jobs. They are started on demand and never joined, since the library lives as long as
// the process. A child of fork has none of them, and starts with a new pool.
class Pool {
    std::mutex mutex;
    std::condition_variable wake, done;
    Job* job = nullptr;
    int64_t wanted = 0, busy = 0, started = 0;
    struct Worker {
        int number;  // the system's thread id
        bool busy;
        int64_t cpu_time;  // CPU time at the last check
    };
    std::vector<Worker> workers;
    int excluded = -1;  // the processor that the workers are excluded from

    void worker_loop() {
        Processors::set_affinity(0, -1);
        std::unique_lock<std::mutex> lock(mutex);
        const size_t index = workers.size();
        workers.push_back({Processors::this_thread(), false, 0}), excluded = -1;
        for (;;) {
            wake.wait(lock, [&] { return wanted > 0; });
            wanted--, busy++, workers[index].busy = true;
            Job* current = job;
            lock.unlock();
            current->processors->take();
            current->work();
            lock.lock();
            workers[index].busy = false;
            if (--busy == 0 && wanted == 0) done.notify_all();
        }
    }

    // Wait for the workers. If another process has taken the processor of a worker, that worker would be delayed by
    // some milliseconds while the waiting thread's processor is idle, so it is moved there.
    void wait(std::unique_lock<std::mutex>& lock) {
        static constexpr int64_t PAUSE = 100000;  // nanoseconds; most tasks finish within it
        const auto all_done = [&] { return busy == 0; };
#if defined(__linux__)
        // Waiting on the steady clock needs a newer C library.
        const auto later = [] { return std::chrono::system_clock::now() + std::chrono::nanoseconds(PAUSE); };
        for (bool first = true; !done.wait_until(lock, later(), all_done); first = false)
            for (Worker& x : workers) {
                if (!x.busy) continue;
                const int64_t before = x.cpu_time;
                x.cpu_time = Processors::time_of(x.number);
                if (first || x.cpu_time - before > PAUSE / 4) continue;
                Processors::move_here(x.number), excluded = -1;
                break;
            }
#else
        done.wait(lock, all_done);
#endif
    }

   public:
    std::mutex call_lock;  // a concurrent caller works alone

    void run(Job& own_job, int64_t helpers) {
        Processors processors;
        processors.take();
        own_job.processors = &processors;
        {
            std::lock_guard<std::mutex> lock(mutex);
            for (; started < helpers; started++) {
                try {
                    std::thread([this] { worker_loop(); }).detach();
                } catch (...) {
                    break;  // the result does not depend on the number of threads
                }
            }
            if (const int current_processor = Processors::current_processor();
                current_processor != excluded && workers.size() <= FEW_THREADS)
                for (const Worker& x : workers) Processors::set_affinity(x.number, excluded = current_processor);
            job = &own_job;
            wanted = helpers < started ? helpers : started;
        }
        wake.notify_all();
        own_job.work();
        std::unique_lock<std::mutex> lock(mutex);
        wanted = 0;  // threads that have not woken up are not needed
        wait(lock);
        job = nullptr;
    }
};

static Pool* pool = new Pool;

#if !defined(_WIN32)
// the state of its locks is undefined
static const int forked = pthread_atfork(nullptr, nullptr, [] { pool = new Pool; });
#endif

static bool phase(Job& job, int64_t threads) {
    int64_t helpers = std::min({threads, job.tasks, MOST_THREADS}) - 1;
    Pool* current = pool;
    std::unique_lock<std::mutex> lock(current->call_lock, std::defer_lock);
    if (helpers > 0 && lock.try_lock()) current->run(job, helpers);
    else job.work();
    return !job.out_of_memory || job.next >= job.tasks || stopped(job.problem->stop);
}

bool run_on_threads(const Problem& p, bool backward) {
    Memory shared(chosen->shared(p, backward));
    if (chosen->shared(p, backward) > 0 && !shared.at) return false;
    for (int number = 0; number < PHASES; number++) {
        Job job{chosen, &p, backward, number, chosen->tasks(p, backward, number), shared.at};
        const bool brief = number && job.tasks < SMALL_PHASE;
        if (job.tasks && !phase(job, brief ? 1 : p.threads)) return false;
    }
    return true;
}

}  // namespace regard
