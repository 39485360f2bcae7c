// Runs the native kernel over random attentions, for the sanitizers: every array has exactly the size that it needs and
// memory of its own. Results of several threads must be those of one, to the bit, also while others call too.
//
//     driver COUNT CALLERS [INSTRUCTION_SET]

#include "core/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace regard;

extern "C" {
void regard_instruction_sets(char* names, int64_t size);
int32_t regard_choose(const char* name);
int32_t regard_trains();
#define FUNCTION(name, Struct) int32_t regard_##name(const Struct* p, int32_t backward);
#define TRAINING(name, Struct, bytes) FUNCTION(name, Struct)
#include "core/interface.inc"
int64_t regard_recurrence_bytes(const Recurrence* p);
}

namespace {

constexpr int64_t FILLED = 64;
int64_t filled(int64_t count) { return (count + FILLED - 1) / FILLED * FILLED; }

// Random numbers, and memory with the same lifetime.
struct Source {
    std::mt19937_64 engine;
    std::vector<std::unique_ptr<char[]>> allocations;
    explicit Source(uint64_t seed) : engine(seed) {}

    int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
    bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(engine) < p; }
    double normal() { return std::normal_distribution<double>()(engine); }
    template <class T>
    T pick(std::initializer_list<T> from) { return from.begin()[integer(0, int64_t(from.size()) - 1)]; }

    template <class T>
    T* take(int64_t count) {
        allocations.emplace_back(new char[size_t(count) * sizeof(T)]);
        memset(allocations.back().get(), 0, size_t(count) * sizeof(T));
        return reinterpret_cast<T*>(allocations.back().get());
    }
    // Bytes at the alignment of a workspace of the library.
    char* room(int64_t bytes) {
        char* start = take<char>(bytes + 64);
        return start + (64 - reinterpret_cast<uintptr_t>(start) % 64) % 64;
    }
    int64_t* integers(int64_t count, int64_t low, int64_t high) {
        int64_t* x = take<int64_t>(count);
        for (int64_t i = 0; i < count; i++) x[i] = integer(low, high);
        return x;
    }
    float* floats(int64_t count) { return reinterpret_cast<float*>(numbers(FLOAT32, count, true)); }
    // `count` numbers of a type, at any multiple of 4 bytes, or of their size: no vector of them need be aligned.
    char* numbers(int32_t type, int64_t count, bool clean) {
        const int64_t size = type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2, off = integer(0, 3) * std::max<int64_t>(size, 4);
        char* start = take<char>(count * size + off) + off;
        for (int64_t i = 0; i < count; i++) {
            double x = !clean && chance(0.001) ? (chance(0.5) ? NAN : INFINITY) : normal();
            float single = float(x);
            uint32_t bits;
            memcpy(&bits, &single, 4);
            uint16_t half = uint16_t(bits >> 16);
            if (type == FLOAT16) half = uint16_t(integer(0x3000, 0x3fff) | (chance(0.5) ? 0x8000 : 0));
            if (type == FLOAT64) memcpy(start + 8 * i, &x, 8);
            else if (type == FLOAT32) memcpy(start + 4 * i, &single, 4);
            else memcpy(start + 2 * i, &half, 2);
        }
        return start;
    }
};

int64_t size_of(int32_t type) { return type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2; }
int64_t place(const void* at) { return reinterpret_cast<int64_t>(at); }

// A matrix for each item, or one for each group, in arrays of their own.
Matrices matrices(Source& s, const Problem& p, int32_t type, int64_t rows, int64_t columns, bool by_group, bool clean) {
    int64_t* starts = s.take<int64_t>(p.items);
    for (int64_t g = 0; g < p.groups; g++)
        for (int64_t item = p.group[g]; item < p.group[g + 1]; item++)
            starts[item] = by_group && item > p.group[g] ? starts[item - 1]
                                                         : place(s.numbers(type, rows * columns, clean));
    Matrices x{};
    x.starts = starts, x.row = columns * size_of(type);
    return x;
}

