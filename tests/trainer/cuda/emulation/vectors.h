// The built-in vector types of CUDA, with the alignment that the GPU's wide accesses need.
#pragma once

#define REGATTA_VECTOR1(name, T) \
  struct name {                  \
    T x;                         \
  };                             \
  inline name make_##name(T x) { return {x}; }
#define REGATTA_VECTOR2(name, T, alignment) \
  struct alignas(alignment) name {          \
    T x, y;                                 \
  };                                        \
  inline name make_##name(T x, T y) { return {x, y}; }
#define REGATTA_VECTOR3(name, T) \
  struct name {                  \
    T x, y, z;                   \
  };                             \
  inline name make_##name(T x, T y, T z) { return {x, y, z}; }
#define REGATTA_VECTOR4(name, T, alignment) \
  struct alignas(alignment) name {          \
    T x, y, z, w;                           \
  };                                        \
  inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }

REGATTA_VECTOR2(char2, signed char, 2)
REGATTA_VECTOR4(char4, signed char, 4)
REGATTA_VECTOR2(uchar2, unsigned char, 2)
REGATTA_VECTOR4(uchar4, unsigned char, 4)
REGATTA_VECTOR2(short2, short, 4)
REGATTA_VECTOR4(short4, short, 8)
REGATTA_VECTOR2(ushort2, unsigned short, 4)
REGATTA_VECTOR4(ushort4, unsigned short, 8)
REGATTA_VECTOR1(int1, int)
REGATTA_VECTOR2(int2, int, 8)
REGATTA_VECTOR3(int3, int)
REGATTA_VECTOR4(int4, int, 16)
REGATTA_VECTOR1(uint1, unsigned)
REGATTA_VECTOR2(uint2, unsigned, 8)
REGATTA_VECTOR3(uint3, unsigned)
REGATTA_VECTOR4(uint4, unsigned, 16)
REGATTA_VECTOR2(longlong2, long long, 16)
REGATTA_VECTOR2(ulonglong2, unsigned long long, 16)
REGATTA_VECTOR1(float1, float)
REGATTA_VECTOR2(float2, float, 8)
REGATTA_VECTOR3(float3, float)
REGATTA_VECTOR4(float4, float, 16)
REGATTA_VECTOR2(double2, double, 16)

#undef REGATTA_VECTOR1
#undef REGATTA_VECTOR2
#undef REGATTA_VECTOR3
#undef REGATTA_VECTOR4

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  constexpr dim3(uint3 size) : x(size.x), y(size.y), z(size.z) {}
};
