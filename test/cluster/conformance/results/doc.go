// Package results keeps the results of conformance specs, of many runs, and compares two agents by them.
//
// A directory has a file for each agent, its commit and its runtime. Its first line is the file's key and format; each
// further line is the result of one run of a spec. A run that is ended in between goes on where it stopped: Open drops
// the line that it left half written. A file of another format, of other specs, or with a damaged line is refused, by
// its name and line. One run at a time writes a file.
//
// Next returns what a run should do next: first the specs without a result, then, of specs on which the agents differ,
// the runs that are missing to three of each. Compare and Summary are what the program table prints. The package runs no
// specs, and no goroutines.
package results
