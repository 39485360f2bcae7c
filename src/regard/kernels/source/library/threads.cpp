// Threads: which processors they run on, the pool that waits for work, and the phases of an attention.
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

constexpr size_t FEW_THREADS = 8;  // of many, one that has to wait is missed less than it costs to tell them all
// That there may be, 64 however few processors; they stay as long as the process. Asked once: Linux reads a file to answer.
static const int64_t MOST_THREADS = std::max<int64_t>(std::thread::hardware_concurrency(), 64);
constexpr int64_t LIGHT = 1000;  // tasks of a second phase that are done before another thread has woken up

#if defined(__linux__)
// Linux wakes a thread where its caller runs and may leave both there for long. So sleeping threads are kept off the
// processor of who wakes them, and each takes one that none of the others has, and moves there where it must; afterwards it
// may run wherever it might before.
class Processors {
    std::atomic<bool> taken[CPU_SETSIZE] = {};

   public:
    void take() {
        int here = sched_getcpu();
        cpu_set_t allowed, there;
        if (here < 0 || here >= CPU_SETSIZE || !taken[here].exchange(true)) return;
        if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
        for (int c = 0; c < CPU_SETSIZE; c++)
            if (CPU_ISSET(c, &allowed) && !taken[c].exchange(true)) {
                CPU_ZERO(&there);
                CPU_SET(c, &there);
                if (!sched_setaffinity(0, sizeof there, &there)) sched_setaffinity(0, sizeof allowed, &allowed);
                return;
            }
    }
    // A thread begins with the processors of who started it, which may be few for a while; it shall have the process's, but
    // for one.
    static void keep(int thread, int off) {
        cpu_set_t some;
        if (sched_getaffinity(getpid(), sizeof some, &some)) return;
        if (off >= 0 && off < CPU_SETSIZE) CPU_CLR(off, &some);
        if (CPU_COUNT(&some)) sched_setaffinity(thread, sizeof some, &some);
    }
    static int here() { return sched_getcpu(); }
    static int this_thread() { return int(syscall(SYS_gettid)); }
    // Nanoseconds for which a thread has run.
    static int64_t time_of(int thread) {
        constexpr int OF_A_THREAD = 6;  // how Linux makes a clock of a thread's number
        timespec t;
        if (clock_gettime(clockid_t(~unsigned(thread) << 3 | OF_A_THREAD), &t)) return 0;
        return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
    }
    // Let a thread run on this processor, now.
    static void fetch(int thread) {
        const int to = here();
        cpu_set_t there;
        CPU_ZERO(&there);
        if (to < 0 || to >= CPU_SETSIZE) return;
        CPU_SET(to, &there);
        if (!sched_setaffinity(thread, sizeof there, &there)) keep(thread, -1);
    }
};
#else
struct Processors {
    void take() {}
    static void keep(int, int) {}
    static int here() { return -1; }
    static int this_thread() { return 0; }
    static int64_t time_of(int) { return 0; }
    static void fetch(int) {}
};
#endif

// One phase of one call: tasks that threads take until there are none.
struct Job {
    const Kernel* kernel;
    const Problem* problem;
    bool backward;
    int phase;
    int64_t tasks;
    char* shared;
    std::atomic<int64_t> next{0};
    std::atomic<bool> starved{false};
    Processors* processors = nullptr;  // of those who work on it together