Node leaf(Source& s, const Problem& p) {
    Node x{};
    x.kind = s.pick<int64_t>({BAND, KEYS, QUERIES, DOCUMENTS, DENSE});
    int64_t *left = s.take<int64_t>(p.items), *right = s.take<int64_t>(p.items);
    x.left = left, x.right = right;
    constexpr int64_t FAR = int64_t(1) << 62;
    x.low = s.chance(0.3) ? -FAR : s.integer(-p.n, p.m / 2), x.high = s.chance(0.3) ? FAR : x.low + s.integer(0, p.m);
    bool turned = s.chance(0.5);
    x.row = turned ? 1 : p.m, x.column = turned ? p.n : 1;
    for (int64_t item = 0; item < p.items; item++) {
        if (x.kind == KEYS || x.kind == QUERIES) left[item] = s.integer(0, x.kind == KEYS ? p.m : p.n);
        if (x.kind == DENSE) {
            char* seen = s.take<char>(p.n * p.m);
            for (int64_t i = 0; i < p.n * p.m; i++) seen[i] = s.chance(0.5);
            left[item] = place(seen);
        }
        if (x.kind == DOCUMENTS) {
            int64_t *a = s.take<int64_t>(p.n), *b = s.take<int64_t>(p.m);
            for (int64_t i = 0; i < p.n; i++) a[i] = 3 * i / p.n;
            for (int64_t j = 0; j < p.m; j++) b[j] = 3 * j / p.m;
            left[item] = place(a), right[item] = place(b);
        }
    }
    return x;
}

void mask(Source& s, Problem& p) {
    p.nodes = s.pick<int64_t>({0, 1, 2, 4});  // one leaf; not it; (not one) and another
    Node* program = s.take<Node>(4);
    program[0] = leaf(s, p), program[1].kind = NOT, program[2] = leaf(s, p), program[3].kind = BOTH;
    p.program = program;
}

void bias(Source& s, Problem& p, bool backward) {
    p.bias = s.pick<int32_t>({NO_BIAS, ARRAY_BIAS, DISTANCE_BIAS});
    p.bias_type = p.bias == ARRAY_BIAS && s.chance(0.5) ? s.pick<int32_t>({FLOAT32, FLOAT64, FLOAT16, BFLOAT16}) : p.compute;
    const int64_t size = size_of(p.bias_type), own = size_of(p.compute), shape = s.integer(0, 3), tasks = p.items * p.parts;
    const int64_t rows = shape & 1 ? p.n : 1, columns = shape & 2 ? p.m : 1;
    int64_t *starts = s.take<int64_t>(p.items), *slopes = s.take<int64_t>(tasks);
    p.tasks_span_groups = p.bias == ARRAY_BIAS && rows > 1 && s.chance(0.3);  // one array for all items
    p.bias_row = rows > 1 ? columns * size : 0, p.bias_column = columns > 1 ? size : 0;
    p.dbias_row = rows > 1 ? columns * own : 0, p.dbias_column = columns > 1 ? own : 0;
    for (int64_t item = 0; item < p.items; item++) {
        const int64_t count = p.bias == DISTANCE_BIAS ? p.n + p.m - 1 : rows * columns;
        bool again = p.tasks_span_groups && item;
        starts[item] = again ? starts[0] : place(s.numbers(p.bias_type, count, true));
        for (int64_t part = 0; part < p.parts; part++) {
            bool shared = p.bias == ARRAY_BIAS && rows > 1 && (part || again);
            slopes[item * p.parts + part] = shared ? slopes[again ? 0 : item * p.parts] : place(s.take<char>(count * own));
        }
    }
    p.bias_address = starts;
    p.dbias = p.bias && backward ? slopes : nullptr;
}

// What a run writes.
struct Result {
    void* at;
    int64_t bytes;
};

struct Attention {
    Source s;
    Problem p{};
    std::vector<Result> forward, backward;

