// Package results keeps the results of conformance specs, of many runs, and compares two agents by them.
//
// A directory has a file for each agent, its commit and its runtime. A run appends a line for each spec as soon as it
// has a result, so that a run which is ended in between goes on where it stopped. One run at a time may write a file.
// Next says what a run should do next: first what has no result, then, for specs on which the agents differ, what is
// missing to three runs of each. The package runs no specs, and no goroutines. The program table prints the comparison.
package results
