package csivolume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	authenticationv1 "k8s.io/api/authentication/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/roottest"
)

// TestPublishAgain: a repeated call is the same one with new tokens, also after the CSIDriver has changed. A driver that
// refuses it changes nothing: the pod has its volume.
func TestPublishAgain(t *testing.T) {
	roottest.Need(t, "mount")
	const tokens = "csi.storage.k8s.io/serviceAccount.tokens"
	n, made := newBench(t), 0
	n.cfg.Tokens = func(context.Context, TokenRequest) (authenticationv1.TokenRequestStatus, error) {
		made++
		return authenticationv1.TokenRequestStatus{Token: fmt.Sprint("token ", made)}, nil
	}
	n.restart()
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}}
	_, _, p := n.resolved(pod())
	must(t, n.Publish(t.Context(), p))
	first := n.one().(*csipb.NodePublishVolumeRequest)

	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both}
	p.Again = true
	n.driver.fails(nil) // It is mounted already.
	must(t, n.Publish(t.Context(), p))
	second := n.one().(*csipb.NodePublishVolumeRequest)
	before, after := first.VolumeContext[tokens], second.VolumeContext[tokens]
	if before == after || after == "" {
		t.Errorf("tokens %q and then %q; want new ones", before, after)
	}
	second.VolumeContext[tokens] = before
	if !proto.Equal(first, second) {
		t.Errorf("the repeated call is %v; want %v", second, first)
	}

	n.driver.fails(status.Error(codes.InvalidArgument, "bad token"))
	if err := n.Publish(t.Context(), p); storage.OutcomeOf(err) != storage.Final {
		t.Errorf("the error %v; want a final one", err)
	}
	if _, err := os.Stat(filepath.Join(n.mount(), "canary")); err != nil {
		t.Errorf("the pod has lost its volume: %v", err)
	}
	if got := data(t, n.dir()); got["volumeHandle"] != handle {
		t.Errorf("vol_data.json has %v", got)
	}
	n.driver.does(nil)
	must(t, n.Unpublish(t.Context(), p))
}
