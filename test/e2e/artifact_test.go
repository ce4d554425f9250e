package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// The pod of a signed artifact at a registry arrives in the stream, and runs. So does that of the next version under the same
// tag. An unsigned one changes nothing. Without the source its pods end, and nothing of it stays on the disk.
func TestArtifactArrivesInTheStream(t *testing.T) {
	t.Parallel()
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		hub, key := ocitest.New(t, ocitest.Config{}), ocitest.NewSigner(t)
		push := func(second int, pod string) (digest string) {
			created := time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC)
			return hub.Push("pods", "prod", created, map[string]string{pod + ".yaml": manifest(pod, "main: sleep")})
		}
		first := push(1, "web")
		hub.SignSimple(key, "pods", first)

		r := newRig(t, node)
		keyFile := r.Path("cosign.pub")
		check(t, os.WriteFile(keyFile, key.PEM, 0o600))
		r.podconfigdWith("--oci-artifact", hub.Addr+"/pods:prod", "--oci-public-key-file", keyFile, "--oci-monotonic", "--oci-check-frequency", "5s")
		s := r.watch(&podconfigv1.WatchPodUpdatesRequest{Consumer: "test"})
		for o := s.next(); !strings.HasSuffix(o.text, " web"); o = s.next() {
			if len(o.pods) > 0 {
				t.Errorf("the first pod arrives as %q", o.text)
			}
		}
		r.awaitRunning("web")
		r.awaitArtifact(first, "")

		evil := push(2, "evil")
		r.awaitArtifact(first, "@"+evil+": it isn't signed")

		second := push(3, "next")
		hub.SignSimple(key, "pods", second)
		s.await("REMOVE web")
		s.await("ADD next")
		r.awaitRunning("next")
		r.awaitArtifact(second, "")

		r.podconfigdWith()
		r.eventually("the pods are gone", r.empty)
		r.eventually("nothing of the source is stored", func() error {
			if _, err := os.Stat(r.Path("podconfigd", "oci")); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("its directory: %w", err)
			}
			return nil
		})
	})
}

// podconfigdWith starts podconfigd again with these flags beside the usual ones.
func (r *rig) podconfigdWith(flags ...string) {
	r.t.Helper()
	check(r.t, r.Podconfigd.Kill())
	r.Podconfigd.Args = slices.Concat(r.PodconfigdArgs(), flags)
	check(r.t, r.Podconfigd.Start())
}

// awaitArtifact waits until the source "oci" uses the artifact with the digest, and has an error with the text, or none.
func (r *rig) awaitArtifact(digest, problem string) {
	r.t.Helper()
	r.eventually("the artifact "+digest+" is in use", func() error {
		resp, err := r.Config.ListSources(r.t.Context(), &podconfigv1.ListSourcesRequest{})
		if err != nil {
			return err
		}
		for _, s := range resp.GetSources() {
			isSo := s.GetDigest() == digest && (problem == "") == (s.GetLastError() == "") && strings.Contains(s.GetLastError(), problem)
			if s.GetName() == "oci" && isSo {
				return nil
			}
		}
		return fmt.Errorf("the sources are %v", resp.GetSources())
	})
}
