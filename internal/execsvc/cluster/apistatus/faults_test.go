package apistatus_test

import (
	"sync"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
)

// faults is a server's Fault that a test changes.
type faults struct {
	mu sync.Mutex
	f  func(fakeapi.Request) fakeapi.Fault
}

func (f *faults) fault(r fakeapi.Request) fakeapi.Fault {
	f.mu.Lock()
	now := f.f
	f.mu.Unlock()
	if now == nil {
		return fakeapi.Fault{}
	}
	return now(r)
}

// fail has the server's answers fail from now on as the function says; nil: they don't.
func (n *node) fail(fault func(fakeapi.Request) fakeapi.Fault) {
	n.faults.mu.Lock()
	defer n.faults.mu.Unlock()
	n.faults.f = fault
}

// always is that each request fails the same way.
func always(f fakeapi.Fault) func(fakeapi.Request) fakeapi.Fault {
	return func(fakeapi.Request) fakeapi.Fault { return f }
}

// only is that those requests fail that are meant, and no others.
func only(meant func(fakeapi.Request) bool, f fakeapi.Fault) func(fakeapi.Request) fakeapi.Fault {
	return func(r fakeapi.Request) fakeapi.Fault {
		if !meant(r) {
			return fakeapi.Fault{}
		}
		return f
	}
}

// firstDeletion is that the first deletion fails, and nothing else.
func firstDeletion(f fakeapi.Fault) func(fakeapi.Request) fakeapi.Fault {
	failed := false
	return only(func(r fakeapi.Request) bool {
		if r.Verb != "delete" || failed {
			return false
		}
		failed = true
		return true
	}, f)
}