    explicit Attention(uint64_t seed) : s(seed) {
        p.groups = s.integer(1, 3);
        const int64_t each = s.pick<int64_t>({1, 1, 2, 5});
        p.items = p.groups * each;
        int64_t* group = s.take<int64_t>(p.groups + 1);
        for (int64_t g = 0; g <= p.groups; g++) group[g] = g * each;
        p.group = group;
        p.n = s.chance(0.4) ? s.integer(1, 5) : s.integer(1, 110);
        p.m = s.chance(0.15) ? s.integer(1000, 2100) : s.integer(1, 300);
        p.d = s.chance(0.05) ? 0 : s.integer(1, 80), p.e = s.chance(0.05) ? 0 : s.integer(1, 80);
        p.compute = p.queries_type = p.keys_type = p.values_type = s.pick<int32_t>({FLOAT32, FLOAT32, FLOAT64});
        p.score = s.pick<int32_t>({PRODUCTS, PRODUCTS, PERCEPTRON, DISTANCES});
        if (p.score != PRODUCTS && p.n * p.m > 4000) p.m = 1 + 4000 / p.n;
        if (p.compute == FLOAT32 && s.chance(0.5)) p.values_type = s.pick<int32_t>({FLOAT16, BFLOAT16});
        if (p.compute == FLOAT32 && p.score == PRODUCTS && s.chance(0.5))
            p.queries_type = p.keys_type = s.pick<int32_t>({FLOAT16, BFLOAT16});
        if (size_of(p.keys_type) == 2 && s.chance(0.5)) p.values_type = p.keys_type;
        p.scale = s.chance(0.5) ? 0.25 : 1.0, p.softcap = s.chance(0.3) ? 2.0 : 0, p.width = 1.5;
        p.parts = s.pick<int64_t>({1, 4});
        const bool clean = s.chance(0.8);
        p.queries = matrices(s, p, p.queries_type, p.n, p.d, false, clean);
        p.keys = matrices(s, p, p.keys_type, p.m, p.d, true, clean);
        p.values = matrices(s, p, p.values_type, p.m, p.e, true, clean);
        p.dcontext = matrices(s, p, p.compute, p.n, p.e, false, clean);
        p.vector = s.numbers(p.compute, p.d, true);
        mask(s, p);
        bias(s, p, true);
        outputs();
    }

    void* output(std::vector<Result>& into, int64_t count) {
        int64_t bytes = count * size_of(p.compute);
        into.push_back({s.take<char>(bytes), bytes});
        return into.back().at;
    }
    void outputs() {
        const int64_t cut = p.groups * p.parts;
        p.context = output(forward, p.items * p.n * p.e), p.statistic = output(forward, p.items * 2 * p.n);
        p.dqueries = output(backward, p.items * p.n * p.d);
        p.dkeys = output(backward, cut * p.m * filled(p.d)), p.dvalues = output(backward, cut * p.m * filled(p.e));
        p.dparameters = output(backward, cut * (p.score == PERCEPTRON ? filled(p.d) : 1));
    }

    // All bytes that both passes write, with these many threads.
    std::string run(int64_t threads) {
        for (auto& x : backward) memset(x.at, 0, size_t(x.bytes));
        std::string found;
        for (int pass = 0; pass < 2; pass++) {
            if (p.threads = threads, regard_run(&p, pass)) found += "out of memory";
            for (auto& x : pass ? backward : forward) found.append(static_cast<char*>(x.at), size_t(x.bytes));
        }
        return found;
    }
};

// Two or five threads must find what one finds.
int check(uint64_t seed) {
    Attention attention(seed);
    const std::string alone = attention.run(1);
    const int64_t threads = seed % 2 ? 2 : 5;
    if (attention.run(threads) == alone) return 0;
    const Problem& p = attention.p;
    printf("seed %d: other bits with %d threads (n %d, m %d, d %d, e %d)\n", int(seed), int(threads), int(p.n), int(p.m),
           int(p.d), int(p.e));
    return 1;
}

