package hazards

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const mib = 1 << 20

// padded returns a manifest with an environment variable of that many KiB.
func padded(name, version string, kib int) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"containers": [`+
		`{"name": "main", "image": "localhost/sample:%s", "env": [{"name": "PAD", "value": %q}]}]}}`,
		name, version, strings.Repeat("x", kib<<10))
}

// ported returns a manifest with that many ports. Each takes an annotation of 100 bytes in the runtime's list of
// containers.
func ported(name string, ports int) string {
	port := `{"hostIP": "2001:0db8:0000:0000:0000:0000:0000:0001", "containerPort": 80, "protocol": "TCP"}`
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"containers": [`+
		`{"name": "main", "image": "localhost/sample:v1", "args": ["sleep"], "ports": [%s]}]}}`,
		name, strings.TrimSuffix(strings.Repeat(port+",", ports), ","))
}

// stalled is a consumer that has read only the initial state.
type stalled struct {
	stream *stream.Stream
	held   *stream.Held
	// versions are the versions of its pods.
	versions map[string]string
}

// next reads one revision.
func (c *stalled) next() (*stream.Revision, error) {
	r, err := c.stream.Next()
	if err != nil {
		return nil, err
	}
	for _, u := range r.Updates {
		for _, p := range u.GetPods() {
			name := p.GetRef().GetNamespace() + "/" + p.GetRef().GetName()
			if u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
				delete(c.versions, name)
				continue
			}
			shown, err := showPod(p)
			if err != nil {
				return nil, err
			}
			c.versions[name] = shown[strings.LastIndex(shown, " ")+1:]
		}
	}
	c.held.Apply(c.held.Interpret(r))
	return r, nil
}

func stall(s *scenario, d *datadriven.TestData) string {
	name := s.arg(d, 0)
	// It uses a separate connection: if it doesn't read, it delays no other consumer.
	api := podconfigv1.NewPodConfigServiceClient(dial(s.t, s.endpoint(podconfigd)))
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	st, err := stream.Open(ctx, stream.Config{API: api, Request: &podconfigv1.WatchPodUpdatesRequest{
		Consumer: name, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
	}})
	s.check(err)
	c := &stalled{stream: st, held: stream.NewHeld(nil, nil), versions: map[string]string{}}
	s.stalled[name] = c
	for {
		r, err := c.next()
		s.check(err)
		if r.Synced != nil {
			return ""
		}
	}
}

func resume(s *scenario, d *datadriven.TestData) string {
	c := s.stalled[s.arg(d, 0)]
	list, err := s.config.ListPods(s.t.Context(), &podconfigv1.ListPodsRequest{PageSize: 1, Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
	s.check(err)
	received := 0
	for c.held.Cursor().GetRevision() < list.GetRevision() {
		r, err := c.next()
		s.check(err)
		if len(r.Updates) > 0 {
			received++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.versions)) {
		out = append(out, name+" "+c.versions[name])
	}
	if received < 10 {
		return unlines(append(out, "told of fewer than 10 revisions"))
	}
	return unlines(append(out, fmt.Sprintf("told of %d revisions", received)))
}

// churn makes changes one by one, each after the previous one has arrived.
func churn(s *scenario, d *datadriven.TestData) string {
	var times, kib int
	d.ScanArgs(s.t, "times", &times)
	d.ScanArgs(s.t, "kib", &kib)
	path := s.path(s.arg(d, 0))
	name := strings.TrimSuffix(filepath.Base(path), ".yaml")
	for i := range times {
		version := fmt.Sprint("v", i+1)
		temp := filepath.Join(filepath.Dir(path), ".temp")
		s.check(os.WriteFile(temp, []byte(padded(name, version, kib)), 0o644))
		s.check(os.Rename(temp, path))
		if err := s.viewer.await(func() bool { return len(s.viewer.lines) > 0 }); err != nil {
			return fmt.Sprintf("%s: %v\n", version, err)
		}
		if line := s.viewer.take([]string{"..."})[0]; !strings.HasSuffix(line, " "+version) {
			return line + "\n"
		}
	}
	return "every change came\n"
}

func consumers(s *scenario, d *datadriven.TestData) string {
	return s.until(d, func() (string, error) {
		resp, err := s.config.ListConsumers(s.t.Context(), &podconfigv1.ListConsumersRequest{})
		if err != nil {
			return "", err
		}
		for _, c := range resp.GetConsumers() {
			if c.GetName() == s.arg(d, 0) {
				return c.GetName() + " " + strings.TrimPrefix(c.GetState().String(), "CONSUMER_STATE_") + "\n", nil
			}
		}
		return "", nil
	})
}

// crowd writes many pods to files, 100 pods in each file.
func crowd(s *scenario, d *datadriven.TestData) string {
	var count, kib int
	d.ScanArgs(s.t, "pods", &count)
	d.ScanArgs(s.t, "kib", &kib)
	for first := 0; first < count; first += 100 {
		var list []string
		for i := first; i < min(first+100, count); i++ {
			list = append(list, padded(fmt.Sprintf("p%d", i), "v1", kib))
		}
		s.check(os.WriteFile(s.path(s.arg(d, 0), fmt.Sprintf("%05d.yaml", first)), []byte(strings.Join(list, "\n---\n")), 0o644))
	}
	return ""
}

// portedCrowd writes each pod to a separate file with its name.
func portedCrowd(s *scenario, d *datadriven.TestData) string {
	var count, ports int
	d.ScanArgs(s.t, "pods", &count)
	d.ScanArgs(s.t, "ports", &ports)
	for i := range count {
		name := fmt.Sprintf("p%02d", i)
		s.check(os.WriteFile(s.path(s.arg(d, 0), name+".json"), []byte(ported(name, ports)), 0o644))
	}
	return ""
}

// list reads all pages, with gRPC's own limit.
func list(s *scenario, _ *datadriven.TestData) string {
	seen, revisions, largest := map[string]bool{}, map[uint64]bool{}, 0
	for token := ""; ; {
		resp, err := s.config.ListPods(s.t.Context(), &podconfigv1.ListPodsRequest{PageToken: token})
		s.check(err)
		for _, p := range resp.GetPods() {
			seen[p.GetRef().GetUid()] = true
		}
		revisions[resp.GetRevision()] = true
		largest = max(largest, proto.Size(resp))
		if token = resp.GetNextPageToken(); token == "" {
			return fmt.Sprintf("pods=%d %s, pages of %s\n", len(seen), oneRevision(len(revisions)), upTo(largest))
		}
	}
}

func oneRevision(n int) string {
	if n == 1 {
		return "one revision"
	}
	return fmt.Sprintf("%d revisions", n)
}

func upTo(bytes int) string {
	if bytes <= 2*mib {
		return "at most 2 MiB"
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// snapshot reads the initial state message by message, with gRPC's own limit.
func snapshot(s *scenario, d *datadriven.TestData) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	st, err := s.config.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{Consumer: "snapshot", Mode: s.mode(d)})
	s.check(err)
	seen, largest := map[string]bool{}, 0
	for {
		msg, err := st.Recv()
		s.check(err)
		for _, p := range msg.GetUpdate().GetPods() {
			seen[p.GetRef().GetUid()] = true
		}
		largest = max(largest, proto.Size(msg))
		if msg.GetSynced() != nil {
			return fmt.Sprintf("pods=%d messages of %s\n", len(seen), upTo(largest))
		}
	}
}
