package client

import (
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestObjectEventBroken: content that can't be decoded is an error without the content.
func TestObjectEventBroken(t *testing.T) {
	bad := &podconfigv1.Object{
		Ref:     &podconfigv1.ObjectRef{Kind: SecretKind, Source: "file", Namespace: "default", Name: "a"},
		Content: &podconfigv1.Object_Protobuf{Protobuf: []byte("\xffhunter2")},
	}
	unknown := &podconfigv1.Object{Ref: &podconfigv1.ObjectRef{Kind: 7, Source: "file", Namespace: "default", Name: "a"}}
	for _, o := range []*podconfigv1.Object{bad, unknown} {
		e, err := objectEvent([]*podconfigv1.ObjectUpdate{{Op: podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT, Objects: []*podconfigv1.Object{o}}})
		if err == nil || !strings.Contains(err.Error(), "default/a of file") || strings.Contains(err.Error(), "hunter2") || !e.empty() {
			t.Errorf("of %v comes %v, %v; want an error that names it", o.GetRef(), e, err)
		}
	}
}