// All kernels of training, with random sizes; only the sanitizers check them.
void train(uint64_t seed) {
    Source source(seed);
    auto draw = [&](int64_t count) { return source.floats(count); };
    auto counts = [&](int64_t count, int64_t most) { return source.integers(count, 0, most); };
    Recurrence p{};
    const int64_t n = p.steps = source.integer(0, 4), b = p.batch = source.integer(0, 19), h = p.size = source.integer(1, 50);
    const int64_t attends = source.integer(0, 1), t = attends * source.integer(0, 20), a = attends * source.integer(1, 40),
                  c = attends * source.integer(1, 70), all = n * b;
    p.reversed = !attends && source.chance(0.5);
    p.input_row = p.dinput_row = 3 * h + source.integer(0, 3), p.state_row = p.dstate_row = h + source.integer(0, 3);
    p.lengths = !attends && source.chance(0.5) ? counts(b, n) : nullptr;
    p.inputs = draw(all * p.input_row), p.state_weight = draw(3 * h * h), p.start = draw(b * h);
    p.state_bias = source.chance(0.5) ? draw(3 * h) : nullptr;
    p.states = draw(all * p.state_row), p.gates = draw(all * 4 * ((h + 15) / 16 * 16));
    if (attends) {
        p.positions = t, p.hidden = a, p.context = c, p.valid_positions = counts(b, t);
        p.keys = draw(b * t * a), p.values = draw(b * t * c), p.query_weight = draw(h * a), p.vector = draw(a);
        p.context_weight = draw(3 * h * c), p.queries = draw(all * a), p.weights = draw(all * t);
        p.contexts = draw(all * c), p.dcontexts = draw(all * c), p.dqueries = draw(all * a);
        p.dweights = source.chance(0.5) ? draw(all * t) : nullptr;
        p.dkeys = draw(b * t * a), p.dvalues = draw(b * t * c), p.dvector = draw(a);
    }
    if (attends && source.chance(0.5)) {
        p.second_weight = draw(3 * h * h), p.second_bias = draw(3 * h), p.attending_states = draw(all * h);
        p.second_gates = draw(all * 4 * ((h + 15) / 16 * 16)), p.dsecond = draw(all * 3 * h), p.dsecond_hidden = draw(all * 3 * h);
    }
    p.dstates = draw(all * p.dstate_row), p.dinputs = draw(all * p.dinput_row), p.dhidden = draw(all * 3 * h);
    p.dstart = draw(b * h);
    regard_recur(&p, 0), regard_recur(&p, 1);
    Product m{b, h, c, h, 1, c, 1, c + 3, draw(b * h), draw(h * c), source.chance(0.5) ? draw(c) : nullptr,
              draw(b * (c + 3)), source.chance(0.5) ? draw(c) : nullptr, source.integer(0, 1), source.integer(0, 1)};
    if (source.chance(0.5)) m.a_row = 1, m.a_column = b;
    if (!m.column_sums && source.chance(0.5)) m.b_row = 1, m.b_column = h;
    regard_multiply(&m, 0);
    Softmax s{b, h, draw(b * h), draw(h), draw(h), counts(b, h - 1), draw(3 * b), 0.5f, 0.01f, 0.5f};
    regard_cross_entropy(&s, 0);
    const int64_t words = source.integer(1, 500);
    Prediction e{b, words, h, draw(b * h), draw(words * h), source.chance(0.5) ? draw(words) : nullptr, counts(b, words - 1),
                 draw(4 * b), draw(b * h), draw(words * h), draw(words),
                 source.chance(0.5) ? draw(b * ((words + 191) / 192 * 192)) : nullptr, 0.5f, 0.01f, 0.5f};
    regard_predict(&e, 0), regard_predict(&e, 1);
    Rows r{b, h, counts(b, words - 1), draw(b * h), draw(words * h)};
    regard_add_rows(&r, 0);
    Adam w{h, draw(h), draw(h), source.take<float>(h), draw(h), 0.9f, 0.1f, 0.99f, 0.01f, 1e-8f, 0.1f};
    regard_adam(&w, 0);
    const int64_t filled = (words + WORD_BLOCK - 1) / WORD_BLOCK * WORD_BLOCK;
    TopK o{b, words, h, source.integer(1, 12), source.integer(0, 3), draw(b * words), draw(b * h), draw(filled * h), draw(filled),
           nullptr, draw(2 * b), nullptr};
    o.values = draw(b * o.count), o.indices = source.take<int64_t>(b * o.count);
    regard_top_k(&o, 0), o.logits = nullptr, regard_top_k(&o, 0);
    Norm y{b, h, draw(b * h), draw(h), draw(h), draw(b * h), draw(2 * b), draw(b * h),
           source.chance(0.5) ? draw(b * h) : nullptr, draw(b * h), draw(h), draw(h), 1e-5f};
    regard_norm(&y, 0), regard_norm(&y, 1);
    Drop d{h, source.take<uint16_t>(h), draw(h), draw(h), int32_t(source.integer(0, 65535)), 1.5f};
    for (int64_t i = 0; i < h; i++) const_cast<uint16_t*>(d.random_bits)[i] = uint16_t(source.integer(0, 65535));
    regard_drop(&d, 0);
    Relu f{h, draw(h), draw(h)};
    regard_relu_backward(&f, 0);
}

