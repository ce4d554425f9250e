// Package apiserver has the files and flags of a kube-apiserver and its etcd, for the comparisons of test/cridiff and
// test/nodediff. Both listen on the loopback interface, and every user may do everything. It starts no process and has no
// goroutine: its callers start the programs where their agents run.
package apiserver
