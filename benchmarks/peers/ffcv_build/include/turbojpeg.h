// What FFCV's core asks of libjpeg-turbo, so that it builds where its headers are not installed: decoding images.
// Nothing here decodes an image: the benchmark has none, and a call ends the process.
#pragma once
#include <cstdlib>

typedef void* tjhandle;
typedef struct {
    int num, denom;
} tjscalingfactor;
typedef struct {
    int x, y, w, h;
} tjregion;
typedef struct {
    tjregion r;
    int op, options;
} tjtransform;

enum { TJXOP_HFLIP = 1, TJXOPT_CROP = 4, TJPF_RGB = 0, TJFLAG_NOREALLOC = 1024, TJFLAG_FASTDCT = 2048 };
#define TJSCALED(size, factor) (((size) * (factor).num + (factor).denom - 1) / (factor).denom)

inline tjhandle tjInitTransform() { std::abort(); }
inline tjhandle tjInitDecompress() { std::abort(); }
inline int tjTransform(tjhandle, unsigned char*, unsigned long, int, unsigned char**, unsigned long*, tjtransform*, int) {
    std::abort();
}
inline int tjDecompress2(tjhandle, unsigned char*, unsigned long, unsigned char*, int, int, int, int, int) { std::abort(); }
inline void tjFree(unsigned char*) { std::abort(); }
