package podconfigd

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources/oci/ocitest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// artifactNode is a podconfigd with one artifact and a registry.
type artifactNode struct {
	t    *testing.T
	dir  string
	hub  *ocitest.Hub
	key  *ocitest.Signer
	args []string
	r    *running
}

func newArtifactNode(t *testing.T, args ...string) *artifactNode {
	t.Helper()
	n := &artifactNode{t: t, dir: shortDir(t), hub: ocitest.New(t, ocitest.Config{}), key: ocitest.NewSigner(t)}
	keyFile := filepath.Join(n.dir, "cosign.pub")
	if err := os.WriteFile(keyFile, n.key.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	n.args = append([]string{"--oci-artifact=" + n.hub.Addr + "/pods:prod", "--oci-public-key-file=" + keyFile, "--oci-check-frequency=5s"}, args...)
	return n
}

func (n *artifactNode) start() {
	n.t.Helper()
	n.r = launchWith(n.t, n.dir, n.t.Output(), n.args...)
}

// push pushes a signed version of a pod and of its Secret.
func (n *artifactNode) push(second int, pod string) (digest string) {
	n.t.Helper()
	digest = n.hub.Push("pods", "prod", time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC), map[string]string{
		pod + ".yaml": "{apiVersion: v1, kind: Pod, metadata: {name: " + pod + "}, spec: {containers: [{name: main, image: app, " +
			"envFrom: [{secretRef: {name: key}}]}]}}",
		"key.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: key}, stringData: {a: b}}",
	})
	n.hub.SignSimple(n.key, "pods", digest)
	return digest
}

// until waits until the source is as it should be, and has these pods.
func (n *artifactNode) until(pods, lastError string) *podconfigv1.Source {
	n.t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s := n.r.sources()[0]
		isRead := s.GetLastReadTime().IsValid() && (lastError == "" && s.GetLastError() == "" && s.GetReady() || lastError != "" && strings.Contains(s.GetLastError(), lastError))
		if got := n.pods(); isRead && got == pods {
			return s
		} else if time.Now().After(late) {
			n.t.Fatalf("the source is %v, and the pods are %q; want %q, and the error %q", s, got, pods, lastError)
		}
	}
}

// pods returns the names of the served pods; one that isn't confirmed has a mark.
func (n *artifactNode) pods() string {
	n.t.Helper()
	resp, err := n.r.api.ListPods(n.t.Context(), &podconfigv1.ListPodsRequest{})
	if err != nil {
		n.t.Fatal(err)
	}
	var names []string
	for _, p := range resp.GetPods() {
		name := p.GetSource() + " " + p.GetRef().GetName()
		if p.GetStale() {
			name += " stale"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// hasSecret reports whether a new consumer gets the pod's Secret.
func (n *artifactNode) hasSecret() bool {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	defer cancel()
	s, err := n.r.api.WatchObjects(ctx, &podconfigv1.WatchObjectsRequest{})
	if err != nil {
		n.t.Fatal(err)
	}
	for {
		m, err := s.Recv()
		if err != nil {
			n.t.Fatal(err)
		}
		for _, o := range m.GetUpdate().GetObjects() {
			if o.GetRef().GetName() == "key" {
				return true
			}
		}
		if m.GetSynced() != nil {
			return false
		}
	}
}

// TestArtifact: podconfigd serves the pods of a signed artifact. Without the registry it does so after a restart too, with
// their Secrets; an unsigned one changes nothing, and an older one only once an operator accepts it.
func TestArtifact(t *testing.T) {
	n := newArtifactNode(t, "--oci-monotonic")
	first := n.push(1, "web")
	n.start()
	s := n.until("oci web-node", "")
	if s.GetName() != "oci" || s.GetLocation() != "oci://"+n.hub.Addr+"/pods:prod" || s.GetDigest() != first || !n.hasSecret() {
		t.Errorf("the source is %v", s)
	}
	n.r.stop()

	down := func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	n.hub.Intercept(down)
	n.start()
	s = n.until("oci web-node", "artifact oci://"+n.hub.Addr+"/pods:prod: status 503 Service Unavailable")
	if s.GetDigest() != first {
		t.Errorf("without the registry, the source is %v", s)
	}
	if !n.hasSecret() {
		t.Error("without the registry, the Secret is missing")
	}
	n.r.stop()
	n.hub.Intercept(nil)

	unsigned := n.hub.Push("pods", "prod", time.Now(), map[string]string{"evil.yaml": ocitest.Pod("evil", "app")})
	n.start()
	if s = n.until("oci web-node", "@"+unsigned+": it isn't signed"); s.GetDigest() != first {
		t.Errorf("while another one is refused, the source is %v", s)
	}
	n.r.stop()

	n.push(3, "next")
	n.start()
	n.until("oci next-node", "")
	n.r.stop()

	n.hub.PutManifest("pods", "prod", ocitest.ManifestType, n.hub.Manifest("pods", first))
	n.start()
	n.until("oci next-node", "@"+first+": it is older than the newest one that was accepted")
	resp, err := n.r.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "oci"})
	if err != nil || len(resp.GetAccepted()) != 1 || !strings.Contains(resp.GetAccepted()[0], first) {
		t.Errorf("AcceptSource: %v, %v", resp, err)
	}
	n.until("oci web-node", "")
	n.r.stop()

	// Without the stored artifact, the pods are those of podconfigd's own store, and aren't confirmed.
	if err := os.RemoveAll(filepath.Join(n.dir, "root", "oci", "oci", "pin.json")); err != nil {
		t.Fatal(err)
	}
	n.hub.Intercept(down)
	n.start()
	n.until("oci web-node stale", "status 503")
	if n.hasSecret() {
		t.Error("there is a Secret that nothing has stored")
	}
}

// TestArtifactNames: each artifact has a directory of its own, which no name leads out of.
func TestArtifactNames(t *testing.T) {
	b := &builder{rootDir: "/root"}
	for source, want := range map[string]string{"oci": "/root/oci/oci", "oci:site": "/root/oci/oci:site"} {
		if got := b.artifactDir(source); got != want {
			t.Errorf("%s is stored in %s; want %s", source, got, want)
		}
	}
	if got := (&builder{}).artifactDir("oci"); got != "" {
		t.Errorf("without a directory, it is stored in %s", got)
	}
}

// TestArtifactSettings: --check-config shows how an artifact is checked.
func TestArtifactSettings(t *testing.T) {
	got := settings(sourceconfig.Source{OCI: &sourceconfig.OCISettings{
		PublicKeyFile: "/k", CAFile: "/ca", CredentialsFile: "/c", TokenHost: "h", Interval: time.Minute, Monotonic: true, AnyRepository: true, Insecure: true, Strict: true,
	}})
	if want := "every 1m0s; strict; signed by /k; CA /ca; credentials /c; token host h; monotonic; any repository; insecure"; strings.Join(got, "; ") != want {
		t.Errorf("the settings are %q; want %q", got, want)
	}
	got = settings(sourceconfig.Source{OCI: &sourceconfig.OCISettings{Interval: time.Minute}})
	if want := "every 1m0s; unsigned"; strings.Join(got, "; ") != want {
		t.Errorf("the settings are %q; want %q", got, want)
	}
}
