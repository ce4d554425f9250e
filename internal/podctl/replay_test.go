package podctl

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// identify gives the content of a pod the UID of its reference, as the client requires.
func identify(t *testing.T, p *podconfigv1.Pod) {
	t.Helper()
	content, ok := p.GetContent().(*podconfigv1.Pod_Protobuf)
	if !ok {
		return
	}
	var pod v1.Pod
	err := pod.Unmarshal(content.Protobuf)
	if err == nil {
		pod.UID = types.UID(p.GetRef().GetUid())
		content.Protobuf, err = pod.Marshal()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A recording is served as podconfigd served it: the public client then holds the same pods.
func TestReplay(t *testing.T) {
	n := newNode(t)
	said := saidAll(t)
	for _, m := range said {
		for _, p := range m.GetUpdate().GetPods() {
			identify(t, p)
		}
	}
	n.podconfigd(&fakePodconfigd{scripts: [][]*podconfigv1.WatchPodUpdatesResponse{said}, watchErr: io.EOF})
	path := filepath.Join(n.dir, "r.jsonl.gz")
	n.run(t.Context(), "record", path)
	n.stderr = newScreen()
	endpoint := "unix://" + n.socket("replay")
	interrupt := n.start("replay", path, "--listen", endpoint)
	n.stderr.await(t, "grpcurl -plaintext")

	c, err := client.New(client.Config{Endpoint: endpoint, Consumer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	images := map[string]string{}
	done := errors.New("done")
	err = c.Watch(t.Context(), client.WatchOptions{}, func(_ context.Context, e client.Event) error {
		for _, op := range e.Ops {
			for _, pod := range op.Pods {
				if op.Op == client.Remove {
					delete(images, pod.Name)
					continue
				}
				images[pod.Name] = pod.Object.Spec.Containers[0].Image
			}
		}
		if e.Cursor.GetRevision() == 5 {
			return done
		}
		return nil
	})
	if want := map[string]string{"web-node1": "localhost/podstream-sample:dev"}; !errors.Is(err, done) || !maps.Equal(images, want) {
		t.Errorf("the client ended with %v and holds %v; want %v", err, images, want)
	}
	if services := reflected(t, endpoint); !slices.Contains(services, "podconfig.v1.PodConfigService") {
		t.Errorf("reflection, by which grpcurl learns what to call, tells of %q only", services)
	}
	if code := interrupt(); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C; want 0", code)
	}
	n.golden("replay.stderr", n.stderr.String())
}

// reflected lists the services of a server.
func reflected(t *testing.T, endpoint string) (names []string) {
	t.Helper()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range resp.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	return names
}

// With --once replay ends by itself, and so do the streams.
func TestReplayOnce(t *testing.T) {
	n := newNode(t)
	path := filepath.Join(n.dir, "r.jsonl")
	w, err := recording.Create(recording.FileConfig{Path: path, Header: recording.Header{
		Recorded: podctltest.Noon, Request: &podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range saidAll(t) {
		if err := w.Write(0, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.WriteString(`{"seconds":1,"mess`)
	_ = file.Close()

	endpoint := "unix://" + n.socket("replay")
	code := make(chan int, 1)
	go func() {
		code <- n.run(context.Background(), "replay", path, "--listen="+endpoint, "--once", "--speed=0")
	}()
	n.stderr.await(t, "grpcurl -plaintext")
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := podconfigv1.NewPodConfigServiceClient(conn).WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
	})
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			messages++
		}
	}
	if messages != 3 || !errors.Is(err, io.EOF) {
		t.Errorf("%d messages, then %v; want 3 and the end", messages, err)
	}
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d; want 0", got)
	}
	n.golden("replayonce.stderr", n.stderr.String())
}

func TestReplayRefuses(t *testing.T) {
	n := newNode(t)
	garbage := filepath.Join(n.dir, "garbage")
	if err := os.WriteFile(garbage, []byte("\x1b[2J\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := "--listen=unix://" + n.socket("replay")
	for _, tc := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "--listen: want unix:///PATH", []string{garbage}},
		{exitUsage, "--listen: want unix:///PATH", []string{garbage, "--listen=localhost:1"}},
		{exitUsage, "--speed: want a number from 0", []string{garbage, listen, "--speed=-1"}},
		{exitUsage, "--speed: want a number from 0", []string{garbage, listen, "--speed=nan"}},
		{exitUsage, "want one file; there are 0 arguments", []string{listen}},
		{exitFailed, "the speed +Inf is no number", []string{garbage, listen, "--speed=inf"}},
		{exitFailed, "no such file", []string{garbage + "x", listen}},
		{exitFailed, "garbage:1: not the header of a recording: invalid character '\\x1b'", []string{garbage, listen}},
	} {
		n.stderr = newScreen()
		code := n.run(t.Context(), append([]string{"replay"}, tc.args...)...)
		if got := n.stderr.String(); code != tc.code || !strings.Contains(got, tc.want) {
			t.Errorf("replay %v: exit code %d, stderr %q; want %d and %q", tc.args, code, got, tc.code, tc.want)
		}
	}
	for _, args := range []string{"record", "record a b", "record x --format=xml", "record x --mode=unspecified"} {
		if code, _, stderr := runAlone(strings.Fields(args)...); code != exitUsage {
			t.Errorf("%s: exit code %d, stderr %q", args, code, stderr)
		}
	}
}
