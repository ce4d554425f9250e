package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func eventPod(source, namespace, name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID("uid-" + name), Namespace: namespace, Name: name,
		Annotations: map[string]string{"kubernetes.io/config.source": source},
	}}
}

// eventText is an event in one line.
func eventText(e *podexecv1.PodEvent) string {
	return fmt.Sprintf("%s/%s %s %s %s x%d: %s", e.GetRef().GetNamespace(), e.GetRef().GetName(), e.GetContainer(), e.GetType(),
		e.GetReason(), e.GetCount(), e.GetMessage())
}

// allEvents reads a stream to its end.
func allEvents(t *testing.T, stream grpc.ServerStreamingClient[podexecv1.WatchEventsResponse]) []string {
	t.Helper()
	var out []string
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, eventText(m.GetEvent()))
	}
}

func TestWatchEvents(t *testing.T) {
	recorder := events.New(events.Config{})
	web, db := eventPod("file", "default", "web"), eventPod("api", "shop", "db")
	recorder.Record(web, "main", events.Normal, events.StartedContainer, "Started")
	recorder.Record(db, "", events.Warning, events.FailedSync, "no \xff text")
	recorder.Record(web, "main", events.Normal, events.StartedContainer, "Started")
	server := New(Config{Node: "n1", Board: podview.New(), Events: recorder})
	const aboutWeb, aboutDB = "default/web main Normal Started x2: Started", "shop/db  Warning FailedSync x1: no \uFFFD text"
	for _, tc := range []struct {
		name   string
		caller access.Caller
		filter *podconfigv1.PodFilter
		want   []string
	}{
		{"all", access.Caller{Role: access.Operator}, nil, []string{aboutDB, aboutWeb}},
		{"by name", access.Caller{Role: access.Consumer}, &podconfigv1.PodFilter{Names: []string{"web"}}, []string{aboutWeb}},
		{"by namespace", access.Caller{Role: access.Consumer}, &podconfigv1.PodFilter{Namespaces: []string{"shop"}}, []string{aboutDB}},
		{"in scope", access.Caller{Role: access.Consumer, Sources: []string{"file"}}, nil, []string{aboutWeb}},
		{"another node", access.Caller{Role: access.Consumer, Nodes: []string{"n2"}}, nil, nil},
		{"an inspector gets no words", access.Caller{Role: access.Inspector}, &podconfigv1.PodFilter{Names: []string{"web"}},
			[]string{"default/web main Normal Started x2: (redacted)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stream, err := remote(t, server, tc.caller).WatchEvents(t.Context(), &podexecv1.WatchEventsRequest{Filter: tc.filter})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, allEvents(t, stream)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A follower receives the events, and an error when podexecd stops.
func TestWatchEventsFollows(t *testing.T) {
	recorder := events.New(events.Config{})
	server := New(Config{Board: podview.New(), Events: recorder})
	recorder.Record(eventPod("file", "default", "web"), "", events.Normal, "One", "")
	stream, err := remote(t, server, access.Caller{Role: access.Consumer}).WatchEvents(t.Context(), &podexecv1.WatchEventsRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, next := range []string{"Two", "Three", ""} {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if next != "" {
			recorder.Record(eventPod("file", "default", "web"), "", events.Normal, next, "")
		} else if m.GetEvent().GetReason() != "Three" {
			t.Errorf("the last event is %v; want Three", m.GetEvent())
		}
	}
	server.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after Close: %v; want UNAVAILABLE", err)
	}
}

func TestWatchEventsEndsWithTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client := remote(t, New(Config{Board: podview.New()}), access.Caller{Role: access.Consumer})
	stream, err := client.WatchEvents(ctx, &podexecv1.WatchEventsRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("error %v; want CANCELED", err)
	}
}

func TestWatchEventsRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		caller access.Caller
		filter *podconfigv1.PodFilter
		want   codes.Code
	}{
		"no role":        {access.Caller{}, nil, codes.PermissionDenied},
		"label selector": {access.Caller{Role: access.Inspector}, &podconfigv1.PodFilter{LabelSelector: "a=b"}, codes.InvalidArgument},
	} {
		stream, err := remote(t, New(Config{Board: podview.New()}), tc.caller).WatchEvents(t.Context(), &podexecv1.WatchEventsRequest{Filter: tc.filter})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != tc.want {
			t.Errorf("%s: error %v; want %s", name, err, tc.want)
		}
	}
}
