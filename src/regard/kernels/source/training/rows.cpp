// Row-wise operations of layers, one pass over memory each; float32.
#include "core/tails.h"

namespace regard {
namespace ISA {

// Set lanes beyond the end of a row to 0.
INLINE Vector zero_tail(Vector x, int64_t left) {
    if (left < LANES)
        for (int64_t u = left; u < LANES; u++) x[u] = 0;
    return x;
}

// Layer normalisation: mean 0 and variance 1, times gain, plus shift.
static void normalize_forward(const Norm& p) {
    for (int64_t r = 0; r < p.rows; r++) {
        const float* x = p.x + r * p.size;
        Vector sums{}, squares{};
        for (int64_t i = 0; i < p.size; i += LANES) sums += load_partial(x + i, p.size - i);
        const float mean = sum<float>(sums) / float(p.size);
        for (int64_t i = 0; i < p.size; i += LANES) {
            const Vector centered = zero_tail(load_partial(x + i, p.size - i) - mean, p.size - i);
            squares = fma(centered, centered, squares);
        }
        const float inverse = 1 / std::sqrt(sum<float>(squares) / float(p.size) + p.epsilon);
        p.moments[2 * r] = mean, p.moments[2 * r + 1] = inverse;
        for (int64_t i = 0; i < p.size; i += LANES) {
            const int64_t remaining = p.size - i;
            const Vector normal = (load_partial(x + i, remaining) - mean) * inverse;
            store_partial(p.y + r * p.size + i,
                          fma(normal, load_partial(p.gain + i, remaining), load_partial(p.shift + i, remaining)),
                          remaining);
        }
    }
}

// The normalisation removes the components of the gradient along the ones vector and along the normalised row.
static void normalize_backward(const Norm& p) {
    for (int64_t r = 0; r < p.rows; r++) {
        const float *x = p.x + r * p.size, *dy = p.dy + r * p.size, mean = p.moments[2 * r],
                    inverse = p.moments[2 * r + 1];
        Vector sums{}, projections{};
        for (int64_t i = 0; i < p.size; i += LANES) {
            const int64_t remaining = p.size - i;
            const Vector d = load_partial(dy + i, remaining),
                         normal = (load_partial(x + i, remaining) - mean) * inverse;
            const Vector scaled = d * load_partial(p.gain + i, remaining);
            sums += scaled, projections = fma(scaled, normal, projections);
            store_partial(p.dgain + i, fma(d, normal, load_partial(p.dgain + i, remaining)), remaining);
            store_partial(p.dshift + i, load_partial(p.dshift + i, remaining) + d, remaining);
        }
        const float mean_gradient = sum<float>(sums) / float(p.size),
                    projection = sum<float>(projections) / float(p.size);
        for (int64_t i = 0; i < p.size; i += LANES) {
            const int64_t remaining = p.size - i;
            const Vector normal = (load_partial(x + i, remaining) - mean) * inverse;
            Vector d = (load_partial(dy + i, remaining) * load_partial(p.gain + i, remaining) - mean_gradient -
                        normal * projection) *
                       inverse;
            if (p.dresidual) d += load_partial(p.dresidual + r * p.size + i, remaining);
            store_partial(p.dx + r * p.size + i, d, remaining);
        }
    }
}

void norm(const Norm& p, bool backward, char*) { backward ? normalize_backward(p) : normalize_forward(p); }

// Dropout: y = x * scale, or 0.
void drop(const Drop& p, bool, char*) {
    typedef uint16_t Random __attribute__((vector_size(BYTES / 2)));
    for (int64_t i = 0; i < p.count; i += LANES) {
        const int64_t remaining = p.count - i;
        Random random{};
        memcpy(&random, p.random_bits + i, size_t(remaining < LANES ? remaining : LANES) * sizeof(uint16_t));
        const I<float> random_bits = __builtin_convertvector(random, I<float>);
        store_partial(p.y + i,
                      load_partial(p.x + i, remaining) * (random_bits >= p.threshold ? broadcast(p.scale) : Vector{}),
                      remaining);
    }
}

void relu_backward(const Relu& p, bool, char*) {
    for (int64_t i = 0; i < p.count; i += LANES) {
        const Vector d = load_partial(p.gradient + i, p.count - i);
        store_partial(p.gradient + i, load_partial(p.y + i, p.count - i) > 0 ? d : Vector{}, p.count - i);
    }
}

}  // namespace ISA
}  // namespace regard
