/* Matrix products, LSTMs and transitions of a parser on a CPU, without Python: called through ctypes.

   Every row of a product is computed on its own, and always in the same order, so a sentence gets the same tree
   whatever is parsed with it. Weights of 8 bits are multiplied with inputs that are rounded to 8 bits, row by
   row: such sums are whole numbers and exact. The rest uses neither fused nor reordered operations, so that
   every set of instructions, and NumPy in reference.py, computes the same bits. Only products of float weights
   differ among them, in the last digits; and what is denormal in NumPy is zero here, on x86.

   This file is compiled once for each set of instructions, see build.py. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A product adds up GROUP neighbouring inputs in each of LANES outputs at a time; a tile is ROWS rows by PANEL
   outputs. With OFFSET, weights are stored as unsigned numbers, and the offset is subtracted from the sums. */
#if defined(__AVX512VNNI__)
#include <immintrin.h>
enum { LANES = 16, VECTORS = 4, ROWS = 6, OFFSET = 128 };
typedef __m512i Ints;
typedef int8_t Value;
typedef uint8_t Weight;
static inline __attribute__((always_inline)) Ints dot(Ints sums, Ints weights, Ints values) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(values)); /* as an intrinsic, GCC copies the sums */
    return sums;
}
#define in_all_lanes(values) _mm512_set1_epi32(values)
#define plus_product(sums, weights, value) \
    ((Floats)_mm512_fmadd_ps((__m512)(weights), _mm512_set1_ps(value), (__m512)(sums)))
#elif defined(__AVX2__)
#include <immintrin.h>
typedef __m256i Ints;
#if defined(__AVXVNNI__)
enum { LANES = 8, VECTORS = 2, ROWS = 6, OFFSET = 128 };
typedef int8_t Value;
typedef uint8_t Weight;
static inline __attribute__((always_inline)) Ints dot(Ints sums, Ints weights, Ints values) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(weights), "x"(values));
    return sums;
}
#else
enum { LANES = 8, VECTORS = 2, ROWS = 4, OFFSET = 0 };
typedef int16_t Value;
typedef int16_t Weight;
#define dot(sums, weights, values) _mm256_add_epi32(sums, _mm256_madd_epi16(weights, values))
#endif
#define in_all_lanes(values) _mm256_set1_epi32(values)
#define plus_product(sums, weights, value) \
    ((Floats)_mm256_fmadd_ps((__m256)(weights), _mm256_set1_ps(value), (__m256)(sums)))
#elif defined(__SSE2__)
#include <immintrin.h>
enum { LANES = 4, VECTORS = 2, ROWS = 4, OFFSET = 0 };
typedef __m128i Ints;
typedef int16_t Value;
typedef int16_t Weight;
#define dot(sums, weights, values) _mm_add_epi32(sums, _mm_madd_epi16(weights, values))
#define in_all_lanes(values) _mm_set1_epi32(values)
#define plus_product(sums, weights, value) ((sums) + (weights) * (value))
#else
enum { LANES = 4, VECTORS = 2, ROWS = 4, OFFSET = 0 };
typedef int32_t Ints __attribute__((vector_size(16)));
typedef int16_t Value;
typedef int16_t Weight;
#define low(pair) ((pair) << 16 >> 16)
#define high(pair) ((pair) >> 16)
#define dot(sums, weights, values) ((sums) + low(weights) * low(values) + high(weights) * high(values))
#define in_all_lanes(values) ((Ints){values, values, values, values})
#define plus_product(sums, weights, value) ((sums) + (weights) * (value))
#endif

enum { GROUP = 4 / sizeof(Value), PANEL = LANES * VECTORS, TOGETHER = 48, MOST_ROWS = 6 };
typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t Sums __attribute__((vector_size(4 * LANES)));

/* Denormal numbers are zero until the end of the block: processors can be many times slower with them. */
#if defined(__SSE2__)
static inline unsigned flush_denormals(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    return before;
}
static inline void restore(const unsigned *before) { _mm_setcsr(*before); }
#define WITHOUT_DENORMALS __attribute__((cleanup(restore))) unsigned before_flushing = flush_denormals();
#else
#define WITHOUT_DENORMALS
#endif

