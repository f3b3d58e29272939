/* Registers hold an array only if every index into it is a constant, so the loops over a register tile must vanish.
 * Under a sanitizer they stay loops: the bits are the same, and the build takes seconds instead of minutes. */
#ifndef GLIM_CPU_UNROLL_H
#define GLIM_CPU_UNROLL_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNROLL
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLL
#endif

#if !defined(UNROLL) && defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#elif !defined(UNROLL)
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
