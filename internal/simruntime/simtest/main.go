package simtest

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

// Main runs a package's tests, and fails on leaked goroutines. It discards the log of the CRI client, which logs all
// error that it returns. The options name goroutines that may outlive the tests.
func Main(m *testing.M, options ...goleak.Option) {
	klog.SetLogger(klog.Logger{})
	goleak.VerifyTestMain(m, options...)
}
