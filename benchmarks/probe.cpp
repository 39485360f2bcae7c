// Loops that measure the limits of a machine for the calling thread: fused multiply-adds and bytes read a second.
// probe.py compiles them for the machine that it runs on.

#include <chrono>
#include <cstdint>
#include <cstring>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif
#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__AVX512F__)
constexpr int BYTES = 64, SUMS = 16;
#elif defined(__AVX__)
constexpr int BYTES = 32, SUMS = 10;
#elif defined(__aarch64__)
constexpr int BYTES = 16, SUMS = 16;
#else
constexpr int BYTES = 16, SUMS = 10;
#endif

template <class T> struct Lanes {
    typedef T Vector __attribute__((vector_size(BYTES)));
    Vector factor, addend;
    Lanes(double x) {
        for (unsigned i = 0; i < BYTES / sizeof(T); ++i) factor[i] = T(1 - x), addend[i] = T(x);
    }
    void step(Vector &sum) const { sum = sum * factor + addend; }
    static constexpr double flops = 2.0 * BYTES / sizeof(T);
};

#if defined(__AVX512BF16__)
struct Pairs {
    typedef __m512 Vector;
    __m512bh factor, addend;
    Pairs(double) {  // 0x3f80 is 1
        __m512i ones = _mm512_set1_epi16(0x3f80);
        std::memcpy(&factor, &ones, sizeof ones), std::memcpy(&addend, &ones, sizeof ones);
    }
    void step(Vector &sum) const { sum = _mm512_dpbf16_ps(sum, factor, addend); }
    static constexpr double flops = 64;
};
#endif

// Chains of dependent operations; there are enough of them to hide the latency of each.
template <class Operation> double rate(double seconds) {
    using Clock = std::chrono::steady_clock;
    volatile double opaque = 1e-6;
    Operation operation(opaque);
    typename Operation::Vector sums[SUMS] = {};
    auto start = Clock::now();
    double passed = 0;
    int64_t steps = 0;
    for (; passed < seconds; steps += 4096) {
        for (int i = 0; i < 4096; ++i)
            for (auto &sum : sums) operation.step(sum);
        passed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    volatile float used = 0;  // or the compiler would remove the loop
    for (auto &sum : sums) used = used + float(sum[0]);
    return Operation::flops * SUMS * double(steps) / passed;
}

#if defined(__AMX_BF16__) && defined(__linux__)
// Intel's matrix unit, four products of 16 x 32 and 32 x 16 numbers at a time; 0 if the system does not allow its use.
double matrix_unit_rate(double seconds) {
    using Clock = std::chrono::steady_clock;
    constexpr long REQUEST = 0x1023, TILES = 18;
    if (syscall(SYS_arch_prctl, REQUEST, TILES)) return 0;
    alignas(64) uint8_t setup[64] = {1};
    for (int tile = 0; tile < 8; ++tile) setup[16 + 2 * tile] = 64, setup[48 + tile] = 16;
    _tile_loadconfig(setup);
    auto start = Clock::now();
    double passed = 0;
    int64_t steps = 0;
    for (; passed < seconds; steps += 4096) {
        for (int i = 0; i < 4096; ++i) {
            _tile_dpbf16ps(0, 4, 5);
            _tile_dpbf16ps(1, 4, 6);
            _tile_dpbf16ps(2, 4, 7);
            _tile_dpbf16ps(3, 4, 5);
        }
        passed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    _tile_release();
    return 4 * 2.0 * 16 * 16 * 32 * double(steps) / passed;
}
#else
double matrix_unit_rate(double) { return 0; }
#endif

extern "C" {

// PyTorch's matrix library (MKL) calls a function of this name, and uses vectors of half the width if the processor is
// not Intel's. A preloaded library takes precedence, so that PyTorch is measured at its best.
int mkl_serv_intel_cpu_true() { return 1; }

// Return the FLOP/s of this thread, measured for some seconds; 0 if the machine lacks the instruction. The types are
// those of DTYPES in probe.py.
double probe_flops(int32_t type, double seconds) {
    if (type == 0) return rate<Lanes<float>>(seconds);
    if (type == 1) return rate<Lanes<double>>(seconds);
#if defined(__AVX512BF16__)
    if (type == 2)
        if (double flops = matrix_unit_rate(seconds)) return flops;
    if (type == 2) return rate<Pairs>(seconds);
#endif
    return 0;
}

// Read the data once, as two streams with prefetching, and return their sum.
double probe_read(const char *data, int64_t bytes) {
    typedef int64_t Vector __attribute__((vector_size(BYTES), aligned(1), may_alias));
    constexpr int64_t STREAMS = 2, STEP = 256, AHEAD = 2048;
    int64_t stride = bytes / STREAMS / STEP * STEP;
    Vector sums[STREAMS] = {};
    for (int64_t i = 0; i < stride; i += STEP)
        for (int64_t s = 0; s < STREAMS; ++s) {
            const char *from = data + s * stride + i;
            for (int64_t at = 0; at < STEP; at += 64) __builtin_prefetch(from + AHEAD + at);
            for (int64_t at = 0; at < STEP; at += BYTES) sums[s] += *(const Vector *)(from + at);
        }
    int64_t total = 0;
    for (auto &sum : sums) total += sum[0];
    for (int64_t i = STREAMS * stride; i < bytes; ++i) total += data[i];
    return double(total);
}
}
