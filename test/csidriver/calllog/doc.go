// Package calllog is the log of the calls that a CSI driver receives: the judge of tests that kill the agent, the driver or the machine.
//
// A Writer adds one line of JSON for each event of a call, and syncs it before the call goes on. So a line "begin" without "end" is
// a call in whose midst the driver died. Drivers of several nodes may write to one file.
// A test that powers a node off writes Off after it: then another node may stage the node's volumes.
//
// Read reads a log. The checks (Overlaps, StageBeforePublish and others) are functions of its calls that return what is wrong. They judge
// as a CO must: a call without a certain answer has perhaps acted, so its volume counts as staged or published.
//
// The package starts no goroutines.
package calllog
