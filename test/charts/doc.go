// Package charts checks the dashboard and the rules in deploy with Prometheus' own engine. A recording of a real
// node's metrics is loaded, and every query of the dashboard, every recording rule, and every selector of an alert
// is evaluated at its end. Each must have a result, or stand in testdata/empty.yaml with a reason. TestCompare
// prints the value of each query on a Podstream node and on a kubelet node side by side, from a recording of both.
//
// It is a module of its own, because Prometheus has many dependencies. Its go.mod pins promtool too, which checks
// the rules and runs their unit tests. make charts runs all of it, make charts-record makes testdata/node.jsonl.gz
// again, and make charts-compare records both nodes and compares them. No test starts a process or a goroutine that
// outlives it.
package charts
