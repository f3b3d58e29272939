#if defined(__x86_64__)
#include "cpu/lanes_avx2.h"

#include "cpu/rope_body.h"
#endif
