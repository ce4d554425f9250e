// Package claimvolumes lists, removes, exports and imports the directories of static pods' claims, when an operator asks.
//
// podexecapi calls it, for podctl volumes. It decides what may be done: a directory that a pod uses, or that a claim of the
// stream names, isn't removed, and where that isn't known nothing is. All work on the directories is done by package
// foreign's helpers, as package tree does it. While a directory is removed or replaced, pods can neither bind nor want it.
//
// Run removes what an earlier podexecd has left incomplete, and what imports replace. Export and Import run one goroutine each, which copies the
// archive. Import's ends with the call; Export's may end later, with a Write to a receiver that doesn't read.
package claimvolumes
