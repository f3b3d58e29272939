#include "cpu/lanes_generic.h"

#include "cpu/elementwise_body.h"
