// Package bench measures the latency that users see and the resources that podconfigd uses, each figure beside its
// lower bound from the same run. `make bench` prints it.
//
// To separate the server's cost from its consumers', the server is a separate process: the test binary, started again
// with a serverConfig in its environment, and controlled over a pipe. The consumers are a crowd of raw gRPC clients
// in the test's process, which don't decode. PODSTREAM_BENCH_PROFILES=DIR makes the servers write CPU and heap
// profiles there.
//
// The tests here check guarantees that need such a server. They are short. PODSTREAM_BENCH_FULL=1 runs them at
// full size.
package bench
