// What layers do to rows of numbers beside products: one pass over memory each; float32.
#include "core/tails.h"

namespace regard {
namespace ISA {

// 0 where a row has ended.
INLINE Lane within(Lane x, int64_t left) {
    if (left < UNITS)
        for (int64_t u = left; u < UNITS; u++) x[u] = 0;
    return x;
}

// Rows of mean 0 and variance 1, times gain, plus shift.
static void normalize(const Norm& p) {
    for (int64_t r = 0; r < p.rows; r++) {
        const float* x = p.x + r * p.size;
        Lane sums{}, squares{};
        for (int64_t i = 0; i < p.size; i += UNITS) sums += load_first(x + i, p.size - i);
        const float mean = sum<float>(sums) / float(p.size);
        for (int64_t i = 0; i < p.size; i += UNITS) {
            const Lane apart = within(load_first(x + i, p.size - i) - mean, p.size - i);
            squares = fma(apart, apart, squares);
        }
        const float inverse = 1 / std::sqrt(sum<float>(squares) / float(p.size) + p.epsilon);
        p.moments[2 * r] = mean, p.moments[2 * r + 1] = inverse;
        for (int64_t i = 0; i < p.size; i += UNITS) {
            const int64_t some = p.size - i;
            const Lane normal = (load_first(x + i, some) - mean) * inverse;
            store_first(p.y + r * p.size + i, fma(normal, load_first(p.gain + i, some), load_first(p.shift + i, some)), some);
        }
    }
}

// What a row's mean and length take away is what of its gradient points along 1 and along the row itself.
static void denormalize(const Norm& p) {
    for (int64_t r = 0; r < p.rows; r++) {
        const float *x = p.x + r * p.size, *dy = p.dy + r * p.size, mean = p.moments[2 * r], inverse = p.moments[2 * r + 1];
        Lane ones{}, selves{};
        for (int64_t i = 0; i < p.size; i += UNITS) {
            const int64_t some = p.size - i;
            const Lane d = load_first(dy + i, some), normal = (load_first(x + i, some) - mean) * inverse;
            const Lane weighed = d * load_first(p.gain + i, some);
            ones += weighed, selves = fma(weighed, normal, selves);
            store_first(p.dgain + i, fma(d, normal, load_first(p.dgain + i, some)), some);
            store_first(p.dshift + i, load_first(p.dshift + i, some) + d, some);
        }
        const float one = sum<float>(ones) / float(p.size), self = sum<float>(selves) / float(p.size);
        for (int64_t i = 0; i < p.size; i += UNITS) {
            const int64_t some = p.size - i;
            const Lane normal = (load_first(x + i, some) - mean) * inverse;
            Lane d = (load_first(dy + i, some) * load_first(p.gain + i, some) - one - normal * self) * inverse;
            if (p.onto) d += load_first(p.onto + r * p.size + i, some);
            store_first(p.dx + r * p.size + i, d, some);
        }
    }
}

void norm(const Norm& p, bool backward) { backward ? denormalize(p) : normalize(p); }

// y = x times 0 or scale, by chance.
void drop(const Drop& p) {
    typedef uint16_t Decode __attribute__((vector_size(BYTES / 2)));
    for (int64_t i = 0; i < p.count; i += UNITS) {
        const int64_t some = p.count - i;
        Decode few{};
        memcpy(&few, p.chances + i, size_t(some < UNITS ? some : UNITS) * sizeof(uint16_t));
        const I<float> chances = __builtin_convertvector(few, I<float>);
        store_first(p.y + i, load_first(p.x + i, some) * (chances >= p.bar ? all(p.scale) : Lane{}), some);
    }
}

void unrectify(const Rectified& p) {
    for (int64_t i = 0; i < p.count; i += UNITS) {
        const Lane d = load_first(p.d + i, p.count - i);
        store_first(p.d + i, load_first(p.y + i, p.count - i) > 0 ? d : Lane{}, p.count - i);
    }
}

}  // namespace ISA
}  // namespace regard
