#if defined(__x86_64__)
#include "cpu/lanes_avx512.h"

#include "cpu/elementwise_body.h"
#endif
