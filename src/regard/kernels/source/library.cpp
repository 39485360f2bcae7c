// What Python calls: the choice of an instruction set, and threads.

#include "problem.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(_WIN32)
#include <malloc.h>
#else
#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif
#endif

// How a program ends whose exception nobody caught. The C++ library's own way to say it is linked in wherever this is
// not defined, and reads the names of types: more code than a whole instruction set needs for training.
#if defined(__GLIBCXX__)
namespace __gnu_cxx {
void __verbose_terminate_handler() { std::abort(); }
}  // namespace __gnu_cxx
#elif defined(_LIBCPP_VERSION)  // only the part that reads names can be replaced: they are said as they are
extern "C" char* __cxa_demangle(const char*, char*, size_t*, int*) { return nullptr; }
#endif

namespace regard {

#define DECLARE(ISA) namespace ISA { extern const Kernel kernel; }
#if defined(REGARD_HAVE_AMX)
DECLARE(amx)
#endif
#if defined(REGARD_HAVE_AVX512BF16)
DECLARE(avx512bf16)
#endif
#if defined(REGARD_HAVE_AVX512)
DECLARE(avx512)
#endif
#if defined(REGARD_HAVE_AVX2)
DECLARE(avx2)
#endif
#if defined(REGARD_HAVE_NEON)
DECLARE(neon)
#else
DECLARE(baseline)
#endif

// ---- instruction sets ----------------------------------------------------------------------------------------

#if defined(__x86_64__)
// What processor and operating system can do, asked here rather than of the compiler's own library, which not every
// linker has: bits of cpuid, and of the registers that the system keeps when threads change.
enum Register { EAX, EBX, ECX, EDX };
struct Feature {
    unsigned leaf, subleaf;
    Register in;
    int bit;
};
constexpr Feature FMA{1, 0, ECX, 12}, F16C{1, 0, ECX, 29}, AVX2{7, 0, EBX, 5}, AVX512F{7, 0, EBX, 16},
    AVX512DQ{7, 0, EBX, 17}, AVX512BW{7, 0, EBX, 30}, AVX512VL{7, 0, EBX, 31}, AVX512BF16{7, 1, EAX, 5};
constexpr unsigned KEEPS_AVX = 0x06, KEEPS_AVX512 = 0xe6;

static bool keeps(unsigned registers) {
    unsigned info[4] = {};
    constexpr int SYSTEM_TELLS = 27;
    if (!__get_cpuid(1, &info[EAX], &info[EBX], &info[ECX], &info[EDX]) || !(info[ECX] >> SYSTEM_TELLS & 1)) return false;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}
static bool has(std::initializer_list<Feature> features) {
    for (const Feature& f : features) {
        unsigned info[4] = {};
        if (!__get_cpuid_count(f.leaf, f.subleaf, &info[EAX], &info[EBX], &info[ECX], &info[EDX])) return false;
        if (!(info[f.in] >> f.bit & 1)) return false;
    }
    return true;
}
#endif

#if defined(REGARD_HAVE_AMX)
constexpr Feature AMX_BF16{7, 0, EDX, 22}, AMX_TILE{7, 0, EDX, 24};
constexpr unsigned KEEPS_AMX = 0x600e6;

// The matrix unit's registers are so large that Linux gives them only to processes that ask.
static bool may_use_unit() {
    constexpr long ASK = 0x1023, TILES = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, ASK, TILES) == 0;
}
#endif

struct Choice {
    const Kernel* kernel;
    bool (*supported)();
};

static const Choice CHOICES[] = {  // the best first
#if defined(REGARD_HAVE_AMX)
    {&amx::kernel,
     [] {
         return keeps(KEEPS_AMX) && has({AVX512F, AVX512VL, AVX512BW, AVX512DQ, AVX512BF16, AMX_TILE, AMX_BF16}) && may_use_unit();
     }},
#endif
#if defined(REGARD_HAVE_AVX512BF16)
    {&avx512bf16::kernel, [] { return keeps(KEEPS_AVX512) && has({AVX512F, AVX512VL, AVX512BW, AVX512DQ, AVX512BF16}); }},
#endif
#if defined(REGARD_HAVE_AVX512)
    {&avx512::kernel, [] { return keeps(KEEPS_AVX512) && has({AVX512F, AVX512VL, AVX512BW, AVX512DQ}); }},
#endif
#if defined(REGARD_HAVE_AVX2)
    {&avx2::kernel, [] { return keeps(KEEPS_AVX) && has({AVX2, FMA, F16C}); }},
#endif
#if defined(REGARD_HAVE_NEON)
    {&neon::kernel, [] { return true; }},
#else
    {&baseline::kernel, [] { return true; }},
#endif
};

static const Kernel* chosen = nullptr;

static bool is_made_by_amd() {
#if defined(__x86_64__)
    unsigned most, name[3];
    return __get_cpuid(0, &most, &name[0], &name[2], &name[1]) && !memcmp(name, "AuthenticAMD", sizeof name);
#else
    return false;
#endif
}
const bool made_by_amd = is_made_by_amd();

// ---- threads -------------------------------------------------------------------------------------------------