#ifndef SOURCE
#define SOURCE "" /* its hash, see build.py */
#endif

/* Which source this library is compiled from, so that another one is not loaded by mistake. */
const char *source(void) { return SOURCE; }

/* Products of matrices */

typedef struct {
    const void *packed;  /* see `pack_int8` and `pack_float` */
    const float *scales; /* of each output, up to a whole panel; NULL for float weights */
    const float *bias;   /* the same length */
    int32_t outputs, inputs;
} Weights;

static int padded(int inputs) { return (inputs + 3) / 4 * 4; }
static int panels(int outputs) { return (outputs + PANEL - 1) / PANEL; }

size_t packed_bytes(int outputs, int inputs, int is_int8) {
    return (size_t)panels(outputs) * PANEL * padded(inputs) * (is_int8 ? sizeof(Weight) : sizeof(float));
}

/* Bring weights [outputs, inputs] into the order in which tiles read them. packed: aligned to 64 bytes. */
void pack_int8(const int8_t *weights, int outputs, int inputs, Weight *packed) {
    for (int panel = 0; panel < panels(outputs); panel++)
        for (int from = 0; from < padded(inputs); from += GROUP)
            for (int output = panel * PANEL; output < (panel + 1) * PANEL; output++)
                for (int input = from; input < from + GROUP; input++) {
                    int exists = output < outputs && input < inputs;
                    *packed++ = (Weight)((exists ? weights[(size_t)output * inputs + input] : 0) + OFFSET);
                }
}

void pack_float(const float *weights, int outputs, int inputs, float *packed) {
    for (int panel = 0; panel < panels(outputs); panel++)
        for (int input = 0; input < padded(inputs); input++)
            for (int output = panel * PANEL; output < (panel + 1) * PANEL; output++)
                *packed++ = output < outputs && input < inputs ? weights[(size_t)output * inputs + input] : 0;
}

typedef struct {
    const Value *values;
    float scale;
    int32_t excess; /* what OFFSET adds to each sum */
} Rounded;

/* Inputs are divided by their greatest size / 127 and rounded. Adding and subtracting 1.5 * 2^23 rounds to even. */
static inline float rounded(float value) { return (value + 12582912.0f) - 12582912.0f; }

static Rounded round_to_8_bits(const float *inputs, int count, Value *values) {
    float greatest = 0;
    for (int j = 0; j < count; j++) {
        float size = fabsf(inputs[j]);
        greatest = size > greatest ? size : greatest;
    }
    float factor = greatest > 1e-35f ? 127.0f / greatest : 0.0f; /* which is finite */
    int32_t sum = 0;
    for (int j = 0; j < count; j++) {
        float scaled = rounded(inputs[j] * factor);
        int32_t value = scaled == scaled ? (int32_t)scaled : 0;
        values[j] = (Value)value;
        sum += value;
    }
    for (int j = count; j < padded(count); j++) values[j] = 0;
    return (Rounded){values, greatest / 127.0f, sum * OFFSET};
}

static inline void store(Floats values, float *outputs, int left) {
    if (left >= LANES)
        *(Floats *)outputs = values;
    else if (left > 0)
        memcpy(outputs, &values, sizeof(float) * left);
}

/* The tiles are compiled once for each number of rows, so that all sums stay in registers. */