// Two steps of a search, the second with the state that the first has stored.
void search(uint64_t seed) {
    Source source(seed);
    auto draw = [&](int64_t count) { return source.floats(count); };
    auto counts = [&](int64_t count, int64_t least, int64_t most) { return source.integers(count, least, most); };
    Recurrence p{};
    const int64_t b = p.batch = source.integer(0, 19), h = p.size = source.integer(1, 50), sentences = source.integer(1, 5);
    const int64_t t = p.positions = source.integer(1, 20), a = p.hidden = source.integer(1, 40),
                  c = p.context = 3 * h + source.integer(0, 40);
    p.steps = 1, p.input_row = 3 * h + source.integer(0, 3), p.state_row = h;
    p.inputs = draw(b * p.input_row), p.state_weight = draw(3 * h * h), p.start = draw(b * h), p.states = draw(b * h);
    p.gates = draw(b * 4 * ((h + 15) / 16 * 16));
    p.valid_positions = counts(sentences, 1, t), p.keys = draw(sentences * t * a), p.values = draw(sentences * t * c);
    p.query_weight = draw(h * a), p.vector = draw(a), p.queries = draw(b * a), p.weights = draw(b * t);
    p.contexts = draw(b * c), p.sentences = sentences, p.sentence_of_row = counts(b, 0, sentences - 1);
    if (source.chance(0.5)) {
        p.second_weight = draw(3 * h * h), p.second_bias = draw(3 * h), p.attending_states = draw(b * h);
        p.second_gates = p.gates;
    }
    p.workspace = source.room(regard_recurrence_bytes(&p));
    regard_recur(&p, 0);
    p.workspace_filled = 1;
    regard_recur(&p, 0);
}

int check_all(int count, int callers) {
    std::vector<std::thread> threads;
    std::vector<int> wrong(size_t(callers), 0);
    for (int c = 0; c < callers; c++)
        threads.emplace_back([&, c] {
            for (int i = c; i < count; i += callers) {
                wrong[size_t(c)] += check(uint64_t(i));
                if (regard_trains()) train(uint64_t(i)), search(uint64_t(i));
            }
        });
    for (auto& thread : threads) thread.join();
    int total = 0;
    for (int x : wrong) total += x;
    return total;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    char names[256];
    regard_instruction_sets(names, sizeof names);
    int wrong = 0;
    for (char* name = strtok(names, " "); name; name = strtok(nullptr, " ")) {
        if (argc > 3 && strcmp(name, argv[3])) continue;
        regard_choose(name);
        wrong += check_all(atoi(argv[1]), atoi(argv[2]));
        printf("%s: %s attentions, %d wrong\n", name, argv[1], wrong);
    }
    return wrong != 0;
}
