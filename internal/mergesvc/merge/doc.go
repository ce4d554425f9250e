// Package merge decides what changed: it folds the full sets of all sources into one set of pods and says, as a Revision of
// ops, how it differs from the one before.
//
// It is a pure core: no locks, no goroutines, no I/O, no clock but the times in the sets. Its one caller serialises the calls. A
// merge compares digests and the origins' pointers, so it costs what changed; only while two pods claim one name or UID does
// each merge look at all pods.
//
// Which sources there are, and their order of priority, may change at any time: Configure is a merge like Apply, and its revision
// names them. A source that goes takes its pods with it at once; one that was found missing at the start keeps those that are stored
// until all others have spoken.
//
// The rules are those of the kubelet's podStorage (pkg/kubelet/config), with these differences: an origin that can't be used
// now is held, its last good pods stay; of two pods that claim one name or UID the one of the earlier source, then of the
// earlier origin, is served, and the other waits, as a stored pod that lost its place does until its source has spoken or the place is
// free; a pod that gets another name or source under its UID is another pod.
package merge