static inline __attribute__((always_inline)) void int8_tile(
    const int rows, const Rounded *x, const Weights *w, int panel, float *const *y) {
    int start = panel * PANEL;
    const Weight *weights = (const Weight *)w->packed + (size_t)start * padded(w->inputs);
    Ints sums[MOST_ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = (Ints){0};
    for (int input = 0; input < padded(w->inputs); input += GROUP, weights += PANEL * GROUP) {
        Ints of_group[VECTORS];
        for (int v = 0; v < VECTORS; v++) of_group[v] = *(const Ints *)(weights + v * LANES * GROUP);
        for (int r = 0; r < rows; r++) {
            int32_t group;
            memcpy(&group, x[r].values + input, sizeof group);
            Ints values = in_all_lanes(group);
            for (int v = 0; v < VECTORS; v++) sums[r][v] = dot(sums[r][v], of_group[v], values);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            int output = start + v * LANES;
            Floats exact = __builtin_convertvector((Sums)sums[r][v] - x[r].excess, Floats);
            Floats scale = *(const Floats *)(w->scales + output) * x[r].scale;
            store(exact * scale + *(const Floats *)(w->bias + output), y[r] + output, w->outputs - output);
        }
}

static inline __attribute__((always_inline)) void float_tile(
    const int rows, const float *const *x, const Weights *w, int panel, float *const *y) {
    int start = panel * PANEL;
    const float *weights = (const float *)w->packed + (size_t)start * padded(w->inputs);
    Floats sums[MOST_ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = *(const Floats *)(w->bias + start + v * LANES);
    for (int input = 0; input < w->inputs; input++, weights += PANEL)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] = plus_product(sums[r][v], *(const Floats *)(weights + v * LANES), x[r][input]);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            int output = start + v * LANES;
            store(sums[r][v], y[r] + output, w->outputs - output);
        }
}

#define TILE_OF(rows, tile, x) \
    case rows: \
        tile(rows, (x) + row, w, panel, y + row); \
        row += rows; \
        break;
#define TILES(tile, x) \
    for (int panel = 0; panel < panels(w->outputs); panel++) \
        for (int row = 0; row < rows;) switch (rows - row < ROWS ? rows - row : ROWS) { \
                TILE_OF(1, tile, x) \
                TILE_OF(2, tile, x) \
                TILE_OF(3, tile, x) \
                TILE_OF(4, tile, x) \
                TILE_OF(5, tile, x) \
                TILE_OF(6, tile, x) \
            }

/* y = W x + b for at most TOGETHER rows. values: room for the rounded inputs of all rows. */
static void product(const Weights *w, int rows, const float *const *x, float *const *y, Value *values) {
    if (w->scales) {
        Rounded inputs[TOGETHER];
        for (int r = 0; r < rows; r++)
            inputs[r] = round_to_8_bits(x[r], w->inputs, values + (size_t)r * padded(w->inputs));
        TILES(int8_tile, inputs)
    } else {
        TILES(float_tile, x)
    }
}

static Value *room_for_values(int inputs) { return malloc(sizeof(Value) * TOGETHER * padded(inputs)); }

/* y [rows, outputs] = x [rows, inputs] W' + b. The strides are those of rows, in floats. Like all functions here
   that return a number, it returns 0, or -1 if there is not enough memory. */
int linear(const Weights *w, int rows, const float *x, long x_stride, float *y, long y_stride) {
    WITHOUT_DENORMALS
    Value *values = room_for_values(w->inputs);
    if (!values) return -1;
    for (int first = 0; first < rows; first += TOGETHER) {
        int count = rows - first < TOGETHER ? rows - first : TOGETHER;
        const float *from[TOGETHER];
        float *to[TOGETHER];
        for (int r = 0; r < count; r++) {
            from[r] = x + (first + r) * x_stride;
            to[r] = y + (first + r) * y_stride;
        }
        product(w, count, from, to, values);
    }
    free(values);
    return 0;
}

/* LSTMs */

static inline float exponential(float x) {
    x = x > 60.0f ? 60.0f : x;
    x = x < -60.0f ? -60.0f : x;
    x = x * 1.44269504088896341f;
    float whole = rounded(x), part = x - whole, power_of_part = 1.54035304e-4f, power_of_whole;
    power_of_part = power_of_part * part + 1.33335581e-3f;
    power_of_part = power_of_part * part + 9.61812911e-3f;
    power_of_part = power_of_part * part + 5.55041087e-2f;
    power_of_part = power_of_part * part + 2.40226507e-1f;
    power_of_part = power_of_part * part + 6.93147181e-1f;
    power_of_part = power_of_part * part + 1.0f;
    int32_t bits = ((int32_t)whole + 127) << 23;
    memcpy(&power_of_whole, &bits, sizeof bits);
    return power_of_part * power_of_whole;
}

/* What `exponential` gives for the scores of arcs, added up in their order. */
static float sum_of_exponentials(const float *x, int count) {
    float sum = 0, powers[64];
    for (int first = 0; first < count; first += 64) {
        int some = count - first < 64 ? count - first : 64;
        for (int j = 0; j < some; j++) powers[j] = exponential(x[first + j]);
        for (int j = 0; j < some; j++) sum += powers[j];
    }
    return sum;
}

static float dot_product(const float *x, const float *y, int count) {
    Floats sums = {0};
    int whole = count / LANES * LANES;
    for (int j = 0; j < whole; j += LANES) sums += *(const Floats *)(x + j) * *(const Floats *)(y + j);
    float sum = 0;
    for (int j = whole; j < count; j++) sum += x[j] * y[j];
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

/* The scores of all heads of each word, less the greatest, in sentences of at most `longest` words: [n, n + 1], the
   first of ROOT. heads: [words + 1, size] of each word and of ROOT. dependents: [words, size]. sums: [words], of the
   exponentials of each word's scores. */
void arcs(int sentences, const int32_t *lengths, int longest, int words, int size, const float *heads,
          const float *dependents, float *scores, float *sums) {
    WITHOUT_DENORMALS
    const float *root = heads + (size_t)words * size;
    for (int s = 0; s < sentences; s++) {
        int length = lengths[s];
        for (int word = 0; word < length && length <= longest; word++, scores += length + 1) {
            const float *dependent = dependents + (size_t)word * size;
            scores[0] = dot_product(dependent, root, size);
            for (int head = 0; head < length; head++)
                scores[head + 1] = dot_product(dependent, heads + (size_t)head * size, size);
            scores[word + 1] = -INFINITY;
            float greatest = -INFINITY;
            for (int head = 0; head <= length; head++) greatest = scores[head] > greatest ? scores[head] : greatest;
            for (int head = 0; head <= length; head++) scores[head] -= greatest;
            sums[word] = sum_of_exponentials(scores, length + 1);
        }
        heads += (size_t)length * size;
        dependents += (size_t)length * size;
        sums += length;
    }
}

/* x times the probability that a normal variable is below x (Hendrycks & Gimpel 2016), in place. The probability is
   that of Abramowitz and Stegun 1964, equation 7.1.26, to 1e-7. */
void gelu(float *x, long count) {
    for (long j = 0; j < count; j++) {
        float size = fabsf(x[j]), root = size * 0.70710678118654752f, part = 1.0f / (1.0f + 0.3275911f * root);
        float beyond = 1.061405429f * part - 1.453152027f;
        beyond = beyond * part + 1.421413741f;
        beyond = beyond * part - 0.284496736f;
        beyond = (beyond * part + 0.254829592f) * part * exponential(-root * root) * 0.5f;
        x[j] = (x[j] > 0.0f ? x[j] : 0.0f) - size * beyond;
    }
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }
static inline float hyperbolic_tangent(float x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

/* The gates are the sums of two parts, [4 * size] each, in PyTorch's order: input, forget, cell, output. */
static void cell(int size, const float *restrict of_inputs, const float *restrict of_hidden, float *restrict cells,
                 float *restrict hidden) {
    for (int j = 0; j < size; j++) {
        float in = sigmoid(of_inputs[j] + of_hidden[j]);
        float forget = sigmoid(of_inputs[size + j] + of_hidden[size + j]);
        float candidate = hyperbolic_tangent(of_inputs[2 * size + j] + of_hidden[2 * size + j]);
        float out = sigmoid(of_inputs[3 * size + j] + of_hidden[3 * size + j]);
        float sum = forget * cells[j] + in * candidate;
        cells[j] = sum;
        hidden[j] = out * hyperbolic_tangent(sum);
    }
}

/* One layer of an LSTM over sequences, forwards or backwards. gates: [inputs, 4 * size], what inputs add to the
   gates. rows: [frames] the input of each frame; NULL if each has its own. begin: [5 * size] what the state before the first frame adds to the gates, and its cells. order: the
   sequences, the longest first. hidden: [frames, size], a row every `stride` floats. */
int lstm(const Weights *recurrent, int sequences, const int32_t *order, const int32_t *starts, const int32_t *lengths,
         int is_backward, const float *begin, const float *gates, const int32_t *rows, float *hidden, long stride) {
    WITHOUT_DENORMALS
    int size = recurrent->inputs;
    Value *values = room_for_values(size);
    float *cells = malloc(sizeof(float) * TOGETHER * 5 * size);
    if (!values || !cells) {
        free(values);
        free(cells);
        return -1;
    }
    float *of_hidden = cells + TOGETHER * size;
    for (int first = 0; first < sequences; first += TOGETHER) {
        int active = sequences - first < TOGETHER ? sequences - first : TOGETHER;
        const float *before[TOGETHER];
        float *to[TOGETHER];
        for (int r = 0; r < active; r++) {
            to[r] = of_hidden + (size_t)r * 4 * size;
            memcpy(to[r], begin, sizeof(float) * 4 * size);
            memcpy(cells + (size_t)r * size, begin + 4 * size, sizeof(float) * size);
        }
        int longest = lengths[order[first]];
        for (int step = 0; step < longest; step++) {
            while (lengths[order[first + active - 1]] <= step) active--;
            if (step) product(recurrent, active, before, to, values);
            for (int r = 0; r < active; r++) {
                int sequence = order[first + r];
                long frame = starts[sequence] + (is_backward ? lengths[sequence] - 1 - step : step);
                float *state = hidden + frame * stride;
                const float *of_input = gates + (size_t)(rows ? rows[frame] : frame) * 4 * size;
                cell(size, of_input, to[r], cells + (size_t)r * size, state);
                before[r] = state;
            }
        }
    }
    free(values);
    free(cells);
    return 0;
}

/* Transitions */

enum { S0, S1, B0, NOWHERE };                /* `Place` */
enum { NO_HEAD = -1 };
enum { SEVERAL = -1, FINISHED = -2 };        /* in `only` */
enum { GATES = 4, OUTPUT = 4, CELLS = 5, STATE = 6 }; /* of a layer's state, in hidden sizes */

typedef struct {
    int32_t top, head, dependent, composes, stack_read, stack_move, buffer_move, headless_change;
} Effects; /* as in parser/transitions/inventory.py */

typedef struct {
    int32_t layers, hidden, transitions, no_op;
    /* [layers] each. The first inputs are not used. The last recurrent weights also project the hidden state: as
       the input of the scores, [hidden], it follows what the state adds to the next gates, [4 * hidden]. */
    const Weights *stack_inputs, *stack_recurrent, *history_inputs, *history_recurrent, *scores;
    const float *of_transitions; /* [transitions + 1, 4 * hidden] what they add to the gates of the history */
    const float *blocked;        /* [situations, transitions] 0 for those that are legal, else -infinity */
    const int32_t *only;         /* [situations] the only legal transition, SEVERAL or FINISHED */
    const Effects *effects;      /* [transitions] */
    const int32_t *labels;       /* [transitions] */
} Network;

typedef struct {
    int32_t sentences, words;
    const int32_t *lengths; /* [sentences] */
    const float *pushed;    /* [words + 1, 6 * hidden] of each word and of ROOT: the gates of the stack's LSTM, and
                               what it adds to the scores' input as S0 and as S1 */
    const float *fronts;    /* [words + 1, hidden] what each word, and the end of the buffer, add as B0 */
    int32_t *heads, *labels; /* [words] */
    int32_t *taken;         /* [2 * words] the transitions, those of a sentence from twice its first word; or NULL */
    float *scores;          /* [2 * words, transitions] before each of them, -infinity if it is illegal; or NULL */
} Sentences;

typedef struct {
    int32_t sentence, first, length; /* first: number of words in earlier sentences; sentence: -1 for none */
    int32_t depth, front, headless, steps, situation, transition;
    int32_t *stack;
    float *history; /* [layers, 6 * hidden] */
    float *joined;  /* [hidden] the input of the scores */
    float *scores;  /* [transitions] */
} Row;

typedef struct {
    float *hidden[TOGETHER], *gates[TOGETHER];
    Value *values;
} Scratch;

/* New states of an LSTM of several layers. gates: of the lowest layer. before, after: [layers, 6 * hidden], for each
   layer what it adds to the next gates, the input of the scores (last layer), and the cells; can be the same. */
static void advance(const Weights *inputs, const Weights *recurrent, int layers, int rows, const float *const *gates,
                    float *const *before, float *const *after, Scratch *scratch) {
    int size = recurrent->inputs;
    const float *hidden[TOGETHER], *of_layer[TOGETHER];
    float *to[TOGETHER];
    for (int layer = 0; layer < layers; layer++) {
        if (layer) product(inputs + layer, rows, hidden, scratch->gates, scratch->values);
        for (int r = 0; r < rows; r++) {
            const float *old = before[r] + (size_t)layer * STATE * size;
            to[r] = after[r] + (size_t)layer * STATE * size;
            of_layer[r] = layer ? scratch->gates[r] : gates[r];
            memmove(to[r] + CELLS * size, old + CELLS * size, sizeof(float) * size);
            cell(size, of_layer[r], old, to[r] + CELLS * size, scratch->hidden[r]);
            hidden[r] = scratch->hidden[r];
        }
        product(recurrent + layer, rows, hidden, to, scratch->values);
    }
}

/* `advance` for any number of rows. gates: [rows, 4 * hidden]. before, after: [rows, layers, 6 * hidden]. */
int step(const Weights *inputs, const Weights *recurrent, int layers, int rows, const float *gates, float *before,
         float *after) {
    WITHOUT_DENORMALS
    size_t size = recurrent->inputs, state = layers * STATE * size;
    float *memory = malloc(sizeof(float) * TOGETHER * (GATES + 1) * size);
    Value *values = room_for_values(size);
    Scratch scratch = {.values = values};
    for (int first = 0; memory && values && first < rows; first += TOGETHER) {
        int count = rows - first < TOGETHER ? rows - first : TOGETHER;
        const float *of_rows[TOGETHER];
        float *from[TOGETHER], *to[TOGETHER];
        for (int r = 0; r < count; r++) {
            of_rows[r] = gates + (first + r) * GATES * size;
            from[r] = before + (first + r) * state;
            to[r] = after + (first + r) * state;
            scratch.gates[r] = memory + r * (GATES + 1) * size;
            scratch.hidden[r] = scratch.gates[r] + GATES * size;
        }
        advance(inputs, recurrent, layers, count, of_rows, from, to, &scratch);
    }
    free(memory);
    free(values);
    return memory && values ? 0 : -1;
}

/* In the order of `situation_of` in steps.py. */
static int situation(int depth, int words_left, int head_of_s0, int headless) {
    int of_depth_and_left = ((depth > 3 ? 3 : depth) - 1) * 3 + (words_left > 2 ? 2 : words_left);
    return (of_depth_and_left * 3 + (head_of_s0 > 1 ? 1 : head_of_s0) + 1) * 2 + (headless > 0);
}

/* The first of the greatest scores among legal transitions. scores: [count], where others become -infinity. */
static int best_transition(int count, float *scores, const float *blocked) {
    float greatest[16], best = -INFINITY;
    for (int lane = 0; lane < 16; lane++) greatest[lane] = -INFINITY;
    for (int j = 0; j < count; j++) scores[j] += blocked[j];
    int whole = count / 16 * 16;
    for (int j = 0; j < whole; j += 16)
        for (int lane = 0; lane < 16; lane++)
            greatest[lane] = scores[j + lane] > greatest[lane] ? scores[j + lane] : greatest[lane];
    for (int j = whole; j < count; j++) greatest[0] = scores[j] > greatest[0] ? scores[j] : greatest[0];
    for (int lane = 0; lane < 16; lane++) best = greatest[lane] > best ? greatest[lane] : best;
    for (int j = 0; j < count; j++)
        if (scores[j] == best && blocked[j] == 0) return j;
    int first = 0; /* no score is a number */
    while (first < count - 1 && blocked[first] != 0) first++;
    return first;
}

/* Everything that `parse` allocates, in one piece. */
typedef struct {
    float *states;  /* [words + 1, layers, 6 * hidden] of each word on the stack and, last, of ROOT */
    float *nothing; /* [layers, 6 * hidden] zeros: the state before the first input */
    float *began;   /* [layers, 6 * hidden] the first state of the history */
    Row *rows;
    Scratch scratch;
} Room;

static void *make_room(const Network *net, const Sentences *all, int rows, Room *room) {
    size_t size = net->hidden, state = (size_t)net->layers * STATE * size;
    int longest = 0;
    for (int s = 0; s < all->sentences; s++) longest = all->lengths[s] > longest ? all->lengths[s] : longest;
    int gates = TOGETHER * GATES * size, hidden = TOGETHER * size;
    size_t floats = (all->words + 3) * state + rows * (state + size + net->transitions) + gates + hidden;
    size_t values = sizeof(Value) * TOGETHER * padded(net->hidden);
    size_t stacks = sizeof(int32_t) * rows * (longest + 2);
    char *memory = malloc(sizeof(float) * floats + sizeof(Row) * rows + stacks + values);
    if (!memory) return NULL;
    room->rows = (Row *)memory;
    float *next = (float *)(memory + sizeof(Row) * rows);
    int32_t *stack = (int32_t *)(next + floats);
    room->scratch.values = (Value *)(stack + rows * (longest + 2));
    room->states = next;
    room->nothing = memset(next + (all->words + 1) * state, 0, sizeof(float) * state);
    room->began = room->nothing + state;
    next = room->began + state;
    for (int r = 0; r < TOGETHER; r++, next += (GATES + 1) * size) {
        room->scratch.gates[r] = next;
        room->scratch.hidden[r] = next + GATES * size;
    }
    for (int r = 0; r < rows; r++, next += state + size + net->transitions) {
        float *joined = next + state;
        int32_t *of_row = stack + r * (longest + 2);
        room->rows[r] = (Row){.sentence = -1, .stack = of_row, .history = next, .joined = joined, .scores = joined + size};
    }
    return memory;
}

/* Parse sentences. Rows take their transitions together; a row whose sentence is done takes the next one. */
int parse(const Network *net, const Sentences *all) {
    WITHOUT_DENORMALS
    int size = net->hidden, rows = all->sentences < TOGETHER ? all->sentences : TOGETHER;
    int output = (net->layers - 1) * STATE * size + OUTPUT * size; /* where a state has the input of the scores */
    size_t state = (size_t)net->layers * STATE * size;
    Room room;
    void *memory = make_room(net, all, rows, &room);
    if (!memory) return -1;
    float *root = room.states + all->words * state;
    const float *of_root = all->pushed + (size_t)all->words * STATE * size;
    advance(net->stack_inputs, net->stack_recurrent, net->layers, 1, &of_root, &room.nothing, &root, &room.scratch);
    for (int j = 0; j < size; j++) root[output + j] += of_root[GATES * size + j];
    const float *of_no_op = net->of_transitions + (size_t)net->no_op * GATES * size;
    advance(net->history_inputs, net->history_recurrent, net->layers, 1, &of_no_op, &room.nothing, &room.began,
            &room.scratch);

    int next = 0, first = 0;
    for (;;) {
        Row *acting[TOGETHER], *choosing[TOGETHER];
        const float *inputs[TOGETHER];
        float *outputs[TOGETHER], *before[TOGETHER];
        int active = 0, choices = 0;
        for (Row *row = room.rows; row < room.rows + rows; row++) {
            for (;;) {
                if (row->sentence < 0) {
                    if (next == all->sentences) break;
                    row->sentence = next;
                    row->first = first;
                    row->length = all->lengths[next++];
                    first += row->length;
                    row->depth = row->front = 1;
                    row->headless = row->steps = row->stack[0] = 0;
                    memcpy(row->history, room.began, sizeof(float) * state);
                }
                int s0 = row->stack[row->depth - 1];
                int head = s0 ? all->heads[row->first + s0 - 1] : NO_HEAD;
                row->situation = situation(row->depth, row->length + 1 - row->front, head, row->headless);
                row->transition = net->only[row->situation];
                if (row->transition != FINISHED) {
                    acting[active++] = row;
                    break;
                }
                row->sentence = -1;
            }
            if (row->sentence < 0 || row->transition != SEVERAL) continue;
            int s0 = row->stack[row->depth - 1], s1 = row->depth > 1 ? row->stack[row->depth - 2] : 0;
            const float *as_top = room.states + (s0 ? row->first + s0 - 1 : all->words) * state + output;
            const float *as_below = all->pushed + ((size_t)(s1 ? row->first + s1 - 1 : all->words) * STATE + 5) * size;
            const float *as_front = all->fronts
                + (size_t)(row->front <= row->length ? row->first + row->front - 1 : all->words) * size;
            for (int j = 0; j < size; j++) {
                float sum = row->history[output + j] + as_top[j] + as_below[j] + as_front[j];
                row->joined[j] = sum > 0 ? sum : 0;
            }
            inputs[choices] = row->joined;
            outputs[choices] = row->scores;
            choosing[choices++] = row;
        }
        if (!active) break;

        product(net->scores, choices, inputs, outputs, room.scratch.values);
        for (int c = 0; c < choices; c++) {
            Row *row = choosing[c];
            const float *blocked = net->blocked + (size_t)row->situation * net->transitions;
            row->transition = best_transition(net->transitions, row->scores, blocked);
            if (all->scores)
                memcpy(all->scores + ((size_t)2 * row->first + row->steps) * net->transitions, row->scores,
                       sizeof(float) * net->transitions);
        }

        int32_t pushed[TOGETHER]; /* rows of `states` */
        int pushes = 0;
        for (int a = 0; a < active; a++) {
            Row *row = acting[a];
            const Effects *effects = net->effects + row->transition;
            int depth = row->depth, kept = depth - effects->stack_read;
            int words[] = {row->stack[depth - 1], depth > 1 ? row->stack[depth - 2] : 0, row->front, NO_HEAD};
            if (effects->dependent != NOWHERE) {
                int dependent = row->first + words[effects->dependent] - 1;
                all->heads[dependent] = words[effects->head];
                all->labels[dependent] = net->labels[row->transition];
            }
            if (all->taken) all->taken[2 * row->first + row->steps] = row->transition;
            if (all->scores && net->only[row->situation] != SEVERAL) {
                float *scores = all->scores + ((size_t)2 * row->first + row->steps) * net->transitions;
                memcpy(scores, net->blocked + (size_t)row->situation * net->transitions,
                       sizeof(float) * net->transitions);
            }
            if (effects->stack_move == 1 - effects->stack_read) { /* a push, perhaps in place of other words */
                int below = row->stack[kept - 1], top = words[effects->top];
                pushed[pushes] = row->first + top - 1;
                inputs[pushes] = all->pushed + (size_t)pushed[pushes] * STATE * size;
                before[pushes] = room.states + (below ? row->first + below - 1 : all->words) * state;
                outputs[pushes] = room.states + pushed[pushes] * state;
                row->stack[kept] = top;
                pushes++;
            }
            row->depth += effects->stack_move;
            row->front += effects->buffer_move;
            row->headless += effects->headless_change;
            row->steps++;
        }
        advance(net->stack_inputs, net->stack_recurrent, net->layers, pushes, inputs, before, outputs, &room.scratch);
        for (int p = 0; p < pushes; p++) {
            const float *as_top = inputs[p] + GATES * size;
            for (int j = 0; j < size; j++) outputs[p][output + j] += as_top[j];
        }
        for (int a = 0; a < active; a++) {
            inputs[a] = net->of_transitions + (size_t)acting[a]->transition * GATES * size;
            outputs[a] = acting[a]->history;
        }
        advance(net->history_inputs, net->history_recurrent, net->layers, active, inputs, outputs, outputs,
                &room.scratch);
    }
    free(memory);
    return 0;
}