// Memory on a boundary of 64 bytes.
struct Memory {
    char* at = nullptr;
    explicit Memory(int64_t bytes) { take(bytes); }
    void take(int64_t bytes) {
        if (bytes <= 0) return;
        bytes = (bytes + 63) / 64 * 64;
#if defined(_WIN32)
        at = static_cast<char*>(_aligned_malloc(size_t(bytes), 64));
#else
        at = static_cast<char*>(std::aligned_alloc(64, size_t(bytes)));
#endif
    }
    ~Memory() {
#if defined(_WIN32)
        _aligned_free(at);
#else
        std::free(at);
#endif
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
};

constexpr int64_t KEPT = PREDICTION_ROOM;  // bytes that a thread keeps; only what it works in takes memory

// Memory for a call: this thread's own, or more.
struct Scratch {
    Memory larger;
    char* at;
    explicit Scratch(int64_t bytes) : larger(bytes > KEPT ? bytes : 0), at(larger.at) {
        static thread_local Memory kept(KEPT);  // asking for it anew would cost a small call more than its work
        if (bytes > KEPT) return;
        if (!kept.at) kept.take(KEPT);  // there was none at first
        at = kept.at;
    }
};

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

}  // namespace regard

// ---- the interface -------------------------------------------------------------------------------------------

#if defined(_WIN32)
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

// The names of the instruction sets that this machine has, the best first, into `names` with spaces between them.
EXPORT void regard_instruction_sets(char* names, int64_t size) {
    names[0] = 0;
    for (const auto& choice : regard::CHOICES)
        if (choice.supported()) {
            if (names[0]) strncat(names, " ", size_t(size) - strlen(names) - 1);
            strncat(names, choice.kernel->name, size_t(size) - strlen(names) - 1);
        }
}

// Use the one of this name from now on. Returns whether there is one.
EXPORT int32_t regard_choose(const char* name) {
    for (const auto& choice : regard::CHOICES)
        if (!strcmp(choice.kernel->name, name) && choice.supported()) {
            regard::chosen = choice.kernel;
            return 1;
        }
    return 0;
}

EXPORT int64_t regard_problem_size() { return sizeof(regard::Problem); }

// Returns 0, or 1 where memory ran out.
EXPORT int32_t regard_run(const regard::Problem* p, int32_t backward) {
    using namespace regard;
    Memory shared(chosen->shared(*p, backward));
    if (chosen->shared(*p, backward) > 0 && !shared.at) return 1;
    for (int number = 0; number < PHASES; number++) {
        Job job{chosen, p, bool(backward), number, chosen->tasks(*p, backward, number), shared.at};
        const bool light = number && job.tasks < LIGHT;
        if (job.tasks && !phase(job, light ? 1 : p->threads)) return 1;
    }
    return 0;
}

// Scaled dot products with no option but a band of keys that are seen; `group` items in a row read the same keys and values.
// All numbers come in a row (kernels/native.py packs them): a small attention takes less time than Python takes to fill a
// structure.
struct Dense {
    struct Rows {
        int64_t start, step, row;
    } queries, keys, values;
    int64_t items, n, m, d, e, group, type;
    void* context;
    int64_t threads, nodes, low, high;  // 1 node where there is a band
    void* statistic;                    // or null
    int64_t dcontext;                   // backward; queries are one part then
    void *dqueries, *dkeys, *dvalues;   // backward; null: forward
    double scale;
    const int32_t* stop;                // as in Problem
};

// Whether all numbers of so many matrices are finite.
template <class T>
static bool finite(const Dense::Rows& x, int64_t matrices, int64_t rows, int64_t columns) {
    T witness = 0;
    for (int64_t i = 0; i < matrices; i++)
        for (int64_t r = 0; r < rows; r++) {
            const T* at = reinterpret_cast<const T*>(x.start + i * x.step + r * x.row);
            for (int64_t c = 0; c < columns; c++) witness += at[c] * 0;
        }
    return witness == 0;
}

EXPORT int64_t regard_dense_size() { return sizeof(Dense); }

