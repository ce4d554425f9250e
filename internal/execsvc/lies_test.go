package execsvc

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// gateway is a podconfigd with a valid certificate. It sends a node the pods that the test chooses.
type gateway struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	sends    chan *podconfigv1.PodUpdate
	revision uint64
}

func (g *gateway) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, s grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]) error {
	for {
		select {
		case u := <-g.sends:
			g.revision++
			_ = s.Send(&podconfigv1.WatchPodUpdatesResponse{
				Event:  &podconfigv1.WatchPodUpdatesResponse_Update{Update: u},
				Cursor: &podconfigv1.Cursor{InstanceId: "gateway", Revision: g.revision},
			})
		case <-s.Context().Done():
			return nil
		}
	}
}

// send sends the node one op.
func (g *gateway) send(op client.Op, pods ...*v1.Pod) {
	u := &podconfigv1.PodUpdate{Op: op, Source: "api", SourceReady: true}
	for _, pod := range pods {
		p := &podconfigv1.Pod{
			Ref: &podconfigv1.PodRef{Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}, Source: "api", SpecDigest: pod.ResourceVersion + "s", StatusDigest: "t",
		}
		if op != client.Remove {
			data, err := pod.Marshal()
			if err != nil {
				panic(err)
			}
			p.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
		}
		u.Pods = append(u.Pods, p)
	}
	select {
	case g.sends <- u:
	case <-time.After(time.Minute):
		panic("the agent doesn't follow the gateway")
	}
}

// followed returns a gateway that the agent follows until the test ends, over a real stream.
func followed(t *testing.T, l *testAgent) *gateway {
	t.Helper()
	g := &gateway{sends: make(chan *podconfigv1.PodUpdate)}
	listener, server := bufconn.Listen(1<<20), grpc.NewServer()
	podconfigv1.RegisterPodConfigServiceServer(server, g)
	c, err := client.New(client.Config{DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	running.Go(func() { _ = c.Watch(ctx, client.WatchOptions{}, l.Deliver) })
	t.Cleanup(func() {
		cancel()
		_ = c.Close()
		server.Stop()
		running.Wait()
	})
	return g
}

// TestLyingGatewayPods: pods that a podconfigd with a valid certificate can send to podexecd, over a real stream, and
// what podexecd does: it runs none of them, their removal removes no file of others, and the pod that it runs goes
// on.
func TestLyingGatewayPods(t *testing.T) {
	for _, lie := range []struct {
		name   string
		change func(*v1.Pod)
		want   string
	}{
		{"a pod of another node", func(p *v1.Pod) { p.Spec.NodeName = "other" }, "Failed NodeName"},
		{"a pod for another operating system", func(p *v1.Pod) { p.Labels = map[string]string{v1.LabelOSStable: "windows"} }, "Failed PodOSSelectorNodeLabelDoesNotMatch"},
		{"a UID that is a path", func(p *v1.Pod) { p.UID = "../../etc" }, "metadata.uid: "},
		{"a UID with a slash", func(p *v1.Pod) { p.UID = "a/b" }, "metadata.uid: "},
		{"no UID", func(p *v1.Pod) { p.UID = "" }, "metadata.uid: "},
		{"a UID that leads out of the logs", func(p *v1.Pod) { p.UID = "x/../../../victim" }, "metadata.uid: "},
		{"a name that leads out of the logs", func(p *v1.Pod) { p.Name = "x/../../../victim/x" }, "metadata.name: "},
		{"a namespace that leads out of the logs", func(p *v1.Pod) { p.Namespace = "../../victim/x" }, "metadata.name: "},
	} {
		t.Run(lie.name, func(t *testing.T) {
			n := newNode(t)
			n.name = "own-node"
			victim := filepath.Join(n.podsDir, "../victim/file")
			if err := os.MkdirAll(filepath.Dir(victim), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(victim, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			l := n.start()
			g := followed(t, l)
			good := newPod("good", "good", "api")
			g.send(client.Add, good)
			id := l.awaitRunning("good")
			n.takeChanges()
			pod := newPod("lie", "lie", "api")
			lie.change(pod)
			g.send(client.Add, pod)
			p := l.await(pod.UID, "is refused", func(p podview.Pod) bool {
				return p.Status != nil && (p.Err != nil || p.Status.Phase == v1.PodFailed)
			})
			got := string(p.Status.Phase) + " " + p.Status.Reason
			if p.Err != nil {
				got += p.Err.Error()
			}
			t.Log(got)
			if !strings.Contains(got, lie.want) {
				t.Errorf("the pod is %q; want %q", got, lie.want)
			}
			l.housekeep()
			n.wantUnchanged()
			if again := l.awaitRunning("good"); again != id {
				t.Errorf("the good pod runs in container %s; want %s", again, id)
			}
			g.send(client.Remove, pod)
			l.awaitGone(pod.UID)
			if _, err := os.Stat(victim); err != nil {
				t.Errorf("a file of others is gone with the pod: %v", err)
			}
		})
	}
}
