// Package pulls compares podexecd's records of image pulls with the kubelet's pull manager
// (k8s.io/kubernetes/pkg/kubelet/images/pullmanager, 1.35).
//
// Random sequences of pulls, checks, restarts, removals and damaged files go to the kubelet's code and, through the
// process pullchecks, to package pullrecord. Each has a directory of its own. After each operation the decision is
// compared, and the records on the disk by their effect. A sequence is repeated with -pulls.seed=SEED -pulls.first=NUMBER
// -pulls=1. Each intended difference has a rule (rules_test.go); each must occur, and everything else must be the same.
package pulls
