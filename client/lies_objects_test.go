package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

type objectMessage = podconfigv1.WatchObjectsResponse

const (
	putObject  = podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT
	setObjects = podconfigv1.ObjectOperation_OBJECT_OPERATION_SET
)

func object(namespace, name string) *podconfigv1.Object {
	data, err := (&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}).Marshal()
	if err != nil {
		panic(err)
	}
	return &podconfigv1.Object{
		Ref:    &podconfigv1.ObjectRef{Kind: client.ConfigMapKind, Source: "file", Namespace: namespace, Name: name},
		Digest: "d", Content: &podconfigv1.Object_Protobuf{Protobuf: data},
	}
}

// objectsOf is one op; with a zero revision more of it follows.
func objectsOf(op podconfigv1.ObjectOperation, revision uint64, objects ...*podconfigv1.Object) *objectMessage {
	m := &objectMessage{Event: &podconfigv1.WatchObjectsResponse_Update{Update: &podconfigv1.ObjectUpdate{Op: op, Objects: objects}}, Continued: revision == 0}
	if revision > 0 {
		m.Cursor = cursor(revision)
	}
	return m
}

func objectPut(revision uint64, objects ...*podconfigv1.Object) *objectMessage {
	return objectsOf(putObject, revision, objects...)
}

// TestLyingGatewayObjects is TestLyingGateway for ConfigMaps and Secrets.
func TestLyingGatewayObjects(t *testing.T) {
	other := object("default", "lie")
	other.Ref.Name = "other"
	for _, l := range []struct {
		name string
		tell func(i uint64) *objectMessage
		// once: the message is sent once.
		once bool
		// refused is in the error with which the node leaves. Empty: it stays.
		refused string
		// calls bounds how often the node's function is called.
		calls int
	}{
		// A pod reads only the objects that it refers to, in its namespace. Others cost memory, which is bounded.
		{name: "objects of other namespaces", once: true, tell: func(uint64) *objectMessage { return objectPut(1, object("kube-system", "lie")) }, calls: 2},
		{name: "a revision without end", tell: func(uint64) *objectMessage { return objectPut(0, object("default", "lie")) },
			refused: "a revision is too large: more than 65536 bytes", calls: 2},
		{name: "objects without end", tell: func(i uint64) *objectMessage { return objectPut(i+1, object("default", fmt.Sprint("lie-", i))) },
			refused: "it exceeds the limit: objects of 65", calls: 300},
		{name: "small SETs without end", tell: func(i uint64) *objectMessage {
			return objectsOf(setObjects, i+1, object("default", fmt.Sprint("lie-", i%2)))
		}, calls: paced},
		{name: "another object than its reference", once: true, tell: func(uint64) *objectMessage { return objectPut(1, other) },
			refused: "invalid content: decode default/other of file: it is another object", calls: 2},
		{name: "unknown ops, also for a SET", once: true, tell: func(uint64) *objectMessage { return objectsOf(99, 1, object("default", "lie")) },
			refused: "unknown operation: 99", calls: 2},
	} {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tell := func(s objectStream) error {
					for i := range uint64(1_000_000) {
						if err := s.Send(l.tell(i)); err != nil || l.once {
							return err
						}
					}
					return nil
				}
				good := false
				n := live(t, &liar{objects: tell}, lasts, func(ctx context.Context, n *node) error {
					opts := client.ObjectOptions{MaxRevisionBytes: 64 << 10, MaxBytes: 64 << 10}
					return n.client.WatchObjects(ctx, opts, func(_ context.Context, e client.ObjectEvent) error {
						n.calls++
						good = good || e.Synced && len(e.Put) == 1 && e.Put[0].Name == "good"
						return nil
					})
				})
				t.Logf("%d events, then: %q", n.calls, n.ended())
				if n.calls > l.calls {
					t.Errorf("the node handled %d events; want at most %d", n.calls, l.calls)
				}
				if good != (l.refused != "") || !strings.Contains(n.ended(), l.refused) {
					t.Errorf("the node is at the honest podconfigd: %v, and the streams ended with %q; want %q", good, n.breaks, l.refused)
				}
			})
		})
	}
}
