// One loop, three instruction sets. `simd(f)` runs the lambda f compiled for the best set this CPU
// has. The lambda and everything it calls are force-inlined, so only that loop uses wide registers
// and no inline function leaks out of its set (no ifunc: it clashes with ASan and is Linux-only).
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#if defined(_MSC_VER) && !defined(__clang__)
#define MM_INLINE __forceinline
#define MM_LAMBDA
#else
#define MM_INLINE __attribute__((always_inline)) inline
#define MM_LAMBDA __attribute__((always_inline))
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(MAXMARGIN_BASELINE)
#define MM_DISPATCH 1
#else
#define MM_DISPATCH 0
#endif

namespace mm {

enum class Isa { baseline, avx2, avx512 };

// The best this CPU has, or what the environment variable MAXMARGIN_ISA names if that is less.
inline Isa isa() {
#if MM_DISPATCH
    static const Isa best = [] {
        __builtin_cpu_init();
        const char* name = std::getenv("MAXMARGIN_ISA");
        const std::string_view most = name ? name : "";
        if (most != "baseline" && most != "avx2" && __builtin_cpu_supports("avx512f") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
            return Isa::avx512;
        if (most != "baseline" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            return Isa::avx2;
        return Isa::baseline;
    }();
    return best;
#else
    return Isa::baseline;
#endif
}

// The bytes of a register, for loops written in the compiler's own vectors: those that are wider
// than the set has are lowered to scalar code.
template <int bytes>
struct Register {};

// Such vectors of numbers, and of integers as wide; of one where the compiler has none of its own.
template <class V, int bytes>
struct Lanes {
    using Int = std::conditional_t<sizeof(V) == 4, std::int32_t, std::int64_t>;
#if defined(__GNUC__)
    static constexpr std::int64_t count = bytes / static_cast<int>(sizeof(V));
    typedef V Values __attribute__((vector_size(bytes)));
    typedef Int Ints __attribute__((vector_size(bytes)));
#else
    static constexpr std::int64_t count = 1;
    using Values = V;
    using Ints = Int;
#endif
};

// By reference: registers that are returned would need one instruction set for all callers.
template <class R>
MM_INLINE void read(R& to, const void* from) {
    std::memcpy(&to, from, sizeof to);
}

template <class T, class R>
MM_INLINE void write(T* to, const R& from) {
    std::memcpy(to, &from, sizeof from);
}

template <int bytes, class F>
MM_INLINE auto call(F& f) {
    if constexpr (requires { f(Register<bytes>{}); })
        return f(Register<bytes>{});
    else
        return f();
}

#if MM_DISPATCH
template <class F>
__attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"), noinline)) auto run_avx512(F& f) {
    return call<64>(f);
}
template <class F>
__attribute__((target("avx2,fma"), noinline)) auto run_avx2(F& f) {
    return call<32>(f);
}
#endif

template <class F>
auto simd(F&& f) {
#if MM_DISPATCH
    switch (isa()) {
        case Isa::avx512: return run_avx512(f);
        case Isa::avx2: return run_avx2(f);
        default: break;
    }
#endif
    return call<16>(f);
}

// exp(x) for x <= 0. Cody-Waite reduction x = n ln 2 + r, a polynomial in r, then 2^n by adding n
// to the exponent bits. Errors below 1.5 ulp (float) and 1 ulp (double); underflow gives 0.
MM_INLINE float exp_negative(float x) {
    const float magic = 12582912.0f;  // 1.5 * 2^23: rounds to the nearest integer
    const float clamped = x > -87.0f ? x : -87.0f;
    const float z = clamped * 1.44269504088896341f + magic;
    const float n = z - magic;
    const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r) * r + (r + 1.0f);
    const auto shift = std::bit_cast<std::uint32_t>(z) << 23;
    const float y = std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + shift);
    return x > -87.0f ? y : 0.0f;
}

MM_INLINE double exp_negative(double x) {
    const double magic = 6755399441055744.0;  // 1.5 * 2^52
    const double clamped = x > -708.0 ? x : -708.0;
    const double z = clamped * 1.4426950408889634074 + magic;
    const double n = z - magic;
    const double r = (clamped - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
    double p = 1.0 / 6227020800.0;  // Taylor to r^13: |r| <= ln 2 / 2 leaves 4e-18
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = (p * r) * r + (r + 1.0);
    const auto shift = std::bit_cast<std::uint64_t>(z) << 52;
    const double y = std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) + shift);
    return x > -708.0 ? y : 0.0;
}

}  // namespace mm
