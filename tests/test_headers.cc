// Exists so that the headers named in CMakeLists.txt are parsed once for all tests.
