package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/injectd/inject"
)

// testRestart: a consumer follows injectd through a kill -9. injectd can be started again at once, although its
// sockets still exist. Until its sources have delivered sets, their pods come from the store.
func testRestart(t *testing.T, node *devnode.Node) {
	d := start(t, node, []string{"api"})
	number := d.apply("api", apiPod("old", "u1"), apiPod("kept", "u2"))
	c, err := client.New(client.Config{Endpoint: d.endpoint, Consumer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ops := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Watch(ctx, client.WatchOptions{}, func(_ context.Context, e client.Event) error {
			for _, op := range e.Ops {
				for _, p := range op.Pods {
					ops <- strings.TrimPrefix(op.Op.String(), "POD_OPERATION_") + " " + p.Name
				}
			}
			return nil
		})
	}()
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case op := <-ops:
				got = append(got, op)
			case <-ctx.Done():
				t.Fatalf("the consumer received %v; want %v", got, want)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the consumer received %v; want %v", got, want)
		}
	}
	expect("ADD kept", "ADD old")
	if err := d.process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.inject.Apply(inject.Set{Source: "api"}); err == nil {
		t.Error("a killed process applied a set")
	}
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	d.await()
	fresh := d.subscribe(podconfigv1.PodFormat_POD_FORMAT_JSON)
	if ops, pods := fresh.next(number); !slices.Equal(ops, []string{"RESTORE api: kept old"}) || !pods[0].GetStale() {
		t.Errorf("before the source has delivered a set, a consumer receives %v; want RESTORE of two stale pods", ops)
	}
	d.apply("api", apiPod("kept", "u2"), apiPod("new", "u3"))
	expect("REMOVE old", "ADD new")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}
