// Package diskusage counts the files of pods: the bytes and inodes of their volumes, logs, termination messages and
// hosts files.
//
// It is the only place where the files of pods are counted. Package stats shows its figures, package localstorage
// compares them with limits, and package eviction ranks pods by them. A count starts only when a caller of
// Meter.Counts needs a figure; one count serves all callers.
//
// A pod controls its directories and changes them during a count. So a count opens each directory relative to its
// parent's descriptor, follows no symbolic link, and enters no other file system. Its memory does not depend on the
// size of the tree: it keeps a fixed number of descriptors and buffers, 24 bytes for each level up to maxDepth, and
// the numbers of maxLinked files with several names for each count.
//
// A pod also controls how long its count takes. Each count starts in the quick queue, where two goroutines give each
// pod 100 ms. A count that needs more is started again in the slow queue, where eight goroutines share one turn of 50
// ms each, and pause as long as they work. So large pods wait for each other, and do not delay the figures of small
// ones. In both queues namespaces take turns, and a namespace has at most two slow counts under way, so the large
// pods of one namespace do not keep those of another from being counted. A large pod is counted again after nine
// times the time that its count took, at most a minute.
//
// A count has a bound in files, depth and time. A pod that exceeds it has an Uncountable figure, which callers treat
// as too much. A count that ends by time before it has seen enough files for the pod to be the cause has an error
// only, and a step that waits for the disk counts as a short one: the disk may be slow. The next count has twice the
// time, up to eight times. A count during which directories are moved has an error only, too, and the next one may
// succeed; the pod is uncountable if five successive counts, over at least the time of one, have all found moves.
//
// A count, like the kubelet's without quotas, misses a file that is open and has no name, a subvolume with a device
// number of its own, and a file that the pod moves from a directory that is still to be read into one that has been
// read. Project quotas would count these. Files without a name could be found among the open files of the pod's
// processes, but not those that are only mapped, sent in a socket's message or registered with io_uring; and one that
// is deleted on a hostPath of the same file system, as a log agent may hold it, is not the pod's.
//
// Run owns all goroutines. One lock protects the queues; no file is accessed under it. The package changes no file.
package diskusage
