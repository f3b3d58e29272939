#include "cpu/lanes_generic.h"

#include "cpu/kv_body.h"