// Returns 0, 1 where memory ran out, or 2 where gradients would need other queries and keys: none that are not finite.
EXPORT int32_t regard_dense(const Dense* x) {
    using namespace regard;
    const int64_t groups = x->items / x->group;
    const Node band = {BAND, x->low, x->high, nullptr, nullptr, 0, 0};
    Problem p = {};
    p.program = &band, p.nodes = x->nodes;
    p.items = x->items, p.n = x->n, p.m = x->m, p.d = x->d, p.e = x->e, p.groups = groups;
    p.scale = x->scale, p.context = x->context, p.threads = x->threads, p.to_key = x->m;
    p.queries_type = p.keys_type = p.values_type = int32_t(x->type), p.compute = x->type == FLOAT64 ? FLOAT64 : FLOAT32;
    p.queries = {x->queries.start, x->queries.step, nullptr, x->queries.row};
    p.keys = {x->keys.start, x->keys.step, nullptr, x->keys.row};
    p.values = {x->values.start, x->values.step, nullptr, x->values.row};
    Memory places(x->group > 1 ? (groups + 1 + 2 * x->items) * int64_t(sizeof(int64_t)) : 0);
    if (x->group > 1) {
        auto* firsts = reinterpret_cast<int64_t*>(places.at);
        if (!firsts) return 1;
        int64_t *keys = firsts + groups + 1, *values = keys + x->items;
        for (int64_t g = 0; g <= groups; g++) firsts[g] = g * x->group;
        for (int64_t i = 0; i < x->items; i++) {
            keys[i] = x->keys.start + i / x->group * x->keys.step;
            values[i] = x->values.start + i / x->group * x->values.step;
        }
        p.group = firsts, p.keys.starts = keys, p.values.starts = values;
    }
    p.statistic = x->statistic, p.stop = x->stop;
    if (!x->dqueries) return regard_run(&p, 0);
    const bool can = x->type == FLOAT64
                         ? finite<double>(x->queries, x->items, x->n, x->d) && finite<double>(x->keys, groups, x->m, x->d)
                         : finite<float>(x->queries, x->items, x->n, x->d) && finite<float>(x->keys, groups, x->m, x->d);
    if (!can) return 2;
    const int64_t row = x->e * (x->type == FLOAT64 ? 8 : 4);
    p.parts = 1, p.dcontext = {x->dcontext, x->n * row, nullptr, row};
    p.dqueries = p.dlearned = x->dqueries, p.dkeys = x->dkeys, p.dvalues = x->dvalues;  // products learn nothing
    return regard_run(&p, 1);
}

// Whether the instruction set has the functions below.
EXPORT int32_t regard_trains() { return regard::chosen->training.recur != nullptr; }

EXPORT int64_t regard_recurrence_size() { return sizeof(regard::Recurrence); }

// Bytes of `kept`.
EXPORT int64_t regard_recurrence_room(const regard::Recurrence* p) { return regard::chosen->training.scratch(*p); }

// Returns 0, or 1 where memory ran out.
EXPORT int32_t regard_recur(const regard::Recurrence* p, int32_t backward) {
    if (p->kept) return regard::chosen->training.recur(*p, backward, p->kept), 0;
    regard::Memory scratch(regard::chosen->training.scratch(*p));
    if (!scratch.at) return 1;
    regard::chosen->training.recur(*p, backward, scratch.at);
    return 0;
}

EXPORT int64_t regard_product_size() { return sizeof(regard::Product); }

// Returns 0, or 1 where memory ran out.
EXPORT int32_t regard_multiply(const regard::Product* p) {
    regard::Scratch scratch(regard::PRODUCT_ROOM);
    if (scratch.at) regard::chosen->training.multiply(*p, scratch.at);
    return !scratch.at;
}

// The same.
EXPORT int32_t regard_predict(const regard::Prediction* p, int32_t backward) {
    regard::Scratch scratch(regard::PREDICTION_ROOM);
    if (scratch.at) regard::chosen->training.predict(*p, backward, scratch.at);
    return !scratch.at;
}

// The same.
EXPORT int32_t regard_tops(const regard::Tops* p) {
    regard::Scratch scratch(regard::PREDICTION_ROOM);
    if (scratch.at) regard::chosen->training.tops(*p, scratch.at);
    return !scratch.at;
}

EXPORT int64_t regard_search_size() { return sizeof(regard::Search); }

// Bytes of `room`.
EXPORT int64_t regard_search_room(const regard::Search* p) { return regard::chosen->training.search_room(*p); }

// Returns 0, 1 where memory ran out, or 2 where a number is not finite.
EXPORT int32_t regard_search(regard::Search* p) {
    regard::Scratch scratch(regard::PREDICTION_ROOM);
    if (!scratch.at) return 1;
    return regard::chosen->training.search(*p, scratch.at) ? 0 : 2;
}
EXPORT int64_t regard_narrow() { return regard::NARROW; }
EXPORT int64_t regard_words() { return regard::WORDS; }

EXPORT int64_t regard_training_size() {
    using namespace regard;
    return sizeof(Softmax) + sizeof(Prediction) + sizeof(Rows) + sizeof(Adam) + sizeof(Tops);
}
EXPORT void regard_cross_entropy(const regard::Softmax* p) { regard::chosen->training.cross_entropy(*p); }
EXPORT void regard_add_rows(const regard::Rows* p) { regard::chosen->training.add_rows(*p); }
EXPORT void regard_adam(const regard::Adam* p) { regard::chosen->training.adam(*p); }

EXPORT int64_t regard_rows_size() { return sizeof(regard::Norm) + sizeof(regard::Drop) + sizeof(regard::Rectified); }
EXPORT void regard_norm(const regard::Norm* p, int32_t backward) { regard::chosen->training.norm(*p, backward); }
EXPORT void regard_drop(const regard::Drop* p) { regard::chosen->training.drop(*p); }
EXPORT void regard_unrectify(const regard::Rectified* p) { regard::chosen->training.unrectify(*p); }

EXPORT void regard_exp2(const void* x, void* y, int64_t count, int32_t type) {
    regard::chosen->exp2(x, y, count, type);
}
