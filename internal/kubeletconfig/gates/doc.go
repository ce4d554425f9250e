// Package gates has the kubelet's feature gates: which ones podexecd obeys, and which features it has, or lacks, whatever
// the gate says.
//
// Package execconfig parses the field featureGates and the flag --feature-gates with it. The table in table.go has the
// gates that the code of the kubelet 1.37 reads, with its defaults. It runs no goroutines, and keeps nothing.
package gates
