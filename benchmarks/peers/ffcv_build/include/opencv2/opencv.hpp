// What FFCV's core asks of OpenCV, so that it builds where OpenCV's headers are not installed: resizing images.
// Nothing here resizes an image: the benchmark has none, and a call ends the process.
#pragma once
#include <cstdlib>

#define CV_8UC3 16

namespace cv {
enum { INTER_AREA = 3 };
struct Size {};
struct Mat {
    Mat(long, long, int, void*) {}
    Mat colRange(long, long) const { return *this; }
    Mat rowRange(long, long) const { return *this; }
    Size size() const { return {}; }
};
inline void resize(const Mat&, Mat&, Size, double, double, int) { std::abort(); }
}  // namespace cv
