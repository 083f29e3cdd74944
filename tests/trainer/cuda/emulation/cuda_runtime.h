// Stands before CUDA's own header in the include path when .cu files are compiled as C++.
#pragma once

#include "tests/trainer/cuda/emulation/device_code.h"
#include "tests/trainer/cuda/emulation/runtime_api.h"
#include "tests/trainer/cuda/emulation/vectors.h"
