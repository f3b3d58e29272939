#if defined(__x86_64__)
#include "cpu/lanes_avx2.h"

#include "cpu/elementwise_body.h"
#endif
