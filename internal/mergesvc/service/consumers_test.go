package service_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// consumers are those that ListConsumers shows.
func (n *node) consumers() []*podconfigv1.Consumer {
	n.t.Helper()
	resp, err := n.api.ListConsumers(context.Background(), &podconfigv1.ListConsumersRequest{})
	if err != nil {
		n.t.Fatalf("ListConsumers: %v; want the consumers", err)
	}
	return resp.GetConsumers()
}

// until waits for what must come to be.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("after %v it still isn't so that %s", deadline, what)
		}
	}
}
