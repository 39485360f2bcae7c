// The softmax of one query over one chunk of keys, and merging of chunks.
#pragma once

#include "core/tile.h"

namespace regard {
namespace ISA {

inline int64_t ceil_div(int64_t length, int64_t step) { return (length + step - 1) / step; }

// Result of one chunk for one query: unnormalised context (e), taints (e), running maximum, running sum.
template <class T>
struct Partial {
    T* at;
    int64_t width;  // padded size of the context and of the taints
    T* context() const { return at; }
    T* taints() const { return at + width; }
    T& maximum() const { return at[2 * width]; }
    T& total() const { return at[2 * width + 1]; }
    T& tainted() const { return at[2 * width + 2]; }  // whether any taint is set
    static int64_t size(int64_t e) { return 2 * width_of<T>(e) + std::max(L<T>, 4); }
    void clear(int64_t e) const {
        memset(at, 0, size(e) * sizeof(T));
        maximum() = -INF<T>;
    }
};

// Merge another chunk into x.
template <class T>
void merge(const Partial<T>& x, const Partial<T>& y) {
    T maximum = larger(broadcast(x.maximum()), broadcast(y.maximum()))[0], base = exp_base<T>(broadcast(maximum))[0];
    T a = exp2<T>(x.maximum() - base), b = exp2<T>(y.maximum() - base);
    x.total() = fma1(x.total(), a, y.total() * b);
    x.maximum() = maximum;
    for (int64_t c = 0; c < x.width; c += L<T>)
        store(x.context() + c, fma(load(x.context() + c), broadcast(a), load(y.context() + c) * b));
    if (y.tainted() == 0) return;
    x.tainted() = 1;
    for (int64_t c = 0; c < x.width; c++) x.taints()[c] = T(uint8_t(x.taints()[c]) | uint8_t(y.taints()[c]));
}

// Load the state that the previous call saved.
template <class T>
COLD void resume(const Problem& p, const Partial<T>& x, int64_t item, int64_t i) {
    const int64_t at = (item * p.n + i) * p.e;
    const T* statistic = static_cast<const T*>(p.statistic) + item * 2 * p.n + i;
    memcpy(x.context(), static_cast<const T*>(p.context) + at, p.e * sizeof(T));
    x.maximum() = statistic[0], x.total() = statistic[p.n];
    for (int64_t c = 0; c < p.e; c++) {
        x.taints()[c] = T(p.taints[at + c]);
        if (p.taints[at + c]) x.tainted() = 1;
    }
}
// Save the state for the next call.
template <class T>
COLD void suspend(const Problem& p, const Partial<T>& x, int64_t item, int64_t i) {
    const int64_t at = (item * p.n + i) * p.e;
    T* statistic = static_cast<T*>(p.statistic) + item * 2 * p.n + i;
    memcpy(static_cast<T*>(p.context) + at, x.context(), p.e * sizeof(T));
    statistic[0] = x.maximum(), statistic[p.n] = x.total();
    for (int64_t c = 0; c < p.e && x.tainted() != 0; c++) p.taints[at + c] = uint8_t(x.taints()[c]);
}

template <class T>
NOINLINE void write(const Problem& p, const Partial<T>& x, int64_t item, int64_t i) {
    if (p.to_key < p.m) return suspend(p, x, item, i);
    T *out = static_cast<T*>(p.context) + (item * p.n + i) * p.e, *statistic = static_cast<T*>(p.statistic);
    T divisor = x.total() == 0 ? T(1) : x.total();
    for (int64_t c = 0; c < x.width; c += L<T>)
        store(x.context() + c, canonical_nan<T>(load(x.context() + c) / divisor));
    if (x.tainted() != 0)
        for (int64_t c = 0; c < p.e; c++) x.context()[c] = tainted(x.context()[c], uint8_t(x.taints()[c]));
    memcpy(out, x.context(), p.e * sizeof(T));
    if (!statistic) return;
    statistic[item * 2 * p.n + i] = x.maximum() == -INF<T> ? T(0) : canonical_nan<T>(broadcast(x.maximum()))[0];
    statistic[item * 2 * p.n + p.n + i] = T(std::log2(double(canonical_nan<T>(broadcast(x.total()))[0])));
}

}  // namespace ISA
}  // namespace regard
