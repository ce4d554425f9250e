package apiaccounts

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// server is an API server with one account.
type server struct {
	uid types.UID
	err error
	// hangs keeps each request waiting until it is cancelled.
	hangs bool
}

func (s *server) get(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.err != nil {
		return nil, s.err
	}
	return &v1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: s.uid, Annotations: map[string]string{"role": "reader"}},
		Secrets:    []v1.ObjectReference{{Name: "old"}},
	}, nil
}

var resource = schema.GroupResource{Resource: "serviceaccounts"}

// TestAccounts: the API server is asked each time; while it is away, the last account counts, unless it said that there
// is none any more.
func TestAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{uid: "1"}
		a := New(Config{Get: s.get})
		want := func(what string, uid types.UID) {
			t.Helper()
			got, err := a.Get(t.Context(), "ns", "sa")
			if uid == "" {
				if err == nil {
					t.Errorf("%s: %+v", what, got)
				}
				return
			}
			if err != nil || got.UID != uid || got.Annotations["role"] != "reader" || len(got.Secrets) > 0 {
				t.Errorf("%s: %+v, %v; want %s", what, got, err, uid)
			}
		}
		s.err = errors.New("connection refused")
		want("away at first", "")
		s.err = nil
		want("there", "1")
		s.uid = "2"
		want("made again", "2")
		s.err = errors.New("connection refused")
		want("away", "2")
		s.hangs = true
		began := time.Now()
		want("without an answer", "2")
		if took := time.Since(began); took != timeout {
			t.Errorf("that took %v", took)
		}
		s.hangs, s.err = false, apierrors.NewForbidden(resource, "sa", nil)
		want("forbidden", "")
		s.err = errors.New("connection refused")
		want("away after that", "")
		s.err = nil
		want("there again", "2")
		s.err = apierrors.NewNotFound(resource, "sa")
		want("deleted", "")
		s.err, s.uid = nil, ""
		want("without a UID", "")
		s.hangs = true
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Get(ctx, "ns", "sa"); err == nil {
			t.Error("a cancelled request has a result")
		}
	})
}

// TestBound: so many accounts are kept at most.
func TestBound(t *testing.T) {
	a := New(Config{Get: (&server{uid: "1"}).get})
	for i := range 3 * maxAccounts {
		if _, err := a.Get(t.Context(), "ns", fmt.Sprint("sa", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.last) > maxAccounts {
		t.Errorf("%d accounts are kept", len(a.last))
	}
}
