// Package merge merges the full sets of all sources into one set of pods. Its result is a Revision: the ops that lead
// from the previous set to the next.
//
// It is a pure core: no locks, no goroutines, no I/O, no clock but the times in the sets. Its caller serialises the
// calls. A merge compares digests and the origins' pointers, so it costs what changed. Only while two pods claim one
// name or UID does each merge look at all pods.
//
// The configured sources and their order of priority may change at any time: Configure is a merge like Apply, and its
// revision names the sources. A removed source loses its pods at once. A source that was found missing at the start
// keeps its stored pods until all others were read.
//
// The rules are those of the kubelet's podStorage (pkg/kubelet/config), with these differences:
//
//   - An origin that can't be used now is held: its last good pods stay.
//   - Of two pods that claim one name or UID, the one of the earlier source, then of the earlier origin, is served.
//     The other one waits. A stored pod that lost its place waits until its source was read or the place is free.
//   - A pod that gets another name or source under its UID is another pod.
package merge
