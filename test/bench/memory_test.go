package bench

import "testing"

const mib = 1 << 20

// The parts of podconfigd's memory, as ARCHITECTURE.md has them.
const (
	// program is what podconfigd has before it knows a pod: code, runtime, tables of types.
	program = 40 * mib
	// versionSize is what one version of a pod of 2 KiB takes: 13 KiB as an object, and its encoding and frame in one
	// format.
	versionSize = 20 << 10
	// revisions is how many versions the history keeps, of small pods.
	revisions = 1024
	// parkedSize is what a consumer that doesn't read costs, beside the message that waits: its connection and
	// stream, and what gRPC takes before it lets SendMsg wait.
	parkedSize = 256 << 10
	// laterSize is the message that waits for a consumer that doesn't read its catch-up.
	laterSize = 256 << 10
	// garbage is how much larger than what is in use the heap may grow before it is collected (GOGC=100).
	garbage = 2
)

// TestG8MemoryBound checks the second half of G8, Isolated: while 100 consumers don't read at all and many ops go by,
// podconfigd's memory stays within what follows from its configuration, and doesn't grow after the first fifth of
// them. One more consumer reads, so that everything is encoded.
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
		t.Fatal("the kernel doesn't tell VmHWM in /proc/self/status")
	}
	if late.PeakRSS > bound && !raceDetector {
		t.Errorf("peak RSS is %d MiB; want %d MiB at most", late.PeakRSS/mib, bound/mib)
	}
	// What is in use when one looks varies by a tenth. A version of a pod that were kept for each op would be 160 MiB
	// more.
	if float64(late.InUse) > 1.3*float64(early.InUse) {
		t.Errorf("%.1f MiB are in use after %d ops, and %.1f MiB after a fifth of them; want no growth",
			float64(late.InUse)/mib, ops, float64(early.InUse)/mib)
	}
}
