#include "cpu/lanes_generic.h"

#include "cpu/rope_body.h"
