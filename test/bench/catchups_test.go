package bench

import "testing"

// TestG8StalledCatchups: consumers stop reading in the middle of their catch-ups, each at a different revision,
// while every pod changes. The catch-ups keep no version of a pod that the history has dropped, so podconfigd's
// memory stays below the bound that its configuration gives.
func TestG8StalledCatchups(t *testing.T) {
	const pods, size, kept = 200, 20 << 10, 64 * mib
	consumers := 40
	if full() {
		consumers = 400
	}
	needFiles(t, uint64(consumers)+256)
	s := startServer(t, serverConfig{Variant: product, Pods: pods, Size: size, Revisions: revisions, Fresh: true})
	for range consumers {
		s.publish(t, pods, size)
		stall(t, s, 1)
	}
	s.publish(t, pods, size)
	m := s.memory(t)
	const podSize = 4<<10 + 4*size
	bound := uint64(program + garbage*(pods*podSize+kept+consumers*(parkedSize+laterSize)))
	t.Logf("with %d catch-ups that are not read, each of another version of %d pods: peak RSS %d MiB, bound %d MiB; in use %.1f MiB",
		consumers, pods, m.PeakRSS/mib, bound/mib, float64(m.InUse)/mib)
	if m.PeakRSS == 0 {
		t.Fatal("there is no VmHWM in /proc/self/status")
	}
	if m.PeakRSS > bound && !raceDetector {
		t.Errorf("peak RSS is %d MiB; want %d MiB at most", m.PeakRSS/mib, bound/mib)
	}
}
