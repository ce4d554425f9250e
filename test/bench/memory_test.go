package bench

import "testing"

const mib = 1 << 20

// The parts of podconfigd's memory, as ARCHITECTURE.md has them.
const (
	// program is podconfigd's memory without pods: code, runtime, tables of types.
	program = 40 * mib
	// versionSize is the memory of one version of a pod of 2 KiB: 13 KiB as an object, and its encoding and
	// frame in one format.
	versionSize = 20 << 10
	// revisions is the number of versions of small pods that the history keeps.
	revisions = 1024
	// parkedSize is the memory of a consumer that doesn't read, without its waiting message: its connection and
	// stream, and gRPC's buffers before SendMsg blocks.
	parkedSize = 256 << 10
	// laterSize is the size of the message that waits for a consumer that doesn't read its catch-up.
	laterSize = 256 << 10
	// garbage is the ratio to the memory in use at which the heap is collected (GOGC=100).
	garbage = 2
)

// TestG8MemoryBound checks the second half of G8, Isolated: while 100 consumers don't read and many ops are
// published, podconfigd's memory stays below the bound that its configuration gives, and doesn't grow after the
// first fifth of the ops. One more consumer reads, so that everything is encoded.
func TestG8MemoryBound(t *testing.T) {
	const consumers, pods, size, batch = 100, 100, 2 << 10, 1000
	ops := 10_000
	if full() {
		ops = 100_000
	}
	needFiles(t, consumers+256)
	s := startServer(t, serverConfig{Variant: product, Pods: pods, Size: size, Revisions: revisions, Store: "store.db", Fresh: true})
	stall(t, s, consumers)
	gather(t, s, 1, protobufFormat)
	var early answer
	for done := 0; done < ops; done += batch {
		if done == ops/5 {
			early = s.memory(t)
		}
		s.publish(t, batch, size)
	}
	requireStalled(t, s, consumers)
	late := s.memory(t)
	const bound = program + garbage*((pods+revisions)*versionSize+consumers*(parkedSize+size))
	t.Logf("after %d ops with %d stalled consumers: peak RSS %d MiB, bound %d MiB; in use %.1f MiB, %.1f MiB after a fifth of them",
		ops, consumers, late.PeakRSS/mib, bound/mib, float64(late.InUse)/mib, float64(early.InUse)/mib)
	if late.PeakRSS == 0 {
		t.Fatal("there is no VmHWM in /proc/self/status")
	}
	if late.PeakRSS > bound && !raceDetector {
		t.Errorf("peak RSS is %d MiB; want %d MiB at most", late.PeakRSS/mib, bound/mib)
	}
	// The memory in use varies by a tenth. If one version of a pod were kept for each op, it would be 160 MiB
	// more.
	if float64(late.InUse) > 1.3*float64(early.InUse) {
		t.Errorf("%.1f MiB are in use after %d ops, and %.1f MiB after a fifth of them; want no growth",
			float64(late.InUse)/mib, ops, float64(early.InUse)/mib)
	}
}

// idleSize is the memory of a consumer that waits, without its part of the garbage: its connection and stream, gRPC's
// goroutines and their stacks.
const idleSize = 40 << 10

// TestIdleConsumers checks how much memory podconfigd uses for a consumer that waits for a change.
func TestIdleConsumers(t *testing.T) {
	const consumers = 500
	needFiles(t, consumers+256)
	s := startServer(t, serverConfig{Variant: product, Pods: 1, Size: 2 << 10})
	before := s.memory(t)
	gather(t, s, consumers, protobufFormat)
	each := float64(int64(s.memory(t).InUse-before.InUse)) / consumers
	t.Logf("a consumer that waits takes %.0f bytes, bound %d", each, idleSize)
	if each > idleSize && !raceDetector {
		t.Errorf("a consumer that waits takes %.0f bytes; want %d at most", each, idleSize)
	}
}
