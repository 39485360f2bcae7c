// Which instruction sets the processor and the operating system support, and the selected one.
#include "library/library.h"

#include <cstring>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace regard {

#define DECLARE(ISA)                                                                                                   \
    namespace ISA {                                                                                                    \
    extern const Kernel kernel;                                                                                        \
    }
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

#if defined(__x86_64__)
// Queries cpuid directly, since not every linker has the compiler's support library: cpuid feature bits, and the
// register sets that the operating system saves on a context switch.
enum Register { EAX, EBX, ECX, EDX };
struct Feature {
    unsigned leaf, subleaf;
    Register in;
    int bit;
};
constexpr Feature FMA{1, 0, ECX, 12}, F16C{1, 0, ECX, 29}, AVX2{7, 0, EBX, 5}, AVX512F{7, 0, EBX, 16},
    AVX512DQ{7, 0, EBX, 17}, AVX512BW{7, 0, EBX, 30}, AVX512VL{7, 0, EBX, 31}, AVX512BF16{7, 1, EAX, 5};
constexpr unsigned OS_SAVES_AVX = 0x06, OS_SAVES_AVX512 = 0xe6;

static bool os_saves(unsigned registers) {
    unsigned info[4] = {};
    constexpr int OSXSAVE = 27;
    if (!__get_cpuid(1, &info[EAX], &info[EBX], &info[ECX], &info[EDX]) || !(info[ECX] >> OSXSAVE & 1)) return false;
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
constexpr unsigned OS_SAVES_AMX = 0x600e6;

// Linux grants the large AMX registers only on request.
static bool request_amx() {
    constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

struct Choice {
    const Kernel* kernel;
    bool (*supported)();
};

static const Choice CHOICES[] = {
// best first
#if defined(REGARD_HAVE_AMX)
    {&amx::kernel,
     [] {
         return os_saves(OS_SAVES_AMX) &&
                has({AVX512F, AVX512VL, AVX512BW, AVX512DQ, AVX512BF16, AMX_TILE, AMX_BF16}) && request_amx();
     }},
#endif
#if defined(REGARD_HAVE_AVX512BF16)
    {&avx512bf16::kernel,
     [] { return os_saves(OS_SAVES_AVX512) && has({AVX512F, AVX512VL, AVX512BW, AVX512DQ, AVX512BF16}); }},
#endif
#if defined(REGARD_HAVE_AVX512)
    {&avx512::kernel, [] { return os_saves(OS_SAVES_AVX512) && has({AVX512F, AVX512VL, AVX512BW, AVX512DQ}); }},
#endif
#if defined(REGARD_HAVE_AVX2)
    {&avx2::kernel, [] { return os_saves(OS_SAVES_AVX) && has({AVX2, FMA, F16C}); }},
#endif
#if defined(REGARD_HAVE_NEON)
    {&neon::kernel, [] { return true; }},
#else
    {&baseline::kernel, [] { return true; }},
#endif
};

const Kernel* chosen = nullptr;

void list_instruction_sets(char* names, int64_t size) {
    names[0] = 0;
    for (const auto& choice : CHOICES)
        if (choice.supported()) {
            if (names[0]) strncat(names, " ", size_t(size) - strlen(names) - 1);
            strncat(names, choice.kernel->name, size_t(size) - strlen(names) - 1);
        }
}

bool choose(const char* name) {
    for (const auto& choice : CHOICES)
        if (!strcmp(choice.kernel->name, name) && choice.supported()) {
            chosen = choice.kernel;
            return true;
        }
    return false;
}

static bool is_made_by_amd() {
#if defined(__x86_64__)
    unsigned highest_leaf, name[3];
    return __get_cpuid(0, &highest_leaf, &name[0], &name[2], &name[1]) && !memcmp(name, "AuthenticAMD", sizeof name);
#else
    return false;
#endif
}
const bool made_by_amd = is_made_by_amd();

}  // namespace regard