    void work() {
        if (next.load(std::memory_order_relaxed) >= tasks) return;
        Scratch scratch(kernel->scratch(*problem, backward));
        if (!scratch.at) {
            starved = true;
            return;
        }
        for (int64_t task; !stopped(problem->stop) && (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
            kernel->run(*problem, backward, phase, task, shared, scratch.at);
    }
};

// Threads that wait for jobs. They are started when first needed, and never joined: the library lives as long as the
// process does. A child of fork has none of them, and starts anew.
class Pool {
    std::mutex mutex;
    std::condition_variable wake, done;
    Job* job = nullptr;
    int64_t wanted = 0, busy = 0, started = 0;
    struct Member {
        int number;         // of a thread, for the system
        bool busy;
        int64_t ran;        // its time, when it was looked at last
    };
    std::vector<Member> members;
    int off = -1;           // the processor that they are kept off

    void loop() {
        Processors::keep(0, -1);
        std::unique_lock<std::mutex> lock(mutex);
        const size_t me = members.size();
        members.push_back({Processors::this_thread(), false, 0}), off = -1;
        for (;;) {
            wake.wait(lock, [&] { return wanted > 0; });
            wanted--, busy++, members[me].busy = true;
            Job* mine = job;
            lock.unlock();
            mine->processors->take();
            mine->work();
            lock.lock();
            members[me].busy = false;
            if (--busy == 0 && wanted == 0) done.notify_all();
        }
    }

    // Wait for those who still work. One whose processor another process has taken would keep everybody waiting until it
    // gets it back, some milliseconds, while the one that the waiting thread leaves is free: it continues there.
    void wait(std::unique_lock<std::mutex>& lock) {
        static constexpr int64_t PAUSE = 100000;  // nanoseconds, which most tasks end within
        const auto all_done = [&] { return busy == 0; };
#if defined(__linux__)
        // By the system's clock: waiting by the steady one needs a newer C library.
        const auto later = [] { return std::chrono::system_clock::now() + std::chrono::nanoseconds(PAUSE); };
        for (bool first = true; !done.wait_until(lock, later(), all_done); first = false)
            for (Member& x : members) {
                if (!x.busy) continue;
                const int64_t before = x.ran;
                x.ran = Processors::time_of(x.number);
                if (first || x.ran - before > PAUSE / 4) continue;
                Processors::fetch(x.number), off = -1;
                break;
            }
#else
        done.wait(lock, all_done);
#endif
    }

   public:
    std::mutex one_call;  // a second caller meanwhile works alone

    void run(Job& given, int64_t helpers) {
        Processors processors;
        processors.take();
        given.processors = &processors;
        {
            std::lock_guard<std::mutex> lock(mutex);
            for (; started < helpers; started++) {
                try {
                    std::thread([this] { loop(); }).detach();
                } catch (...) {
                    break;  // fewer threads: the same result
                }
            }
            if (const int here = Processors::here(); here != off && members.size() <= FEW_THREADS)
                for (const Member& x : members) Processors::keep(x.number, off = here);
            job = &given;
            wanted = helpers < started ? helpers : started;
        }
        wake.notify_all();
        given.work();
        std::unique_lock<std::mutex> lock(mutex);
        wanted = 0;  // who has not woken up need not
        wait(lock);
        job = nullptr;
    }
};

static Pool* pool = new Pool;

#if !defined(_WIN32)
static const int forked = pthread_atfork(nullptr, nullptr, [] { pool = new Pool; });  // the old one's locks are lost
#endif

static bool phase(Job& job, int64_t threads) {
    int64_t helpers = std::min({threads, job.tasks, MOST_THREADS}) - 1;
    Pool* mine = pool;
    std::unique_lock<std::mutex> alone(mine->one_call, std::defer_lock);
    if (helpers > 0 && alone.try_lock()) mine->run(job, helpers);
    else job.work();
    return !job.starved || job.next >= job.tasks || stopped(job.problem->stop);
}

bool run(const Problem& p, bool backward) {
    Memory shared(chosen->shared(p, backward));
    if (chosen->shared(p, backward) > 0 && !shared.at) return false;
    for (int number = 0; number < PHASES; number++) {
        Job job{chosen, &p, backward, number, chosen->tasks(p, backward, number), shared.at};
        const bool light = number && job.tasks < LIGHT;
        if (job.tasks && !phase(job, light ? 1 : p.threads)) return false;
    }
    return true;
}

}  // namespace regard
