package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/injectd/inject"
)

// patience bounds every wait; the machine may be slow and busy.
const patience = time.Minute

// daemon is a running injectd, with a connection to its sources and one to its service.
type daemon struct {
	t        *testing.T
	process  *devnode.Process
	endpoint string
	listen   string
	inject   *inject.Client
	api      podconfigv1.PodConfigServiceClient
}

var daemons atomic.Int32

// start starts an injectd with the given sources, in order of priority.
func start(t *testing.T, node *devnode.Node, sources []string, args ...string) *daemon {
	t.Helper()
	name := fmt.Sprintf("injectd%d", daemons.Add(1))
	d := &daemon{t: t, endpoint: "unix://" + node.Socket(name), listen: "unix://" + node.Socket(name+"-inject")}
	args = append([]string{"--root-dir", node.Path(name), "--listen", d.endpoint, "--inject-listen", d.listen}, args...)
	for _, s := range sources {
		args = append(args, "--inject-source", s)
	}
	var err error
	if d.process, err = node.StartDaemonAs(name, "injectd", args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.process.Stop(); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(d.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	d.api = podconfigv1.NewPodConfigServiceClient(conn)
	d.await()
	return d
}

// await waits until the process serves, and connects to its sources.
func (d *daemon) await() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	if err := devnode.WaitServing(ctx, d.process, d.endpoint); err != nil {
		d.t.Fatal(err)
	}
	c, err := inject.Dial(ctx, d.listen)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	d.inject = c
}

// apply applies a set of the given pods, one origin for each, and returns the revision that is then published.
func (d *daemon) apply(source string, pods ...*v1.Pod) uint64 {
	d.t.Helper()
	set := inject.Set{Source: source}
	for _, p := range pods {
		set.Origins = append(set.Origins, inject.Origin{Name: p.Namespace + "/" + p.Name, Pods: []*v1.Pod{p}})
	}
	return d.applySet(set)
}

func (d *daemon) applySet(set inject.Set) uint64 {
	d.t.Helper()
	p, err := d.inject.Apply(set)
	if err != nil {
		d.t.Fatalf("%v; the output of injectd ends with:\n%s", err, d.process.LogTail())
	}
	return p.Revision
}

// sources returns the sources of ListSources, by name.
func (d *daemon) sources() map[string]*podconfigv1.Source {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	resp, err := d.api.ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	out := map[string]*podconfigv1.Source{}
	for _, s := range resp.GetSources() {
		out[s.GetName()] = s
	}
	return out
}

// stream is one consumer.
type stream struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse]
}

// watch subscribes in the given format while there are no pods, and reads on until synced.
func (d *daemon) watch(format podconfigv1.PodFormat) *stream {
	d.t.Helper()
	s := d.subscribe(format)
	if msg := s.recv(); msg.GetSynced() == nil {
		d.t.Fatalf("the stream starts with %v; want synced", msg)
	}
	return s
}

func (d *daemon) subscribe(format podconfigv1.PodFormat) *stream {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	d.t.Cleanup(cancel)
	w, err := d.api.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{Consumer: "test", Format: format})
	if err != nil {
		d.t.Fatal(err)
	}
	return &stream{t: d.t, stream: w}
}

func (s *stream) recv() *podconfigv1.WatchPodUpdatesResponse {
	s.t.Helper()
	for {
		msg, err := s.stream.Recv()
		if err != nil {
			s.t.Fatal(err)
		}
		if msg.GetHeartbeat() == nil {
			return msg
		}
	}
}

// next returns the next revision: its ops, each as "OP source: pod…", and their pods. It fails if the revision
// has another number.
func (s *stream) next(number uint64) (ops []string, pods []*podconfigv1.Pod) {
	s.t.Helper()
	for {
		msg := s.recv()
		u := msg.GetUpdate()
		text := strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_") + " " + u.GetSource() + ":"
		for _, p := range u.GetPods() {
			text += " " + p.GetRef().GetName()
			pods = append(pods, p)
		}
		ops = append(ops, text)
		if msg.GetContinued() {
			continue
		}
		if got := msg.GetCursor().GetRevision(); got != number {
			s.t.Fatalf("revision %d comes with %v; want revision %d", got, ops, number)
		}
		return ops, pods
	}
}

// decode returns the pod's content; nil in a format without content.
func decode(p *podconfigv1.Pod) (*v1.Pod, error) {
	pod := &v1.Pod{}
	switch content := p.GetContent().(type) {
	case *podconfigv1.Pod_Json:
		text, err := content.Json.MarshalJSON()
		if err != nil {
			return nil, err
		}
		return pod, json.Unmarshal(text, pod)
	case *podconfigv1.Pod_Protobuf:
		return pod, pod.Unmarshal(content.Protobuf)
	case nil:
		return nil, nil //nolint:nilnil // The test checks that there is no content.
	default:
		return nil, fmt.Errorf("content of type %T", content)
	}
}

// apiPod returns a pod as an API server would return it.
func apiPod(name, uid string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID(uid), ResourceVersion: "7", Labels: map[string]string{"app": name},
			CreationTimestamp: metav1.Unix(1_700_000_000, 0),
		},
		Spec: v1.PodSpec{
			NodeName: "n1", RestartPolicy: v1.RestartPolicyAlways,
			Containers: []v1.Container{{Name: "main", Image: "registry.example/" + name + ":1"}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}
