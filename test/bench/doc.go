// Package bench measures what users wait for and what podconfigd costs, each figure beside the least that it could be in the same
// run. `make bench` prints it.
//
// Where the server's cost is to be told apart from its consumers', the server is a process of its own: the test binary, started
// again with a serverConfig in its environment, and commanded over a pipe. The consumers are a crowd of raw gRPC clients in the
// test's process, which don't decode. PODSTREAM_BENCH_PROFILES=DIR has the servers write CPU and heap profiles there.
//
// The tests here are of promises that need such a server. They are short; PODSTREAM_BENCH_FULL=1 has them run at full size.
package bench
