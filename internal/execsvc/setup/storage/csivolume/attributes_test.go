package csivolume

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/roottest"
)

// TestPodInfo: the driver gets what its CSIDriver asks for: the pod, and tokens as attributes or as secrets.
func TestPodInfo(t *testing.T) {
	roottest.Need(t, "mount")
	const tokens = "csi.storage.k8s.io/serviceAccount.tokens"
	info := func(ephemeral string) map[string]string {
		return map[string]string{
			"csi.storage.k8s.io/pod.name": "web", "csi.storage.k8s.io/pod.namespace": "shop", "csi.storage.k8s.io/pod.uid": podUID,
			"csi.storage.k8s.io/serviceAccount.name": "seller", "csi.storage.k8s.io/ephemeral": ephemeral,
		}
	}
	for name, tc := range map[string]struct {
		spec      storagev1.CSIDriverSpec
		inline    bool
		want      map[string]string
		inSecrets bool
	}{
		"nothing":     {want: map[string]string{"tier": "fast"}},
		"pod":         {spec: storagev1.CSIDriverSpec{PodInfoOnMount: ptr.To(true)}, want: merged(info("false"), map[string]string{"tier": "fast"})},
		"inline":      {inline: true, spec: storagev1.CSIDriverSpec{PodInfoOnMount: ptr.To(true)}, want: merged(info("true"), map[string]string{"size": "1"})},
		"not the pod": {inline: true, want: map[string]string{"size": "1"}},
		"tokens": {
			spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}, {}}},
			want: map[string]string{"tier": "fast"},
		},
		"secret tokens": {
			spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}, {}}, ServiceAccountTokenInSecrets: ptr.To(true)},
			want: map[string]string{"tier": "fast"}, inSecrets: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t)
			n.cfg.Tokens = token
			n.restart()
			tc.spec.VolumeLifecycleModes = both
			n.spec = &tc.spec
			p, spec := pod()
			if tc.inline {
				p, spec = inlinePod()
			}
			_, _, publishing := n.resolved(p, spec)
			must(t, n.Publish(t.Context(), publishing))
			got := n.one().(*csipb.NodePublishVolumeRequest)
			from := got.GetVolumeContext()
			if tc.inSecrets {
				from = got.GetSecrets()
			}
			text, rest := from[tokens], maps.Clone(got.GetVolumeContext())
			delete(rest, tokens)
			if !reflect.DeepEqual(rest, tc.want) {
				t.Errorf("attributes %v; want %v", rest, tc.want)
			}
			if len(tc.spec.TokenRequests) > 0 {
				var all map[string]authenticationv1.TokenRequestStatus
				must(t, json.Unmarshal([]byte(text), &all))
				if len(all) != 2 || all["vault"].Token != "token of shop/web/"+podUID+`/seller for "vault"` || all[""].Token == "" {
					t.Errorf("tokens: %v", all)
				}
				if _, there := got.GetVolumeContext()[tokens]; there == tc.inSecrets {
					t.Errorf("tokens are attributes: %t", there)
				}
			}
			must(t, n.Unpublish(t.Context(), publishing))
		})
	}
}

// TestTokenInError: a driver's error doesn't show a token that it got as an attribute.
func TestTokenInError(t *testing.T) {
	n := newBench(t)
	n.cfg.Tokens = token
	n.restart()
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}}
	_, _, p := n.resolved(pod())
	n.driver.fails(status.Error(codes.Unauthenticated, "bad token of shop/web/"+podUID+`/seller for "vault", sorry`))
	err := n.Publish(t.Context(), p)
	if want := "rpc error: code = Unauthenticated desc = bad ***stripped***, sorry"; err == nil || err.Error() != want || storage.OutcomeOf(err) != storage.Final {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestMissing: without a secret or a token no call is made, and nothing is left in the pod's directory.
func TestMissing(t *testing.T) {
	n := newBench(t, canStage)
	n.pv.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "vault", Name: "a"}
	n.pv.Spec.CSI.NodePublishSecretRef = &v1.SecretReference{Namespace: "vault", Name: "b"}
	_, s, p := n.resolved(pod())
	err := n.Stage(t.Context(), s)
	n.isNotSent(err)
	if !strings.HasPrefix(err.Error(), "fetching NodeStageSecretRef vault/a failed: ") {
		t.Error(err)
	}
	n.isNotSent(n.Publish(t.Context(), p))
	n.pv.Spec.CSI.NodePublishSecretRef = nil
	n.cfg.Tokens = func(_ context.Context, _ TokenRequest) (authenticationv1.TokenRequestStatus, error) {
		return authenticationv1.TokenRequestStatus{}, errors.New("no API server")
	}
	n.restart()
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, TokenRequests: []storagev1.TokenRequest{{}}}
	_, _, p = n.resolved(pod())
	n.isNotSent(n.Publish(t.Context(), p))
	isGone(t, filepath.Join(n.kubelet, "pods", podUID), filepath.Join(n.kubelet, "plugins/kubernetes.io"))
}
